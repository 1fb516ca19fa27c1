"""Which classes a release registers for which architectures: its own registry's tables."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyModule, LazyRelease

REGISTRY = "model_executor/models/registry.py"
_HOME = "vllm.model_executor.models."


class Entry:
    """A registered class.

    Attributes:
        path: File below `vllm`.
        name: The class's name there.
        module: Dotted name of its module.
    """

    __slots__ = ("module", "name", "path")

    def __init__(self, module: str, name: str) -> None:
        self.module = module if module.startswith("vllm.") else _HOME + module
        self.name = name
        self.path = self.module.removeprefix("vllm.").replace(".", "/") + ".py"  # or a package of that name


class Entries:
    """Architectures of targets and of drafters."""

    def __init__(self, targets: dict[str, Entry], drafters: dict[str, Entry]) -> None:
        self.targets = targets
        self.drafters = drafters


def entries(release: LazyRelease) -> Entries:
    """The release's tables.

    Raises:
        KeyError: The registry has no such tables.
    """
    registry = release.module(REGISTRY)
    drafters = _table(registry, "_SPECULATIVE_DECODING_MODELS")
    known = _table(registry, "_VLLM_MODELS")
    return Entries({name: entry for name, entry in known.items() if name not in drafters}, drafters)


def _table(registry: LazyModule, name: str) -> dict[str, Entry]:
    found: dict[str, object] = registry[name]  # type: ignore[assignment]
    return {key: Entry(*value[:2]) for key, value in found.items() if isinstance(value, tuple)}


def load(release: LazyRelease, entry: Entry) -> type:
    """The class itself.

    Raises:
        Exception: Whatever the release's own statements raise.
    """
    found = release.import_from(entry.module, entry.name)
    if not isinstance(found, type):
        raise TypeError(f"{entry.module}.{entry.name} is no class")
    return found
