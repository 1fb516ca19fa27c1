"""`drafters check`: the verdict on a launch, printed."""

from __future__ import annotations

import sys

from drafter_cli.commandline import Command, Parsed
from drafter_cli.errors import exit_code_of_decision
from drafter_cli.gate_options import OPTIONS, judged, request
from drafter_cli.terminal import Style, colours, write, write_json

COMMANDS = {
    "check": Command(
        name="check",
        summary="would this launch feed the drafter the states it was trained on?",
        description=(
            "Reads the launch as that engine release would, the drafter's and the target's files (never the weights),\n"
            "and compares the hidden states that the engine will capture with those the drafter was trained on.\n"
            "Nothing is started. Exits with 0 for allow and warn, 3 for refuse, 5 for unknown."
        ),
        words=("[DRAFTER]",),
        options=OPTIONS,
        examples=(
            ("drafters check -- $(cat launch.txt)", "everything from the launch"),
            (
                "drafters check --engine sglang==0.5.23 --output-ids 2,30,58 -- python -m sglang.launch_server ...",
                "another release than the installed one, and the layout on your word",
            ),
            ("drafters check kimi-eagle3@prod -- $(cat launch.txt)", "a drafter of the registry, fetched if need be"),
            ("drafters check --locked -- $(cat launch.txt)", "against drafters.lock, offline"),
            ("drafters check --json -- sglang serve ... | jq -r '.findings[].remedy'", "for a program"),
        ),
        launch=True,
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Print the verdict; returns its exit code."""
    asked = request(parsed)
    from drafter_cli.verdict_view import document, render

    verdict = judged(asked)
    if parsed.has("--json"):
        write_json(document(verdict))
    else:
        write(render(verdict, Style(on=colours(sys.stdout))))
    return exit_code_of_decision(verdict.decision)
