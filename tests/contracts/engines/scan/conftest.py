"""Make the toy release importable under pytest's importlib mode."""

from __future__ import annotations

import importlib.util
import os
import sys

_PATH = os.path.join(os.path.dirname(__file__), "toy.py")
_SPEC = importlib.util.spec_from_file_location("scan_toy", _PATH)
toy = importlib.util.module_from_spec(_SPEC)
sys.modules["scan_toy"] = toy
_SPEC.loader.exec_module(toy)
