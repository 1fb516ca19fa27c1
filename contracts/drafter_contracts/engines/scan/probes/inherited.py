"""What a drafter inherits from the launch: its context length and its quantisation, by the release's own code."""

from __future__ import annotations

import ast

from drafter_contracts.engines.scan.probes.extract import Site, calls, compile_site, functions
from drafter_contracts.engines.scan.standins import Standin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyRelease

CONFIG_FILE = "configs/model_config.py"
#: Who makes a drafter's ModelConfig from the launch's options: the class itself, before 0.4.6.post3 the worker.
MAKERS = ((CONFIG_FILE, "ModelConfig", "from_server_args"), ("managers/tp_worker.py", "TpModelWorker", "__init__"))
METHODS_FILE = "layers/quantization/__init__.py"
METHODS = "BASE_QUANTIZATION_METHODS"
#: A drafter's positions and the longer context of its target.
SHORT, LONG = 2048, 40960


class _Config:
    max_position_embeddings = SHORT


class _ModelConfig:
    """Stand-in of the drafter's ModelConfig."""

    def __init__(self) -> None:
        self.is_draft_model = True
        self.hf_config = self.hf_text_config = _Config()
        self.context_len = 0


class _Logger:
    def __getattr__(self, name: str) -> object:
        return lambda *_: None


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Run all three.

    Returns:
        "context": outcome without and with the variable that allows longer contexts, each "error", "warn" or
        "override", or "" where there is no such code; "quantization": source text of the drafter's quantisation;
        "where": its file;
        "files_needed": quantisation methods with file names of their own; "unseen": methods that could not be tried.
    """
    del payload
    result: dict[str, object] = {"context": ["", ""], "quantization": "", "where": "", "files_needed": [], "unseen": []}
    if CONFIG_FILE in release.sources:
        result["context"] = [_context(release, allowed=allowed) for allowed in (None, True)]
        result["quantization"], result["where"] = _quantization(release)
    if METHODS_FILE in release.sources:
        result["files_needed"], result["unseen"] = _methods(release)
    return result


def _tree(release: LazyRelease, path: str) -> ast.Module:
    return release.module(path)._index.tree  # noqa: SLF001 - a lazy module's attributes are the release's names


def _compares(node: ast.AST) -> bool:
    """`context_length > derived_context_len`."""
    return (
        isinstance(node, ast.Compare)
        and ast.unparse(node.left) == "context_length"
        and [type(operator) for operator in node.ops] == [ast.Gt]
        and ast.unparse(node.comparators[0]) == "derived_context_len"
    )


def _context(release: LazyRelease, *, allowed: bool | None) -> str:
    """What becomes of a drafter with fewer positions than the target's context.

    Args:
        release: The release.
        allowed: Value of the variable that allows longer contexts; None for the release's own default.
    """
    for owner, function in functions(_tree(release, CONFIG_FILE)):
        for statement in function.body:
            if isinstance(statement, ast.If) and any(_compares(node) for node in ast.walk(statement)):
                return _try(release, Site(CONFIG_FILE, owner, function, statement), allowed=allowed)
    return ""


def _try(release: LazyRelease, site: Site, *, allowed: bool | None) -> str:
    def variable(name: str, default: object = "false") -> bool:
        del name
        return str(default).lower() in ("true", "1") if allowed is None else allowed

    class Variable:
        def get(self) -> bool:
            return bool(allowed)

    class Variables:
        SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN = Variable()

    module = release.module(site.path)
    names = {"get_bool_env_var": variable, "envs": Variables(), "is_in_ci": lambda: False, "logger": _Logger()}
    for name, value in names.items():
        setattr(module, name, value)
    config = _ModelConfig()
    known = {
        "self": config,
        "context_length": LONG,
        "derived_context_len": SHORT,
        "is_draft_model": True,
    }
    step, parameters = compile_site(release, site)
    try:
        step(**{name: known.get(name, Standin(name)) for name in parameters})
    except Exception as error:  # noqa: BLE001 - whatever the release raises is the answer
        return "error" if type(error) is ValueError else ""
    if config.context_len != LONG:
        return ""
    return "override" if config.hf_text_config.max_position_embeddings == LONG else "warn"


def _quantization(release: LazyRelease) -> tuple[str, str]:
    """Source text of the quantisation that the drafter's ModelConfig gets from the launch's options, and its file."""
    for path, maker, name in MAKERS:
        tree = _tree(release, path) if path in release.sources else ast.Module([], [])
        for owner, function in functions(tree):
            if (owner, function.name) != (maker, name):
                continue
            for node in ast.walk(function):
                if calls("ModelConfig")(node) and isinstance(node, ast.Call):
                    found = [ast.unparse(key.value) for key in node.keywords if key.arg == "quantization"]
                    local = {
                        target.id: ast.unparse(statement.value)
                        for statement in ast.walk(function)
                        if isinstance(statement, ast.Assign)
                        for target in statement.targets
                        if isinstance(target, ast.Name)
                    }
                    return (local.get(found[0], found[0]), path) if found else ("", "")
    return "", ""


def _methods(release: LazyRelease) -> tuple[list[str], list[str]]:
    table = release.module(METHODS_FILE)._names[METHODS]  # noqa: SLF001 - as above
    needed, unseen = [], []
    for name, kind in table.items():
        try:
            files = kind.get_config_filenames()
        except Exception:  # noqa: BLE001 - a class that cannot be asked is recorded as such
            unseen.append(name)
            continue
        if isinstance(files, (list, tuple)) and all(isinstance(file, str) for file in files):
            if files:
                needed.append(name)
        else:
            unseen.append(name)
    return sorted(needed), sorted(unseen)
