"""`drafters completion`: a script that completes command lines of `drafters`."""

from __future__ import annotations

from drafter_cli.commandline import JSON, Command, Parsed
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.terminal import write, write_json

_SHELLS = ("bash", "zsh", "fish")

COMMANDS = {
    "completion": Command(
        name="completion",
        summary="shell completion for bash, zsh or fish",
        description=(
            "Prints a script for the shell. It completes commands, options, their fixed values and files, and starts\n"
            "nothing while it does: names of stored drafters are not completed, as that would ask a registry on every\n"
            "key press."
        ),
        words=("SHELL",),
        options=(JSON,),
        examples=(
            ('eval "$(drafters completion bash)"', "bash: in ~/.bashrc"),
            ("drafters completion zsh > ~/.zfunc/_drafters", "zsh: a directory of $fpath"),
            ("drafters completion fish > ~/.config/fish/completions/drafters.fish", "fish"),
        ),
    ),
}


def run(command: Command, parsed: Parsed) -> int:
    """Print the script.

    Raises:
        UsageError: A shell for which there is none.
    """
    shell = parsed.word(0)
    if shell not in _SHELLS:
        raise UsageError(f"there is no {command.name} for {shell!r}", f"one of {', '.join(_SHELLS)}")
    from drafter_cli.completion.scripts import SHELLS

    script = SHELLS[shell]()
    if parsed.has("--json"):
        write_json({"shell": shell, "script": script})
    else:
        write(script)
    return EXIT_OK
