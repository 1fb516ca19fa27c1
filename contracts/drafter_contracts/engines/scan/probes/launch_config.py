"""How a release merges `--config FILE`, and what `sglang serve` does to its arguments: run and recorded."""

from __future__ import annotations

import argparse
import posixpath

from drafter_contracts.engines.scan.probes import launch_flags
from drafter_contracts.engines.scan.probes.launch_setup import file, fresh, outcome
from drafter_contracts.engines.scan.standins import Standin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_contracts.engines.scan.lazy import LazyRelease

MERGERS = ("server_args_config_parser.py", "utils/server_args_config_parser.py")
SUFFIXES = (".yaml", ".yml", ".YAML", ".json", ".toml", ".txt", "")
PATH = "file.yaml"


class _Path:
    """As much of pathlib.Path as a check of a file's name needs; every path exists."""

    def __init__(self, path: str) -> None:
        self.suffix = posixpath.splitext(path)[1]

    def exists(self) -> bool:
        """Always."""
        return True

    is_file = exists


def _merger(release: LazyRelease, path: str) -> Callable[[object, list[str]], list[str]]:
    """The release's merger on a mapping instead of a file."""
    cls = file(release, path).ConfigArgumentMerger
    actions = _boolean_actions(release)
    merger = cls(launch_flags.registered(release)) if actions is None else cls(boolean_actions=actions)

    def merge(config: object, argv: list[str]) -> list[str]:
        # Where the merger gets names of switches, reading the file and converting it are one step.
        content = config if actions is None else merger._convert_config_to_args(config)  # noqa: SLF001 - that step
        merger._parse_yaml_config = lambda _path: content  # noqa: SLF001 - instead of a file
        return list(merger.merge_config_with_args(argv))

    return merge


def _boolean_actions(release: LazyRelease) -> list[str] | None:
    """The switches that `prepare_server_args` names to the merger; None where the merger gets the parser instead."""
    named: list[list[str]] = []

    class Recorder:
        def __init__(self, *_parser: object, boolean_actions: list[str] | None = None) -> None:
            if boolean_actions is not None:
                named.append(list(boolean_actions))

    other = fresh(release)
    other.replace("ConfigArgumentMerger", Recorder)
    outcome(lambda: file(other, launch_flags.SERVER_ARGS).prepare_server_args(["--config", PATH]))
    return named[0] if named else None


def _keys(parser: launch_flags.Parser) -> list[str]:
    found: dict[str, None] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no other listing
        found[action.dest] = None
        for name in action.option_strings:
            if name.startswith("--"):
                found[name[2:]] = None
    return [key for key in found if key not in ("config", "help")]


def _is_called(release: LazyRelease, argv: list[str]) -> bool:
    """Whether `prepare_server_args` reads a file for these arguments."""
    calls: list[list[str]] = []

    class Recorder:
        def __init__(self, *_args: object, **_named: object) -> None: ...

        def merge_config_with_args(self, argv: list[str]) -> list[str]:
            calls.append(argv)
            return []

    other = fresh(release)
    other.replace("ConfigArgumentMerger", Recorder)
    other.replace("ServerArgs", _NoOptions)
    outcome(lambda: file(other, launch_flags.SERVER_ARGS).prepare_server_args(argv))
    return bool(calls)


class _NoOptions:
    """Stands for ServerArgs where its options do not matter."""

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """The option under test only."""
        parser.add_argument("--config")

    @staticmethod
    def from_cli_args(args: object) -> object:
        """Nothing to make."""
        return args


def explore(release: LazyRelease) -> dict[str, object]:
    """The merger's answers; {} for a release that has none."""
    path = next((path for path in MERGERS if path in release.sources), "")
    if not path:
        return {}
    release = fresh(release)  # listing the options runs actions of the release, which may change it
    release.foreign("pathlib.Path", _Path)
    merge = _merger(release, path)
    flags = ["--config", PATH]
    parser = launch_flags.registered(release)
    keys = {
        key: [outcome(lambda value=value, key=key: merge({key: value}, flags)) for value in (True, False, "x")]  # type: ignore[misc]
        for key in _keys(parser)
    }
    samples: dict[str, object] = {
        "list": {"a-b": ["x", 1]},
        "empty list": {"a-b": []},
        "mapping": {"a-b": {"k": [True, None], "t": "it's"}},
        "number": {"a-b": 1.5},
        "null": {"a-b": None},
    }
    values = {name: outcome(lambda config=config: merge(config, flags)) for name, config in samples.items()}  # type: ignore[misc]
    validate = file(release, path).ConfigArgumentMerger(parser)._validate_yaml_file  # noqa: SLF001
    return {
        "keys": keys,
        "values": values,
        "order": outcome(lambda: merge({"a-b": "x"}, ["--p", "1", *flags, "--q", "2"])),
        "twice": outcome(lambda: merge({}, [*flags, *flags])),
        "suffixes": [s for s in SUFFIXES if outcome(lambda s=s: validate("file" + s))[0] == "value"],  # type: ignore[misc]
        "two-token": _is_called(release, flags),
        "equals": _is_called(release, [f"--config={PATH}"]),
        "place": release.place(file(release, path).ConfigArgumentMerger.merge_config_with_args),
    }


SERVE = "../cli/serve.py"
ARGV = ["--model-path", "m", "--tp-size", "8"]
SERVE_CASES = {
    "plain": ARGV,
    "positional": ["m", "--tp-size", "8"],
    "late positional": ["--tp-size", "8", "m"],
    "model type": ["--model-type", "llm", *ARGV],
    "model type equals": [*ARGV, "--model-type=llm"],
    "other model type": ["--model-type", "diffusion", *ARGV],
    "alias": ["--model", "m"],
    "no model": ["--tp-size", "8"],
}


def _serve(release: LazyRelease, argv: list[str]) -> list[object]:
    """What the server's own parser is given for `sglang serve ARGV`."""
    beside = {path[3:]: text for path, text in release.sources.items() if path.startswith("../cli/")}
    other = fresh(release, {**release.sources, **beside})
    seen: list[list[str]] = []

    def record(argv: list[str]) -> object:
        seen.append(list(argv))
        return Standin("server_args")

    other.replace("prepare_server_args", record)
    other.replace("get_is_diffusion_model", lambda *_args, **_kwargs: False)
    other.replace("is_registered_native_pipeline", lambda *_args, **_kwargs: False)
    for path in beside:
        name = path.removesuffix(".py").replace("/", ".")
        if name != "cli.__init__":
            other.foreign(f"sglang.{name}", other.module(path))
    answer = outcome(lambda: file(other, "cli/serve.py").serve(None, list(argv)))
    if seen:
        return ["value", seen[0]]
    return answer if answer[0] == "error" else ["value", None]


def explore_serve(release: LazyRelease) -> dict[str, object]:
    """What `sglang serve` hands on for each case; {} for a release without it."""
    if SERVE not in release.sources:
        return {}
    return {name: _serve(release, argv) for name, argv in SERVE_CASES.items()}


def explore_plugins(release: LazyRelease) -> dict[str, object]:
    """The entry-point group that the release loads plugins from; {} if it loads none."""
    if "plugins/__init__.py" not in release.sources:
        return {}
    groups: list[str] = []
    other = fresh(release)

    def entry_points(**selection: object) -> list[object]:
        groups.append(str(selection.get("group", "")))
        return []

    other.foreign("importlib.metadata.entry_points", entry_points)
    load = file(other, "plugins/__init__.py").load_plugins
    answer = outcome(load)
    return {"groups": groups, "outcome": answer[:2], "place": other.place(load)}
