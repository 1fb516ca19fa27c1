"""What a vLLM release takes for `--speculative-config`, and how it rewrites a drafter's config before it is used.

Run on the release's own code: the fields of `SpeculativeConfig` and its methods, `EAGLEConfig` with the architectures
that can be meant, what the constructor does with a DSpark drafter, and the translations of speculators configs.
"""

from __future__ import annotations

import ast
import copy
import typing

from drafter_contracts.engines.scan.probes.extract import Site, compile_site, functions
from drafter_contracts.engines.scan.probes.readings import put
from drafter_contracts.engines.scan.probes.recording import RecordingDict
from drafter_contracts.engines.scan.probes.targets import describe
from drafter_contracts.engines.scan.standins import Standin
from drafter_contracts.engines.vllm.probes import world
from drafter_contracts.engines.vllm.probes.readings import Truth
from drafter_contracts.engines.vllm.probes.registry import entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyModule, LazyRelease

SPECULATIVE = "config/speculative.py"
EAGLE = "transformers_utils/configs/eagle.py"
SPECULATORS = "transformers_utils/configs/speculators/"
_TABLE = "SUPPORTED_SPECULATORS_TYPES"
#: Methods that are served with the target's hidden states.
METHODS = ("eagle", "eagle3", "dflash", "dspark")
#: A list of ids, for keys of such.
IDS = [3, 8, 12]
_PART = "transformer_layer_config"


def _mark(key: str) -> object:
    """A value that tells which key it comes from."""
    return IDS if key.endswith("ids") else f"<{key}>"


class Pretrained:
    """`transformers.PretrainedConfig`: attributes from keywords."""

    architectures: list[str]
    model_type: str

    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)

    def to_dict(self) -> dict[str, object]:
        """The attributes."""
        return dict(self.__dict__)

    def update(self, values: dict[str, object]) -> None:
        """Set attributes."""
        self.__dict__.update(values)


def methods_of(module: LazyModule) -> list[str]:
    """Values that the release declares for `method`."""
    return [value for value in _flat(module["SpeculativeMethod"]) if isinstance(value, str)]


def _flat(value: object) -> list[object]:
    inner = typing.get_args(value)
    return [leaf for part in inner for leaf in _flat(part)] if inner else [value]


