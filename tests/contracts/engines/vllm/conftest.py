"""Lets the tests of this folder import `vllm_toy`: files are imported one by one."""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
