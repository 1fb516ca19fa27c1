"""What is locked: the question of a command line, and the same question asked again."""

from __future__ import annotations

import os

import msgspec

from drafter_cli.commandline import Parsed
from drafter_cli.errors import UsageError
from drafter_cli.gate_options import Request, is_path, release
from drafter_cli.launched_engine import ENGINE, read_engine
from drafter_cli.resolving.request import Asked, launched_target, read
from drafter_contracts.locking.document import Question
from drafter_contracts.serving.invocation import SERVE, read_invocation
from drafter_contracts.serving.read import serve_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.launched_engine import Engine
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.serving.launch import Invocation

#: Option of `drafters lock` and `drafters resolve` to the field of the question that keeps it.
_TEXTS = {"--engine": "engine", "--target": "target", "--target-config": "target_config", "--prefer": "prefer"}
_NUMBERS = {"--steps": "steps", "--topk": "topk", "--draft-tokens": "draft_tokens"}
FIELDS = _TEXTS | _NUMBERS


class Asking(msgspec.Struct, frozen=True):
    """A question, read.

    Attributes:
        question: As it was written.
        asked: As `drafters resolve` is asked; its engine's profile is known or the answer is that it is not.
        options: The operator's own options, as the engine's parser sees them.
    """

    question: Question
    asked: Asked
    options: tuple[str, ...] = ()


def written(parsed: Parsed) -> Question:
    """The question of a command line.

    Raises:
        UsageError: A number that is none.
    """
    values: dict[str, object] = {field: parsed.value(name) for name, field in FIELDS.items() if parsed.value(name)}
    for name, field in _NUMBERS.items():
        if field in values:
            values[field] = _number(name, parsed.value(name))
    plain = {"reference": parsed.word(0), "launch": list(parsed.launch or ()), **values}
    try:
        return msgspec.convert(plain, Question)
    except msgspec.ValidationError as error:
        raise UsageError(str(error), "see drafters lock --help") from None


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{name} is {text!r}", f"write a whole number from 1: {name} 3")
    return int(text)


def ask(
    question: Question,
    *,
    reference: str = "",
    engine: Engine | None = None,
    offline: bool = False,
    shape: Parsed | None = None,
) -> Asking:
    """The question, ready to be answered here: the engine at hand looked at, the launch taken apart.

    Args:
        question: As it was written.
        reference: Ask for this instead of what was written; "" for that.
        engine: Answer for this engine; None for the one that the question names or finds.
        offline: Ask no registry.
        shape: The command line that says in which form the answer is printed; None for the default.

    Raises:
        UsageError: Options that cannot be read or contradict each other, or no engine.
        InvalidError: Not a reference.
        LaunchError: A launch that cannot be read.
    """
    launch = question.launch
    invocation = read_invocation(launch) if launch and not launch[0].startswith("-") else None
    if invocation is not None and not invocation.entry:
        raise UsageError(f"no engine is started by {launch[0]}", "write a launch, or options of one, after --")
    engine = engine or _engine(question, invocation)
    options, target = tuple(launch), question.target
    if invocation is not None:
        options = _options(invocation, engine.profile if engine is not None else None)
        target = target or launched_target(options, engine)
    values = {name: str(getattr(question, field)) for name, field in FIELDS.items() if getattr(question, field)}
    values |= {"--target": target} if target else {}
    values |= {"--offline": ""} if offline else {}
    values |= {name: shape.value(name) for name in ("--format", "--json") if shape is not None and shape.has(name)}
    asked = read(Parsed(values, (reference or question.reference,), options), engine)
    if asked.engine.engine != ENGINE:
        raise UsageError(
            f"starts of {asked.engine.name} are not guarded, so that no lock would hold", f"a lock is for {ENGINE}"
        )
    if asked.engine.guess:
        raise UsageError(
            f"the engine's release is only a guess from {asked.engine.guess}", f"say it: --engine {ENGINE}==VERSION"
        )
    return Asking(question, msgspec.structs.replace(asked, published=False), options)


def _engine(question: Question, invocation: Invocation | None) -> Engine | None:
    """The engine that the question names, else the launch's own; None for what is installed here."""
    named = question.engine
    if invocation is None:
        return None
    path = named if named and is_path(named) else ""
    asked = Request(question.launch, engine=release(named) if named and not path else "", engine_path=path)
    if not invocation.image:
        invocation = msgspec.structs.replace(invocation, environment=dict(os.environ) | invocation.environment)
    found = read_engine(asked, invocation)
    if not found.release and found.profile is None:
        raise UsageError(found.taken_from, f"say which: --engine {ENGINE}==VERSION")
    return found


def _options(invocation: Invocation, profile: Profile | None) -> tuple[str, ...]:
    """What the engine's own parser sees of a launch."""
    if invocation.entry != SERVE or profile is None:
        return invocation.arguments
    return tuple(serve_arguments(profile.launch.serve, invocation.arguments)[0])
