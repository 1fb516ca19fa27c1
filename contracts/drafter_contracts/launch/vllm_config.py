"""The config.json that a vLLM release must see where a drafter's own does not do.

Keys are written where that release reads them. The key that SGLang reads stays as it is, or is written beside, so that
one directory serves both engines.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.facts import EAGLE3
from drafter_contracts.engines.capture import lookup
from drafter_contracts.engines.profile import FITTED, IdReading
from drafter_contracts.engines.vllm.reading import PART, SPECULATORS, switched, taps_of, width_of
from drafter_contracts.launch.vllm_rules import trained_columns, trained_switches
from drafter_contracts.layout import describe_taps
from drafter_contracts.solve import Solution, in_order, solve, with_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.launch.vllm_case import Case
    from drafter_contracts.layout import CaptureLayout

#: The key that every runner reads first, in every release that reads any.
IDS = "eagle_aux_hidden_state_layer_ids"
#: The key that SGLang reads.
NESTED = f"eagle_config.{IDS}"
_TAPS = "num_aux_hidden_states"


class Edited(msgspec.Struct, frozen=True):
    """A changed config.

    Attributes:
        config: The config.
        changes: What was changed, one sentence each with its reason.
        order: The release feeds the layout's tap `order[j]` at place j; empty for the layout's own order.
        notices: What comes with it.
    """

    config: dict[str, object]
    changes: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    notices: tuple[str, ...] = ()


class _Edit:
    """Keys of one config, put where the release reads them."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.config = case.facts.config
        self.changes: list[str] = []
        self._translates = case.facts.config.get(SPECULATORS) is not None

    def place(self, key: str) -> str:
        """Where a key of the class's config is written in this drafter's; "" where the release takes none over."""
        if not self._translates or self._case.conversion is None:
            return key
        entry = self._case.conversion.entries.get(key)
        if entry is not None:
            return entry.key
        return f"{PART}.{key}"

    def put(self, key: str, value: object, why: str) -> None:
        """Write a key as the class shall read it."""
        place = self.place(key)
        if place:
            self.write(place, value, why)

    def write(self, place: str, value: object, why: str) -> None:
        """Write a key of the file."""
        if lookup(self.config, place) == value:
            return
        self.config = with_value(self.config, place, value)
        self.changes.append(f"{place} is set to {msgspec.json.encode(value).decode()}: {why}")


def edited(case: Case, sglang: Profile | None = None) -> Edited:
    """A drafter's config with everything changed that the release must read otherwise.

    Args:
        case: The drafter with its own config.
        sglang: The SGLang release by whose rules the key beside is written; None to leave it alone.
    """
    edit = _Edit(case)
    notices: list[str] = []
    order: tuple[int, ...] = ()
    if case.seen is None or case.known is None:
        return Edited(edit.config)
    found = solution(case)
    if found is not None and found.ids is not None and case.stated is not None:
        order = found.order
        fed = in_order(case.stated.layout, order or range(len(case.stated.layout.taps)))
        edit.put(IDS, list(found.ids), f"every runner of {case.engine} captures {describe_taps(fed.taps)} by it")
        notices += _beside(case, edit, fed, sglang)
    _switches(case, edit)
    _sizes(case, edit)
    size = case.facts.vocabulary.size or case.manifest.draft.vocab_size
    told = case.seen.get("draft_vocab_size")
    if size is not None and (case.seen.get("vocab_size") if told is None else told) not in {None, size}:
        edit.put("draft_vocab_size", size, f"{case.engine} builds the head by it")
    return Edited(edit.config, tuple(edit.changes), order, tuple(notices))


def solution(case: Case) -> Solution | None:
    """The ids for the layout, as the target's setter is given them; None where nothing can be looked for."""
    n, rule = case.target.num_layers, case.rule
    if case.stated is None or rule is None or rule.status != FITTED or n is None:
        return None
    if not any(step.key == IDS for runner in case.profile.runners.values() for step in runner.steps):
        return None
    reading = IdReading(keys=(IDS,))
    return solve(rule, reading, None, case.stated.layout, n, graphs_on=False, any_order=True)


def _beside(case: Case, edit: _Edit, layout: CaptureLayout, sglang: Profile | None) -> list[str]:
    """Write the key that SGLang reads, if the drafter has none and the ids for it are known."""
    if edit.place(IDS) != IDS or case.method != EAGLE3 or case.stated is None or case.target.num_layers is None:
        return []
    if lookup(edit.config, NESTED) is not None:
        return [f"{NESTED} stays as it is: SGLang reads it, and {case.engine} only where {IDS} is missing"]
    rule = sglang.capture_method(case.target.architecture, case.method) if sglang is not None else None
    reading = sglang.readings.get(case.method) if sglang is not None else None
    if sglang is None or rule is None or reading is None or NESTED not in reading.keys:
        return []
    found = solve(rule, reading, None, layout, case.target.num_layers, graphs_on=False, prefer=NESTED)
    if found.ids is None or found.key != NESTED:
        return []
    edit.write(NESTED, list(found.ids), f"{sglang.name} reads it, in its own numbering")
    return []


def _switches(case: Case, edit: _Edit) -> None:
    """Switches as the drafter was trained; one that the class lacks is left for the check to refuse."""
    if case.seen is None or case.known is None:
        return
    wanted = {**trained_switches(case), "use_aux_hidden_state": True if case.stated is not None else None}
    for name, value in wanted.items():
        switch = case.known.switches.get(name)
        if switch is not None and value is not None and switched(switch, case.seen) != value:
            key = next((key for key in switch.keys if lookup(case.seen, key) is not None), switch.keys[-1])
            edit.put(key, value, "so it was trained")


def _sizes(case: Case, edit: _Edit) -> None:
    """The number of taps, and the width of one, by which the class sizes `fc`."""
    trained, width = trained_columns(case), case.target.hidden_size
    if trained is None or case.known is None or case.seen is None or case.stated is None:
        return
    count = len(case.stated.layout.taps)
    read = width_of(case.known, case.seen)[0]
    if width is not None and read != width and count * width == trained and "target_hidden_size" in case.known.width:
        edit.put("target_hidden_size", width, f"{case.engine} sizes fc by it")
    if _TAPS in case.known.taps and taps_of(case.known, case.seen)[0] != count:
        edit.put(_TAPS, count, f"{case.engine} sizes fc by it")
