"""Contract x engine profile x launch -> verdict. Pure: everything was read before."""

from __future__ import annotations

from drafter_contracts.checkpoint.facts import CONTRADICTORY, PRODUCER_RULE, UNDECIDABLE
from drafter_contracts.engines.capture import (
    Capture,
    EffectiveCapture,
    capture_switched_off,
    effective_capture,
    final_state,
    read_ids,
    reading_shift,
    unmet_requirement,
)
from drafter_contracts.engines.profile import OPAQUE, CaptureMethod, Drafter, IdReading, Profile
from drafter_contracts.errors import ProfileError
from drafter_contracts.layout import describe_taps
from drafter_contracts.rules import RULES, find_rule
from drafter_contracts.serving.target import apply_overrides
from drafter_contracts.situation import Requirements, Situation, StatedLayout
from drafter_contracts.verdict import UNKNOWN, Verdict, conclude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.elsewhere import OtherRelease
    from drafter_contracts.engines.profile import Advisory
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.serving.launch import ServingConfig, TargetFacts
    from drafter_contracts.verdict import Finding

#: Algorithm as the engine runs it, to the method under which profiles keep its capture.
METHODS = {"EAGLE3": "EAGLE3", "DFLASH": "DFLASH", "DSPARK": "DSPARK"}
#: The rule that alone speaks of a launch that does not speculate.
NO_SPECULATION = "NO_SPECULATION"
#: The rule that speaks first where the release's parser refuses the command: it may be the algorithm that it refuses.
ARGUMENT_REFUSED = "ARGUMENT_REFUSED"


def assemble(  # noqa: PLR0913 - one keyword per thing that was read
    *,
    serving: ServingConfig,
    profile: Profile | None = None,
    engine: str = "",
    engine_guess: str = "",
    engine_problem: str = "",
    engine_remedy: str = "",
    drafter: DrafterFacts | None = None,
    drafter_name: str = "",
    drafter_problem: str = "",
    drafter_served: str | None = "",
    target: TargetFacts | None = None,
    target_problem: str = "",
    manifest: Manifest | None = None,
    stated_option: StatedLayout | None = None,
    advisories: Sequence[Advisory] = (),
    elsewhere: Sequence[OtherRelease] = (),
) -> Situation:
    """Bring together what was read, and compute what this launch would capture.

    Args:
        serving: The launch as the release reads it, adjustments applied.
        profile: The release; None if nothing is known of it.
        engine: What to call it if there is no profile.
        engine_guess: The name that the release was guessed from, or "".
        engine_problem: Why there is no profile, or "".
        engine_remedy: What would give one, or "".
        drafter: The drafter's facts, or None.
        drafter_name: What to call it.
        drafter_problem: Why there are no facts.
        drafter_served: In what the launch's own drafter differs from this one, "" if in nothing that headers, config
            and manifest tell, None if it is not on this machine.
        target: The target's facts, or None.
        target_problem: Why there are no facts.
        manifest: The drafter's manifest, or None.
        stated_option: The layout stated by option, or None; it beats the manifest, which beats the config.
        advisories: Those that concern this release.
        elsewhere: What other releases do with this drafter and target, oldest first, for remedies.

    Raises:
        ManifestError: The manifest's layout cannot exist on its target.
    """
    speculation = serving.speculation
    method = METHODS.get(speculation.algorithm, "")
    config = _effective_config(serving, profile, drafter)
    bundled = bool(speculation.algorithm) and bool(speculation.draft_path) and not speculation.stated_draft_path
    situation = Situation(
        serving=serving,
        profile=profile,
        engine=profile.name if profile is not None else engine,
        engine_guess=engine_guess,
        engine_problem=engine_problem,
        engine_remedy=engine_remedy,
        drafter=drafter,
        drafter_name=drafter_name or speculation.draft_path,
        drafter_problem=drafter_problem,
        drafter_served=drafter_served,
        target=target,
        target_problem=target_problem,
        stated=_stated(drafter, manifest, stated_option) if method else None,
        requirements=manifest.requirements() if manifest is not None else Requirements(),
        method=method,
        draft_class=_draft_class(profile, drafter),
        draft_config=config,
        bundled=bundled and speculation.draft_path == serving.target_path,
        advisories=tuple(advisories),
        elsewhere=elsewhere,
    )
    return _with_capture(situation)


def _effective_config(
    serving: ServingConfig, profile: Profile | None, drafter: DrafterFacts | None
) -> dict[str, object]:
    config = dict(drafter.config) if drafter is not None else {}
    if profile is not None and profile.launch.overrides.drafter:
        return apply_overrides(config, serving.overrides, merged=profile.launch.overrides.merged)
    return config


