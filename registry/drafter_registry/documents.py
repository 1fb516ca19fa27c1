"""The documents that the registry answers with and takes: one definition for the service, the API and its clients.

All are frozen msgspec structs; JSON over HTTP is their encoding. Times are ISO 8601 in UTC with a "Z". Keys may be
added within /v1; none is removed or changes its meaning.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from drafter_contracts.manifest import FileRecord, Manifest
from drafter_contracts.rendering.records import UNCHANGED, WeightChange
from drafter_contracts.value_types import Sha256
from drafter_contracts.verdict import Verdict
from drafter_registry.errors import Fault

#: A version that resolves; one that resolves only by its exact version; one whose bytes are gone.
LIVE = "live"
YANKED = "yanked"
DELETED = "deleted"

PROBLEM_TYPE = "application/problem+json"


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all documents. Every key is always there: an empty list is a list."""


class Publication(Document, frozen=True, kw_only=True):
    """Who published a version, and how.

    Attributes:
        by: Name of the token (or "local:USER" without a server).
        at: When.
        tool: Name and version of the program that published it.
    """

    by: str
    at: str
    tool: str = ""


class VersionSummary(Document, frozen=True, kw_only=True):
    """One version in a list.

    Attributes:
        name: The drafter.
        version: Its version.
        digest: Identity of the manifest, "sha256:...".
        fingerprint: Digest of the contract alone: equal for versions with the same contract.
        method: "EAGLE3", "DFLASH", ...
        target_model: The target's name.
        target_architecture: Its class.
        boundaries: Captured boundaries in concatenation order.
        state: `LIVE`, `YANKED` or `DELETED`.
        aliases: Aliases that point to it now.
        published: Who and when.
        size: Bytes of all files together.
    """

    name: str
    version: str
    digest: str
    fingerprint: str
    method: str = ""
    target_model: str = ""
    target_architecture: str = ""
    boundaries: tuple[int, ...] = ()
    state: str = LIVE
    aliases: tuple[str, ...] = ()
    published: Publication | None = None
    size: int = 0


class VersionPage(Document, frozen=True, kw_only=True):
    """A page of versions. `next`: cursor of the next page, "" on the last one."""

    items: tuple[VersionSummary, ...] = ()
    next: str = ""


class VersionDocument(Document, frozen=True, kw_only=True):
    """One version in full: what `VersionSummary` says, its manifest, and why it was yanked."""

    summary: VersionSummary
    manifest: Manifest
    yanked_why: str = ""
    yanked_by: str = ""
    yanked_at: str = ""


class Published(Document, frozen=True, kw_only=True):
    """The answer to a publication.

    Attributes:
        name: The drafter.
        version: Its version.
        digest: Identity of the manifest.
        fingerprint: Of its contract.
        created: False if the same content was there already.
        same_contract: Versions of this drafter with the same fingerprint, this one left out.
    """

    name: str
    version: str
    digest: str
    fingerprint: str
    created: bool
    same_contract: tuple[str, ...] = ()


class UploadState(Document, frozen=True, kw_only=True):
    """An upload in progress: `offset` bytes are stored."""

    id: str
    offset: int
    expires: str = ""


class BlobState(Document, frozen=True, kw_only=True):
    """A stored blob."""

    digest: str
    size: int


class AliasState(Document, frozen=True, kw_only=True):
    """Where an alias points, and which move put it there (`revision`, 1 for the first; its ETag)."""

    name: str
    alias: str
    version: str
    digest: str
    revision: int
    at: str
    by: str
    why: str = ""


class AliasMove(Document, frozen=True, kw_only=True):
    """One move of an alias; `to_version` "" is its removal, `from_version` "" its creation."""

    alias: str
    revision: int
    from_version: str = ""
    to_version: str = ""
    at: str
    by: str
    why: str = ""


class AliasHistory(Document, frozen=True, kw_only=True):
    """All moves of an alias, newest first."""

    items: tuple[AliasMove, ...] = ()


