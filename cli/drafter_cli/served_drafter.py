"""Whether the drafter that is judged is the one that the launch will load.

A DRAFTER argument may name other files than the launch's draft path: then the verdict would be about a drafter that is
never served. Where both are on this machine they are compared as far as headers, configs and manifests tell; weights
are not read, so that two trainings of one shape look the same here.
"""

from __future__ import annotations

import os

from drafter_contracts.errors import CheckpointError, ManifestError
from drafter_contracts.hub_cache import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.serving.launch import ServingConfig


def difference(judged: str, facts: DrafterFacts | None, serving: ServingConfig, path: str) -> str | None:
    """In what the launch's drafter differs from the one that is judged; "" if in nothing, None if it is not here.

    Args:
        judged: Directory of the drafter that is judged.
        facts: What its files say; None if they cannot be read, which is told elsewhere.
        serving: The launch.
        path: Its draft path, seen from its own working directory.
    """
    if facts is None or serving.invocation.image:  # a container's paths are its own
        return None
    served = find(path, serving.speculation.draft_revision, environment=serving.invocation.environment or None)
    if served is None:
        return None
    if os.path.samefile(served, judged):
        return ""
    from drafter_contracts.checkpoint.read import read_drafter

    try:
        other = read_drafter(served)
        mine, its = _manifest(judged), _manifest(served)
    except (CheckpointError, ManifestError) as error:
        return error.diagnostics()
    if other.config != facts.config:
        keys = [key for key in {**facts.config, **other.config} if facts.config.get(key) != other.config.get(key)]
        return f"its config.json differs in {', '.join(sorted(keys))}"
    if other.tensors != facts.tensors:
        return "its tensors have other names or shapes"
    if mine is not None and its is not None and (mine.layout, mine.target) != (its.layout, its.target):
        return "its drafters-manifest.json states another layout or target"
    return ""


def _manifest(directory: str) -> Manifest | None:
    path = os.path.join(directory, "drafters-manifest.json")
    if not os.path.lexists(path):
        return None
    from drafter_contracts import limits, manifest
    from drafter_contracts.checkpoint.regular import read_capped

    return manifest.decode(read_capped(path, limits.manifest_max_bytes), where=path)
