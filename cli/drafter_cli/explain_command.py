"""`drafters explain`: what a code means."""

from __future__ import annotations

from drafter_cli.commandline import JSON, Command, Parsed
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.nearest import nearest
from drafter_cli.terminal import write, write_json

COMMANDS = {
    "explain": Command(
        name="explain",
        summary="what a finding's code means and what goes wrong without it",
        description="Explains one code, or lists all of them.",
        words=("[CODE]",),
        options=(JSON,),
        examples=(
            ("drafters explain", "all codes"),
            ("drafters explain CAPTURE_LAYERS", "one code, with what goes wrong and a public reference"),
        ),
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Print one rule, or the list of rules."""
    from drafter_contracts.rules import RULES, explain

    code = parsed.word(0).upper().replace("-", "_")
    known = {rule.code: rule for rule in RULES}
    if code and code not in known:
        close = nearest(code, known)
        raise UsageError(f"there is no code {code}", f"did you mean {close}?" if close else "see drafters explain")
    chosen = [known[code]] if code else list(RULES)
    if parsed.has("--json"):
        fields = ("code", "title", "what_goes_wrong", "reference", "catalogue")
        rules = [{field: getattr(rule, field) for field in fields} for rule in chosen]
        write_json(rules[0] if code else rules)
    elif code:
        write(explain(code))
    else:
        width = max(len(rule.code) for rule in chosen)
        write("\n".join(f"{rule.code:<{width}}  {rule.title}" for rule in chosen))
    return EXIT_OK
