"""The source of a vLLM release, read as text: from a directory or straight out of a wheel."""

from __future__ import annotations

import os
import re

from drafter_contracts.engines.scan.tree import Shape, SourceTree, open_tree
from drafter_contracts.engines.vllm.profile import ENGINE

_SHAPE = Shape(ENGINE, left_out=("third_party/", "benchmarks/"))
_WHEEL = re.compile(r"vllm-[^-]+-.*\.whl")


def is_vllm(path: str) -> bool:
    """Whether a path is a vLLM release: a wheel of that name, the package's directory, or one that holds it."""
    if os.path.isfile(path):
        return bool(_WHEEL.fullmatch(os.path.basename(path)))
    own = os.path.basename(os.path.abspath(path)) == ENGINE and os.path.isdir(os.path.join(path, "v1"))
    return own or os.path.isdir(os.path.join(path, ENGINE, "v1"))


def open_release(path: str) -> SourceTree:
    """Open a release for reading; paths are below `vllm`.

    Raises:
        ScanError: It is none, or no version can be told.
    """
    return open_tree(path, shape=_SHAPE)
