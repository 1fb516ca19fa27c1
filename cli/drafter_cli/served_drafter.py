"""Whether the drafter that is judged is the one that the launch will load.

A DRAFTER argument may name other files than the launch's draft path: then the verdict would be about a drafter that is
never served. Where both are on this machine they are compared as far as headers, configs and manifests tell; weights
are not read, so that two trainings of one shape look the same here. Only where a render has its weights in another
order, which nothing else tells, the beginnings of its files are held against the drafter's own.

A render of the drafter that is judged differs from it and is that drafter all the same: then the render's own files and
manifest are what is judged.
"""

from __future__ import annotations

import os

from drafter_contracts.errors import CheckpointError, ManifestError, RenderError
from drafter_contracts.hub_cache import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.manifest import Manifest, RenderRecord
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

        other = read_drafter(served)
        why_not = no_render_of(its, other, mine, facts) or _out_of_order(facts, other, mine, its.render)
    except (CheckpointError, ManifestError, RenderError) as error:
        return "", error.diagnostics()
    return ("", f"it is said to be a render, and is none: {why_not}") if why_not else (served, "")


def _out_of_order(original: DrafterFacts, served: DrafterFacts, version: Manifest, record: RenderRecord) -> str:
    """Why the weights of a render are not in the order that its manifest states; "" if they begin so."""
    if not record.order:
        return ""
    from drafter_cli.rendering.order_seen import misplaced
    from drafter_contracts.rendering.records import WeightChange
    from drafter_contracts.rendering.tensor_names import canonical

    names = {canonical(tensor.name): tensor.name for tensor in served.tensors}
    pairs = ((tensor.name, names.get(canonical(tensor.name), tensor.name)) for tensor in original.tensors)
    change = WeightChange(record.order, {old: new for old, new in pairs if new != old})
    layout, paths = version.capture_layout(), [file.path for file in version.files]
    found = misplaced(original.path, served.path, paths, change, layout.widths if layout is not None else ())
    return f"its {found} does not hold the version's weights in the order {list(record.order)}" if found else ""


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
