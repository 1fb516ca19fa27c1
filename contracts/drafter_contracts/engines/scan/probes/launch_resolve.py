"""A release's own resolution of its options, run on many option sets: what it changes, what it refuses.

The options go the release's own way: its parser's defaults, `ServerArgs.from_cli_args`, then either its whole
resolution ("whole") or the speculative handler alone ("handler", where the release has one of its own). The machine
is made up: one kind of NVIDIA GPU, and a target and a drafter whose configs the case states.
"""

from __future__ import annotations

import argparse
import io
import json

from drafter_contracts.engines.scan.probes import launch_flags
from drafter_contracts.engines.scan.probes.launch_setup import file, fresh
from drafter_contracts.engines.scan.raised import raised_at
from drafter_contracts.engines.scan.standins import is_standin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from drafter_contracts.engines.scan.lazy import LazyRelease

HOOK = "arg_groups/speculative_hook.py"
VIEWS = "arg_groups/overrides.py"
METHOD = "_handle_speculative_decoding"
TARGET = "target"
#: Memory of the made-up GPU, MiB.
MEMORY = 80 * 1024

#: Questions about the machine and the checkpoint that a scan answers with no.
_NO = (
    *("is_hip", "is_npu", "is_xpu", "is_cpu", "is_musa", "is_hpu", "is_mps", "use_mlx", "is_sm90_supported"),
    *("is_sm100_supported", "is_sm120_supported", "is_blackwell", "is_blackwell_supported", "check_gguf_file"),
    *("is_hopper_with_cuda_12_3", "is_remote_url", "is_runai_obj_uri", "is_mistral_model", "has_mistral_params"),
)

#: Which of them are answered with yes, by kind of machine.
_MACHINES = {
    "hopper": frozenset(("is_sm90_supported",)),
    "blackwell": frozenset(("is_sm100_supported", "is_blackwell", "is_blackwell_supported", "is_sm100")),
}

#: What is reported of a resolved option set.
FIELDS = (
    *("speculative_algorithm", "speculative_draft_model_path", "speculative_draft_model_revision"),
    *("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens", "page_size"),
    *("disable_overlap_schedule", "disable_cuda_graph", "max_running_requests"),
)


class Config:
    """A Hugging Face config: attributes that are not there do not exist."""

    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)

    def get_text_config(self, **_kwargs: object) -> Config:
        """The config of the text model."""
        return self


