"""Derive what a release does with a launch command: run its own code on many inputs, fit, and check the fit."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import ConfigFile, Flag, LaunchRules, ServeRule, Source, flag_dest
from drafter_contracts.engines.scan import launch_cases, launch_check, launch_entry, launch_graphs
from drafter_contracts.engines.scan.launch_cases import Cases
from drafter_contracts.engines.scan.sandbox import run_probe
from drafter_contracts.errors import ScanError
from drafter_contracts.serving.config_file import arguments_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from drafter_contracts.engines.scan.launch_fit import Answers
    from drafter_contracts.engines.scan.tree import SourceTree

PROBE = "launch"
TASKS = ("flags", "config", "serve", "plugins", "algorithms", "handler")
#: Files whose texts name the architectures and algorithms that the speculative options depend on.
SPECULATIVE_FILES = ("arg_groups/speculative_hook.py", "server_args.py", "speculative/spec_registry.py")


class Derivation:
    """One release's launch rules in the making.

    Attributes:
        files: Files of the release that were executed.
        unknown: What could not be derived, to why.
    """

    def __init__(self, tree: SourceTree, *, allow_unconfined: bool) -> None:
        self.tree = tree
        self.allow_unconfined = allow_unconfined
        self.sources = tree.sources()
        self.files: set[str] = set()
        self.unknown: dict[str, str] = {}
        self.answers = self.ask({"tasks": list(TASKS)})

    def ask(self, payload: dict[str, object]) -> dict[str, Any]:
        """One run of the probe."""
        answer: dict[str, Any] = run_probe(PROBE, self.sources, payload, allow_unconfined=self.allow_unconfined)
        for file in answer.pop("files"):
            beside = f"../{file}"  # the probe puts what lies beside the engine's folder into it
            self.files.add(beside if file not in self.sources and beside in self.sources else file)
        return answer

    def task(self, name: str) -> dict[str, Any]:
        """A task's answer; {} (and a note) where the release's own code failed."""
        answer = self.answers[name]
        if answer[0] == "error":
            self.unknown[name] = f"the release's own code raised {answer[1]}: {answer[2]}"
            return {}
        return dict(answer[1])

    def run(self, cases: Cases) -> Answers:
        """The cases' answers by key."""
        keys = list(cases.cases)
        payload: dict[str, object] = {
            "tasks": [],
            "cases": [msgspec.to_builtins(case) for case in cases.cases.values()],
        }
        return dict(zip(keys, self.ask(payload)["cases"], strict=True))

    # parts ----------------------------------------------------------------------------------------------------

    def flags(self) -> tuple[Flag, ...]:
        """The option table."""
        task = self.task("flags")
        if not task:
            raise ScanError("the release's options cannot be listed", actual=self.unknown.get("flags", ""))
        for name, reason in task["failed"].items():
            self.unknown[f"option {name}"] = reason
        rows = msgspec.convert(task["flags"], list[Flag])
        return tuple(
            msgspec.structs.replace(row, dest="") if flag_dest(Flag(row.names)) == row.dest else row for row in rows
        )

    def config_file(self, flags: tuple[Flag, ...]) -> ConfigFile | None:
        """How `--config` is merged, if the fit reproduces every key that was tried."""
        task = self.task("config")
        if not task:
            return None
        rule, reason = launch_entry.fit_config(task, flags)
        if reason:
            self.unknown["config"] = reason
            return None
        for key, (true, false, text) in task["keys"].items():
            for value, seen in ((True, true), (False, false), ("x", text)):
                argv, refused = arguments_of(rule, flags, {key: value})
                ours = ["error", "ValueError"] if refused else ["value", argv]
                if seen[:2] != ours:
                    self.unknown["config"] = f"key {key!r} set to {value!r} gives {seen[:2]}, the rule says {ours}"
                    return None
        return rule

    def serve(self) -> ServeRule | None:
        """What `sglang serve` does."""
        task = self.task("serve")
        if not task:
            return None
        rule, reason = launch_entry.fit_serve(task)
        if reason:
            self.unknown["serve"] = reason
        return rule

    def plugins(self) -> str:
        """The entry-point group."""
        groups = self.task("plugins").get("groups")
        return str(groups[0]) if isinstance(groups, list) and groups else ""

    def candidates(self, flags: dict[str, Flag]) -> tuple[str, ...]:
        """Names that may be algorithms: the option's choices, or every name of the release's own code that works."""
        flag = flags["speculative_algorithm"]
        if flag.choices:
            return tuple(str(choice) for choice in flag.choices)
        texts = [self.sources[path] for path in SPECULATIVE_FILES if path in self.sources]
        members = self.task("algorithms").get("members", [])
        names = {*launch_cases.names_in(texts)[1], *members} - {"NONE"}
        cases = Cases(flags)
        for name in sorted(names):
            cases.spec((name,), name, (3, 1, 4), {})
        answers = self.run(cases)
        return tuple(
            str(key[0]) for key, answer in answers.items() if "Unknown speculative" not in str(answer.get("text", ""))
        )


def derive(tree: SourceTree, *, allow_unconfined: bool = False) -> tuple[LaunchRules, set[str]]:
    """What a release does with a launch command, and the files of the release that were executed.

    `overrides`, `draft_quantization`, `draft_context` and `quantization_files` are derived elsewhere.

    Args:
        tree: The release.
        allow_unconfined: See `sandbox.run_probe`.

    Raises:
        ScanError: Its options cannot be listed at all.
    """
    work = Derivation(tree, allow_unconfined=allow_unconfined)
    flags = work.flags()
    table: dict[str, Flag] = {}
    for flag in flags:
        table.setdefault(flag_dest(flag), flag)
    names = work.candidates(table)
    toggles = launch_cases.graph_toggles(table)
    cases = _cases(work, table, names)
    launch_cases.add_graphs(cases, toggles)
    answers = work.run(cases)
    pairs = Cases(table)
    launch_cases.add_graph_pairs(pairs, toggles, launch_graphs.pairs(toggles, answers))
    handler = work.task("handler")
    place = msgspec.convert(handler, Source) if handler else None
    serve = work.serve()
    rules = LaunchRules(
        flags=flags,
        speculative=launch_check.fit_speculative(names, table, cases, answers, place),
        config_file=work.config_file(flags),
        entries=("launch_server", "serve") if serve is not None else ("launch_server",),
        plugins=work.plugins(),
        graphs=launch_graphs.fit(toggles, answers, work.run(pairs) if pairs.cases else {}),
        serve=serve,
        unknown=work.unknown,
    )
    return rules, work.files


def _cases(work: Derivation, table: dict[str, Flag], names: tuple[str, ...]) -> Cases:
    """Everything that the speculative options are tried on."""
    texts = [work.sources[path] for path in SPECULATIVE_FILES if path in work.sources]
    cases = Cases(table)
    launch_cases.add_algorithms(cases, names)
    launch_cases.add_architectures(cases, names, launch_cases.names_in(texts)[0])
    launch_cases.add_backends(cases, table)
    launch_cases.add_paged(cases, names, table)
    launch_cases.add_numbers(cases, names, table)
    launch_cases.add_limits(cases, names, table)
    launch_cases.add_overlap(cases)
    return cases
