"""Manifest, files, target and vLLM release to `--speculative-config`, and to the config that its drafter needs.

vLLM has no option for the layers to capture: every id comes from the drafter's config. Where that is not right for
every runner that the release may choose, a changed config is looked for; what is given out has passed every check.
"""

from __future__ import annotations

import msgspec

from drafter_contracts import check
from drafter_contracts.checkpoint.facts import DFLASH, DFLASH2, EAGLE3, P_EAGLE
from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.errors import LaunchError
from drafter_contracts.launch import vllm_config, vllm_numbers, vllm_rules
from drafter_contracts.launch.algorithm import method_of
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER, Plan, Wishes
from drafter_contracts.launch.target_facts import is_believed, target_of_record
from drafter_contracts.launch.vllm_case import METHODS, PARALLEL, Case, assemble
from drafter_contracts.layout import describe_taps
from drafter_contracts.rendering.records import UNCHANGED, WeightChange
from drafter_contracts.rendering.reorder import reordered
from drafter_contracts.rules import find_rule
from drafter_contracts.serving.launch import Invocation, ServingConfig, Speculation
from drafter_contracts.verdict import ALLOW, REFUSE, UNKNOWN, WARN, Finding, Verdict, conclude

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.engines.vllm.profile import VllmProfile
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.serving.launch import TargetFacts

FLAG = "--speculative-config"
_SPELLINGS = (FLAG, "--speculative_config", "-sc")
_HUB = "hf://"
#: Rules that compare drafter, manifest and target, whatever the engine.
_GENERAL = (
    "DRAFTER_CONTRADICTION", "LAYOUT_UNSTATED", "LAYOUT_DIFFERS", "NUMBERING_UNDECLARED", "TARGET_ARCHITECTURE",
    "TARGET_DEPTH", "TARGET_WIDTH", "TARGET_VOCABULARY", "TARGET_TOKENIZER", "TARGET_BASIS", "THINKING_MODE",
)  # fmt: skip
#: Methods whose capture the shared rules know under another's name.
_SHARED = {P_EAGLE: EAGLE3, DFLASH2: DFLASH}
_NO_WISHES = Wishes()


class _Attempt(msgspec.Struct, frozen=True):
    """A config, and what the checks say of it."""

    case: Case
    verdict: Verdict
    edited: vllm_config.Edited | None = None

    @property
    def good(self) -> bool:
        return self.verdict.decision in {ALLOW, WARN}


def plan(
    *,
    manifest: Manifest,
    facts: DrafterFacts,
    profile: VllmProfile,
    target: TargetFacts | None = None,
    draft_path: str = "",
    wishes: Wishes = _NO_WISHES,
    name: str = "",
    sglang: Profile | None = None,
) -> Plan:
    """The option with which a vLLM release serves a drafter, or the verdict that says why it cannot.

    Args:
        manifest: The drafter's contract.
        facts: What its files say.
        profile: The release.
        target: What the target's config says; None to believe the manifest's record.
        draft_path: Where the drafter's files will lie for the engine; "" leaves `PATH_PLACEHOLDER`.
        wishes: The caller's numbers and further options.
        name: What to call the drafter in messages.
        sglang: A release of SGLang that a changed config shall suit, too; None for no such wish.

    Raises:
        LaunchError: Further options that state what the answer is made of.
        ManifestError: The manifest's layout cannot exist on its target.
    """
    _check_extra(wishes.extra)
    known = target if target is not None else target_of_record(manifest.target)
    called = name or f"{manifest.name} {manifest.version}".strip() or facts.path
    case = Case(profile, manifest, facts, known, called, method_of(manifest, facts))
    best = _best(case, sglang)
    drafted = vllm_numbers.choose(best.case, wishes)
    verdict = conclude((*best.verdict.findings, *drafted.findings), best.verdict.checked, best.verdict.context)
    told = (*drafted.notices, *_notices(best, wishes))
    if verdict.decision in {REFUSE, UNKNOWN}:
        missing = (vllm_numbers.NUMBER,) if best.good and drafted.tokens is None else ()
        return Plan(profile.name, _explained(best, verdict), missing=missing, notices=told)
    edited = best.edited
    return Plan(
        profile.name,
        verdict,
        _flags(best.case, draft_path or PATH_PLACEHOLDER, drafted.tokens),
        edited.config if edited is not None and edited.config != facts.config else None,
        (*edited.changes, *_reordered(best.case, edited)) if edited is not None else (),
        WeightChange(edited.order) if edited is not None and edited.order else UNCHANGED,
        notices=told,
    )


def _check_extra(extra: tuple[str, ...]) -> None:
    stated = [word for word in extra if word.partition("=")[0].partition(".")[0] in _SPELLINGS]
    if stated or "--" in extra:
        raise LaunchError(
            "options that the answer itself is made of",
            where="extra options",
            expected="other options of the launch; the number of steps is a wish of its own",
            actual=", ".join(stated) or "--",
        )