class Situation:
    """The case that the release's questions are answered for."""

    def __init__(self) -> None:
        self.target = Config()
        self.draft: Config | None = None
        self.environment: dict[str, str] = {}
        self.yes: frozenset[str] = frozenset()

    def set(self, case: dict[str, object]) -> None:
        """Take a case."""
        architecture = case.get("architecture", "LlamaForCausalLM")
        shape = {"num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "vocab_size": 32000}
        self.target = Config(architectures=[architecture], model_type="llama", **shape)
        self.yes = _MACHINES[str(case.get("machine", "hopper"))]
        draft = case.get("draft")
        self.draft = Config(**draft) if isinstance(draft, dict) else None
        environment = case.get("env")
        self.environment.clear()
        self.environment.update(environment if isinstance(environment, dict) else {})

    def config(self, path: object, *_args: object, **_kwargs: object) -> Config:
        """The release's `get_config`."""
        if path == TARGET:
            return self.target
        if self.draft is None:
            raise OSError(f"no config at {path}")
        return self.draft


class _Platform:
    """CUDA: every other "is it ..." is answered with no."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Answer(name == "is_cuda" or name in self._situation.yes)


class _Answer:
    """True or false, called or not."""

    def __init__(self, value: bool) -> None:
        self._value = value

    def __bool__(self) -> bool:
        return self._value

    def __call__(self, *_args: object, **_kwargs: object) -> bool:
        return self._value


def _model_config(situation: Situation) -> type:
    class ModelConfig:
        """The release's ModelConfig of the case's target: properties that it does not state are None."""

        def __init__(self, *_args: object, **_kwargs: object) -> None:
            self.hf_config = self.hf_text_config = situation.target
            self.is_generation = True
            self.is_multimodal = self.is_hybrid_swa = False
            self.context_len = 4096

        def __getattr__(self, name: str) -> object:
            if name.startswith("__"):
                raise AttributeError(name)
            return None

        @classmethod
        def from_server_args(cls, *_args: object, **_kwargs: object) -> object:
            return cls()

    return ModelConfig


def stage(release: LazyRelease, situation: Situation) -> LazyRelease:
    """A fresh copy of the release on the made-up machine."""
    other = fresh(release)
    other.foreign("os.environ", situation.environment)
    other.foreign("os.getenv", situation.environment.get)
    model_config = _model_config(situation)
    other.replace("ModelConfig", model_config)
    other.replace("model_config_of", lambda *_args: model_config())
    other.replace("get_config", situation.config)
    other.replace("get_device", lambda *_args, **_kwargs: "cuda")
    for name in ("get_device_memory_capacity", "get_gpu_memory_capacity", "get_nvgpu_memory_capacity"):
        other.replace(name, lambda *_args, **_kwargs: MEMORY)
    for name in ("is_cuda", "is_flashinfer_available"):
        other.replace(name, lambda *_args, **_kwargs: True)
    for name in _NO:
        other.replace(name, lambda *_args, name=name, **_kwargs: name in situation.yes)
    other.replace("get_platform", lambda *_args: _Platform(situation))
    other.replace("current_platform", _Platform(situation))

    class EntryNotFoundError(Exception):
        pass

    def absent(*_args: object, **_kwargs: object) -> None:
        raise EntryNotFoundError

    for name in ("EntryNotFoundError", "RepositoryNotFoundError", "RevisionNotFoundError"):
        other.foreign(f"huggingface_hub.errors.{name}", EntryNotFoundError)
    other.foreign("huggingface_hub.hf_hub_download", absent)
    _put_config_file(other, situation)
    return other


def _put_config_file(release: LazyRelease, situation: Situation) -> None:
    """The target's config.json, for releases that open the file themselves to choose the three numbers."""
    path = f"{TARGET}/config.json"

    def opened(name: object, *_args: object, **_kwargs: object) -> io.StringIO:
        if name != path:
            raise FileNotFoundError(name)
        return io.StringIO(json.dumps(vars(situation.target)))

    names = file(release, launch_flags.SERVER_ARGS)
    if "auto_choose_speculative_params" in names and "open" not in names:
        release.foreign("os.path.exists", lambda name: name == path)
        names.open = opened


class Resolver:
    """Runs cases on one stage.

    Args:
        release: The release.
        mode: "whole" or "handler".
    """

    def __init__(self, release: LazyRelease, mode: str) -> None:
        self.situation = Situation()
        self.situation.set({})
        self.release = stage(release, self.situation)
        self.cls = file(self.release, launch_flags.SERVER_ARGS).ServerArgs
        parser = launch_flags.Parser()
        self.cls.add_cli_args(parser)
        self.defaults = _defaults(parser)
        self.handler = _handler(self.release, self.cls) if mode == "handler" else None
        if self.handler is not None:
            self.cls.__post_init__ = lambda _self: None

    def run(self, case: dict[str, object]) -> dict[str, object]:
        """One case.

        Returns:
            The `FIELDS` (those that the release has) and "decode_graphs", or "error", "text" and "place"; "phase" is
            "resolve" or "check".
        """
        self.situation.set(case)
        values = {**self.defaults, **case["values"]}  # type: ignore[dict-item]
        phase = "resolve"
        try:
            record = self.cls.from_cli_args(argparse.Namespace(**json.loads(json.dumps(values))))
            if self.handler is not None:
                self.handler(record)
            elif hasattr(record, "resolve_once"):
                record.resolve_once()
            if case.get("check"):
                phase = "check"
                record.check_server_args()
        except Exception as error:  # noqa: BLE001 - what the release raises is the answer
            return {"error": type(error).__name__, "text": str(error)[:200], "phase": phase, "place": raised_at(error)}
        return self.read(record)

    def read(self, record: object) -> dict[str, object]:
        """What is reported of a resolved record."""
        view = record
        if VIEWS in self.release.sources:
            names = self.release.module(VIEWS)
            reader = "resolving_view" if "resolving_view" in names else "resolved_view"
            view = names[reader](record)  # type: ignore[operator]
        found: dict[str, object] = {}
        for name in FIELDS:
            if hasattr(record, name):
                value = getattr(view, name)
                found[name] = {"unknown": str(value)} if is_standin(value) else value
        config = getattr(view, "cuda_graph_config", None)
        decode = getattr(config, "decode", None)
        if decode is not None:
            found["decode_graphs"] = decode.backend != "disabled"
        elif "disable_cuda_graph" in found:
            found["decode_graphs"] = not found["disable_cuda_graph"]
        return found


def _defaults(parser: launch_flags.Parser) -> dict[str, object]:
    """What the parser's namespace holds when nothing is given."""
    found: dict[str, object] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no other listing
        if action.dest in found or action.default is argparse.SUPPRESS:
            continue
        value = action.default
        found[action.dest] = action.type(value) if isinstance(value, str) and callable(action.type) else value
    return {name: value for name, value in found.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    try:
        launch_flags.plain(value)
    except (TypeError, ValueError):
        return False
    return True


def _handler(release: LazyRelease, cls: type) -> Callable[[object], None] | None:
    """The release's speculative handler, if it stands alone."""
    found: Callable[[object], None] | None = getattr(cls, METHOD, None)
    if HOOK in release.sources:
        found = file(release, HOOK).handle_speculative_decoding
    return found


def algorithms(release: LazyRelease) -> dict[str, object]:
    """The names that the release's own algorithm table holds, and how it reads a name."""
    other = fresh(release)
    kind = file(other, "speculative/spec_info.py").SpeculativeAlgorithm
    members = [name for name in getattr(kind, "__members__", {}) if name != "NONE"]
    return {"members": members, "place": other.place(kind.from_string)}


def handler_place(release: LazyRelease) -> dict[str, object]:
    """Where the adjustments are made."""
    other = fresh(release)
    cls = file(other, launch_flags.SERVER_ARGS).ServerArgs
    return other.place(_handler(other, cls) or cls.__post_init__)


def explore(release: LazyRelease, cases: list[dict[str, object]]) -> list[dict[str, object]]:
    """Run the cases; each names its mode."""
    resolvers: dict[str, Resolver] = {}
    answers = []
    for case in cases:
        mode = str(case.get("mode", "handler"))
        if mode not in resolvers:
            resolvers[mode] = Resolver(release, mode)
        answers.append(resolvers[mode].run(case))
    return answers
