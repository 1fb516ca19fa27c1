"""How the runners of a vLLM release find a drafter's capture ids: their own functions, run on configs.

The first runner reads them in its `load_model` or in methods that this calls, the second in a function of its own. What
is executed is that text of the release, on a runner that has nothing else; what it hands to the target's setter is the
answer.
"""

from __future__ import annotations

import ast
import functools

from drafter_contracts.engines.scan.probes.extract import Site, compile_site, functions
from drafter_contracts.engines.scan.probes.readings import put
from drafter_contracts.engines.scan.probes.recording import RecordingConfig
from drafter_contracts.engines.scan.probes.targets import describe
from drafter_contracts.engines.scan.standins import Standin
from drafter_contracts.engines.vllm.probes import world
from drafter_contracts.engines.vllm.probes.battery import configs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_contracts.engines.scan.lazy import LazyRelease

FIRST = "v1/worker/gpu_model_runner.py"
SECOND = "v1/worker/gpu/spec_decode/eagle/eagle3_utils.py"
SETTER = "set_aux_hidden_state_layers"
_SECOND_ENTRY = "set_eagle3_aux_hidden_state_layers"
#: What the target's default is here, to be told from ids.
DEFAULT = (-777,)
#: Ids that are tried at a key, and those at a key beside it.
IDS, OTHERS = [5, 9, 14], [6, 11]


class Model:
    """A target that remembers what it was set to."""

    def __init__(self) -> None:
        self.ids: object = None

    def set_aux_hidden_state_layers(self, layers: object) -> None:
        """The setter."""
        self.ids = layers

    def _default(self) -> tuple[int, ...]:
        return DEFAULT

    get_eagle3_default_aux_hidden_state_layers = get_eagle3_aux_hidden_state_layers = _default


def _calls_setter(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == SETTER for n in ast.walk(node))


class FirstRunner:
    """The release's first runner, as far as it has to do with ids."""

    def __init__(self, release: LazyRelease) -> None:
        self._release = release
        tree = release.module(FIRST)._index.tree  # noqa: SLF001 - underscored for the release, not for us
        self._methods = {
            node.name: (owner, node) for owner, node in functions(tree) if owner.endswith("ModelRunner") and owner
        }
        name = next(name for name, (_, node) in self._methods.items() if _calls_setter(node))
        self.site = _entry(FIRST, *self._methods[name])

    def __call__(self, config: dict[str, object], log: set[str]) -> object:
        """What the target's setter is given with this config."""
        model = Model()
        runner = _Self(self, model, RecordingConfig(config, log))
        code, names = compile_site(self._release, self.site)
        code(**{name: runner if name == "self" else Standin(name) for name in names})
        return model.ids

    def method(self, name: str) -> Callable[..., object] | None:
        """One of the runner's own methods, compiled alone."""
        if name not in self._methods:
            return None
        return _compiled(self._release, FIRST, self._methods[name][1])


class _Self(Standin):
    """`self` of the runner."""

    def __init__(self, runner: FirstRunner, model: Model, config: object) -> None:
        super().__init__("runner")
        self.__dict__.update(_runner=runner, model=model, get_model=lambda: model, use_aux_hidden_state_outputs=True)
        self.__dict__["speculative_config"] = speculative(config)

    def __getattr__(self, name: str) -> object:
        found = self.__dict__["_runner"].method(name) if not name.startswith("__") else None
        return functools.partial(found, self) if found is not None else super().__getattr__(name)


class Truth(Standin):
    """A stand-in of something that is there."""

    def __bool__(self) -> bool:
        return True


def speculative(config: object) -> Truth:
    """A speculative config around a drafter's config."""
    made = Truth("speculative_config")
    draft = Truth("draft_model_config")
    draft.hf_config = config
    made.draft_model_config = draft
    made.method = "eagle3"
    return made


