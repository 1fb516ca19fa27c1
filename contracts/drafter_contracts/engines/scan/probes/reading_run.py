"""One run of a release's own code from a drafter's config to the call of the target's setter."""

from __future__ import annotations

import ast

from drafter_contracts.engines.scan.probes import structs
from drafter_contracts.engines.scan.probes.extract import Site, calls, compile_site, constant, functions, sites
from drafter_contracts.engines.scan.probes.recording import RecordingConfig
from drafter_contracts.engines.scan.standins import Standin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from drafter_contracts.engines.scan.lazy import LazyRelease

#: Where the model runner lives.
FOLDER = "model_executor/"
#: Where newer releases keep the launch's options while they run.
CONTEXT = "runtime_context.py"
SETTERS = ("set_eagle3_layers_to_capture", "set_dflash_layers_to_capture", "set_dspark_layers_to_capture")
#: What the code that reads capture ids mentions, by method.
EAGLE3_ANCHOR = "eagle_aux_hidden_state_layer_ids"
DFLASH_ANCHOR = "parse_dflash_draft_config"


class Outcome:
    """What one run did.

    Attributes:
        called: Name of the setter that was called, or "".
        ids: Its argument: a list of ints, None, or whatever else was handed on (then `raw` is true).
        raw: The argument is no list of ids.
        error: Name of the exception raised instead, or "".
        text: Its text.
    """

    __slots__ = ("called", "error", "ids", "raw", "text")

    def __init__(self) -> None:
        self.called = ""
        self.ids: list[int] | None = None
        self.raw = False
        self.error = ""
        self.text = ""

    def record(self) -> dict[str, object]:
        """As JSON."""
        return {"called": self.called, "ids": self.ids, "raw": self.raw, "error": self.error}


class Target:
    """The target model: it has some of the setters, and records what they are given."""

    def __init__(self, hooks: Iterable[str], outcome: Outcome) -> None:
        for name in hooks:
            setattr(self, name, self._setter(name, outcome))

    @staticmethod
    def _setter(name: str, outcome: Outcome) -> Callable[..., None]:
        def setter(layer_ids: object = None, **_kwargs: object) -> None:
            outcome.called = name
            if layer_ids is None:
                outcome.ids = None
            elif isinstance(layer_ids, (list, tuple)) and all(type(i) is int for i in layer_ids):
                outcome.ids = list(layer_ids)
            else:
                outcome.raw = True

        return setter


class Plain:
    """An object with the given attributes and no others."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__.update(attributes)


class Runner:
    """The chain of one method, ready to run with many configs.

    Args:
        release: The release.
        method: "EAGLE3", "DFLASH" or "DSPARK".
        config_class: What `prepare` put in place of its ModelConfig.

    Raises:
        LookupError: The release has no such method, or its code is not where it is looked for.
    """

    def __init__(self, release: LazyRelease, method: str, config_class: ModelConfigStandin) -> None:
        self.release = release
        self.method = method
        self.config_class = config_class
        algorithms = release.module("speculative/spec_info.py").SpeculativeAlgorithm
        try:
            self.algorithm = getattr(algorithms, "from_string")(method)  # noqa: B009 - an object of the release
        except Exception as error:
            raise LookupError(f"the release has no algorithm {method}") from error
        readers, setters = find_chain(release, method)
        self.readers, self.setters = readers, setters
        steps = list(readers)
        steps += [s for s in setters if all(s.statement is not r.statement for r in readers)]
        self.steps = [compile_site(release, site) for site in steps]

    def run(
        self, config: dict[str, object], *, n: int, hooks: Iterable[str] = SETTERS, model_type: str = "", log: set[str]
    ) -> Outcome:
        """Run the chain.

        Args:
            config: The drafter's config.
            n: Layers of the target.
            hooks: Setters that the target has.
            model_type: The target's `model_type`.
            log: Receives the dotted keys of the drafter's config that were read.
        """
        outcome = Outcome()
        self.config_class.hf_config = RecordingConfig(config, log)
        runner = Standin("model_runner")
        text = Plain(num_hidden_layers=n, model_type=model_type)
        runner.spec_algorithm, runner.is_draft_worker = self.algorithm, False
        runner.model = Target(hooks, outcome)
        runner.model_config = Plain(
            hf_config=Plain(num_hidden_layers=n, model_type=model_type, get_text_config=lambda: text),
            hf_text_config=text,
            num_nextn_predict_layers=None,
            num_hidden_layers=n,
            num_attention_layers=n,
        )
        runner.server_args = Standin("server_args")
        runner.server_args.speculative_draft_model_path = "draft"
        runner._build_model_config = self.config_class.from_server_args  # noqa: SLF001 - the release's own name
        known = {"self": runner, "server_args": runner.server_args, "model_config": runner.model_config}
        try:
            for step, names in self.steps:
                step(**{name: known.get(name, Standin(name)) for name in names})
        except Exception as error:  # noqa: BLE001 - whatever the release raises is the outcome
            outcome.error, outcome.text = type(error).__name__, str(error)
        return outcome


def prepare(release: LazyRelease) -> ModelConfigStandin:
    """Put stand-ins in place of what reads files and of the run-time context; before anything is looked up."""
    config_class = ModelConfigStandin()
    release.replace("ModelConfig", config_class)
    structs.install(release)
    if CONTEXT in release.sources:
        context = release.module(CONTEXT)
        for name in context.defined():
            if name.startswith("get_"):
                bag = Standin(name)
                bag.speculative_draft_model_path = "draft"
                setattr(context, name, lambda bag=bag: bag)
    return config_class


class ModelConfigStandin:
    """Replaces the release's ModelConfig: reading a draft model gives the config of the run."""

    def __init__(self) -> None:
        self.hf_config: object = None

    def from_server_args(self, *_args: object, **_kwargs: object) -> object:
        """The drafter's model config."""
        return Plain(
            hf_config=self.hf_config,
            hf_text_config=self.hf_config,
            num_nextn_predict_layers=None,
            num_hidden_layers=1,
            num_attention_layers=1,
            is_hybrid_swa=False,
            is_deepseek_v4_arch=False,
        )


