"""Imported by every interpreter of an engine's environment: lets packages that want CUDA be imported without it.

For tests only; nothing here changes the engine's own code.
"""

import importlib.abc
import importlib.machinery
import os
import sys


class DeclareTorchvisionOperators(importlib.abc.MetaPathFinder):
    """Declare the operators whose compiled parts do not load beside a CPU build of torch.

    `torchvision/_meta_registrations.py` fails where they are unknown; their schema is enough for the Python part.
    """

    library = None

    def find_spec(self, name, path=None, target=None):
        """Find nothing; declare the operators when torchvision is about to be imported."""
        if name == "torchvision" and DeclareTorchvisionOperators.library is None:
            import torch

            library = DeclareTorchvisionOperators.library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


class EmptyKernelModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules `sgl_kernel.*` whose functions raise NotImplementedError when they are called."""

    def find_spec(self, name, path=None, target=None):
        """Answer for the submodules of the stand-in alone."""
        parent = sys.modules.get("sgl_kernel")
        missing = ("sgl_kernel.scalar_type",)  # its absence is what the releases ask for
        if name.startswith("sgl_kernel.") and name not in missing and hasattr(parent, "STANDIN"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        """Use an ordinary module."""

    def exec_module(self, module):
        """Give the module an answer for every name."""
        from sgl_kernel import unavailable

        def attribute(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return unavailable(f"{module.__name__}.{name}")

        module.__getattr__ = attribute


class KeepIntelAmx(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A server's own start as `adaptations.keep_intel_amx` makes it for a program of the tests."""

    names = ("sglang.srt.arg_groups.overrides", "sglang.srt.arg_groups.attention_hook")

    def find_spec(self, name, path=None, target=None):
        """Find those two modules as they are found without this."""
        if name not in self.names:
            return None
        found = importlib.machinery.PathFinder.find_spec(name, path, target)
        if found is not None:
            self.loader, found.loader = found.loader, self
        return found

    def create_module(self, spec):
        """Use an ordinary module."""

    def exec_module(self, module):
        """Run it, then exchange the one function."""
        self.loader.exec_module(module)
        if hasattr(module, "_attention_backend_platform_fallbacks"):
            module._attention_backend_platform_fallbacks = lambda _view: {}


if os.environ.get("STANDIN_KEEP_INTEL_AMX"):
    sys.meta_path.insert(0, KeepIntelAmx())
sys.meta_path.insert(0, DeclareTorchvisionOperators())
sys.meta_path.append(EmptyKernelModules())
