"""What the commands of this folder need beyond the gate, asked for before anything is read."""

from __future__ import annotations

import importlib.util

from drafter_cli.errors import UsageError


def require_tensors() -> None:
    """Say how to install the tensor libraries, if they are not there.

    Raises:
        UsageError: torch or transformers is not installed.
    """
    _require(("torch", "transformers", "numpy"), "values")


def require_plots() -> None:
    """The same for pictures.

    Raises:
        UsageError: matplotlib is not installed.
    """
    _require(("matplotlib",), "plot")


def _require(modules: tuple[str, ...], extra: str) -> None:
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    if absent:
        verb = "are" if len(absent) > 1 else "is"
        raise UsageError(
            f"{', '.join(absent)} {verb} not installed", f"pip install 'drafter-registry[{extra}]', then try again"
        )
