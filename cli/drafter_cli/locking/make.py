"""A lock made from an answered question."""

from __future__ import annotations

import hashlib
import os

from drafter_cli.cache.blobs import doubt
from drafter_cli.locking.directory import digests
from drafter_cli.locking.here import engine_of, tool
from drafter_cli.resolving.answering import wanted
from drafter_contracts.errors import InternalError
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER
from drafter_contracts.locking.document import (
    SCHEMA,
    Lock,
    LockedDrafter,
    LockedRender,
    LockedTarget,
    config_digest,
    locked_verdict,
    sealed,
)
from drafter_contracts.manifest import FILE_NAME, canonical
from drafter_registry.errors import DigestError, Fault

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.locking.question import Asking
    from drafter_cli.resolving.answering import Answer
    from drafter_contracts.manifest import Manifest
    from drafter_registry.documents import Resolution


def make(asking: Asking, answer: Answer) -> Lock:
    """The lock of an answered question.

    Args:
        asking: The question.
        answer: The answer, computed here, its files fetched.

    Raises:
        UsageError: Files that cannot be read.
        ContractsError: The target's config cannot be read.
    """
    profile, resolution = asking.asked.engine.profile, answer.resolution
    if profile is None or resolution.manifest is None or resolution.verdict is None or not answer.directory:
        raise InternalError("a launch was resolved without files or engine", where=resolution.engine)
    lock = Lock(
        schema=SCHEMA,
        tool=tool(),
        asked=asking.question,
        drafter=LockedDrafter(
            name=resolution.name,
            version=resolution.version,
            digest=resolution.digest,
            fingerprint=resolution.fingerprint,
            files=digests(answer.directory),
        ),
        render=_render(resolution),
        engine=engine_of(profile),
        target=_target(asking, resolution.manifest),
        flags=tuple(PATH_PLACEHOLDER if flag == answer.directory else flag for flag in resolution.flags),
        options=asking.options,
        verdict=locked_verdict(resolution.verdict),
    )
    return sealed(lock)


def require_published(lock: Lock, answer: Answer) -> None:
    """Refuse to lock files that are not those of the version, or of its render.

    Args:
        lock: Made of what lies in the directory now.
        answer: What it was made of.

    Raises:
        DigestError: They are not; names all of them.
    """
    manifest = answer.render.manifest if answer.render is not None else answer.resolution.manifest
    listed = {file.path: file.sha256 for file in manifest.files} if manifest is not None else {}
    listed[FILE_NAME] = hashlib.sha256(canonical(manifest)).hexdigest() if manifest is not None else ""
    faults = []
    for path in sorted({*listed, *lock.drafter.files}):
        expected, actual = listed.get(path, ""), lock.drafter.files.get(path, "")
        if expected != actual:
            place = os.path.join(answer.directory, *path.split("/"))
            told = [f"sha256:{one}" if one else "no such file" for one in (expected, actual)]
            faults.append(Fault(place, "is not as it was published", *told))
            doubt(place)
    if faults:
        raise DigestError(
            f"{answer.directory} does not hold what was published as {lock.name}",
            faults=tuple(faults),
            hint="lock it again: what is damaged is fetched anew; or remove what does not belong there",
        )


def _render(resolution: Resolution) -> LockedRender | None:
    if not wanted(resolution).any:
        return None
    return LockedRender(changes=resolution.config_changes, order=resolution.weights.order)


def _target(asking: Asking, manifest: Manifest) -> LockedTarget:
    """The target's digests, as far as its config is on this machine."""
    asked = asking.asked
    facts = asked.target_here(with_tokenizer=bool(manifest.target.tokenizer_sha256))
    name = asked.target or manifest.target.model
    if facts is None:
        return LockedTarget(name=name)
    wanted = bool(manifest.target.tokenizer_sha256)
    tokenizer = facts.tokenizer_sha256 if wanted else ""
    return LockedTarget(name=name, config_sha256=config_digest(facts.config), tokenizer_sha256=tokenizer)
