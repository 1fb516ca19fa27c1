"""What speculation is combined with: parallelism, adapters, and known faults of the release."""

from __future__ import annotations

import msgspec

from drafter_contracts.rules.captured import eager_taps, source_text
from drafter_contracts.rules.rule import Rule, drafter, engine, on_record, option, ways, whole
from drafter_contracts.serving.conditions import holds
from drafter_contracts.verdict import REFUSE, SEVERITIES, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Advisory
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation

_PIPELINE = ("pp_size", "pipeline_parallel_size")
_DATA = ("enable_dp_attention", "dp_size", "data_parallel_size", "attn_dp_size")
_LORA = ("enable_lora", "lora_paths")
_ARGS = "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/server_args.py"


def pipeline(s: Situation) -> Outcome:
    """Taps are not lost on earlier pipeline stages."""
    stages = whole(option(s, *_PIPELINE)) or 1
    if s.rule is None or not s.rule.last_rank_only or not s.method or s.capture_off:
        return None
    if stages <= 1:
        return ()
    return (
        Finding(
            "PIPELINE_PARALLEL",
            REFUSE,
            f"with {stages} pipeline stages {engine(s)} captures on the last stage only, and {drafter(s)} reads layers"
            " of earlier ones",
            expected="one pipeline stage",
            actual=f"{stages} stages",
            source=source_text(s, s.rule.source),
            remedy="Launch with --pp-size 1.",
            flags=ways(s, ("--pp-size", "1")),
        ),
    )


def lora(s: Situation) -> Outcome:
    """LoRA and speculation go together in this release."""
    asked = any(option(s, name) for name in _LORA)
    if s.profile is None or not s.serving.speculation.algorithm:
        return None
    if not asked:
        return ()
    stops = [one for one in _stops(s) if "lora" in one[0]]
    known = [one for one in s.advisories if one.when == "lora"]
    if stops:
        return tuple(_stop(s, "LORA", one) for one in stops)
    if known:
        return tuple(_advice(s, "LORA", one) for one in known)
    if any("lora" in condition for condition, _, _ in s.profile.launch.speculative.limits):
        return ()
    return (
        Finding(
            "LORA",
            WARN,
            f"nothing in the profile of {engine(s)} says what LoRA does to {drafter(s)}: the target's states are"
            " those of the adapter, the drafter's are not",
            expected="no adapters, or a release that names the combination",
            actual="adapters loaded",
            remedy="Compare the acceptance length with and without the adapter.",
        ),
    )


def _facts(s: Situation) -> dict[str, object]:
    """Option values with what conditions of a profile may name besides."""
    extra: dict[str, object] = {
        "algorithm": s.serving.speculation.algorithm,
        "architecture": s.target.architecture if s.target is not None else "",
        "cuda_graphs": s.serving.cuda_graphs,
        "environment": s.serving.invocation.environment,
        "drafter": s.draft_config,
        "target": _text_config(s.target.config) if s.target is not None else {},
    }
    taps = eager_taps(s)
    if taps is not None:
        extra["taps"] = len(taps)
    return {**s.serving.arguments.values, **extra}


def _text_config(config: dict[str, object]) -> dict[str, object]:
    """A config with the keys of its text model, where that is a part of its own, in front of the others."""
    text = config.get("text_config")
    return {**config, **text} if isinstance(text, dict) else config


def _stops(s: Situation) -> list[tuple[str, str, str]]:
    """Refusals of the release's own argument checks that this launch meets."""
    if s.profile is None:
        return []
    facts = _facts(s)
    return [one for one in s.profile.launch.speculative.limits if holds(one[0], facts)]


def _stop(s: Situation, code: str, one: tuple[str, str, str]) -> Finding:
    condition, error, source = one
    return Finding(
        code,
        REFUSE,
        f"{engine(s)} refuses this launch with {s.serving.speculation.algorithm}: {error}",
        expected=f"not ({condition})",
        actual=condition,
        source=f"{engine(s)} {source}",
        remedy="Change one of the options named, or use a release that takes them together.",
    )


def combinations(s: Situation) -> Outcome:
    """The release's own checks accept what speculation is combined with (pipeline, data parallel, ...)."""
    if s.profile is None or not s.serving.speculation.algorithm or not s.profile.launch.speculative.limits:
        return None
    return tuple(_stop(s, "COMBINATION", one) for one in _stops(s) if "lora" not in one[0])


