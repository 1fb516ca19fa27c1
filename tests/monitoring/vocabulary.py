"""Names of metrics: those that an expression asks for, those that engines and the registry export."""

from __future__ import annotations

import json
import os
import re

from drafter_contracts.acceptance import sglang_metrics, vllm_metrics
from drafter_contracts.acceptance.records import Observation
from drafter_registry.api.metrics import Metrics
from drafter_registry.api.observed import _text
from drafter_registry.service.observed_now import Latest
from drafter_registry.service.promised_now import PromisedNow

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "acceptance")
#: What the reader of vLLM's metrics does not need; `vllm/v1/metrics/loggers.py`.
MORE_OF_VLLM = frozenset({"vllm:generation_tokens_total"})
#: What Prometheus makes by itself.
OF_PROMETHEUS = frozenset({"up", "ALERTS"})
FUNCTIONS = frozenset(
    {"avg_over_time", "count_over_time", "increase", "label_replace", "last_over_time", "max_over_time", "rate"}
    | {"time", "vector"}
)
WORDS = frozenset({"and", "or", "unless", "sum", "min", "max", "count"})
_LISTS = re.compile(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")


def asked(expression):
    """The metrics that an expression asks for; fails on a word that is neither a name nor of the language."""
    rest = re.sub(r'"(?:[^"\\]|\\.)*"', "", expression)
    rest = re.sub(r"\{[^{}]*\}|\[[^\[\]]*\]", "", rest)
    rest = _LISTS.sub("", rest)
    names = set(re.findall(r"[A-Za-z_:][A-Za-z0-9_:]*", rest)) - FUNCTIONS - WORDS
    strange = {name for name in names if not re.match(r"(sglang:|vllm:|drafters[_:])", name)} - OF_PROMETHEUS
    assert not strange, f"{strange} in {expression}"
    return names


def exported(text):
    """The metrics of an exposition."""
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if line and not line.startswith("#")}


def labels_of(text):
    """Name of a metric to the names of its labels, of an exposition."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"([\w:]+)(?:\{(.*)\})? ", line)
        if match and not line.startswith("#"):
            found[match[1]] = frozenset(re.findall(r'(\w+)="', match[2] or ""))
    return found


def of_sglang():
    """What a real SGLang 0.5.23 answered after some requests."""
    with open(os.path.join(DATA, "sglang-0.5.23.json"), encoding="utf-8") as file:
        return json.load(file)["right"]["metrics"][-1]


def of_registry():
    """A registry's exposition, with one engine seen."""
    seen = Observation(hour="2026-11-29T14:00:00Z", readings=60, length=1.9, lowest=1.5, highest=2.5)
    labels = ("kimi-k2.5-eagle3", "1.0", "vllm", "0.11.0", "gpu-2")
    promised = PromisedNow(length=2.75, least=2.575)
    series = (Latest(labels, seen, 1795960800.0, 1, promised),)
    return (Metrics().text() + _text(series, 0)).decode()


def known():
    """Every metric that engines and the registry export."""
    engines = sglang_metrics.NAMES | vllm_metrics.NAMES | MORE_OF_VLLM
    return engines | exported(of_sglang()) | exported(of_registry()) | OF_PROMETHEUS