class AliasRequest(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to move an alias, and why."""

    version: str
    why: str = ""


class ReasonRequest(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a version is yanked or deleted."""

    why: str = ""


class Change(Document, frozen=True, kw_only=True):
    """One difference between two manifests.

    Attributes:
        field: Dotted field of the manifest, "layout.boundaries".
        before: Its value in the first, as text; "" if not recorded.
        after: In the second.
        words: What it means to somebody who serves the drafter, one sentence.
        contract: Whether it is part of the contract (changes the fingerprint).
    """

    field: str
    before: str = ""
    after: str = ""
    words: str = ""
    contract: bool = False


class Difference(Document, frozen=True, kw_only=True):
    """What changed between two versions; the same contract if `same_contract`."""

    name: str
    before: str
    after: str
    same_contract: bool
    changes: tuple[Change, ...] = ()


class CheckRequest(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a check is asked over HTTP: a drafter (by reference or by manifest), an engine, a launch.

    Attributes:
        drafter: Reference, "kimi-eagle3@prod"; or
        manifest: a manifest; exactly one of the two.
        config: With `manifest`: the drafter's config.json, if there is one to judge by.
        engine: "sglang==0.5.23".
        launch: The launch command, as it would be executed; or
        serving: options as a mapping, without their dashes ({"speculative-algorithm": "EAGLE3", ...}).
        target: Name or path of the target, for messages; "" for the launch's model path.
        target_config: The target's config.json; without it the manifest's record of the target is believed.
        target_tokenizer_sha256: With `target_config`: sha256 of the target's tokenizer.json, if there is one.
    """

    drafter: str = ""
    manifest: Manifest | None = None
    config: dict[str, object] | None = None
    engine: str
    launch: tuple[str, ...] = ()
    serving: dict[str, str | int | float | bool | None] | None = None
    target: str = ""
    target_config: dict[str, object] | None = None
    target_tokenizer_sha256: Sha256 = ""


class ResolveRequest(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a launcher asks.

    Attributes:
        drafter: Reference.
        engine: "sglang==0.5.23"; "" for the contract alone, without flags.
        target: Name or path of the target for the flags and messages; "" for the manifest's.
        target_config: The target's config.json; without it the manifest's record of the target is believed.
        target_tokenizer_sha256: With `target_config`: sha256 of the target's tokenizer.json, if there is one.
        draft_path: Where the drafter's files will lie for the engine; "" leaves "{drafter}" in the flags.
        steps: `--speculative-num-steps` to use instead of the recommended.
        topk: `--speculative-eagle-topk`.
        draft_tokens: `--speculative-num-draft-tokens`.
        extra: More options of the launch, judged together with the flags ("--page-size", "64"). What they state counts
            before what is recommended, and is refused where it contradicts what the drafter needs.
        prefer: "flags" or "render": what is tried first where the drafter's config is not right for the release.
    """

    drafter: str
    engine: str = ""
    target: str = ""
    target_config: dict[str, object] | None = None
    target_tokenizer_sha256: Sha256 = ""
    draft_path: str = ""
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    extra: tuple[str, ...] = ()
    prefer: Literal["flags", "render"] = "flags"


class Resolution(Document, frozen=True, kw_only=True):
    """A reference resolved for one engine release.

    Attributes:
        name: The drafter.
        version: Its version.
        digest: Identity of the manifest.
        fingerprint: Of its contract.
        engine: "sglang 0.5.23", "" if none was asked for.
        flags: Arguments for that release, in order, unquoted.
        config: The drafter's config.json as this release must see it; None if the stored one is right.
        config_changes: What was changed in it, one sentence each.
        weights: What must be changed of the weights.
        files: The files to fetch.
        manifest: The manifest.
        verdict: What the check of these flags says; None if no engine was asked for.
        notices: Things that the caller should print: a yanked version, values taken on word.
    """

    name: str
    version: str
    digest: str
    fingerprint: str
    engine: str = ""
    flags: tuple[str, ...] = ()
    config: dict[str, object] | None = None
    config_changes: tuple[str, ...] = ()
    weights: WeightChange = UNCHANGED
    files: tuple[FileRecord, ...] = ()
    manifest: Manifest | None = None
    verdict: Verdict | None = None
    notices: tuple[str, ...] = ()


class TokenRequest(Document, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to be made: scopes as in docs/registry.md ("read", "publish:kimi-*", "alias:*", "admin")."""

    name: str
    scopes: tuple[str, ...]
    expires_in_days: int | None = None


class TokenRecord(Document, frozen=True, kw_only=True):
    """What is known of a token; never the token."""

    id: str
    name: str
    scopes: tuple[str, ...]
    created_at: str
    created_by: str = ""
    expires_at: str = ""
    revoked_at: str = ""
    last_used_at: str = ""


class NewToken(Document, frozen=True, kw_only=True):
    """A token, shown this once."""

    token: str
    record: TokenRecord


class TokenList(Document, frozen=True, kw_only=True):
    """All tokens, newest first."""

    items: tuple[TokenRecord, ...] = ()


class AuditEntry(Document, frozen=True, kw_only=True):
    """One write: who did what to what, when, and on which request."""

    at: str
    actor: str
    action: str
    subject: str
    detail: dict[str, str] = {}
    request_id: str = ""
    address: str = ""


class AuditPage(Document, frozen=True, kw_only=True):
    """A page of the audit log, newest first."""

    items: tuple[AuditEntry, ...] = ()
    next: str = ""


class GcReport(Document, frozen=True, kw_only=True):
    """What a collection removed (or would, on a dry run)."""

    dry_run: bool
    blobs_removed: tuple[str, ...] = ()
    bytes_removed: int = 0
    uploads_removed: int = 0
    blobs_kept_young: int = 0
    blobs_live: int = 0
    orphans_removed: tuple[str, ...] = ()
    observations_removed: int = 0


class FsckProblem(Document, frozen=True, kw_only=True):
    """One thing that does not agree: `kind` is a stable word, `subject` a blob, version or object."""

    kind: str
    subject: str
    detail: str = ""
    remedy: str = ""


class FsckReport(Document, frozen=True, kw_only=True):
    """What a scrub looked at and found."""

    versions: int
    blobs: int
    bytes_hashed: int
    problems: tuple[FsckProblem, ...] = ()


class Problem(Document, frozen=True, kw_only=True):
    """An error over HTTP (RFC 9457), `application/problem+json`.

    Attributes:
        type: URI of the code's description.
        title: The code in words.
        status: HTTP status.
        detail: What happened this time.
        instance: The request's id, "urn:request:...".
        code: Stable word, see docs/api.md.
        hint: The one thing to do next.
        errors: Everything that is wrong.
        verdict: The whole verdict, where a launch was refused.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""
    code: str
    hint: str = ""
    errors: tuple[Fault, ...] = ()
    verdict: Verdict | None = None
