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

_FIELDS = ("code", "title", "what_goes_wrong", "reference", "catalogue")


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Print one rule, or the list of rules."""
    from drafter_contracts.locking.codes import CODES
    from drafter_contracts.rules import RULES, explain

    code = parsed.word(0).upper().replace("-", "_")
    rules = {rule.code: {field: getattr(rule, field) for field in _FIELDS} for rule in RULES}
    known = rules | {one: _locked(one, *texts) for one, texts in CODES.items()}
    if code and code not in known:
        close = nearest(code, known)
        raise UsageError(f"there is no code {code}", f"did you mean {close}?" if close else "see drafters explain")
    if parsed.has("--json"):
        write_json(known[code] if code else list(known.values()))
    elif code in CODES:
        title, without = CODES[code]
        write(f"{code}\n\nWith --locked: {title}.\n\nWithout it, {without}.")
    elif code:
        write(explain(code))
    else:
        width = max(map(len, known))
        write("\n".join(f"{one:<{width}}  {told['title']}" for one, told in known.items()))
    return EXIT_OK


def _locked(code: str, title: str, without: str) -> dict[str, object]:
    """What a code of a locked start means: it has no rule, since it compares with a lock."""
    return {"code": code, "title": title, "what_goes_wrong": without, "reference": "", "catalogue": []}
