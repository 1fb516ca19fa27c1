"""Whether a launch says anything of speculative decoding at all: those that do not are started at once.

Deliberately coarse, and only in one direction: whatever might turn speculation on goes through the whole gate, which
reads it as the release would. No profile, no target and no engine is looked at here.
"""

from __future__ import annotations

import os

from drafter_contracts import limits
from drafter_contracts.serving.invocation import read_invocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Every flag of SGLang that concerns speculation starts so; argparse's abbreviations of them are longer than this.
_PREFIX = "--sp"
_CONFIG = "--config"


def speaks_of_speculation(launch: Sequence[str]) -> bool:
    """False only for a readable engine launch whose options and `--config` file never mention speculation.

    Args:
        launch: The launch command.

    Raises:
        LaunchError: The command cannot be read.
    """
    invocation = read_invocation(launch)
    if not invocation.entry:
        return True
    arguments = invocation.arguments
    # Behind a shell or a tool that is not known, a word with a variable in it may yet become anything.
    literal = invocation.argv[-len(arguments) :] == arguments and invocation.python_environment != "unknown"
    for position, argument in enumerate(arguments):
        if argument.startswith(_PREFIX) or (not literal and ("$" in argument or "`" in argument)):
            return True
        name, equals, value = argument.partition("=")
        if len(name) > len("--c") and _CONFIG.startswith(name):
            following = arguments[position + 1] if position + 1 < len(arguments) else ""
            if _file_speaks(os.path.join(invocation.working_directory, value if equals else following)):
                return True
    return False


def _file_speaks(path: str) -> bool:
    """Whether a `--config` file mentions speculation anywhere, or cannot be read (then the gate must look)."""
    if not os.path.isfile(path):
        return True  # also a pipe: what is read from it here, the launch could not read again
    import yaml

    try:
        with open(path, "rb") as file:
            data = file.read(limits.launch_config_max_bytes + 1)
        if len(data) > limits.launch_config_max_bytes:
            return True
        return _mentions(yaml.safe_load(data))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return True


def _mentions(value: object) -> bool:
    """Any key or text, however nested, that the engine's parser could take for a flag of speculation."""
    if isinstance(value, dict):
        return any(_mentions(key) or _mentions(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple, set)):
        return any(_mentions(inner) for inner in value)
    return isinstance(value, str) and value.lstrip("-").lower().startswith("sp")
