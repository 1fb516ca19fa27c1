"""What `drafters guard` has decided of a launch, the plugin in that launch's engine does not decide again.

The guard may know more: a layout or a manifest by option, another mode. It hands the launch over in a variable, and
only where the plugin is installed: elsewhere the launch's environment stays as it is.
"""

from __future__ import annotations

import os

from drafter_cli.plugin.entry import NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.serving.launch import Invocation

VARIABLE = "DRAFTERS_GUARDED"
_DISTRIBUTION = "drafter_registry-"
_GROUP = "[sglang.srt.plugins]"


def hand_over(launch: Sequence[str]) -> None:
    """Note in this process's environment, which the launch inherits, that the launch was decided here.

    Args:
        launch: The command that this process is about to become.
    """
    from drafter_cli.plain_launch import speaks_of_speculation
    from drafter_contracts.errors import ContractsError
    from drafter_contracts.serving.invocation import read_invocation

    try:
        if not speaks_of_speculation(launch):
            return
        invocation = read_invocation(launch)
        if installed(invocation):
            os.environ[VARIABLE] = _mark(invocation.arguments)
    except (ContractsError, OSError):  # what cannot be read here was decided, or let pass, for that very reason
        return


def handed_over(argv: Sequence[str]) -> bool:
    """Whether the guard became this process with these very arguments.

    Args:
        argv: The process's own arguments, its program first.
    """
    noted = os.environ.get(VARIABLE, "")
    own = list(argv[2:] if list(argv[1:2]) == ["serve"] else argv[1:])
    return bool(noted) and noted == _mark(own)


def installed(invocation: Invocation) -> bool:
    """Whether the plugin is installed where a launch's interpreter looks for packages."""
    from drafter_contracts.serving.installed import module_path

    return any(_declared(directory) for directory in module_path(invocation))


def left_out(selection: str) -> bool:
    """Whether a value of SGLANG_PLUGINS leaves this plugin out."""
    return bool(selection) and NAME not in [name.strip() for name in selection.split(",")]


def _declared(directory: str) -> bool:
    try:
        names = [name for name in os.listdir(directory) if name.startswith(_DISTRIBUTION)]
    except OSError:
        return False
    for name in names:
        try:
            with open(os.path.join(directory, name, "entry_points.txt"), encoding="utf-8") as file:
                if _GROUP in file.read():
                    return True
        except (OSError, UnicodeDecodeError):
            continue
    return False


def _mark(arguments: Sequence[str]) -> str:
    from hashlib import sha256

    return sha256("\0".join(arguments).encode("utf-8", "surrogateescape")).hexdigest()
