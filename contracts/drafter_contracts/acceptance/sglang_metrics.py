"""SGLang's metrics of speculation, of every release: `srt/metrics/collector.py`, later `srt/observability/`.

The scheduler's gauge is the mean of its last decode report (every `--decode-log-interval` steps) and stays until the
next. The server counts what finished requests took: `spec_verify_calls_total`, from 0.5.13.
"""

from __future__ import annotations

from drafter_contracts import limits
from drafter_contracts.acceptance.records import Reading
from drafter_contracts.acceptance.samples import Labels, Samples, since, summed

LENGTH = "sglang:spec_accept_length"
STEPS, DRAFT_TOKENS = "sglang:spec_num_steps", "sglang:spec_num_draft_tokens"
THROUGHPUT = "sglang:gen_throughput"
VERIFIED = "sglang:spec_verify_calls_total"
GENERATED, REQUESTS = "sglang:generation_tokens_total", "sglang:num_requests_total"
NAMES = frozenset({LENGTH, STEPS, DRAFT_TOKENS, THROUGHPUT, VERIFIED, GENERATED, REQUESTS})
#: Names that only speculation has.
DECIDING = (LENGTH, VERIFIED)
COUNTERS = (VERIFIED, GENERATED, REQUESTS)
#: Labels that tell ranks of one scheduler apart, which all report the same.
_SHARDS = ("tp_rank", "pp_rank", "moe_ep_rank")
_STREAMED = "is_streaming"
#: How much of the counted mean may hang on where requests end: the step that ends one is cut there, on average in the
#: middle of what it accepted.
_BLUR = 0.02


def wrong(samples: Samples) -> list[str]:
    """Lengths that cannot be. 0: the scheduler has verified nothing yet, or does not speculate."""
    longest = _longest(samples)
    return [
        f"{LENGTH} is {value:g}, not 0 nor from 1 to {longest:g}"
        for value in samples.get(LENGTH, {}).values()
        if value and not 1 <= value <= longest
    ]


def readings(before: Samples, after: Samples) -> tuple[Reading, ...]:
    """See `exposition.difference`."""
    if len({dict(labels).get("dp_rank", "") for labels in after.get(LENGTH, {})}) > 1:
        return _reported(before, after)  # requests are counted for all ranks together, and one bad rank would not show
    counted = _counted(before, after)
    return counted or _reported(before, after)


def _counted(before: Samples, after: Samples) -> tuple[Reading, ...]:
    """The mean over the requests that finished between; empty where that is not told, or too blurred."""
    grown = [
        since(summed(before.get(name, {}), _STREAMED), summed(after.get(name, {}), _STREAMED)) for name in COUNTERS
    ]
    steps, tokens, requests = (sum(series.values()) for series in grown)
    if steps < 1 or steps <= requests:
        return ()
    # The first token of a request comes from its prompt's own forward; half a step is lost at its end.
    length = (tokens - 1.5 * requests) / (steps - 0.5 * requests)
    if not 1 <= length <= _longest(after) or requests * (length - 1) / 2 > _BLUR * length * steps:
        return ()
    return (Reading(length=length, verify_steps=round(steps), source="metrics"),)


def _reported(before: Samples, after: Samples) -> tuple[Reading, ...]:
    """Per data-parallel rank, what its scheduler reported since."""
    lengths, speeds = after.get(LENGTH, {}), after.get(THROUGHPUT, {})
    found: dict[Labels, Reading] = {}
    for labels in sorted(lengths):
        rank = tuple((name, value) for name, value in labels if name not in _SHARDS)
        # A report sets both figures; the speed is never the same twice, but 0 as soon as the engine is idle.
        is_new = lengths[labels] != before.get(LENGTH, {}).get(labels)
        speed = speeds.get(labels, 0.0)
        is_new = is_new or (speed > 0 and speed != before.get(THROUGHPUT, {}).get(labels))
        if lengths[labels] and is_new and rank not in found:
            found[rank] = Reading(length=lengths[labels], rank=dict(labels).get("dp_rank", ""), source="metrics")
    return tuple(found.values())


def _longest(samples: Samples) -> float:
    """The longest length that verification can give, with the numbers in force; 0 there: not told yet."""
    told = [value for name in (STEPS, DRAFT_TOKENS) for value in samples.get(name, {}).values() if value]
    return max(told) + 1 if told else limits.acceptance_max_length
