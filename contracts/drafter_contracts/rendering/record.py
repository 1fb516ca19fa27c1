"""The manifest of a render: the version's own, with what the render changes, and a record that it is one."""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.facts import DrafterFacts
from drafter_contracts.errors import LayoutError
from drafter_contracts.manifest import FileRecord, Manifest, RenderRecord, canonical, digest
from drafter_contracts.rendering.records import UNCHANGED, WeightChange
from drafter_contracts.rendering.reorder import reordered
from drafter_contracts.rendering.tensor_names import canonical as plain_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Beside the files of a render: what was changed, and why.
NOTES_NAME = "RENDER.md"


class Wanted(msgspec.Struct, frozen=True):
    """A render to be made.

    Attributes:
        engine: "sglang 0.5.23".
        config: The config.json for it; None for the drafter's own.
        weights: What to change of the weights.
        changes: What is changed, one sentence each with its reason.
    """

    engine: str
    config: dict[str, object] | None = None
    weights: WeightChange = UNCHANGED
    changes: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether there is anything to make: else the drafter's own files will do."""
        return self.config is not None or self.weights.any


def rendered_manifest(manifest: Manifest, wanted: Wanted, files: Sequence[FileRecord]) -> Manifest:
    """The manifest to lie beside a render.

    Args:
        manifest: The version's.
        wanted: What is made of it.
        files: The render's files.

    Raises:
        LayoutError: The order does not fit the manifest's layout.
    """
    record = RenderRecord(of=digest(manifest), engine=wanted.engine, order=wanted.weights.order, changes=wanted.changes)
    return msgspec.structs.replace(
        reordered(manifest, wanted.weights.order),
        files=tuple(sorted(files, key=lambda file: file.path)),
        render=record,
    )


def no_render_of(rendered: Manifest, facts: DrafterFacts, version: Manifest, original: DrafterFacts) -> str:
    """Why files are no render of a version, although their manifest says so; "" if they are one.

    Compared is what manifests and headers tell: weights are not read.

    Args:
        rendered: The manifest beside the files.
        facts: What the files say.
        version: The version's manifest.
        original: What its files say.
    """
    record = rendered.render
    if record is None or record.of != digest(version):
        return "its drafters-manifest.json names another version"
    try:
        expected = reordered(version, record.order)
    except LayoutError as error:
        return f"its drafters-manifest.json names an order that is none: {error.diagnostics()}"
    plain = msgspec.structs.replace(expected, files=(), render=None)
    if canonical(msgspec.structs.replace(rendered, files=(), render=None)) != canonical(plain):
        return "its drafters-manifest.json states another contract than the version's"
    if _tensors(facts) != _tensors(original):
        return "its tensors have other shapes than the version's"
    return ""


def _tensors(facts: DrafterFacts) -> list[tuple[str, str, tuple[int, ...]]]:
    """Tensors, whatever prefix their names have."""
    return sorted((plain_name(tensor.name), tensor.dtype, tensor.shape) for tensor in facts.tensors)
