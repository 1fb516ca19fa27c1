"""vLLM's metrics of speculation: `vllm/v1/spec_decode/metrics.py`, the same names in 0.8.5, 0.9.2, 0.11.0, 0.32.0.

The engine before (V0) counts no drafts, so that a length cannot be told from it.
"""

from __future__ import annotations

from drafter_contracts import limits
from drafter_contracts.acceptance.records import Reading
from drafter_contracts.acceptance.samples import Labels, Samples, since, summed, without
from drafter_contracts.errors import EngineReportError

DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
PLACES = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
NAMES = frozenset({DRAFTS, DRAFTED, ACCEPTED, PLACES})
DECIDING = (DRAFTS,)
COUNTERS = (DRAFTS, DRAFTED, ACCEPTED, PLACES)
#: A scrape may fall between two of an engine's counters; more than this is no scrape's doing.
_RACE = 1.05


def wrong(samples: Samples) -> list[str]:
    """Positions that are none."""
    labels = (dict(labels).get("position", "") for labels in samples.get(PLACES, {}))
    return [
        f"{PLACES} has a position {place[:20]!r}"
        for place in labels
        if not (place.isascii() and place.isdigit() and len(place) <= 4 and int(place) < limits.acceptance_max_length)
    ]


def readings(before: Samples, after: Samples) -> tuple[Reading, ...]:
    """See `exposition.difference`."""
    drafts, drafted, accepted = (since(before.get(n, {}), after.get(n, {})) for n in (DRAFTS, DRAFTED, ACCEPTED))
    places = since(before.get(PLACES, {}), after.get(PLACES, {}))
    found = []
    for labels in sorted(drafts):
        steps, taken = drafts[labels], accepted.get(labels)
        if steps < 1 or taken is None:
            continue
        counts = _in_order({place: value for place, value in places.items() if without(place, "position") == labels})
        most = len(counts) if counts else drafted.get(labels, limits.acceptance_max_length * steps) / steps
        if taken > most * steps * _RACE:
            raise EngineReportError(
                f"{ACCEPTED} grew by {taken:g} in {steps:g} drafts",
                where=" ".join(f"{name}={value}" for name, value in labels)[:200],
                expected=f"at most {most:g} per draft",
            )
        found.append(
            Reading(
                length=1 + min(taken / steps, most),
                verify_steps=round(steps),
                positions=tuple(min(count / steps, 1.0) for count in counts),
                rank=_rank(labels, drafts),
                source="metrics",
            )
        )
    return tuple(found)


def _in_order(places: dict[Labels, float]) -> list[float]:
    """Counts of the positions 0, 1, ...; empty if one is missing."""
    counts = {int(dict(labels)["position"]): value for labels, value in places.items()}
    return [counts[place] for place in sorted(counts)] if set(counts) == set(range(len(counts))) else []


def _rank(labels: Labels, every: dict[Labels, float]) -> str:
    """The engine core's number, if there are several."""
    several = len(summed(every, *(name for name, _ in labels if name != "engine"))) > 1
    return dict(labels).get("engine", "") if several else ""
