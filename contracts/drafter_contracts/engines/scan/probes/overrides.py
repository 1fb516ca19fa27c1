"""How `--json-model-override-args` reaches a config: the release's own code on recording objects."""

from __future__ import annotations

import ast
import json

from drafter_contracts.engines.scan.probes.extract import Site, compile_site, functions
from drafter_contracts.engines.scan.probes.recording import RecordingConfig
from drafter_contracts.engines.scan.standins import Standin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyRelease

CONFIG_FILE = "configs/model_config.py"
#: Who makes a ModelConfig from the launch's options: the class itself, before 0.4.6.post3 the worker.
MAKERS = ((CONFIG_FILE, "ModelConfig"), ("managers/tp_worker.py", "TpModelWorker"))
NAME = "model_override_args"
#: An override that changes nested objects, and the config it is applied to.
OVERRIDE: dict[str, object] = {
    "eagle_config": {"b": 2},
    "dflash_config": {"b": 2},
    "rope_scaling": {"b": 2},
    "rope_parameters": {"b": 2},
    "text_config": {"b": 2},
    "number": 5,
    "new": 7,
}


class SubConfig:
    """Stand-in of transformers' PretrainedConfig, for sub-configs."""

    def __init__(self) -> None:
        self.a = 1

    def update(self, values: dict[str, object]) -> None:
        """Set attributes."""
        self.__dict__.update(values)


def explore(release: LazyRelease) -> dict[str, object]:
    """Whether target and drafter get the override, and what becomes of each kind of value.

    Returns:
        "target" and "drafter": whether their ModelConfig is given the launch's override; "kinds": key to
        "replace", "merge" or "ignored"; "places": the two places; "failure": what could not be done, or "".
    """
    release.foreign("transformers.PretrainedConfig", SubConfig)
    result: dict[str, object] = {"target": False, "drafter": False, "kinds": {}, "places": [], "failure": ""}
    try:
        site, handed = _factory(release)
        result.update(handed)
        kinds, applied = _application(release)
        result["kinds"] = kinds
        result["places"] = [site, applied]
    except LookupError as error:
        result["failure"] = str(error)
    return result


def _factory(release: LazyRelease) -> tuple[dict[str, object], dict[str, object]]:
    """Where ModelConfig is made from the launch's options, and whether the override is handed to it."""
    if CONFIG_FILE not in release.sources:
        raise LookupError(f"no file {CONFIG_FILE}")
    for path, maker in MAKERS:
        tree = release.module(path)._index.tree if path in release.sources else ast.Module([], [])  # noqa: SLF001 - a lazy module's attributes are release names
        for owner, function in functions(tree):
            for node in ast.walk(function):
                if owner != maker or not isinstance(node, ast.keyword) or node.arg != NAME:
                    continue
                if "json_" + NAME in ast.unparse(node.value):
                    plain = not isinstance(node.value, ast.IfExp)
                    site = Site(path, owner, function, function.body[0])
                    return site.source(node.value), {"target": plain, "drafter": plain}
    raise LookupError(f"ModelConfig is never given {NAME}")


def _application(release: LazyRelease) -> tuple[dict[str, str], dict[str, object]]:
    """What the statement that applies the override does to each kind of value."""
    for path in sorted(release.sources):
        if "hf_transformers" not in path:
            continue
        tree = release.module(path)._index.tree  # noqa: SLF001 - as above
        for owner, function in functions(tree):
            if function.name != "get_config":
                continue
            for statement in reversed(function.body):
                if isinstance(statement, ast.If) and NAME in ast.unparse(statement.test):
                    site = Site(path, owner, function, statement)
                    return _apply(release, site), site.source()
    raise LookupError("no get_config that applies the override")


def _apply(release: LazyRelease, site: Site) -> dict[str, str]:
    nested = {"a": 1}
    values: dict[str, object] = {key: dict(nested) for key in OVERRIDE if key.endswith(("config", "ing", "parameters"))}
    config = RecordingConfig({**values, "text_config": SubConfig(), "number": 3}, set())
    override = json.loads(json.dumps(OVERRIDE))
    step, names = compile_site(release, site)
    known = {"config": config, NAME: override}
    step(**{name: known.get(name, Standin(name)) for name in names})
    kinds = {}
    for key, given in OVERRIDE.items():
        value = config.to_dict().get(key)
        value = vars(value) if isinstance(value, SubConfig) else value
        if value == given:
            kinds[key] = "replace"
        elif isinstance(given, dict) and value == {**nested, **given}:
            kinds[key] = "merge"
        else:
            kinds[key] = "ignored"
    return kinds
