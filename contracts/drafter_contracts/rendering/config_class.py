"""The release's class for a drafter whose config names none that it has: told by kind and tensors, never guessed."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.profile import FITTED, Drafter
from drafter_contracts.rendering.config_flat import in_speculators_format
from drafter_contracts.rendering.tensor_names import asked_about, canonical, loads, renames
from drafter_contracts.rules.draft_class import SERVES
from drafter_contracts.rules.draft_parts import lost_tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from drafter_contracts.checkpoint.facts import TensorFact
    from drafter_contracts.situation import Situation


class ClassChoice(msgspec.Struct, frozen=True):
    """The class that a render is for.

    Attributes:
        known: What it does; None if it is not known, or cannot be told.
        name: Architecture to write into the config; "" if the config names it already, or none can be told.
        renames: Tensor names to those under which it loads them.
        reason: Why this one.
    """

    known: Drafter | None = None
    name: str = ""
    renames: dict[str, str] = {}
    reason: str = ""


def choose_class(s: Situation) -> ClassChoice:
    """The class that the config names, if the release has it for this kind of drafter; else the one that fits.

    One fits if it is of the drafter's kind and is shown to load its tensors, be it under other names. If several do, it
    is the one that the others derive from, where the config is in the format of a trainer that trains no other; else,
    or if the weights are not there to tell, or hold tensors that nobody asked the classes about, none is chosen.
    """
    facts, profile = s.drafter, s.profile
    if facts is None or profile is None:
        return ClassChoice()
    if s.draft_class is not None and not _of_another_kind(s, s.draft_class):
        return ClassChoice(s.draft_class, renames=_names(s.draft_class, facts.tensors))
    fitting = [
        (name, known, changed)
        for name, known in sorted(profile.drafters.items())
        if s.method and known.kind == facts.method and known.status == FITTED and _understood(facts.tensors)
        for changed in (_names(known, facts.tensors),)
        if _fits(known, renamed(facts.tensors, changed))
    ]
    if len(fitting) > 1 and in_speculators_format(facts.config):
        fitting = [
            one for one in fitting if one[1].source is not None and one[1].source.function.startswith(f"{one[0]}.")
        ]
    if len(fitting) != 1:
        return ClassChoice(s.draft_class)
    name, known, changed = fitting[0]
    was = ", ".join(facts.architectures) or "no class"
    others = sum(other.kind == facts.method for other in profile.drafters.values()) > 1
    why = f"{profile.name} knows no drafter class {was}; this is its class for {facts.method} drafters"
    return ClassChoice(known, name, changed, why + (" with such tensors" if others else ""))


def _fits(known: Drafter, tensors: tuple[TensorFact, ...]) -> bool:
    """Whether a class loses none of these tensors, and is shown to load those of the first layer."""
    first = (tensor.name for tensor in tensors if canonical(tensor.name).startswith("layers.0."))
    return not any(lost_tensors(known, tensors)) and all(loads(known, name) for name in first)


def _understood(tensors: Sequence[TensorFact]) -> bool:
    """Whether there are tensors, and none that a profile says nothing of: a class may drop those unseen."""
    return bool(tensors) and all(asked_about(tensor.name) for tensor in tensors)


def renamed(tensors: Sequence[TensorFact], names: Mapping[str, str]) -> tuple[TensorFact, ...]:
    """Tensors under other names, sorted by name."""
    found = (msgspec.structs.replace(tensor, name=names.get(tensor.name, tensor.name)) for tensor in tensors)
    return tuple(sorted(found, key=lambda tensor: tensor.name))


def _names(known: Drafter, tensors: Sequence[TensorFact]) -> dict[str, str]:
    return renames(known, tensors) if known.status == FITTED else {}


def _of_another_kind(s: Situation, known: Drafter) -> bool:
    served = SERVES.get(s.serving.speculation.algorithm, ())
    return bool(s.drafter and known.kind and known.kind not in served and s.drafter.method in served)
