"""The results that are kept: what running engines did, as data, one entry per release."""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results.json")


def load(path: str = PATH) -> dict[str, Any]:
    """All results; empty where none were kept yet."""
    if not os.path.exists(path):
        return {"releases": {}, "whole engine": {}, "speculation": {}, "environments": {}}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def keep(part: str, name: str, content: Any, path: str = PATH) -> None:
    """Put one entry in place of the earlier one; others may keep theirs meanwhile."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        found = load(path)
        found.setdefault(part, {})[name] = content
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            file.write(text(found))
        os.replace(f"{path}.part", path)
    finally:
        os.close(folder)


def text(found: dict[str, Any]) -> str:
    """One list of ids per line, so that a difference can be read."""
    return _lines(found, 0) + "\n"


def _lines(value: Any, depth: int) -> str:
    if isinstance(value, dict) and depth < 5 and "ids" not in value:
        rows = [f"{'  ' * (depth + 1)}{json.dumps(k)}: {_lines(v, depth + 1)}" for k, v in sorted(value.items())]
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        rows = ["  " * (depth + 1) + json.dumps(v, sort_keys=True) for v in value]
    else:
        return json.dumps(value, sort_keys=True)
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}\n" + ",\n".join(rows) + f"\n{'  ' * depth}{right}" if rows else left + right
