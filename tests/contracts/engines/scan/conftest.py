"""Make the toy releases importable under pytest's importlib mode."""

from __future__ import annotations

import importlib.util
import os
import sys

for _name in ("toy", "toy_rules", "toy_runner", "toy_drafters"):
    _path = os.path.join(os.path.dirname(__file__), f"{_name}.py")
    _spec = importlib.util.spec_from_file_location(f"scan_{_name}", _path)
    sys.modules[f"scan_{_name}"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[f"scan_{_name}"])
