"""Every rule of a check. One rule, one function, one code, one page of documentation."""

from __future__ import annotations

from drafter_contracts.errors import InputError
from drafter_contracts.rules import (
    combination,
    command,
    draft_class,
    draft_files,
    draft_parts,
    fusion,
    hooks,
    layers,
    numbering,
    precision,
    runtime,
    speculation,
    target,
    vocabulary,
)
from drafter_contracts.rules.rule import Rule

__all__ = ["RULES", "Rule", "explain", "find_rule"]

RULES: tuple[Rule, ...] = (
    *command.RULES,
    *hooks.RULES,
    *layers.RULES,
    *numbering.RULES,
    *fusion.RULES,
    *draft_class.RULES,
    *draft_parts.RULES,
    *draft_files.RULES,
    *vocabulary.RULES,
    *speculation.RULES,
    *target.RULES,
    *runtime.RULES,
    *precision.RULES,
    *combination.RULES,
)


def find_rule(code: str) -> Rule:
    """The rule of a code, in any spelling of case.

    Raises:
        InputError: No rule has it; names the nearest.
    """
    wanted = code.strip().upper().replace("-", "_")
    for rule in RULES:
        if rule.code == wanted:
            return rule
    from difflib import get_close_matches

    near = get_close_matches(wanted, [rule.code for rule in RULES], n=1, cutoff=0.4)
    raise InputError(
        f"no rule has the code {code!r}",
        where="code",
        expected=f"a code such as {near[0]}" if near else "one of the codes that `drafters check` prints",
        actual=code,
    )


def explain(code: str) -> str:
    """What a rule checks, what goes wrong without it, and where that was seen.

    Raises:
        InputError: No rule has this code.
    """
    rule = find_rule(code)
    checks = (rule.check.__doc__ or "").strip()
    return (
        f"{rule.code}: {rule.title}\n\n"
        f"Checks: {checks}\n\n"
        f"Without it: {rule.what_goes_wrong}\n\n"
        f"Seen in: {rule.reference}\n"
        f"Field catalogue: {', '.join(rule.catalogue)}\n"
    )
