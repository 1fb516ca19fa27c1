"""How wide the engine makes its buffers for captured states, by executing the release's own function."""

from __future__ import annotations

import ast
from itertools import product

from drafter_contracts.engines.scan.probes.extract import functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyRelease

WIDTH = 1000
NESTED = "eagle_aux_hidden_state_layer_ids"
#: Functions that releases have had for it: file, class, name. What they are handed differs.
PLACES = (
    ("speculative/eagle_info.py", "EagleDraftExtendInput", "hidden_size_for"),
    ("speculative/eagle_utils.py", "", "get_draft_input_from_target_hidden_dim"),
)


class _Config:
    """A Hugging Face config with what one run sets."""

    def __init__(self, explicit: int, nested: int, top: int) -> None:
        if explicit:
            self.num_aux_hidden_states = explicit
        if nested:
            self.eagle_config = {NESTED: list(range(nested))}
        if top:
            setattr(self, NESTED, list(range(top)))


class _Algorithm:
    def is_eagle3(self) -> bool:
        return True

    def is_standalone(self) -> bool:
        return False

    def is_none(self) -> bool:
        return False


class _ModelConfig:
    def __init__(self, config: _Config) -> None:
        self.hf_config = config
        self.hidden_size = self.spec_hidden_size = WIDTH


class _Runner:
    def __init__(self, config: _Config) -> None:
        self.model_config = _ModelConfig(config)
        self.spec_algorithm = _Algorithm()


class _Target:
    def __init__(self, config: _Config) -> None:
        self.model_runner = _Runner(config)


class _Worker:
    """A speculative worker and, as the newer function takes one, the drafter's model runner."""

    def __init__(self, target: _Config, draft: _Config) -> None:
        runner = _Runner(draft)
        self.speculative_algorithm = self.spec_algorithm = _Algorithm()
        self.eagle_use_aux_hidden_state = True
        self.target_worker = _Target(target)
        self.draft_runner = self.draft_model_runner = self.model_runner = runner
        self.model_config = runner.model_config


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """The function on every combination of the three keys (2 to 5 taps) in target and drafter.

    Returns:
        "place": {"file", "function", "line"} or {}; "runs": [target's three numbers, drafter's three, taps or -1].
    """
    del payload
    for path, owner, name in PLACES:
        if path not in release.sources:
            continue
        module = release.module(path)
        tree: ast.Module = module._index.tree  # noqa: SLF001 - a lazy module's attributes are the release's names
        for found_owner, function in functions(tree):
            if (found_owner, function.name) == (owner, name):
                scope = getattr(module, owner) if owner else module
                place = {"file": path, "function": f"{owner}.{name}" if owner else name, "line": function.lineno}
                return {"place": place, "runs": _runs(getattr(scope, name))}
    return {"place": {}, "runs": []}


def _runs(function: object) -> list[list[int]]:
    rows = []
    for target, draft in product(product((0, 5), (0, 4), (0, 2)), repeat=2):
        try:
            width = function(_Worker(_Config(*target), _Config(*draft)))  # type: ignore[operator]
            taps = width // WIDTH if isinstance(width, int) and width % WIDTH == 0 else -1
        except Exception:  # noqa: BLE001 - whatever the release raises: this run says nothing
            taps = -1
        rows.append([*target, *draft, taps])
    return rows
