"""Check fitted rules: the gate's own interpreter must do on every option set what the release did."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import Flag, Source, SpeculativeRules
from drafter_contracts.engines.scan.launch_cases import MACHINES, REVISION, TARGET, Cases
from drafter_contracts.engines.scan.launch_fit import DESTS, Answer, Answers, SpeculativeFit, place, triple_of
from drafter_contracts.serving.speculation import NAMES, Request, Resolved, resolve


def request_of(case: dict[str, object], defaults: dict[str, object]) -> Request:
    """A case as the gate's interpreter takes it."""
    values: dict[str, object] = {**defaults, **case["values"]}  # type: ignore[dict-item]
    draft = case.get("draft")
    config = draft if isinstance(draft, dict) else None
    architectures = (config or {}).get("architectures")
    return Request(
        algorithm=str(values["speculative_algorithm"]),
        triple=tuple(values.get(name) for name in DESTS),  # type: ignore[arg-type]
        draft_path=str(values.get("speculative_draft_model_path") or ""),
        draft_revision=str(values.get("speculative_draft_model_revision") or ""),
        target_path=TARGET,
        target_revision=REVISION,
        architecture=str(case.get("architecture", "LlamaForCausalLM")),
        draft_architecture=str(architectures[0]) if isinstance(architectures, list) else "",
        draft_config=config if config is not None else {},
        values=values,
    )


def difference(resolved: Resolved, answer: Answer) -> str:
    """What the interpreter gets wrong about a case, or ""."""
    if resolved.unknown:
        return ""
    if "error" in answer:
        return "" if resolved.failure == answer["error"] else f"raises {answer['error']} at {place(answer)}"
    if resolved.failure:
        return f"does not raise {resolved.failure}"
    seen = (answer["speculative_algorithm"], triple_of(answer), answer.get("speculative_draft_model_path") or "")
    ours = (resolved.algorithm, resolved.triple, resolved.draft_path)
    return "" if seen == ours else f"gives {seen}, not {ours}"


def case_name(key: tuple[object, ...]) -> str:
    """A case's key for messages."""
    return " ".join(str(part) for part in key if not isinstance(part, tuple))


def skipped(key: tuple[object, ...], answers: Answers) -> bool:
    """Whether a case says nothing about speculation: what fails there fails without it, or on this machine."""
    if key[0] == "limit":
        return "error" in {**answers["limit", "", key[2]], **answers["limit", key[1], ""]}
    if key[0] == "pages":
        return "error" in answers[*key[:3], 1]
    if key[0] == "backend":
        earlier = MACHINES[: MACHINES.index(str(key[3]))]
        accepted = ["error" not in answers[*key[:3], machine, 1, 1] for machine in (*earlier, key[3])]
        return accepted != [*[False] * len(earlier), True]
    return key[0] == "number" and "error" in answers[key]


def fit_speculative(
    names: tuple[str, ...], flags: dict[str, Flag], cases: Cases, answers: Answers, source: Source | None
) -> SpeculativeRules:
    """The rules that reproduce what the release did; algorithms that none reproduces are named in `unfitted`.

    Args:
        names: Algorithms that the option takes.
        flags: The option table by dest.
        cases: What was tried.
        answers: What the release did.
        source: Where it does it.
    """
    rules = SpeculativeFit(names, flags, answers).rules(source)
    wrong: dict[str, str] = {}
    defaults = {dest: flag.default for dest, flag in flags.items()}
    for key, case in cases.cases.items():
        if key[0] in ("graph", "overlap", "lower") or "speculative_algorithm" not in case.values:
            continue
        if skipped(key, answers):
            continue
        request = request_of(msgspec.to_builtins(case), defaults)
        resolved = resolve(rules, request)
        if problem := difference(resolved, answers[key]):
            shown = ", ".join(f"{name}={value}" for name, value in zip(NAMES, request.triple, strict=True))
            wrong.setdefault(resolved.algorithm, f"{case_name(key)} ({shown}): the release {problem}")
    fixed = {name: table for name, table in rules.fixed.items() if name not in wrong}
    return msgspec.structs.replace(rules, unfitted={**rules.unfitted, **dict(sorted(wrong.items()))}, fixed=fixed)
