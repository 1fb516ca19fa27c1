"""Which architectures a release registers: every class that a file of `models/` names in `EntryClass`."""

from __future__ import annotations

import ast

from drafter_contracts.engines.scan.lazy import PACKAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyRelease


def entry_classes(release: LazyRelease) -> tuple[dict[str, tuple[str, type]], dict[str, str]]:
    """Registered classes, as the release's own registry collects them.

    Returns:
        Class name to (file, class), and file to the reason for those whose `EntryClass` cannot be built.
    """
    found: dict[str, tuple[str, type]] = {}
    failed: dict[str, str] = {}
    for path in sorted(release.sources):
        if not path.startswith("models/") or "EntryClass" not in release.sources[path]:
            continue
        try:
            module = release.module(path)
            if "EntryClass" not in module:
                continue
            entry = module["EntryClass"]
        except Exception as error:  # noqa: BLE001 - the release's own statement failed: reported, not guessed
            failed[path] = f"{type(error).__name__}: {error}"
            continue
        for cls in entry if isinstance(entry, (list, tuple)) else [entry]:
            if isinstance(cls, type):
                found[cls.__name__] = (path, cls)
    return found, failed


def model_types(release: LazyRelease, cls: type) -> tuple[str, ...]:
    """Values that the files of a class and its bases compare a config's `model_type` with."""
    found: dict[str, None] = {}
    for base in cls.__mro__:
        path = base.__module__.removeprefix(f"{PACKAGE}.").replace(".", "/") + ".py"
        if path not in release.sources or not path.startswith("models/"):
            continue
        for node in ast.walk(release.module(path)._index.tree):  # noqa: SLF001 - the scanner's own
            if (
                isinstance(node, ast.Compare)
                and isinstance(node.left, ast.Attribute)
                and node.left.attr == "model_type"
            ):
                for constant in ast.walk(node.comparators[0]):
                    if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                        found[constant.value] = None
    return tuple(found)


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Architectures with their files, and the files that failed."""
    found, failed = entry_classes(release)
    return {"architectures": {name: path for name, (path, _) in sorted(found.items())}, "failed": failed}
