"""Whether the release can capture at all, and where it takes its ids from."""

from __future__ import annotations

from drafter_contracts.engines.profile import BROKEN, FITTED, OPAQUE
from drafter_contracts.layout import describe_taps
from drafter_contracts.rules.captured import (
    capture_source,
    eager_taps,
    ids_text,
    requested_text,
    source_text,
    stated_text,
)
from drafter_contracts.rules.remedy import layout_remedy
from drafter_contracts.rules.rule import Rule, drafter, engine, release_names, target_class
from drafter_contracts.solve import same_taps
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation


def no_hook(s: Situation) -> Outcome:
    """The target class has no capture hook for the method, or the release does not know the class."""
    if not s.method or s.capture_off or s.profile is None or s.target is None or not s.profile.targets:
        return None
    if not s.target.architecture or s.target.architecture in s.profile.drafters:
        return None
    if s.rule is not None:
        return ()
    known = s.target.architecture in s.profile.targets
    raised = s.profile.readings[s.method].no_hook if s.method in s.profile.readings else ""
    actual = "the class is registered without the hook" if known else "no class of that name is registered"
    others = release_names(s, (other for other in s.elsewhere if other.rule is not None))
    return (
        Finding(
            "CAPTURE_NO_HOOK",
            REFUSE,
            f"{engine(s)} cannot capture hidden states of {target_class(s)} for {s.method}, so {drafter(s)} gets none",
            expected=f"a {s.method} capture hook in {target_class(s)}"
            + (f" for {stated_text(s)}" if s.stated is not None else ""),
            actual=actual + (f" ({raised})" if raised else ""),
            source=f"profile of {engine(s)}",
            remedy=f"Use a release that has it: {others}."
            if others
            else "Serve this target without this drafter, or on a release whose profile has the hook.",
        ),
    )


def opaque(s: Situation) -> Outcome:
    """The class's capture, the reading of its ids or graph replay could not be derived from the release."""
    if s.rule is None or s.profile is None:
        return None
    found = []
    if s.rule.status == OPAQUE:
        found.append((s.rule.reason, source_text(s, s.rule.source or s.rule.forward)))
    reading = s.profile.readings.get(s.method)
    if reading is not None and reading.status == OPAQUE:
        found.append((reading.reason, source_text(s, reading.source)))
    if s.capture is not None and s.capture.undetermined:
        replay = s.profile.graphs.get(s.method)
        found.append((s.capture.undetermined, source_text(s, replay.source if replay else None)))
    return tuple(
        Finding(
            "CAPTURE_OPAQUE",
            UNKNOWN,
            f"what {engine(s)} captures of {target_class(s)} could not be derived from its source: {reason}",
            expected=stated_text(s),
            actual="not known",
            source=place,
            remedy="Read that function for this target, or compare recorded states, before launching.",
        )
        for reason, place in found
    )


def computed(s: Situation) -> Outcome:
    """What this launch captures could be computed at all."""
    if not s.method or s.profile is None or s.drafter is None or s.target is None or s.target.num_layers is None:
        return None
    if s.capture is not None or s.ids_error:
        return ()
    reading = s.profile.readings.get(s.method)
    hookless = s.rule is None and bool(s.profile.targets) and bool(s.target.architecture)
    if hookless or (s.rule is not None and s.rule.status == OPAQUE) or (reading and reading.status == OPAQUE):
        return None
    lacking = "how it reads capture ids" if reading is None else "what its target classes capture"
    return (
        Finding(
            "CAPTURE_UNCOMPUTED",
            UNKNOWN,
            f"the profile of {engine(s)} does not say {lacking} for {s.method}",
            expected=stated_text(s),
            actual="not computed",
            source=f"profile of {engine(s)}",
            remedy="Derive the profile again with `drafters engine scan PATH_OR_WHEEL`.",
        ),
    )


def broken(s: Situation) -> Outcome:
    """The hook exists and cannot work in this release."""
    if s.rule is None:
        return None
    if s.rule.status != BROKEN:
        return ()
    return (
        Finding(
            "CAPTURE_BROKEN",
            REFUSE,
            f"{engine(s)} has a {s.method} hook for {target_class(s)} that cannot work: {s.rule.reason}",
            expected=stated_text(s),
            actual=s.rule.reason,
            source=capture_source(s),
            remedy=layout_remedy(s),
        ),
    )