def _applies(s: Situation, advisory: Advisory) -> bool:
    architecture = s.target.architecture if s.target is not None else ""
    if advisory.architectures and architecture not in advisory.architectures:
        return False
    if advisory.methods and s.method not in advisory.methods:
        return False
    when = advisory.when
    if when.startswith("tap:"):
        taps = eager_taps(s) or ()
        n = s.target.num_layers if s.target is not None else None
        wanted = n if when == "tap:N" else int(when[4:])
        return any(tap.boundary == wanted for tap in taps)
    if when.startswith("tensor:"):
        return s.drafter is not None and any(when[7:] in tensor.name for tensor in s.drafter.tensors)
    named = {
        "always": True,
        "tbo": bool(option(s, "enable_two_batch_overlap")),
        "pp": (whole(option(s, *_PIPELINE)) or 1) > 1,
        "dp": bool(option(s, "enable_dp_attention")) or (whole(option(s, *_DATA[1:])) or 1) > 1,
        "topk": (s.serving.speculation.effective[1] or 1) > 1,
        "graphs": s.serving.cuda_graphs,
        "lora": False,
    }
    return named[when] if when in named else holds(when, _facts(s))


def _by_config(advisory: Advisory) -> bool:
    """Whether the target's config decides if it applies."""
    return any(test.strip().startswith("target.") for test in advisory.when.split(" & "))


def _doubt(s: Situation, one: Advisory) -> Finding | None:
    """What is said of a fault that depends on a config that is not here; None if it does not concern this launch."""
    if not _applies(s, msgspec.structs.replace(one, when="always")):
        return None
    return Finding(
        "ADVISORY",
        WARN if one.severity not in {REFUSE, UNKNOWN} else UNKNOWN,
        f"{one.id}: whether {one.when.replace('target.', '').replace('==', ' is ')} in the target's config is not"
        f" known; if so: {one.effect}",
        expected="the target's config.json",
        actual=f"not given; {engine(s)}, known by: {one.evidence}",
        source=one.source,
        remedy="Give the target's config.json.",
    )


def _advice(s: Situation, code: str, one: Advisory) -> Finding:
    return Finding(
        code,
        one.severity if one.severity in SEVERITIES else WARN,
        f"{one.id}: {one.effect}",
        expected="",
        actual=f"{engine(s)}, known by: {one.evidence}",
        source=one.source,
        remedy=one.remedy,
    )


def advisories(s: Situation) -> Outcome:
    """Known faults of the release that its profile cannot hold."""
    if not s.serving.speculation.algorithm or s.profile is None:
        return None
    found = []
    for one in s.advisories:
        if on_record(s) and _by_config(one):
            found.append(_doubt(s, one))
        elif _applies(s, one):
            found.append(_advice(s, "ADVISORY", one))
    return tuple(finding for finding in found if finding is not None)


def simulated(s: Situation) -> Outcome:
    """Acceptance is real, not simulated."""
    names = [name for name in s.serving.invocation.environment if name.startswith("SGLANG_SIMULATE_ACC")]
    if not names:
        return ()
    return (
        Finding(
            "SIMULATED_ACCEPTANCE",
            WARN,
            f"{', '.join(names)} makes {engine(s)} report and apply made-up acceptance: output is wrong",
            expected="not set",
            actual=", ".join(f"{name}={s.serving.invocation.environment[name]}" for name in names),
            source="environment of the launch",
            remedy="Unset it, except for benchmarks of the engine itself.",
        ),
    )


RULES = (
    Rule(
        "PIPELINE_PARALLEL",
        "No captured layer lies on another pipeline stage",
        "Setters return early except on the last stage: layers of earlier stages are never captured.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/models/llama.py",
        ("R25",),
        pipeline,
    ),
    Rule(
        "LORA",
        "LoRA and speculation go together",
        "Older releases build the adapters into the drafter too and crash; later ones refuse the combination.",
        "https://github.com/sgl-project/sglang/issues/9756",
        ("R25",),
        lora,
    ),
    Rule(
        "COMBINATION",
        "The release accepts what speculation is combined with",
        "Pipeline parallel, data-parallel attention and other options are refused together with some algorithms.",
        _ARGS,
        ("R25",),
        combinations,
    ),
    Rule(
        "ADVISORY",
        "No known fault of the release applies",
        "Some defects cannot be seen in a class's code by running it: aliased tensors, overlapped batches, kernels.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/layers/communicator.py",
        ("R25", "R26"),
        advisories,
    ),
    Rule(
        "SIMULATED_ACCEPTANCE",
        "Acceptance is not simulated",
        "With SGLANG_SIMULATE_ACC_LEN set, every measured acceptance is made up.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/environ.py",
        ("R26",),
        simulated,
    ),
)