def _best(case: Case, sglang: Profile | None) -> _Attempt:
    """The drafter as it is if that will do, else with a changed config; else whatever is less wrong."""
    own = _judged(case)
    if own.good:
        return own
    edited = vllm_config.edited(own.case, sglang)
    if edited.config == case.facts.config and not edited.order:
        return own
    changed = _judged(msgspec.structs.replace(case, facts=_facts(own.case, edited.config)), edited, case.facts)
    return changed if changed.good or _rank(changed) < _rank(own) else own


def _rank(attempt: _Attempt) -> tuple[int, int]:
    severities = [finding.severity for finding in attempt.verdict.findings]
    return severities.count(REFUSE), severities.count(UNKNOWN)


def _facts(case: Case, config: dict[str, object]) -> DrafterFacts:
    """The drafter's facts with another config."""
    made = drafter_facts(
        config,
        case.facts.tensors,
        path=case.facts.path,
        weights=case.facts.weights,
        target_layers=case.target.num_layers,
        target_hidden_size=case.target.hidden_size,
        target_model_type=case.target.text_model_type,
    )
    return msgspec.structs.replace(made, quantization=made.quantization or case.facts.quantization)


def _judged(case: Case, edited: vllm_config.Edited | None = None, published: DrafterFacts | None = None) -> _Attempt:
    """What every check says of the drafter with this config, its blocks in the order that the render gives them.

    Whether a drafter contradicts itself or its manifest is asked of the files as they were published: a render has ids
    in the numberings of two engines side by side.
    """
    manifest = reordered(case.manifest, edited.order) if edited is not None else case.manifest
    algorithm = _SHARED.get(case.method, case.method)
    situation = check.assemble(
        serving=ServingConfig(Invocation(()), speculation=Speculation(algorithm, algorithm)),
        engine=case.profile.name,
        drafter=published or case.facts,
        drafter_name=case.name,
        target=case.target,
        manifest=manifest,
    )
    case = assemble(msgspec.structs.replace(case, manifest=manifest, stated=situation.stated))
    findings: list[Finding] = []
    checked: list[str] = []
    outcomes = [(code, find_rule(code).check(situation)) for code in _GENERAL]
    outcomes += [(code, one(case)) for code, one in vllm_rules.CHECKS]
    for code, outcome in outcomes:
        findings += outcome or ()
        if outcome is not None and not any(one.severity == UNKNOWN for one in outcome):
            checked.append(code)
    return _Attempt(case, conclude(findings, checked, _context(case)), edited)


def _context(case: Case) -> dict[str, str]:
    """What is compared, for printing."""
    layers = case.target.num_layers
    told = {
        "engine": case.profile.name,
        "drafter": case.name,
        "method": METHODS.get(case.method, case.method),
        "target": f"{case.target.architecture or case.target.path}{f', {layers} layers' if layers is not None else ''}",
        "trained on": describe_taps(case.stated.layout.taps) if case.stated is not None else "",
        "stated by": f"{case.stated.origin}: {case.stated.detail}" if case.stated is not None else "",
    }
    told |= {
        f"{fed.runner} captures": fed.capture.error or describe_taps(fed.capture.taps)
        for fed in case.fed()
        if fed.capture is not None
    }
    return {key: value for key, value in told.items() if value}


def _explained(best: _Attempt, verdict: Verdict) -> Verdict:
    """Why no config helps, said where the layers are wrong."""
    found = vllm_config.solution(best.case)
    if found is None or found.found or not found.reason:
        return verdict
    remedy = f"No ids help: {found.reason}."
    findings = [
        msgspec.structs.replace(one, remedy=one.remedy or remedy) if one.code.startswith("CAPTURE_") else one
        for one in verdict.findings
    ]
    return conclude(findings, verdict.checked, verdict.context)


def _flags(case: Case, path: str, tokens: int | None) -> tuple[str, ...]:
    document: dict[str, object] = {"method": METHODS[case.method], "model": path}
    if tokens is not None:
        document[vllm_numbers.NUMBER] = tokens
    if case.method == P_EAGLE:
        document[PARALLEL] = True
    provenance = case.manifest.provenance
    if provenance.revision and provenance.source == f"{_HUB}{path}":
        document["revision"] = provenance.revision
    return FLAG, msgspec.json.encode(document).decode()


def _reordered(case: Case, edited: vllm_config.Edited) -> tuple[str, ...]:
    if not edited.order or case.stated is None:
        return ()
    fed = describe_taps(case.stated.layout.taps)
    told = f"the column blocks of fc, and norms before it, are put in the order {list(edited.order)} of the trained one"
    return (f"{told}: {case.engine} concatenates {fed}, whatever the order of the ids",)


def _notices(best: _Attempt, wishes: Wishes) -> tuple[str, ...]:
    told = list(best.edited.notices) if best.edited is not None else []
    if is_believed(best.case.target):
        told.append("the target's config.json was not given: what the manifest records of it was believed")
    if wishes.extra:
        told.append(
            f"the further options were not looked at: how {best.case.engine} reads its launch is not known here"
        )
    return tuple(told)
