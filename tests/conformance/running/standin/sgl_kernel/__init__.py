"""Stand-in for the CUDA-only kernel package: what a release needs of it on a CPU, in plain PyTorch. For tests only.

The attention operators are written here as a reference; trees are built and verified by the release's own Triton
kernels in Triton's interpreter. Every other name raises NotImplementedError when it is called.
"""

import os

import torch

__version__ = "0.0.0+standin"
STANDIN = True


def unavailable(name):
    """A function that says what it would have been."""

    def function(*_arguments, **_keywords):
        raise NotImplementedError(f"{name} runs on CUDA only; the stand-in has no such kernel")

    function.__name__ = name
    return function


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return unavailable(f"sgl_kernel.{name}")


from sgl_kernel._attention import register as _register_attention  # noqa: E402
from sgl_kernel._bookkeeping import *  # noqa: E402, F403

_LIBRARY = torch.library.Library("sgl_kernel", "FRAGMENT")
_register_attention(_LIBRARY)
if os.environ.get("STANDIN_OPERATORS") == "1":
    from sgl_kernel._operators import register as _register_operators

    _register_operators(_LIBRARY)
