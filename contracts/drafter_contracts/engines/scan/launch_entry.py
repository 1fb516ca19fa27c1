"""Fit what a release does with `--config` and with `sglang serve`."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import ConfigFile, Flag, ServeRule, Source, flag_dest


def fit_config(task: dict[str, object], flags: tuple[Flag, ...]) -> tuple[ConfigFile, str]:
    """The merger's rule, and why there is none ("" if there is one)."""
    values = {name: answer[1] for name, answer in task["values"].items()}  # type: ignore[attr-defined]
    mapping = values["mapping"]
    kinds = {'{"k": [true, null], "t": "it\'s"}': "json", str({"k": [True, None], "t": "it's"}): "repr"}
    order = task["order"][1]  # type: ignore[index]
    expected = {"list": ["--a-b", "x", "1"], "empty list": [], "number": ["--a-b", "1.5"], "null": ["--a-b", "None"]}
    wrong = [name for name, argv in expected.items() if values[name] != argv]
    if wrong or mapping[:1] != ["--a-b"] or mapping[-1] not in kinds:
        return ConfigFile(), f"values are written in another way: {wrong or mapping}"
    if order != ["--a-b", "x", "--p", "1", "--q", "2"]:
        return ConfigFile(), f"the file's options go elsewhere: {order}"
    keys: dict[str, list[list[object]]] = task["keys"]  # type: ignore[assignment]
    rejects = {key.replace("-", "_") for key, (true, _, _) in keys.items() if true[0] == "error"}
    switches = {key.replace("-", "_") for key, (true, _, _) in keys.items() if true == ["value", [f"--{key}"]]}
    dests = {flag_dest(flag): flag for flag in flags if flag.action == "store_true"}
    named = {name[2:].replace("-", "_") for flag in dests.values() for name in flag.names if name.startswith("--")}
    beyond = named - rejects - set(dests)
    spellings = "names" if beyond and beyond <= switches else "dest"
    if keys and all(false == ["value", []] for _, false, _ in keys.values()):
        spellings = "any"
    forms = [form for form in ("two-token", "equals") if task[form]]
    return (
        ConfigFile(
            forms=tuple(forms),
            mapping=kinds[mapping[-1]],
            rejects_actions=bool(rejects),
            rejects=tuple(sorted(rejects)),
            key_spellings=spellings,
            not_switches=tuple(sorted(set(dests) - switches)),
            suffixes=tuple(s for s in task["suffixes"] if s == str(s).lower()),  # type: ignore[attr-defined]
            source=msgspec.convert(task["place"], Source),
        ),
        "",
    )


def fit_serve(task: dict[str, object]) -> tuple[ServeRule, str]:
    """What `sglang serve` does, and what of it fits no rule."""
    plain = ["value", ["--model-path", "m", "--tp-size", "8"]]

    def same(name: str) -> bool:
        return task[name] == plain

    spellings = ("--model-path",) if task["alias"][0] == "error" else ("--model-path", "--model")  # type: ignore[index]
    rule = ServeRule(
        positional=same("positional"),
        model_type=same("model type") and same("model type equals"),
        needs=spellings if task["no model"][0] == "error" else (),  # type: ignore[index]
        source=Source("../cli/serve.py", "serve"),
    )
    return rule, "" if same("plain") else f"plain arguments are changed: {task['plain']}"
