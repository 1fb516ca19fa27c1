"""`drafters.lock`: which drafter, engine, target and flags a launch was resolved to, and what the check said of it.

The document is strict and sealed: unknown fields are refused, and a document that was changed by hand no longer has
the digest that it states. It holds no date and no place of this machine but those that the caller wrote, so that
locking the same again gives the same bytes.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec

from drafter_contracts import limits
from drafter_contracts.errors import LockError
from drafter_contracts.value_types import Count, GivenSha256, Sha256, Size
from drafter_contracts.verdict import NOTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.verdict import Verdict

SCHEMA: Literal["drafters.lock.v1"] = "drafters.lock.v1"
FILE_NAME = "drafters.lock"

#: The engine does what its release does as published; or it is known by the digest of its own files.
PUBLISHED, FILES = KNOWN_BY = ("published", "files")

Digest = Annotated[str, msgspec.Meta(pattern="^sha256:[0-9a-f]{64}$")]
Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts: every key is always there."""


class Question(_Record, frozen=True, kw_only=True):
    """What was asked, as it was written: enough to ask again.

    Attributes:
        reference: NAME@VERSION, NAME@ALIAS or NAME@sha256:DIGEST.
        engine: Value of `--engine`; "" for what was installed.
        target: Value of `--target`, "" for none.
        target_config: Value of `--target-config`, "" for none.
        steps: `--steps`, None for the recommended; `topk` and `draft_tokens` likewise.
        topk: See `steps`.
        draft_tokens: See `steps`.
        prefer: "flags" or "render": what was tried first.
        launch: The launch, or more of its options: what followed `--`.
    """

    reference: Text
    engine: str = ""
    target: str = ""
    target_config: str = ""
    steps: Count | None = None
    topk: Count | None = None
    draft_tokens: Count | None = None
    prefer: Literal["flags", "render"] = "flags"
    launch: tuple[str, ...] = ()


class LockedDrafter(_Record, frozen=True, kw_only=True):
    """The version that was resolved, and the directory that the engine is to see.

    Attributes:
        name: Its name.
        version: Its version.
        digest: Identity of its manifest.
        fingerprint: Digest of its contract.
        files: Path of every file in the directory to its sha256: the version's own, or those of its render.
    """

    name: Text
    version: Text
    digest: Digest
    fingerprint: Digest
    files: Annotated[dict[str, GivenSha256], msgspec.Meta(min_length=1)]


class LockedRender(_Record, frozen=True, kw_only=True):
    """How the directory differs from the version's own files.

    Attributes:
        changes: What was changed, one sentence each.
        order: Order of the version's `fc` blocks; empty for their own.
    """

    changes: tuple[str, ...] = ()
    order: tuple[Size, ...] = ()


class LockedEngine(_Record, frozen=True, kw_only=True):
    """The engine.

    Attributes:
        name: "sglang".
        release: Its version.
        known_by: One of `KNOWN_BY`.
        digest: Digest over the files that decide what it does, names and contents.
    """

    name: Text
    release: Text
    known_by: Literal["published", "files"]
    digest: Digest

    def same(self, other: LockedEngine) -> bool:
        """Whether both do the same: one release as published, or the very same files."""
        if (self.name, self.release) != (other.name, other.release):
            return False
        return self.digest == other.digest or self.known_by == other.known_by == PUBLISHED


class LockedTarget(_Record, frozen=True, kw_only=True):
    """The target.

    Attributes:
        name: Path or Hub id as it was written; the manifest's name for it if none was.
        config_sha256: Digest of its config.json's content, whatever its white space; "" if it was not given.
        tokenizer_sha256: Of its tokenizer.json; "" if the drafter does not ask for one.
    """

    name: str = ""
    config_sha256: Sha256 = ""
    tokenizer_sha256: Sha256 = ""


class LockedFinding(_Record, frozen=True, kw_only=True):
    """One thing that the check said: its code and severity."""

    code: Text
    severity: Literal["note", "warn"]


