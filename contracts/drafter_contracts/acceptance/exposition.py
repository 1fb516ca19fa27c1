"""What engines tell Prometheus of their acceptance: SGLang's and vLLM's /metrics, and what two answers differ by.

Names and where they come from: docs/engine-reports.md. Only the few lines about speculation are parsed; an exposition
has thousands.
"""

from __future__ import annotations

import math

import msgspec

from drafter_contracts import limits
from drafter_contracts.acceptance import sglang_metrics, vllm_metrics
from drafter_contracts.acceptance.records import Reading
from drafter_contracts.acceptance.samples import Labels, Samples
from drafter_contracts.errors import EngineReportError

_ENGINES = {"sglang": sglang_metrics, "vllm": vllm_metrics}
_MOST_TOLD = 8


class Snapshot(msgspec.Struct, frozen=True):
    """One answer, as far as it is about speculation.

    Attributes:
        engine: "sglang", "vllm", or "" where the exposition is of neither.
        samples: Name to labels to value; only names of `sglang_metrics.NAMES` and `vllm_metrics.NAMES`.
    """

    engine: str = ""
    samples: Samples = {}

    @property
    def tells_acceptance(self) -> bool:
        """Whether anything here is about speculation; False before the first step of an engine that speculates too."""
        return bool(self.engine) and any(name in self.samples for name in _ENGINES[self.engine].DECIDING)


def read_metrics(text: str, *, where: str) -> Snapshot:
    """One exposition in Prometheus' text format.

    Args:
        text: The answer to GET /metrics.
        where: Its address, for errors.

    Raises:
        EngineReportError: It is too large, a line about speculation cannot be read, is there twice, is negative, not
            finite or cannot be a length. Everything that is wrong is named, up to eight lines.
    """
    if len(text) > limits.metrics_max_characters:
        raise EngineReportError(
            "the exposition is too large",
            where=where,
            expected=f"at most {limits.metrics_max_characters} characters",
            actual=str(len(text)),
        )
    engine = ""
    samples: dict[str, dict[Labels, float]] = {}
    wrong: list[str] = []
    kept = 0
    for number, line in enumerate(text.split("\n"), start=1):
        prefix = line.partition(":")[0]
        if prefix not in _ENGINES:
            continue
        engine = engine or prefix
        if line[: _name_end(line)] not in _ENGINES[prefix].NAMES:
            continue
        kept += 1
        if kept > limits.metrics_max_samples:
            wrong.append(f"more than {limits.metrics_max_samples} samples about speculation")
            break
        problem = _add(line, samples)
        if problem:
            wrong.append(f"line {number}: {problem}")
    if engine and not wrong:
        wrong += _ENGINES[engine].wrong(samples)
    if wrong:
        more = f"; and {len(wrong) - _MOST_TOLD} more" if len(wrong) > _MOST_TOLD else ""
        raise EngineReportError("; ".join(wrong[:_MOST_TOLD]) + more, where=where)
    return Snapshot(engine, samples)


def difference(before: Snapshot, after: Snapshot) -> tuple[Reading, ...]:
    """What happened between two answers of one engine.

    vLLM: one reading per engine core, over all steps between. SGLang: one reading over all requests that finished
    between, where it counts verify steps (0.5.13+) and their ends do not blur the mean; else, per data-parallel rank,
    what the scheduler reported last, if it reported since, with no number of steps. After a restart, what was counted
    since. `time` is None.

    Returns:
        The readings; empty where nothing was verified.

    Raises:
        EngineReportError: The counters give a length that cannot be.
    """
    if not after.engine:
        return ()
    earlier = before.samples if before.engine == after.engine and not restarted(before, after) else {}
    found: tuple[Reading, ...] = _ENGINES[after.engine].readings(earlier, after.samples)
    return found


def restarted(before: Snapshot, after: Snapshot) -> str:
    """Why the engine was started anew between two answers, or "": a counter that went back or is gone."""
    if before.engine and after.engine and before.engine != after.engine:
        return f"{before.engine} answered before, {after.engine} does now"
    if not before.engine:
        return ""
    for name in _ENGINES[before.engine].COUNTERS:
        for labels, value in before.samples.get(name, {}).items():
            now = after.samples.get(name, {}).get(labels)
            if now is None or now < value:
                return f"{name} was {value:g}, and is {'gone' if now is None else f'{now:g}'}"
    return ""


def _name_end(line: str) -> int:
    ends = [place for mark in "{ \t" if (place := line.find(mark)) >= 0]
    return min(ends, default=len(line))


def _add(line: str, samples: dict[str, dict[Labels, float]]) -> str:
    """Add the sample of one line; what is wrong with it, or ""."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        return "prometheus-client is not installed (pip install 'drafter-registry[client]')"
    if len(line) > limits.metrics_line_max_characters:
        return f"longer than {limits.metrics_line_max_characters} characters"
    try:
        found = [sample for family in text_string_to_metric_families(line + "\n") for sample in family.samples]
    except (ValueError, IndexError, KeyError, TypeError) as error:
        return f"no sample: {str(error)[:120] or type(error).__name__}"
    if len(found) != 1:
        return "no sample"
    name, value = found[0].name, float(found[0].value)
    labels = tuple(sorted(found[0].labels.items()))
    if not math.isfinite(value) or value < 0:
        return f"{name} is {value:g}"
    if labels in samples.setdefault(name, {}):
        return f"{name} is there twice with the same labels"
    samples[name][labels] = value
    return ""
