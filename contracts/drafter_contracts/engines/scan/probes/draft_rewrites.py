"""Which class a target's own checkpoint becomes when it is loaded as a drafter (its built-in MTP layers)."""

from __future__ import annotations

import ast

from drafter_contracts.engines.scan.probes.draft_build import MISSING, MORE, guess
from drafter_contracts.engines.scan.probes.extract import Site, compile_site, functions
from drafter_contracts.engines.scan.probes.recording import RecordingConfig
from drafter_contracts.engines.scan.standins import Standin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_contracts.engines.scan.lazy import LazyRelease

CONFIG_FILE = "configs/model_config.py"


def rewrites(release: LazyRelease) -> dict[str, str]:
    """Architecture of a checkpoint to the class it is loaded as in draft mode, where that is another one."""
    if CONFIG_FILE not in release.sources:
        return {}
    found = _statements(release)
    steps = [compile_site(release, site) for site in found]
    names = {
        node.value
        for site in found
        for node in ast.walk(site.statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
    }
    module = release.module(CONFIG_FILE)
    for site in found:  # names of groups of architectures, kept in constants of the file
        for node in ast.walk(site.statement):
            if isinstance(node, ast.Name) and node.id.isupper() and node.id in module:
                value = module[node.id]
                names.update(str(v) for v in value if isinstance(v, str)) if isinstance(
                    value, (list, tuple, set)
                ) else None
    result = {}
    for name in sorted(names):
        after = _run(steps, name)
        if after and after != name:
            result[name] = after
    return result


def _statements(release: LazyRelease) -> list[Site]:
    """Statements of ModelConfig that change the architecture of a draft model."""
    tree = release.module(CONFIG_FILE)._index.tree  # noqa: SLF001 - a lazy module's attributes are the release's names
    found = []
    for owner, function in functions(tree):
        if owner != "ModelConfig":
            continue
        for statement in function.body:
            text = ast.unparse(statement)
            if isinstance(statement, ast.If) and "is_draft_model" in text and "architectures" in text:
                found.append(Site(CONFIG_FILE, owner, function, statement))
    return found


def _run(steps: list[tuple[Callable[..., object], list[str]]], name: str) -> str:
    config = RecordingConfig({**MORE, "architectures": [name], "num_hidden_layers": 4, "hidden_size": 64}, set())
    owner = Standin("model_config")
    owner.hf_config = owner.hf_text_config = config
    owner.is_draft_model = True
    owner.speculative_algorithm = "EAGLE"
    known = {"self": owner, "is_draft_model": True}
    for step, names in steps:
        for _ in range(20):
            try:
                step(**{local: known.get(local, Standin(local)) for local in names})
            except Exception as error:  # noqa: BLE001 - a statement that needs more of a config than there is
                missing = MISSING.search(str(error))
                if missing is not None:
                    setattr(config, missing[1], guess(missing[1]))
                    continue
            break
    architectures = getattr(owner.hf_config, "architectures", None)
    return str(architectures[0]) if isinstance(architectures, list) and architectures else ""