def _draft_class(profile: Profile | None, drafter: DrafterFacts | None) -> Drafter | None:
    if profile is None or drafter is None:
        return None
    # A target's own MTP layers are named by the target's class; in draft mode the release loads another.
    names = [profile.rewrites.get(name, name) for name in drafter.architectures]
    return next((profile.drafters[name] for name in names if name in profile.drafters), None)


def _stated(
    drafter: DrafterFacts | None, manifest: Manifest | None, option: StatedLayout | None
) -> StatedLayout | None:
    if option is not None:
        return option
    recorded = manifest.stated_layout() if manifest is not None else None
    if drafter is None or drafter.layout.layout is None:
        return recorded
    reading = drafter.layout
    # What a manifest took from the config by its producer's rule is no surer than the config.
    same = recorded is not None and recorded.layout.taps == drafter.layout.layout.taps
    if recorded is not None and not (same and recorded.confidence == PRODUCER_RULE):
        return recorded
    if reading.confidence in {CONTRADICTORY, UNDECIDABLE}:
        return recorded
    detail = f"config.json: {reading.key}" if reading.key else "config.json states no ids"
    how = f" ({reading.numbering})" if reading.numbering else ""
    return StatedLayout(drafter.layout.layout, "config", detail + how, reading.confidence)


def _with_capture(s: Situation) -> Situation:
    """The situation with the ids that the release reads and what it captures with them."""
    from msgspec.structs import replace

    profile, target = s.profile, s.target
    if profile is None or not s.method or target is None:
        return s
    rule = profile.capture_method(target.architecture, s.method)
    reading = profile.readings.get(s.method)
    n = target.num_layers
    s = replace(s, rule=rule)
    if reading is None or reading.status == OPAQUE or n is None or s.drafter is None:
        return s
    unmet = unmet_requirement(reading, s.draft_config)
    if unmet:
        return replace(s, ids_error=reading.error or "ValueError", ids_key=unmet)
    if capture_switched_off(reading, s.draft_config):
        off = EffectiveCapture(Capture(final_state(n)))
        return replace(s, capture_off=True, capture=off)
    ids, key, error = _read(reading, s, n)
    s = replace(s, ids=ids, ids_key=key, ids_error=error)
    if rule is None or error:
        return s
    return replace(s, capture=_capture(rule, s, profile, n))


def _read(reading: IdReading, s: Situation, n: int) -> tuple[tuple[int, ...] | None, str, str]:
    """Ids as they reach the setter, the key they come from, and the exception raised instead."""
    ids, key, error = read_ids(reading, s.draft_config, n=n)
    if ids is None or s.target is None or s.drafter is None:
        return ids, key, error
    moved = reading_shift(reading, s.target.model_type, s.drafter.architectures)
    return tuple(i + moved for i in ids), key, error


def _capture(rule: CaptureMethod, s: Situation, profile: Profile, n: int) -> EffectiveCapture | None:
    try:
        return effective_capture(rule, profile.graphs.get(s.method), n, s.ids, graphs_on=s.serving.cuda_graphs)
    except ProfileError:
        return None


def run(situation: Situation) -> Verdict:
    """Every rule's word on a situation, and the verdict that follows.

    A rule that has nothing to decide does not count as checked; with none that could decide the verdict is
    `unknown`. A launch without speculative decoding is allowed at once, unless the release's parser refuses it.
    """
    context = describe(situation)
    serving = situation.serving
    if situation.profile is not None and not serving.speculation.algorithm:
        only = ARGUMENT_REFUSED if serving.arguments.problems else NO_SPECULATION
        return conclude(find_rule(only).check(situation) or (), (only,), context)
    findings: list[Finding] = []
    checked: list[str] = []
    for rule in RULES:
        outcome = rule.check(situation)
        if outcome is None:
            continue
        findings.extend(outcome)
        if not any(finding.severity == UNKNOWN for finding in outcome):
            checked.append(rule.code)
    return conclude(findings, checked, context)


def describe(s: Situation) -> dict[str, str]:
    """What is compared, for printing: names, the trained layout and on whose word, and what will be captured."""
    context = {"engine": s.engine, "drafter": s.drafter_name, "algorithm": s.serving.speculation.algorithm}
    if s.target is not None:
        depth = f", {s.target.num_layers} layers" if s.target.num_layers is not None else ""
        context["target"] = f"{s.target.architecture or s.target.path}{depth}"
    if s.stated is not None:
        context["trained on"] = describe_taps(s.stated.layout.taps)
        context["stated by"] = f"{s.stated.origin}: {s.stated.detail}"
        if s.stated.origin == "config":
            context["confidence"] = s.stated.confidence
    if s.capture is not None:
        context["captures"] = _mode(s.capture.eager)
        if s.capture.replay is not None:
            context["graph replay"] = _mode(s.capture.replay)
    return {key: value for key, value in context.items() if value}


def _mode(capture: Capture) -> str:
    return f"{capture.error} ({capture.phase})" if capture.error else capture.foreign or describe_taps(capture.taps)