def crash(s: Situation) -> Outcome:
    """The release raises on these ids: while reading them, in the setter, or in the first forward pass."""
    if not s.method or s.profile is None or s.capture_off:
        return None
    reading = s.profile.readings.get(s.method)
    error, when, place = s.ids_error, "when it reads the drafter's config", reading.source if reading else None
    if not error:
        if s.capture is None or s.rule is None or s.rule.status != FITTED:
            return None
        error = s.capture.eager.error
        when = "at start-up" if s.capture.eager.phase == "setter" else "at the first forward pass"
        place = s.rule.source if s.capture.eager.phase == "setter" else s.rule.forward
    if not error:
        return ()
    asked = requested_text(s)
    return (
        Finding(
            "CAPTURE_CRASH",
            REFUSE,
            f"{engine(s)} raises {error} {when}: {drafter(s)} asks {target_class(s)} for {asked or ids_text(s)}",
            expected=stated_text(s),
            actual=f"{error} for {asked}, from {ids_text(s)}" if asked else f"{error} for {ids_text(s)}",
            source=source_text(s, place),
            remedy=layout_remedy(s),
        ),
    )


def foreign_state(s: Situation) -> Outcome:
    """What is captured is no residual stream."""
    if s.capture is None or s.rule is None or s.rule.status != FITTED:
        return None
    if not s.capture.eager.foreign:
        return ()
    return (
        Finding(
            "CAPTURE_FOREIGN_STATE",
            REFUSE,
            f"{engine(s)} hands {drafter(s)} {s.capture.eager.foreign} of {target_class(s)}, not its residual stream",
            expected=stated_text(s) or "the residual stream at the captured boundaries",
            actual=s.capture.eager.foreign,
            source=capture_source(s),
            remedy=layout_remedy(s),
        ),
    )


def default_used(s: Situation) -> Outcome:
    """No ids were read, so the release falls back to its own choice of layers."""
    if s.capture is None or s.rule is None or s.profile is None or s.capture_off:
        return None
    formula = s.ids_key == "formula"
    if not s.capture.defaulted and not formula:
        return ()
    got = eager_taps(s)
    if got is None:
        return None
    reading = s.profile.readings.get(s.method)
    declared = s.stated is not None and s.stated.confidence == "declared"
    keys = " or ".join(reading.keys) if reading is not None and reading.keys else ""
    why = f"{drafter(s)} has no usable {keys}" if keys else "this release reads no ids from a drafter's config"
    return (
        Finding(
            "CAPTURE_DEFAULT",
            NOTE if declared else WARN,
            f"{engine(s)} falls back without a message to {'a formula' if formula else 'its default layers'}"
            f" for {target_class(s)}: {why}",
            expected=stated_text(s) or "ids stated in the drafter's config",
            actual=describe_taps(got),
            source=source_text(s, reading.source if reading else None, s.rule.source),
            remedy=""
            if declared
            else "State the layers it was trained on: --boundaries or --output-ids, or a manifest.",
        ),
    )


def ids_elsewhere(s: Situation) -> Outcome:
    """The drafter states its ids under a key that this release does not read."""
    if s.profile is None or s.drafter is None or not s.method or s.method not in s.profile.readings or s.capture_off:
        return None
    reading, stated = s.profile.readings[s.method], s.drafter.layout
    if not stated.ids or not stated.key:
        return None
    if stated.key in reading.keys or s.ids_key not in {"", "formula"}:
        return ()
    got = eager_taps(s)
    fits = got is not None and s.stated is not None and same_taps(s.stated.layout.taps, got)
    return (
        Finding(
            "CAPTURE_IDS_IGNORED",
            NOTE if fits else WARN,
            f"{engine(s)} ignores {stated.key} = {list(stated.ids)} of {drafter(s)}",
            expected=f"ids read from {stated.key}",
            actual=f"reads {' or '.join(reading.keys)}" if reading.keys else "reads no ids at all",
            source=source_text(s, reading.source),
            remedy=layout_remedy(s) if s.stated is not None and not fits else "",
        ),
    )