def _entry(path: str, owner: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Site:
    """The statement that reads the ids: one that asks whether states are wanted, else the whole function."""
    for node in ast.walk(function):
        if isinstance(node, ast.If) and "use_aux_hidden_state" in ast.unparse(node.test) and _calls_setter(node):
            return Site(path, owner, function, node)
    body = ast.If(ast.Constant(True), _without_return(function.body), [])
    return Site(path, owner, function, ast.copy_location(body, function.body[0]))


def _without_return(body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements from the first that does not leave at once: the runner's other uses have nothing to read."""
    return [node for node in body if not any(isinstance(n, ast.Return) for n in ast.walk(node))]


def _compiled(release: LazyRelease, path: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Callable[..., object]:
    """A method as a function of its own, among its file's names."""
    module = release.module(path)
    alone = ast.FunctionDef(node.name, node.args, node.body, [])
    for argument in ast.walk(alone.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    release.used.add(path)
    names = module._names  # noqa: SLF001 - as above
    made: dict[str, Callable[..., object]] = {}
    tree = ast.fix_missing_locations(ast.Module([alone], []))
    exec(compile(tree, names["__file__"], "exec", module._index.flags, dont_inherit=True), names, made)  # noqa: S102, SLF001 - in the sandbox
    return made[node.name]


class SecondRunner:
    """The release's second runner."""

    def __init__(self, release: LazyRelease) -> None:
        self._function = release.module(SECOND)[_SECOND_ENTRY]
        self.place = release.place(release.module(SECOND)["get_eagle3_aux_layers_from_config"])

    def __call__(self, config: dict[str, object], log: set[str]) -> object:
        """What the target's setter is given with this config."""
        model = Model()
        self._function(model, speculative(RecordingConfig(config, log)))  # type: ignore[operator]
        return model.ids


def outcome(run: Callable[..., object], config: dict[str, object], log: set[str] | None = None) -> object:
    """Ids, None for the target's default, or {"error": ...}."""
    try:
        found = run(config, set() if log is None else log)
    except Exception as error:  # noqa: BLE001 - the release's own refusal
        return {"error": describe(error)}
    if tuple(found) == DEFAULT:  # type: ignore[arg-type]
        return None
    return list(found)  # type: ignore[call-overload]


def _keys(run: Callable[..., object]) -> tuple[list[str], set[str]]:
    """Keys at which a list leads to ids, whatever they are, and everything that is asked for."""
    seen: set[str] = set()
    waiting = [""]
    while waiting:
        key = waiting.pop()
        for value in (IDS, {"_": 1}):
            log: set[str] = set()
            outcome(run, put({}, key, value) if key else {}, log)
            waiting += sorted(log - seen)
            seen |= log
    names = [key for key in sorted(seen) if not key.endswith(".*")]
    return [key for key in names if isinstance(outcome(run, put({}, key, IDS)), list)], seen


def _moved(found: object) -> int | None:
    """What is added to `IDS` in an outcome; None where it is something else."""
    if not isinstance(found, list) or len(found) != len(IDS) or not all(isinstance(i, int) for i in found):
        return None
    add = int(found[0]) - IDS[0]
    return add if found == [i + add for i in IDS] else None


def _steps(run: Callable[..., object], texts: list[str]) -> list[dict[str, object]]:
    """The places, in the order in which they win."""
    touched, seen = _keys(run)
    hits = [key for key in touched if _moved(outcome(run, put({}, key, IDS))) is not None]

    def first(a: str, b: str) -> int:
        found = outcome(run, put(put({}, a, IDS), b, OTHERS))
        return -1 if _moved(found) is not None else 1

    ordered = sorted(hits, key=functools.cmp_to_key(first))
    steps: list[dict[str, object]] = []
    for position, key in enumerate(ordered):
        add = _moved(outcome(run, put({}, key, IDS)))
        adds: dict[str, int | None] = {}
        if "model_type" in seen:
            for text in texts:
                other = _moved(outcome(run, put({"model_type": text}, key, IDS)))
                if other not in {None, add}:
                    adds[text] = other
        parent, later = key.rpartition(".")[0], ordered[position + 1 :]
        decides = bool(parent) and any(
            outcome(run, put(put({}, f"{parent}._", 1), other, OTHERS)) is None for other in later
        )
        steps.append({"key": key, "add": add, "adds": adds, "decides": decides})
    return steps


def _texts(release: LazyRelease, path: str) -> list[str]:
    """Texts that a file compares something with."""
    nodes = ast.walk(release.module(path)._index.tree)  # noqa: SLF001 - underscored for the release, not for us
    found = {n.value for node in nodes if isinstance(node, ast.Compare) for n in ast.walk(node)
             if isinstance(n, ast.Constant) and isinstance(n.value, str)}  # fmt: skip
    return sorted(found)


def study(run: Callable[..., object], texts: list[str], runs: int) -> dict[str, object]:
    """What one runner does: the places, and a battery of configs with what came of each."""
    steps = _steps(run, texts)
    keys = _keys(run)[0]
    types = sorted({text for step in steps for text in step["adds"]})  # type: ignore[attr-defined]
    battery = [{"config": config, "ids": outcome(run, config)} for config in configs(keys, types, runs)]
    return {"steps": steps, "battery": battery}


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Both runners of a release.

    Args:
        release: The release.
        payload: "runs": configs of the battery; "configs": configs to run instead.

    Returns:
        "runners": name to its study and its "source", or to the "outcomes" of the configs that were given;
        {"unclear": reason} where it cannot be run.
    """
    world.install(release)
    release.replace("supports_eagle3", lambda _model: True)
    runs = int(payload.get("runs", 0))  # type: ignore[call-overload]
    given: list[dict[str, object]] = payload.get("configs", [])  # type: ignore[assignment]
    answer: dict[str, object] = {}
    makers: dict[str, tuple[str, Callable[..., object]]] = {"V1": (FIRST, FirstRunner), "V2": (SECOND, SecondRunner)}
    for name, (path, maker) in makers.items():
        if path not in release.sources:
            continue
        try:
            run: Callable[..., object] = maker(release)  # type: ignore[assignment]
            if given:
                answer[name] = {"outcomes": [outcome(run, config) for config in given]}
                continue
            source = run.site.source() if isinstance(run, FirstRunner) else run.place  # type: ignore[attr-defined]
            answer[name] = {**study(run, _texts(release, path), runs), "source": source}
        except Exception as error:  # noqa: BLE001 - reported, not guessed
            answer[name] = {"unclear": describe(error)}
    return {"runners": answer}
