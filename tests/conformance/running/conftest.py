"""Running engines: only where they are asked for by their marker."""

from __future__ import annotations

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def pytest_collection_modifyitems(config, items):
    """Leave tests marked `running` out unless `-m` names the marker."""
    if "running" in (config.option.markexpr or ""):
        return
    left = [item for item in items if item.get_closest_marker("running")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture(scope="session")
def keep():
    """Puts one entry into the kept results, if `$DRAFTERS_WRITE_RESULTS` is set (`make conformance` sets it)."""
    import results

    return results.keep if os.environ.get("DRAFTERS_WRITE_RESULTS") else lambda *_entry: None
