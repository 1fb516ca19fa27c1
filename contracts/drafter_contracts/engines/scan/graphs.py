"""What CUDA-graph replay captures: the order in which the model runner sets layers and records its graphs.

A graph replays what was set when it was recorded. The order is found by `probes.call_order`; here it becomes an answer.
"""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import Source
from drafter_contracts.engines.profile import GraphReplay
from drafter_contracts.engines.scan.probes.call_order import RECORD, WITH_IDS, WITHOUT, WORKERS
from drafter_contracts.engines.scan.sandbox import run_probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.tree import SourceTree

#: Setters of each method.
SETTERS = {
    "EAGLE3": ("set_eagle3_layers_to_capture",),
    "DFLASH": ("set_dflash_layers_to_capture",),
    "DSPARK": ("set_dspark_layers_to_capture", "set_dflash_layers_to_capture"),
}
SOURCES = ("model_executor/", *WORKERS)


class Event(msgspec.Struct, array_like=True):
    """One event: `WITH_IDS`, `WITHOUT` or `RECORD`, and the call."""

    kind: str
    source: Source


class Order(msgspec.Struct):
    """Events of one method in their order, and the files looked into."""

    events: list[Event]
    looked_into: list[str]


class Orders(msgspec.Struct):
    """The probe's answer.

    Attributes:
        methods: Method to its events.
        flags: Launch flags that keep the model runner from recording graphs.
        guard: The file that says so, or "".
    """

    methods: dict[str, Order]
    flags: tuple[str, ...]
    guard: str


def find_orders(tree: SourceTree, *, allow_unconfined: bool = False) -> Orders:
    """The order of calls for every method.

    Args:
        tree: The release.
        allow_unconfined: See `sandbox.run_probe`.

    Raises:
        ScanError: The probe could not run.
    """
    payload: dict[str, object] = {"setters": SETTERS}
    answer = run_probe("call_order", tree.sources(SOURCES), payload, allow_unconfined=allow_unconfined)
    return msgspec.convert(answer, Orders)


def derive_graphs(orders: Orders, method: str, *, reads_ids: bool) -> tuple[GraphReplay, set[str]]:
    """What graph replay captures for a method.

    Args:
        orders: What `find_orders` found.
        method: A key of `SETTERS`.
        reads_ids: The release reads ids for this method; without, replay and eager execution use the same default.

    Returns:
        The answer, and the files looked into.
    """
    order = orders.methods[method]
    events, flags = order.events, orders.flags
    files = {*order.looked_into, *([orders.guard] if orders.guard else [])}
    kinds = [event.kind for event in events]
    if RECORD not in kinds or not {WITH_IDS, WITHOUT} & set(kinds):
        return GraphReplay("unknown", None, flags, "no function sets the layers and records graphs"), files
    recorded = kinds.index(RECORD)
    before = [event for event in events[:recorded] if event.kind != RECORD]
    after = [event for event in events[recorded:] if event.kind != RECORD]
    if not before:
        return GraphReplay("unknown", after[0].source, flags, "graphs are recorded before any layer is set"), files
    last = before[-1]
    if last.kind == WITH_IDS:
        if any(event.kind == WITHOUT for event in after):
            return GraphReplay("unknown", after[0].source, flags, "layers are reset after graphs are recorded"), files
        return GraphReplay("same", last.source, flags), files
    if not reads_ids:
        return GraphReplay("same", last.source, flags), files
    if any(event.kind == WITH_IDS for event in after):
        return GraphReplay("default", last.source, flags), files
    return GraphReplay("unknown", last.source, flags, "the ids that are read are never set after recording"), files
