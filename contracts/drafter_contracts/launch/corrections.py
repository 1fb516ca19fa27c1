"""Launches that serve a drafter where its files, as they are, would not: by flag, by a render, or by both.

A correction is only tried: it is read back and judged by every rule like any launch.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.launch.plan_records import FLAGS
from drafter_contracts.rendering.config import Rendering, Shape, render, shape
from drafter_contracts.rendering.config_class import renamed
from drafter_contracts.rendering.records import UNCHANGED, WeightChange
from drafter_contracts.rules.remedy import graphs_off_flag, override_document, own_solution
from drafter_contracts.solve import serves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.serving.launch import TargetFacts
    from drafter_contracts.situation import Situation
    from drafter_contracts.solve import Solution


class Correction(msgspec.Struct, frozen=True):
    """One way to make a release serve the drafter.

    Attributes:
        flags: Flags to add.
        overrides: Overrides of the configs to launch with, those of the launch included; None for no change.
        config: The drafter's config.json to use; None for its own.
        changes: What a render changes, one sentence each with its reason.
        weights: What to change of the weights.
        notices: What comes with it.
    """

    flags: tuple[str, ...] = ()
    overrides: dict[str, object] | None = None
    config: dict[str, object] | None = None
    changes: tuple[str, ...] = ()
    weights: WeightChange = UNCHANGED
    notices: tuple[str, ...] = ()


def feeds(s: Situation) -> bool:
    """Whether the launch feeds the stated layout, as far as hidden states are captured at all."""
    if not s.method or s.stated is None:
        return True
    return s.capture is not None and not s.capture_off and serves(s.capture, s.stated.layout)


def corrections(s: Situation, prefer: str = FLAGS) -> Iterator[Correction]:
    """Ways to make the release serve the drafter, what is preferred first; each changes only what it needs.

    Where the layout is fed already, what is left are faults of the config or of tensor names, which only a render
    mends. Where no ids feed it, nothing is proposed.
    """
    shaped = shape(s)
    if shaped is None:
        return
    if feeds(s):
        yield from _rendered(render(shaped, None))
    found = own_solution(shaped.situation)
    if found is None or not found.found:
        return
    ways = _by_flag(s, shaped, found), _rendered(render(shaped, found), *_graphs(s, found))
    for way in ways if prefer == FLAGS else ways[::-1]:
        yield from way


def _by_flag(s: Situation, shaped: Shape, found: Solution) -> Iterator[Correction]:
    """Ids by flag, first with the drafter's files as they are, then with a render of what flags cannot say."""
    if found.order:
        return
    flags, notices = _graphs(s, found)
    if flags:  # the ids may be right already
        yield Correction(flags, notices=notices)
    document = override_document(shaped.situation, found)
    if document is None:
        return
    yield Correction(flags, document, notices=notices)
    beside = render(shaped, found, write_ids=False)
    for one in _rendered(beside, flags, notices):
        yield msgspec.structs.replace(one, overrides=document)


def _graphs(s: Situation, found: Solution) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The flag without which a solution does not work, and the notice that comes with it."""
    if not found.graphs_off:
        return (), ()
    return (graphs_off_flag(s),), (f"CUDA graphs are off: {found.reason}",)


def _rendered(made: Rendering, flags: tuple[str, ...] = (), notices: tuple[str, ...] = ()) -> Iterator[Correction]:
    if made.any:
        yield Correction(flags, None, made.config, made.changes, made.weights, notices)


def seen_as(facts: DrafterFacts, correction: Correction, target: TargetFacts) -> DrafterFacts:
    """A drafter's facts as its files say them once a correction is carried out."""
    if correction.config is None and not correction.weights.renames:
        return facts
    again = drafter_facts(
        facts.config if correction.config is None else correction.config,
        renamed(facts.tensors, correction.weights.renames),
        path=facts.path,
        weights=facts.weights,
        target_layers=target.num_layers,
        target_hidden_size=target.hidden_size,
        target_model_type=target.text_model_type,
    )
    return msgspec.structs.replace(again, quantization=again.quantization or facts.quantization)
