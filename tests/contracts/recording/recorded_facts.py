"""What tests of recording say of a drafter, and how they look at what was recorded."""

from __future__ import annotations

import msgspec

from drafter_contracts.recording.statement import Statement

NAMED = Statement(name="head", version="1")


def named(**more):
    """The statement of a name, a version and these."""
    return msgspec.structs.replace(NAMED, **more)


def lines(found):
    """Fact to (value, source)."""
    return {line.fact: (line.value, line.source) for line in found}


def pointers(recorded):
    """Where in the manifest the obstacles lie."""
    return [claim.pointer for claim in recorded.obstacles]
