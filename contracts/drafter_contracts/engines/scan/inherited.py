"""Derive what a drafter inherits from a launch: context length and quantisation."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.scan.sandbox import run_probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.tree import SourceTree

PROBE = "inherited"
SOURCES = (
    "configs/",
    "layers/quantization/",
    "utils",
    "environ",
    "server_args",
    "arg_groups/",
    "managers/tp_worker.py",
)
OPTION = "speculative_draft_model_quantization"


class Inherited(msgspec.Struct, frozen=True):
    """This part of `LaunchRules`: see its fields `draft_quantization`, `draft_context`, `quantization_files`."""

    draft_quantization: str = ""
    draft_context: str = ""
    quantization_files: tuple[str, ...] = ()


def derive(tree: SourceTree, *, allow_unconfined: bool = False) -> tuple[Inherited, set[str]]:
    """What a drafter inherits, and the files of the release that were executed or read for it.

    Args:
        tree: The release.
        allow_unconfined: See `sandbox.run_probe`.

    Raises:
        ScanError: The probe could not be run.
    """
    sources = tree.sources(SOURCES)
    answer = run_probe(PROBE, sources, {}, allow_unconfined=allow_unconfined)
    files = {str(file) for file in answer["files"]}  # type: ignore[attr-defined]
    plain, allowed = (str(word) for word in answer["context"])  # type: ignore[attr-defined]
    needed = tuple(str(name) for name in answer["files_needed"])  # type: ignore[attr-defined]
    how, places = _quantization(str(answer["quantization"]), str(answer["where"]), sources)
    return Inherited(how, _context(plain, allowed), needed), files | places


def _context(plain: str, allowed: str) -> str:
    """Outcome without the variable, then (after a comma) with it: see `LaunchRules.draft_context`."""
    if plain == "error" and allowed in {"warn", "override"}:
        return f"error,{allowed}"
    return plain


def _quantization(text: str, where: str, sources: dict[str, str]) -> tuple[str, set[str]]:
    """Whether `--quantization` reaches the drafter, and the files that say so.

    Older releases hand it on; newer ones hand on an option of its own that is filled from `--quantization` first.
    """
    if not text:
        return "", set()
    if OPTION not in text:
        return ("inherits" if text.endswith(".quantization") else ""), {where}
    filled = (f"{OPTION} = self.quantization", f"{OPTION}=cfg.quantization", f"{OPTION}=self.quantization")
    for path, source in sources.items():
        if any(one in source for one in filled):
            return "inherits", {where, path}
    return "", {where}
