"""What a drafter is promised to do: by its version in a registry, by the manifest beside it, or by the command line."""

from __future__ import annotations

import os
from dataclasses import dataclass

from drafter_cli.errors import UsageError
from drafter_contracts.acceptance.promises import Promise
from drafter_contracts.manifest_records import Acceptance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend
    from drafter_contracts.acceptance.records import Conditions, EngineState
    from drafter_contracts.manifest import Manifest
    from drafter_registry.acceptance_documents import KnownAcceptance

#: In an engine's arguments: where it took the drafter from.
_DRAFT_PATH = "speculative_draft_model_path"


@dataclass(frozen=True, kw_only=True)
class Promises:
    """Promises and where they are from.

    Attributes:
        promises: The promises.
        origin: Where they are from, in words; "" if nothing was found to ask.
        reference: "name@version" of a stored version, or "".
        digest: Of that version's manifest, or "".
    """

    promises: tuple[Promise, ...] = ()
    origin: str = ""
    reference: str = ""
    digest: str = ""


def stated(text: str, conditions: Conditions) -> Promises:
    """Of `--promise LENGTH`: promised for what runs.

    Raises:
        UsageError: It is no length.
    """
    try:
        length = float(text)
    except ValueError:
        length = 0.0
    if not 1 <= length < 1000:
        raise UsageError(f"--promise is {text!r}", "write the mean tokens per verify step, 1 or more, e.g. 2.9")
    acceptance = Acceptance(
        length=length,
        dataset=conditions.workload,
        engine=f"{conditions.engine} {conditions.release}".strip(),
        steps=conditions.steps,
        topk=conditions.topk,
        draft_tokens=conditions.draft_tokens,
        target_revision=conditions.target_revision,
        target_dtype=conditions.target_dtype,
        target_quantization=conditions.target_quantization,
        temperature=conditions.temperature,
    )
    return Promises(promises=(Promise(acceptance=acceptance, where="stated"),), origin="--promise")


def stored(backend: Backend, word: str) -> Promises:
    """Of a version in a registry: its manifest's, and those attached to it since.

    Raises:
        RegistryError, UnreachableError: The registry.
        ManifestError: Its manifest is of a schema that is not known here.
    """
    from drafter_cli.catalogue.pull_command import read_manifest
    from drafter_registry import names

    manifest, digest = read_manifest(backend, names.read_reference(word))
    reference = f"{manifest.name}@{manifest.version}"
    promises = tuple(
        Promise(acceptance=one.acceptance, where=_where(one)) for one in backend.acceptances(reference).items
    )
    return Promises(promises=promises, origin=reference, reference=reference, digest=digest)


def _where(known: KnownAcceptance) -> str:
    if known.source == "manifest":
        return "manifest"
    return f"attached by {known.by} on {known.at[:10]}" if known.by else "attached"


def beside(directory: str) -> Promises:
    """Of the manifest in a drafter's directory.

    Raises:
        UsageError: There is none.
        ManifestError: It is not right.
    """
    manifest = _manifest(directory)
    if manifest is None:
        raise UsageError(f"{directory} has no drafters-manifest.json", "drafters publish writes one, or give --promise")
    return Promises(promises=_of_manifest(manifest), origin=f"the manifest in {directory}")


def runs_another(state: EngineState, promises: Promises) -> str:
    """That the engine serves another drafter than the stored one, by the manifest where it took it from; "" otherwise.

    Where that directory is not on this machine, or has no manifest, nothing is known.

    Raises:
        ManifestError: The manifest is not right.
    """
    path = state.arguments.get(_DRAFT_PATH)
    if not promises.reference or not isinstance(path, str) or not os.path.isabs(path):
        return ""
    manifest = _manifest(path)
    if manifest is None or not manifest.name or not manifest.version:
        return ""
    own = f"{manifest.name}@{manifest.version}"
    of = manifest.render.of if manifest.render is not None else promises.digest
    if own == promises.reference and of == promises.digest:
        return ""
    what = own if own != promises.reference else f"a render of another {own}"
    return f"the engine serves {path}, which is {what} by its manifest, and not {promises.reference}"


def of_engine(state: EngineState) -> Promises:
    """Of the directory that the engine says it took the drafter from, if that is on this machine and has a manifest.

    Raises:
        ManifestError: The manifest is not right.
    """
    path = state.arguments.get(_DRAFT_PATH)
    if not isinstance(path, str) or not os.path.isabs(path) or not os.path.isdir(path):
        return Promises()
    manifest = _manifest(path)
    if manifest is None:
        return Promises()
    return Promises(promises=_of_manifest(manifest), origin=f"the manifest in {path}, from where the engine serves")


def _of_manifest(manifest: Manifest) -> tuple[Promise, ...]:
    return tuple(Promise(acceptance=one, where="manifest") for one in manifest.acceptance)


def _manifest(directory: str) -> Manifest | None:
    from drafter_contracts.manifest import read_manifest

    return read_manifest(directory)
