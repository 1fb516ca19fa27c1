"""The line in which vLLM logs its acceptance, of every release of its V1 engine."""

from __future__ import annotations

import math
import re

from drafter_contracts import limits
from drafter_contracts.acceptance.records import Reading

#: How vLLM's message begins, in every release that has one.
BEGINNING = "SpecDecoding metrics: "
_MESSAGE = re.compile(
    r"SpecDecoding metrics: (?:Draft acceptance rate: [\d.]{1,12}%, )?"
    r"Mean acceptance length: (?P<length>\d{1,6}\.\d\d), "
    r"(?:Accepted throughput: [\d.]{1,32} tokens/s, Drafted throughput: [\d.]{1,32} tokens/s, )?"
    r"Accepted: (?P<accepted>\d{1,15}) tokens, Drafted: (?P<drafted>\d{1,15}) tokens, "
    r"Per-position acceptance rate: (?P<rates>\d\.\d{3}(?:, \d\.\d{3}){0,1023})(?![\d.])"
)
#: Half of the last digit printed, and a little for the arithmetic.
_LENGTH_ERROR, _RATE_ERROR, _SLACK = 0.005, 0.0005, 1e-9
#: Most numbers of drafts that are tried.
_TRIED = 4096


def read_message(text: str) -> Reading | None:
    """The message, from its beginning.

    Releases up to 0.8.5 print the length without the bonus token, later ones (seen in 0.9.2 and after) with it, some
    in the same words. The rates of the positions, whose sum is the length without it, tell which.

    Returns:
        The reading, with `verify_steps` where one number of drafts only fits all that is printed; None if the figures
        contradict each other.
    """
    found = _MESSAGE.match(text)
    if found is None:
        return None
    rates = tuple(float(rate) for rate in found["rates"].split(", "))
    accepted, drafted, printed = int(found["accepted"]), int(found["drafted"]), float(found["length"])
    room = _LENGTH_ERROR + _RATE_ERROR * len(rates) + _SLACK
    if accepted > drafted or any(rate > 1 for rate in rates):
        return None
    extra = next((extra for extra in (printed - 1, printed) if abs(extra - sum(rates)) <= room), None)
    if extra is None or extra > limits.acceptance_max_length:
        return None
    steps = _drafts(max(extra, 0.0), rates, accepted, drafted)
    length = 1 + (accepted / steps if steps else max(extra, 0.0))
    return Reading(length=length, verify_steps=steps, positions=rates)


def _drafts(extra: float, rates: tuple[float, ...], accepted: int, drafted: int) -> int | None:
    """The one number of drafts that fits every printed figure; None if several do."""
    if not accepted or not drafted:
        return None
    low = max(math.ceil(accepted / (extra + _LENGTH_ERROR + _SLACK)), math.ceil(drafted / len(rates)), 1)
    high = min(math.floor(accepted / max(extra - _LENGTH_ERROR - _SLACK, _SLACK)), drafted)
    if high - low >= _TRIED:
        return None
    fitting = [drafts for drafts in range(low, high + 1) if _fits(drafts, rates, accepted)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(drafts: int, rates: tuple[float, ...], accepted: int) -> bool:
    """Whether whole numbers of accepted tokens per position give these rates, and together `accepted`."""
    spans = [
        (math.ceil((rate - _RATE_ERROR - _SLACK) * drafts), math.floor((rate + _RATE_ERROR + _SLACK) * drafts))
        for rate in rates
    ]
    if any(low > high for low, high in spans):
        return False
    return sum(max(low, 0) for low, _ in spans) <= accepted <= sum(min(high, drafts) for _, high in spans)