def capture_off(s: Situation) -> Outcome:
    """The drafter's config switches aux capture off, although its `fc` was made for taps."""
    if not s.method or s.profile is None or s.drafter is None:
        return None
    reading = s.profile.readings.get(s.method)
    if reading is None or not reading.switch:
        return None
    if not s.capture_off:
        return ()
    taps = s.drafter.fc.taps if s.drafter.fc is not None else None
    trained = s.stated.layout.taps if s.stated is not None else ()
    several = (taps or 0) > 1 or len(trained) > 1
    return (
        Finding(
            "CAPTURE_OFF",
            REFUSE if several else NOTE,
            f"{reading.switch} is false in the config of {drafter(s)}: {engine(s)} captures nothing and feeds the"
            " target's final normed state",
            expected=stated_text(s) if several else "the target's final normed state",
            actual="the final norm's output alone",
            source=source_text(s, reading.source),
            remedy=f"Set {reading.switch} to true." if several else "",
        ),
    )


RULES = (
    Rule(
        "CAPTURE_NO_HOOK",
        "The target class can capture for this method",
        "The server loads the target for minutes and then dies (AttributeError or ValueError), because the class has "
        "no setter for the layers to capture.",
        "https://github.com/sgl-project/sglang/issues/37476",
        ("R02", "R26"),
        no_hook,
    ),
    Rule(
        "CAPTURE_OPAQUE",
        "What this release captures is known",
        "Guessing what a release captures is how heads end up reading the wrong layers; where its code fits no rule, "
        "the answer is unknown.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/models/llama.py",
        ("R26",),
        opaque,
    ),
    Rule(
        "CAPTURE_UNCOMPUTED",
        "What this launch captures was computed",
        "A comparison that was never made must not look like one that passed.",
        "https://github.com/sgl-project/sglang/issues/37476",
        ("R26",),
        computed,
    ),
    Rule(
        "CAPTURE_BROKEN",
        "The target class's hook works",
        "Some releases inherit or register a hook whose captured list is never filled or never returned: the server "
        "crashes at the first request, or feeds garbage.",
        "https://github.com/sgl-project/sglang/pull/25408",
        ("R26",),
        broken,
    ),
    Rule(
        "CAPTURE_CRASH",
        "These ids do not crash the release",
        "Ids beyond what a class captures raise after the whole target was loaded: IndexError in the setter, "
        "RuntimeError or TypeError at the first batch.",
        "https://github.com/sgl-project/sglang/issues/32204",
        ("R02", "R05"),
        crash,
    ),
    Rule(
        "CAPTURE_FOREIGN_STATE",
        "What is captured is the residual stream",
        "A class that captures a layer's branch without the residual gives states of the right shape that no drafter "
        "was trained on; nothing is ever accepted.",
        "https://github.com/sgl-project/sglang/blob/v0.5.17/python/sglang/srt/models/gemma3_causal.py",
        ("R02", "R26"),
        foreign_state,
    ),
    Rule(
        "CAPTURE_DEFAULT",
        "The layers do not come from a silent default",
        "A missing or misspelt key, or a null, makes the release capture its own default layers without a word.",
        "https://github.com/sgl-project/sglang/issues/37475",
        ("R01",),
        default_used,
    ),
    Rule(
        "CAPTURE_IDS_IGNORED",
        "The ids stand where this release reads them",
        "Ids at the top level, as vLLM and speculators write them, are ignored by SGLang: the default layers are used.",
        "https://github.com/vllm-project/speculators/issues/753",
        ("R01", "R10"),
        ids_elsewhere,
    ),
    Rule(
        "CAPTURE_OFF",
        "The drafter's config leaves capture on",
        "With eagle_config.use_aux_hidden_state false the engine feeds the final normed state, and fc is skipped "
        "without a message because the widths agree.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/model_executor/model_runner.py",
        ("R01", "R11"),
        capture_off,
    ),
)
