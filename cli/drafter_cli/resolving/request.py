"""What `drafters resolve` is asked: the reference, the engine, the target, and what is wished of the launch."""

from __future__ import annotations

import os

import msgspec

from drafter_cli.errors import UsageError
from drafter_cli.gate_options import Request as GateRequest
from drafter_cli.gate_options import is_path, release
from drafter_cli.launched_engine import ENGINE, Engine, read_engine
from drafter_cli.resolving import vllm_engine
from drafter_contracts import hub_cache
from drafter_contracts.checkpoint.read import read_config
from drafter_contracts.engines.store import load_profile
from drafter_contracts.errors import UnknownReleaseError
from drafter_contracts.launch.plan_records import FLAGS, RENDER, Wishes
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.parse import parse_arguments
from drafter_contracts.serving.target import read_target, target_from_config
from drafter_registry.documents import ResolveRequest
from drafter_registry.names import read_reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_cli.commandline import Parsed
    from drafter_contracts.serving.launch import TargetFacts

ARGS, SHELL, JSON_FORMAT, YAML, ENV = FORMATS = ("args", "shell", "json", "yaml", "env")
#: A launch whose interpreter is this environment's.
_LAUNCH = ("python", "-m", "sglang.launch_server")


class Asked(msgspec.Struct, frozen=True):
    """A question.

    Attributes:
        reference: NAME@VERSION, NAME@ALIAS or NAME@sha256:DIGEST.
        engine: The engine, and what is known of it here.
        published: Whether it is the release as published, so that a registry knows it by name.
        wishes: Numbers and further options.
        target: Path or Hub id, "" for the manifest's.
        target_config: File with the target's config, or "".
        draft_path: Where the drafter's files will lie for the engine; "" for the cache.
        pull: Whether to fetch the files.
        offline: Ask no registry.
        shape: One of `FORMATS`.
    """

    reference: str
    engine: Engine
    published: bool
    wishes: Wishes
    target: str = ""
    target_config: str = ""
    draft_path: str = ""
    pull: bool = True
    offline: bool = False
    shape: str = ARGS

    def request(self, engine: str) -> ResolveRequest:
        """The question as a registry is asked.

        Args:
            engine: "sglang==VERSION", or "" for the contract alone.

        Raises:
            ContractsError: The target's config cannot be read.
        """
        here = self.target_here(with_tokenizer=True)
        return ResolveRequest(
            drafter=self.reference,
            engine=engine,
            target=self.target,
            target_config=here.config if here is not None else None,
            target_tokenizer_sha256=here.tokenizer_sha256 if here is not None else "",
            draft_path=self.draft_path,
            steps=self.wishes.steps,
            topk=self.wishes.topk,
            draft_tokens=self.wishes.draft_tokens,
            extra=self.wishes.extra,
            prefer="render" if self.wishes.prefer == RENDER else "flags",
        )

    def target_here(self, *, with_tokenizer: bool) -> TargetFacts | None:
        """The target's facts, if its config is on this machine.

        Args:
            with_tokenizer: Whether its tokenizer.json is read too.

        Raises:
            ContractsError: It is, and cannot be read.
        """
        if self.target_config:
            config = read_config(self.target_config)
            return target_from_config(config, self.target or self.target_config, source=self.target_config)
        if not self.target or hub_cache.find(self.target, "", environment=None) is None:
            return None
        return read_target(self.target, with_tokenizer=with_tokenizer)


def read(parsed: Parsed, engine: Engine | None = None) -> Asked:
    """The question of a command line.

    Args:
        parsed: The command line.
        engine: The engine, where it is known already; None to read it off the command line.

    Raises:
        UsageError: Options that cannot be read or contradict each other, or no engine.
        InvalidError: Not a reference.
    """
    reference = str(read_reference(parsed.word(0)))
    shape = JSON_FORMAT if parsed.has("--json") else parsed.value("--format") or ARGS
    if parsed.has("--json") and parsed.value("--format") not in ("", JSON_FORMAT):
        raise UsageError("--json and --format name two formats", "give one of them")
    engine = engine or named_engine(parsed.value("--engine"))
    target = parsed.value("--target") or launched_target(parsed.launch or (), engine)
    if os.path.sep in target and parsed.has("--target-config"):
        _check_same(target)
    wishes = Wishes(
        _number(parsed, "--steps"),
        _number(parsed, "--topk"),
        _number(parsed, "--draft-tokens"),
        parsed.launch or (),
        parsed.value("--prefer") or FLAGS,
    )
    draft_path = parsed.value("--draft-path")
    if draft_path.startswith("-"):
        raise UsageError(f"--draft-path {draft_path} would be read as an option", "write ./ before it")
    return Asked(
        reference=reference,
        engine=engine,
        published=_is_published(engine),
        wishes=wishes,
        target=target,
        target_config=parsed.value("--target-config"),
        draft_path=draft_path,
        pull=not parsed.has("--no-pull") and not draft_path,
        offline=parsed.has("--offline"),
        shape=shape,
    )


def launched_target(options: Sequence[str], engine: Engine | None) -> str:
    """The model path among options of a launch, or ""."""
    if engine is None or engine.profile is None:
        return ""
    value = parse_arguments(engine.profile.launch.flags, options).values.get("model_path")
    return value if isinstance(value, str) else ""


def _check_same(target: str) -> None:
    """A directory has a config of its own: two configs of one target would be a guess."""
    if os.path.exists(os.path.join(target, "config.json")):
        raise UsageError(f"{target} has a config.json, and --target-config names another", "give one of them")


def _number(parsed: Parsed, option: str) -> int | None:
    text = parsed.value(option)
    if not parsed.has(option):
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{option} is {text!r}", f"write a whole number from 1: {option} 3")
    return int(text)


def named_engine(text: str) -> Engine:
    """The engine that an option names, else the one that is installed here.

    Raises:
        UsageError: There is none.
    """
    if vllm_engine.names(text):
        return vllm_engine.read(text)
    if text:
        path = text if is_path(text) else ""
        asked = GateRequest((), engine="" if path else release(text), engine_path=path)
        return read_engine(asked, read_invocation(_LAUNCH))
    here = msgspec.structs.replace(read_invocation(_LAUNCH), environment=dict(os.environ))
    found = read_engine(GateRequest(()), here)
    if not found.release and found.profile is None:
        raise UsageError(f"no {ENGINE} is installed for this python", f"say which: --engine {ENGINE}==VERSION")
    return found


def _is_published(engine: Engine) -> bool:
    """Whether the engine does what its release, as published, does: then a registry can answer for it by name."""
    if engine.engine != ENGINE:
        return vllm_engine.is_published(engine)
    if engine.profile is None:
        return engine.taken_from == "option --engine"
    try:
        return load_profile(ENGINE, engine.release) == engine.profile
    except UnknownReleaseError:
        return False
