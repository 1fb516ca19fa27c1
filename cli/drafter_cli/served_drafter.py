"""Whether the drafter that is judged is the one that the launch will load.

A DRAFTER argument may name other files than the launch's draft path: then the verdict would be about a drafter that is
never served. Where both are on this machine they are compared as far as headers, configs and manifests tell; weights
are not read, so that two trainings of one shape look the same here.

A render of the drafter that is judged differs from it and is that drafter all the same: then the render's own files and
manifest are what is judged.
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


def rendered(judged: str, facts: DrafterFacts | None, serving: ServingConfig, path: str) -> tuple[str, str]:
    """Whether the launch's drafter is a render of the one that is judged.

    Args:
        judged: Directory of the drafter that is judged.
        facts: What its files say; None if they cannot be read.
        serving: The launch.
        path: Its draft path, seen from its own working directory.

    Returns:
        The render's directory and "" if it is one; "" and why not, if its manifest says so wrongly; twice "" if it does
        not say so.
    """
    served = _served(serving, path)
    if facts is None or served is None:
        return "", ""
    try:
        mine, its = _manifest(judged), _manifest(served)
        if mine is None or its is None or its.render is None:
            return "", ""
        from drafter_contracts.checkpoint.read import read_drafter
        from drafter_contracts.rendering.record import no_render_of

        why_not = no_render_of(its, read_drafter(served), mine, facts)
    except (CheckpointError, ManifestError) as error:
        return "", error.diagnostics()
    return ("", f"it is said to be a render, and is none: {why_not}") if why_not else (served, "")


def _served(serving: ServingConfig, path: str) -> str | None:
    """Where the launch's drafter is on this machine; None if it is not: a container's paths are its own."""
    if serving.invocation.image:
        return None
    return find(path, serving.speculation.draft_revision, environment=serving.invocation.environment or None)


def difference(judged: str, facts: DrafterFacts | None, serving: ServingConfig, path: str) -> str | None:
    """In what the launch's drafter differs from the one that is judged; "" if in nothing, None if it is not here.

    Args:
        judged: Directory of the drafter that is judged.
        facts: What its files say; None if they cannot be read, which is told elsewhere.
        serving: The launch.
        path: Its draft path, seen from its own working directory.
    """
    served = _served(serving, path)
    if facts is None or served is None:
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
    if other.beside:
        return f"beside its weights lie {', '.join(other.beside)}, which an engine reads too"
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
