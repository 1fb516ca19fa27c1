"""Whether the weights of a render really are in the order that its manifest states, told by a few of their bytes.

In another order every name and shape stays, and so does the header: only the numbers tell.
"""

from __future__ import annotations

import os
from itertools import accumulate

from drafter_cli.rendering.weights_file import first_bytes, read_weights_head
from drafter_contracts.checkpoint.regular import open_regular
from drafter_contracts.rendering.weights import rewritten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.rendering.records import WeightChange
    from drafter_contracts.rendering.weights import FilePlan

_WEIGHTS = ".safetensors"


def misplaced(version: str, render: str, paths: Sequence[str], change: WeightChange, widths: Sequence[int]) -> str:
    """The first file of a render whose beginnings are not those of the version in the stated order; "" if none.

    Args:
        version: Directory of the version.
        render: Directory of its render.
        paths: The version's files.
        change: What the render is said to change of the weights.
        widths: Width of each tap in the version's own order, elements; empty for taps of one width.

    Raises:
        CheckpointError: A file that cannot be read.
        RenderError: The weights cannot be changed like that.
    """
    heads = [read_weights_head(_in(version, path), path) for path in sorted(paths) if path.endswith(_WEIGHTS)]
    return next((plan.name for plan in rewritten(heads, change, widths) if not _begins(version, render, plan)), "")


def _begins(version: str, render: str, plan: FilePlan) -> bool:
    """Whether the file of a render has the size, the header and the beginning of every piece of its plan."""
    made, size = open_regular(_in(render, plan.name))
    with made:
        if size != plan.size or made.read(len(plan.head)) != plan.head:
            return False
        starts = accumulate((piece.size for piece in plan.pieces), initial=len(plan.head))
        for piece, start in zip(plan.pieces, starts, strict=False):
            source, _ = open_regular(_in(version, piece.source))
            with source:
                expected = first_bytes(source, piece)
            made.seek(start)
            if made.read(len(expected)) != expected:
                return False
    return True


def _in(directory: str, path: str) -> str:
    return os.path.join(directory, *path.split("/"))