class LockedVerdict(_Record, frozen=True, kw_only=True):
    """What the check said of these flags; a launch that it refused is never locked."""

    decision: Literal["allow", "warn"]
    findings: tuple[LockedFinding, ...] = ()


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One resolved launch.

    Attributes:
        schema: Name and version of this document's schema.
        tool: Program and version that wrote it.
        asked: The question.
        drafter: The drafter.
        render: How the files were changed for this release; None if they are the version's own.
        engine: The engine.
        target: The target.
        flags: The drafter's flags, in order; "{drafter}" stands for its directory. Empty where the operator's own
            options state all of them.
        options: The operator's own options, as the engine's parser sees them.
        verdict: What the check said.
        seal: Digest over everything else here, so that an edit by hand is noticed.
    """

    schema: Literal["drafters.lock.v1"]
    tool: Text
    asked: Question
    drafter: LockedDrafter
    render: LockedRender | None = None
    engine: LockedEngine
    target: LockedTarget
    flags: tuple[str, ...]
    options: tuple[str, ...] = ()
    verdict: LockedVerdict
    seal: str = ""

    @property
    def name(self) -> str:
        """The drafter, "kimi-eagle3@1.0.0"."""
        return f"{self.drafter.name}@{self.drafter.version}"

    @property
    def engine_name(self) -> str:
        """The engine, "sglang 0.5.23"."""
        return f"{self.engine.name} {self.engine.release}"


def sealed(lock: Lock) -> Lock:
    """The document with its seal."""
    return msgspec.structs.replace(lock, seal=seal_of(lock))


def seal_of(lock: Lock) -> str:
    """Digest of a document, its seal left out."""
    return _digest(msgspec.json.encode(msgspec.structs.replace(lock, seal=""), order="sorted"))


def canonical(lock: Lock) -> bytes:
    """The file's bytes: keys sorted, two spaces of indent, UTF-8, one line end at the end."""
    return msgspec.json.format(msgspec.json.encode(lock, order="sorted"), indent=2) + b"\n"


def decode(data: bytes, *, where: str = FILE_NAME) -> Lock:
    """A lock from its bytes.

    Args:
        data: The document.
        where: File name for errors.

    Raises:
        LockError: Not JSON, of another schema, an unknown or missing field, a wrong value, or not as it was written.
    """
    if len(data) > limits.lock_max_bytes:
        raise LockError("too large", where=where, expected=f"at most {limits.lock_max_bytes} bytes")
    _check_schema(data, where)
    try:
        lock = msgspec.json.decode(data, type=Lock)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        field = path.rstrip("`").lstrip(".")
        raise LockError(
            message[:1].lower() + message[1:], where=f"{where}: {field}" if field else where, expected=f"a {SCHEMA}"
        ) from None
    found = seal_of(lock)
    if lock.seal != found:
        raise LockError(
            "was changed after it was written, its content has another digest: take the file as it was, or lock again",
            where=f"{where}: seal",
            expected=lock.seal or "a seal",
            actual=found,
        )
    return lock


def _check_schema(data: bytes, where: str) -> None:
    """Whether it is a lock of this schema at all: the first thing to say of a document that is not."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise LockError("not a JSON document", where=where, expected=f"a {SCHEMA}", actual=str(error)) from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        told = f"{where}: schema" if isinstance(document, dict) else where
        raise LockError("not a lock that is known here", where=told, expected=SCHEMA, actual=repr(schema)[:80])


def is_lock(data: bytes) -> bool:
    """Whether a file's content is a lock of any version, whole or not: one that may be written anew."""
    try:
        schema = msgspec.json.decode(data, type=dict[str, Any]).get("schema")
    except (msgspec.MsgspecError, RecursionError):
        return False
    return isinstance(schema, str) and schema.startswith("drafters.lock.")


def config_digest(config: dict[str, object]) -> str:
    """Digest of a config's content: keys sorted, no white space; 64 hex digits."""
    return hashlib.sha256(msgspec.json.encode(config, order="sorted")).hexdigest()


def locked_engine(profile: Profile, *, published: bool) -> LockedEngine:
    """The engine of a profile.

    Args:
        profile: What it does, and the files that this was derived from.
        published: Whether that is its release's own profile.
    """
    decides = profile.sources or profile  # a profile that names no files stands for itself
    digest = _digest(msgspec.json.encode(decides, order="sorted"))
    known_by: Literal["published", "files"] = "published" if published else "files"
    return LockedEngine(name=profile.engine, release=profile.release, known_by=known_by, digest=digest)


def locked_verdict(verdict: Verdict) -> LockedVerdict:
    """A verdict's decision and codes, each code once with its worst severity.

    Raises:
        LockError: It is neither allow nor warn.
    """
    if verdict.decision not in ("allow", "warn"):
        raise LockError("only a launch that may start is locked", expected="allow or warn", actual=verdict.decision)
    worst: dict[str, Literal["note", "warn"]] = {}
    for finding in verdict.findings:
        if worst.get(finding.code, NOTE) == NOTE:
            worst[finding.code] = "note" if finding.severity == NOTE else "warn"
    findings = tuple(LockedFinding(code=code, severity=worst[code]) for code in sorted(worst))
    return LockedVerdict(decision="allow" if verdict.decision == "allow" else "warn", findings=findings)


def json_schema() -> dict[str, Any]:
    """The document's JSON Schema (2020-12), generated from the classes above."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(Lock)}


def schema_text() -> str:
    """The schema as docs/lock.schema.json holds it."""
    return msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode() + "\n"


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    import sys

    sys.stdout.write(schema_text())