def options_of(module: LazyModule) -> list[str]:
    """Fields of the release's `SpeculativeConfig`, method aside."""
    node = next(n for n in module._index.tree.body if isinstance(n, ast.ClassDef) and n.name == "SpeculativeConfig")  # noqa: SLF001 - underscored for the release, not for us
    fields = [n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    return sorted(name for name in fields if name != "method")


def renames(release: LazyRelease) -> dict[str, dict[str, str]]:
    """Method to architecture to the registered one that it is loaded as."""
    registered = entries(release).drafters
    made: dict[str, dict[str, str]] = {}
    for method in METHODS[:3]:
        invented = _renamed(release, method, "Zz")
        if invented is None:
            continue
        prefix = invented.removesuffix("Zz")
        names = {*registered, *(name.removeprefix(prefix) for name in registered if prefix and name.startswith(prefix))}
        found = {name: _renamed(release, method, name) for name in sorted(names) if name.isidentifier()}
        made[method] = {name: new for name, new in found.items() if new in registered}
    dspark = _dspark(release)
    if dspark:
        made["dspark"] = {name: name for name in sorted(registered) if dspark(name)}
    return made


def _renamed(release: LazyRelease, method: str, name: str) -> str | None:
    model = Pretrained(architectures=[name], vocab_size=8)
    try:
        made = release.module(EAGLE)["EAGLEConfig"](model, method=method, model_type="eagle")  # type: ignore[operator]
    except Exception:  # noqa: BLE001 - the release does not know the method
        return None
    return str(made.architectures[0])


def _dspark(release: LazyRelease) -> typing.Callable[[str], bool] | None:
    """Whether the constructor leaves a DSpark drafter its class and config, as a function of the architecture."""
    for owner, function in functions(release.module(SPECULATIVE)._index.tree):  # noqa: SLF001 - as above
        for node in ast.walk(function) if function.name == "__post_init__" else ():
            if isinstance(node, ast.If) and all(text in ast.unparse(node.test) for text in ("'dspark'", "SparkModel")):
                code, names = compile_site(release, Site(SPECULATIVE, owner, function, node))
                return lambda name: _kept(code, names, name)
    return None


def _kept(code: typing.Callable[..., object], names: list[str], name: str) -> bool:
    """Whether a drafter of this architecture stays what it is: others become the target's own, in another format."""
    this = Truth("self")
    this.method = "dspark"
    config = Pretrained(architectures=[name], model_type="probe")
    draft = Truth("draft_model_config")
    draft.__dict__.update(hf_config=config, architectures=config.architectures)
    this.draft_model_config = draft
    code(**{one: this if one == "self" else Standin(one) for one in names})
    return [name] == config.architectures and config.model_type == "probe"


class Translation:
    """The release's translation of one type of speculators config."""

    def __init__(self, release: LazyRelease, kind: str) -> None:
        self._base: typing.Any = release.module(SPECULATORS + "base.py")["SpeculatorsConfig"]
        self.kind = kind
        names = ("extract_transformers_pre_trained_config", "extract_vllm_speculative_config")
        self._name = next(name for name in names if hasattr(self._base, name))

    def __call__(self, config: dict[str, object], log: set[str] | None = None) -> dict[str, object]:
        """The config that the release goes on with."""
        given = copy.deepcopy({**config, "speculators_model_type": self.kind, "speculators_config": _PROPOSALS})
        given.setdefault(_PART, {})
        if log is not None:
            part = given.pop(_PART)
            given = RecordingDict(given, log, "")
            dict.__setitem__(given, _PART, part)
        return dict(getattr(self._base, self._name)(given))

    def method(self) -> tuple[str, bool]:
        """The method that such a drafter is served with, and whether in parallel."""
        make = getattr(self._base, "build_vllm_speculative_config")  # noqa: B009 - the release's own name
        found = make({"speculators_model_type": self.kind, "speculators_config": _PROPOSALS})
        return str(found["method"]), bool(found.get("parallel_drafting"))


_PROPOSALS: dict[str, object] = {
    "proposal_methods": [{"speculative_tokens": 4}], "verifier": {"name_or_path": "target"},
}  # fmt: skip


def _needed(run: Translation) -> dict[str, object]:
    """The smallest config that the release translates."""
    config: dict[str, object] = {}
    for _ in range(20):
        try:
            run(config)
        except KeyError as error:
            key = str(error.args[0])
            config[key] = _mark(key)
        else:
            return config
    return config


def _leaves(value: object, path: str = "") -> dict[str, object]:
    """Dotted entries of a config."""
    if isinstance(value, dict) and value:
        return {k: v for key, one in value.items() for k, v in _leaves(one, f"{path}.{key}" if path else key).items()}
    return {path: value} if path else {}


def translation(run: Translation, texts: list[str]) -> dict[str, object]:
    """Where each entry of the translated config comes from."""
    needed = _needed(run)
    log: set[str] = set()
    base = _leaves(run(needed, log))
    keys = sorted({key.lstrip(".") for key in log} - {"speculators_model_type", "speculators_config", _PART})
    keys = [key for key in keys if "." not in key and key != "architectures"]
    found: dict[str, dict[str, object]] = {
        path: {"constant": True, "default": value} for path, value in base.items() if not path.startswith("architect")
    }
    for key in keys:
        for value in (_mark(key), False) if not key.endswith("ids") else (IDS,):
            for path, how in _differing(run, {**needed, key: value}, base, key, required=key in needed):
                found.setdefault(path, {"constant": False}).update(key=key, **how)
    return {
        "needed": sorted(needed),
        "entries": {path: entry for path, entry in sorted(found.items()) if not _given(path)},
        "architectures": _architectures(run, needed, texts),
    }


def _given(path: str) -> bool:
    """Entries that come from the launch's own part, not from the drafter."""
    return path in {"method", "num_speculative_tokens", "target_model"}


def _differing(
    run: Translation, config: dict[str, object], base: dict[str, object], key: str, *, required: bool
) -> list[tuple[str, dict[str, object]]]:
    """Entries that a key makes or changes, and how."""
    given, made = config[key], []
    for path, value in _leaves(run(config)).items():
        default = {"default": base[path]} if path in base and not required else {}
        if given == IDS and isinstance(value, list) and value and isinstance(value[0], int):
            add = value[0] - IDS[0]
            if value == [i + add for i in IDS]:
                made.append((path, {"add": add, **default}))
        elif given is not False and value == given:
            made.append((path, default))
        elif (given is False, value, base.get(path)) in ((True, True, False), (False, False, True)):
            made.append((path, {"negated": True, **default}))
    return made


def _architectures(run: Translation, needed: dict[str, object], texts: list[str]) -> dict[str, str]:
    """`model_type` of the decoder's part to the class; "" where it is not said."""
    found: dict[str, str] = {}
    for text in ("", *texts):
        config = put(dict(needed), f"{_PART}.model_type", text) if text else dict(needed)
        try:
            made = run(config).get("architectures")
        except ValueError:
            continue
        if isinstance(made, list) and made:
            found[text] = str(made[0])
    try:
        free = run(put(dict(needed), f"{_PART}.model_type", "zz")).get("architectures")
    except ValueError:
        return found
    if not isinstance(free, list) or not free:
        return found
    same = {str(free[0])} == set(found.values())
    return {"*": str(free[0])} if same else {**found, "*": str(free[0])}


def speculators(release: LazyRelease) -> dict[str, object]:
    """Every type of speculators config that the release translates."""
    path = SPECULATORS + "algos.py"
    if path not in release.sources:
        return {}
    algos = release.module(path)
    for name in algos.defined():  # functions register themselves when they are defined
        algos[name]
    texts = sorted({n.value for n in ast.walk(algos._index.tree) if isinstance(n, ast.Constant)  # noqa: SLF001 - as above
                    and isinstance(n.value, str) and n.value.isidentifier() and n.value.islower()})  # fmt: skip
    table: dict[str, object] = algos[_TABLE]  # type: ignore[assignment]
    made: dict[str, object] = {}
    for kind, function in sorted(table.items()):
        run = Translation(release, kind)
        try:
            method, parallel = run.method()
            seen = translation(run, texts)
            made[kind] = {**seen, "method": method, "parallel": parallel, "source": release.place(function)}
            made[kind]["battery"] = _battery(run, seen)  # type: ignore[index]
        except Exception as error:  # noqa: BLE001 - reported, not guessed
            made[kind] = {"unclear": describe(error)}
    return made


def _battery(run: Translation, seen: dict[str, object]) -> list[dict[str, object]]:
    """Configs and what the release makes of them."""
    entries_: dict[str, dict[str, object]] = seen["entries"]  # type: ignore[assignment]
    keys = sorted({str(entry["key"]) for entry in entries_.values() if "key" in entry})
    types = [text for text in seen["architectures"] if text not in ("", "*")] or [""]  # type: ignore[attr-defined]
    made = []
    for i in range(96):
        config: dict[str, object] = {}
        for position, key in enumerate(keys):
            choice = (i >> (position % 6)) % 4
            value = [1 + i % 5, 7, 9] if key.endswith("ids") else (True, False, 4000 + i)[choice % 3]
            if choice or key in seen["needed"]:  # type: ignore[operator]
                config[key] = value
        part: dict[str, object] = {"hidden_size": 64}
        if types[i % len(types)]:
            part["model_type"] = types[i % len(types)]
        config[_PART] = part
        try:
            result: dict[str, object] = {"made": run(config)}
        except Exception as error:  # noqa: BLE001 - the release's own refusal
            result = {"error": type(error).__name__}
        made.append({"config": config, **result})
    return made


def probe(release: LazyRelease, _payload: dict[str, object]) -> dict[str, object]:
    """See the module."""
    world.install(release)
    for name in ("PretrainedConfig", "PreTrainedConfig"):
        release.foreign(f"transformers.{name}", Pretrained)
    module = release.module(SPECULATIVE)
    return {
        "methods": methods_of(module),
        "options": options_of(module),
        "renames": renames(release),
        "speculators": speculators(release),
    }
