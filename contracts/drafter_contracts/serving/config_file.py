"""Merge a launch's `--config FILE` into its arguments, in the order and with the conversions of one release."""

from __future__ import annotations

import os

from drafter_contracts import limits
from drafter_contracts.engines.launch_rules import ConfigFile, Flag, flag_dest
from drafter_contracts.serving.launch import ArgumentProblem
from drafter_contracts.serving.parse import COMMAND_LINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OPTION = "--config"


class Merged:
    """The outcome of a merge.

    Attributes:
        argv: What the release's parser sees.
        origins: For each token, "command line" or the file's path.
        problems: Why the release would stop.
        path: The file that was read, or "".
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self.argv = list(argv)
        self.origins = [COMMAND_LINE] * len(argv)
        self.problems: list[ArgumentProblem] = []
        self.path = ""


def _switches(rule: ConfigFile, flags: Sequence[Flag]) -> set[str]:
    """Keys that a bare flag is written for when the file says true."""
    keys = set()
    for flag in flags:
        if flag.action == "store_true" and flag_dest(flag) not in rule.not_switches:
            keys.add(flag_dest(flag))
            if rule.key_spellings == "names":
                keys.update(name[2:].replace("-", "_") for name in flag.names if name.startswith("--"))
    return keys


def _mapping_text(rule: ConfigFile, value: dict[object, object]) -> str:
    if rule.mapping == "repr":
        return str(value)
    from json import dumps

    return dumps(value)


def arguments_of(
    rule: ConfigFile, flags: Sequence[Flag], config: dict[object, object]
) -> tuple[list[str], list[tuple[str, str]]]:
    """The file's contents as arguments, and (key, what is wrong) for what the release would refuse.

    Args:
        rule: How the release converts.
        flags: Its flag table.
        config: The file's mapping, as YAML reads it.
    """
    switches = _switches(rule, flags)
    argv: list[str] = []
    refused: list[tuple[str, str]] = []
    for key, value in config.items():
        if not isinstance(key, str):
            refused.append((str(key), "a text key (quote it)"))
            continue
        normal = key.replace("-", "_")
        if normal in rule.rejects:
            refused.append((key, "an option that this release takes from a file (not this one)"))
        elif isinstance(value, bool):
            if rule.key_spellings != "any" and normal not in switches:
                argv += [f"--{key}", str(value).lower()]
            elif value:
                argv.append(f"--{key}")
        elif isinstance(value, list):
            argv += [f"--{key}", *(str(item) for item in value)] if value else []
        elif isinstance(value, dict):
            try:
                argv += [f"--{key}", _mapping_text(rule, value)]
            except TypeError as error:
                refused.append((key, f"a JSON value ({error})"))
        else:
            argv += [f"--{key}", str(value)]
    return argv, refused


def _load(path: str, shown: str, rule: ConfigFile) -> tuple[dict[object, object], ArgumentProblem | None]:
    """The file's mapping, or why the release would stop."""

    def problem(expected: str) -> tuple[dict[object, object], ArgumentProblem]:
        return {}, ArgumentProblem("config_file", OPTION, shown, expected)

    if os.path.splitext(path)[1].lower() not in rule.suffixes:
        return problem("a file named " + " or ".join(f"*{suffix}" for suffix in rule.suffixes))
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            return problem("a regular file: what is read here from a pipe, the launch could not read again")
        size = os.path.getsize(path)
        if size > limits.launch_config_max_bytes:
            return problem(f"a file of at most {limits.launch_config_max_bytes} bytes, this one has {size}")
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        return problem(f"a readable file ({error})")
    import yaml

    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = str(getattr(error, "problem_mark", None) or error).strip()
        return problem(f"valid YAML ({where})")
    if config is None:
        return {}, None
    return (config, None) if isinstance(config, dict) else problem("a mapping at the top level")


def merge(rule: ConfigFile | None, flags: Sequence[Flag], argv: Sequence[str], *, directory: str = "") -> Merged:
    """The arguments that the release's parser sees.

    Args:
        rule: How the release merges; None if it has no such option (then the arguments stay as they are).
        flags: Its flag table.
        argv: Arguments as given.
        directory: Directory that the launch runs in, for a relative path; "" for the current one.
    """
    merged = Merged(argv)
    if rule is None or OPTION not in argv:
        return merged
    index = merged.argv.index(OPTION)
    if merged.argv.count(OPTION) > 1 or index == len(argv) - 1:
        expected = "one file" if merged.argv.count(OPTION) > 1 else "a file after it"
        merged.problems.append(ArgumentProblem("config_file", OPTION, "", expected))
        return merged
    shown = merged.argv[index + 1]
    config, problem = _load(os.path.join(directory, shown), shown, rule)
    extra, refused = arguments_of(rule, flags, config)
    rest = merged.argv[:index] + merged.argv[index + 2 :]
    merged.path = shown
    merged.argv = extra + rest
    merged.origins = [shown] * len(extra) + [COMMAND_LINE] * len(rest)
    if problem is not None:
        merged.problems.append(problem)
    merged.problems += [ArgumentProblem("config_file", f"--{key}", shown, expected) for key, expected in refused]
    return merged
