"""Which architectures a release registers: every class that a file of `models/` names in `EntryClass`."""

from __future__ import annotations

import ast
import functools

from drafter_contracts.engines.scan.lazy import PACKAGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyModule, LazyRelease


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


def model_types(release: LazyRelease, cls: type, below: tuple[str, ...] = (f"{PACKAGE}.models.",)) -> tuple[str, ...]:
    """Values that the files of a class, of its bases and of what they import compare a config's `model_type` with.

    Args:
        release: The release.
        cls: The class.
        below: Dotted prefixes of the release's model files.
    """
    homes = [base.__module__ for base in cls.__mro__ if base.__module__.startswith(below)]
    for home in tuple(dict.fromkeys(homes)):
        homes += _file(release, home, below)[0]
    found = [text for home in dict.fromkeys(homes) for text in _file(release, home, below)[1]]
    return tuple(dict.fromkeys(found))


@functools.lru_cache(maxsize=1024)
def _file(release: LazyRelease, home: str, below: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Model files that a file imports from, and what it compares a config's `model_type` with."""
    module = release.find(home)
    if module is None:
        return (), ()
    tree = module._index.tree  # noqa: SLF001 - underscored for the release, not for us
    imported: list[str] = []
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            imported += [statement.module, *(f"{statement.module}.{alias.name}" for alias in statement.names)]
    texts: list[str] = []
    for node in ast.walk(tree) if "model_type" in release.sources.get(module._path, "") else ():  # noqa: SLF001 - as above
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "model_type":
            texts += _texts(module, node.comparators[0])
    models = (name for name in imported if name.startswith(below) and release.find(name) is not None)
    return tuple(models), tuple(texts)


def _texts(module: LazyModule, node: ast.expr) -> list[str]:
    """Texts in an expression, and in the constants of the file that it names."""
    texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    if isinstance(node, ast.Name) and node.id in module:
        value = module[node.id]
        if isinstance(value, (tuple, list, set, frozenset)):
            texts += sorted(text for text in value if isinstance(text, str))
    return texts


def probe(release: LazyRelease, _payload: dict[str, object]) -> dict[str, object]:
    """Architectures with their files, and the files that failed."""
    found, failed = entry_classes(release)
    return {"architectures": {name: path for name, (path, _) in sorted(found.items())}, "failed": failed}
