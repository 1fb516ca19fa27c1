"""Which architectures a release registers: every class that a file of `models/` names in `EntryClass`."""

from __future__ import annotations

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


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Architectures with their files, and the files that failed."""
    found, failed = entry_classes(release)
    return {"architectures": {name: path for name, (path, _) in sorted(found.items())}, "failed": failed}