def find_chain(release: LazyRelease, method: str) -> tuple[list[Site], list[Site]]:
    """Statements of the model runner's methods that read the ids, and those that hand them to the setter.

    Raises:
        LookupError: There are none.
    """
    wanted = constant(EAGLE3_ANCHOR) if method == "EAGLE3" else calls(DFLASH_ANCHOR)
    names = ("set_eagle3_layers_to_capture",) if method == "EAGLE3" else SETTERS[1:]
    anchors = (EAGLE3_ANCHOR if method == "EAGLE3" else DFLASH_ANCHOR,)
    readers = _in_methods(release, wanted, anchors)
    setters = _in_methods(release, lambda node: _hands_on(node, names), names)
    if method == "EAGLE3" and not readers and not setters:  # the ids are fixed: the setter is called without any
        setters = _in_methods(release, lambda node: _hands_on(node, names, arguments=False), names)
    if not setters:
        raise LookupError(f"no call of {names[0]} in {FOLDER}")
    if method != "EAGLE3" and not readers:
        raise LookupError(f"no call of {DFLASH_ANCHOR} in {FOLDER}")
    return readers, setters


def _hands_on(node: ast.AST, names: tuple[str, ...], *, arguments: bool = True) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in names:
        return False
    return bool(node.args or node.keywords) == arguments


def _in_methods(
    release: LazyRelease, wanted: Callable[[ast.AST], bool], names: tuple[str, ...], depth: int = 0
) -> list[Site]:
    """Statements of methods that contain what is wanted (it has one of `names`), or call a function that does."""
    found: list[Site] = []
    for path in _files_with(release, names):
        tree = release.module(path)._index.tree  # noqa: SLF001 - a lazy module's attributes are the release's names
        for site in sites(path, tree, wanted):
            if _is_recorder(site):
                continue
            if site.owner:
                found.append(site)
            elif depth < 4:
                caller = site.function.name
                found.extend(_in_methods(release, calls(caller), (caller,), depth + 1))
    return _distinct(found)


def _files_with(release: LazyRelease, names: tuple[str, ...]) -> list[str]:
    """Files of the model runner whose text has one of the names."""
    return [
        path
        for path, text in sorted(release.sources.items())
        if path.startswith(FOLDER) and any(name in text for name in names)
    ]


def _is_recorder(site: Site) -> bool:
    """Whether a site belongs to code that runs the model for warm-up or for recording a CUDA graph."""
    return "GraphRunner" in site.owner or site.function.name == "_dummy_run"


def _distinct(found: list[Site]) -> list[Site]:
    unique: dict[int, Site] = {id(site.statement): site for site in found}
    return list(unique.values())


def anchor_sources(release: LazyRelease, method: str) -> list[dict[str, object]]:
    """Where the ids are read: the innermost functions that mention them."""
    wanted = constant(EAGLE3_ANCHOR) if method == "EAGLE3" else calls(DFLASH_ANCHOR)
    places = []
    for path in _files_with(release, (EAGLE3_ANCHOR if method == "EAGLE3" else DFLASH_ANCHOR,)):
        tree = release.module(path)._index.tree  # noqa: SLF001 - see above
        for owner, function in functions(tree):
            nodes = [node for node in ast.walk(function) if wanted(node)]
            if nodes:
                site = Site(path, owner, function, function.body[0])
                places.append(site.source(nodes[0]))
    return places
