"""A registry's server, over HTTP: every verb is one request, and its refusals are the verbs' own errors."""

from __future__ import annotations

import os
import secrets
from urllib.parse import quote

import httpx2
import msgspec

from drafter_cli.client import configuration
from drafter_cli.client.configuration import InForce
from drafter_cli.client.http_client import Answer, HttpClient
from drafter_cli.client.upload import FINISH_SECONDS, Upload
from drafter_cli.errors import UnreachableError, UsageError
from drafter_contracts.manifest import MEDIA_TYPE, canonical
from drafter_contracts.verdict import Verdict
from drafter_registry import documents, names
from drafter_registry.errors import InvalidError, NotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeVar

    from drafter_cli.client.backend import Tell
    from drafter_contracts.acceptance.records import Observation
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.manifest_records import Acceptance
    from drafter_registry.acceptance_documents import (
        AcceptanceList,
        AddedAcceptance,
        ObservationPage,
        ObservationsTaken,
    )

    T = TypeVar("T")

_JSON = {"Content-Type": "application/json"}


class Remote:
    """A server.

    Args:
        settings: The settings in force: URL, token, timeout, cache.
        tool: Name and version of this program.

    Raises:
        UsageError: A setting that cannot be used.
    """

    def __init__(self, settings: InForce, tool: str = "") -> None:
        self._http = HttpClient(
            settings.value("url"),
            configuration.read_token(settings),
            timeout=_seconds(settings),
            plain_http=settings.is_on("plain_http"),
            agent=tool or _tool(),
        )
        self.name = self._http.server
        self._run = secrets.token_hex(8)
        self._ledger = os.path.join(os.path.abspath(settings.value("cache")), "uploads")

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    def has_blob(self, digest: str) -> bool:
        """Whether a blob is stored."""
        try:
            self._http.send("HEAD", f"/v1/blobs/{digest}")
        except NotFoundError:
            return False
        return True

    def put_file(self, path: str, digest: str, size: int, tell: Tell) -> None:
        """Store a local file as a blob; see `Upload.run` for the errors."""
        Upload(self._http, digest, size, tell).run(path, self._ledger)

    def put_bytes(self, data: bytes, digest: str) -> None:
        """Store a few bytes as a blob."""
        upload = self._read(documents.UploadState, self._http.send("POST", "/v1/uploads")).id
        params, headers = {"digest": digest}, {"Content-Type": "application/octet-stream"}
        try:
            self._http.send("PUT", f"/v1/uploads/{upload}", params=params, headers=headers, body=data, repeatable=False)
        except UnreachableError:  # the answer may be lost and the blob stored
            if not self.has_blob(digest):
                raise

    def publish(self, name: str, version: str, manifest: Manifest, tool: str) -> documents.Published:
        """Make a version of blobs that are stored."""
        headers = {"Content-Type": MEDIA_TYPE, "User-Agent": tool}
        path, body = _version(name, version), canonical(manifest)
        return self._read(
            documents.Published, self._http.send("PUT", path, headers=headers, body=body, timeout=FINISH_SECONDS)
        )

    def list_versions(self, query: dict[str, str]) -> documents.VersionPage:
        """One page of versions."""
        given = {key: value for key, value in query.items() if value}
        return self._read(documents.VersionPage, self._http.send("GET", "/v1/drafters", params=given))

    def show(self, reference: str) -> documents.VersionDocument:
        """One version."""
        return self._read(documents.VersionDocument, self._http.send("GET", _referred(reference)))

    def manifest(self, reference: str) -> tuple[bytes, str]:
        """A version's manifest as stored, and its digest."""
        answer = self._http.send("GET", _referred(reference) + "/manifest")
        digest = answer.headers.get("etag", "").removeprefix("W/").strip('"')
        try:
            return answer.body, names.check_digest(digest)
        except InvalidError:
            raise UnreachableError(f"{self.name} does not say which manifest it answers with") from None

    def stream_file(self, reference: str, path: str, start: int) -> Iterator[bytes]:
        """A file's bytes from `start`.

        Raises:
            UnreachableError: The connection was cut; what came before it is good.
            RegistryError: The server refuses.
        """
        url = f"{_referred(reference)}/files/{quote(path)}"
        headers = {"Range": f"bytes={start}-"} if start else None
        try:
            with self._http.stream("GET", url, headers=headers) as response:
                if response.status_code >= 300:
                    raise self._http.refused(response)
                skip = 0 if not start else self._skip(response, start)
                for data in response.iter_raw():
                    if skip >= len(data):
                        skip -= len(data)
                    else:
                        yield data[skip:] if skip else data
                        skip = 0
        except httpx2.TransportError as error:
            raise self._http.unreachable(error) from None

    def _skip(self, response: httpx2.Response, start: int) -> int:
        """Bytes to leave out of an answer to a range: none if it is the range."""
        if response.status_code != 206:
            return start
        first = response.headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
        if first != str(start):
            raise UnreachableError(f"{self.name} answers with another range than was asked for")
        return 0

    def diff(self, name: str, before: str, after: str) -> documents.Difference:
        """What changed between two versions or aliases of one drafter."""
        names.check_name(name)
        params = {"from": before, "to": after}
        return self._read(documents.Difference, self._http.send("GET", f"/v1/drafters/{name}/diff", params=params))

    def alias(self, name: str, alias: str) -> documents.AliasState:
        """Where an alias points."""
        return self._read(documents.AliasState, self._http.send("GET", _alias(name, alias)))

    def set_alias(self, name: str, alias: str, version: str, *, expected: int | None, why: str) -> documents.AliasState:
        """Move an alias."""
        body = msgspec.json.encode(documents.AliasRequest(version=version, why=why))
        headers = _JSON | _condition(expected)
        answer = self._http.send("PUT", _alias(name, alias), headers=headers, body=body, repeatable=False)
        return self._read(documents.AliasState, answer)

    def remove_alias(self, name: str, alias: str, *, expected: int | None, why: str) -> None:
        """Remove an alias."""
        self._reasoned("DELETE", _alias(name, alias), why, _condition(expected))

    def alias_history(self, name: str, alias: str) -> documents.AliasHistory:
        """Every move."""
        return self._read(documents.AliasHistory, self._http.send("GET", _alias(name, alias) + "/history"))

    def yank(self, name: str, version: str, *, why: str, undo: bool) -> None:
        """Yank a version, or take that back."""
        self._reasoned("DELETE" if undo else "POST", _version(name, version) + "/yank", why, {})

    def delete(self, name: str, version: str, *, why: str) -> None:
        """Delete a version for ever."""
        self._reasoned("DELETE", _version(name, version), why, {})

    def check(self, request: documents.CheckRequest) -> Verdict:
        """The verdict on a launch."""
        return self._asked(Verdict, "/v1/check", request)

    def resolve(self, request: documents.ResolveRequest) -> documents.Resolution:
        """Flags and files, or RefusedError."""
        return self._asked(documents.Resolution, "/v1/resolve", request)

    def add_acceptance(self, reference: str, acceptance: Acceptance) -> AddedAcceptance:
        """Attach an acceptance to a version."""
        from drafter_registry.acceptance_documents import AddedAcceptance

        return self._asked(AddedAcceptance, _referred(reference) + "/acceptance", acceptance)

    def acceptances(self, reference: str) -> AcceptanceList:
        """Every acceptance of a version."""
        from drafter_registry.acceptance_documents import AcceptanceList

        return self._read(AcceptanceList, self._http.send("GET", _referred(reference) + "/acceptance"))

    def remove_acceptance(self, reference: str, digest: str) -> None:
        """Take an attached acceptance away."""
        path = f"{_referred(reference)}/acceptance/{names.check_digest(digest)}"
        self._http.send("DELETE", path, repeatable=False)

    def observe(self, reference: str, observations: Sequence[Observation], *, run: str = "") -> ObservationsTaken:
        """Report what an engine was seen to accept."""
        from drafter_registry.acceptance_documents import ObservationsRequest, ObservationsTaken

        request = ObservationsRequest(run=run or self._run, observations=tuple(observations))
        return self._asked(ObservationsTaken, _referred(reference) + "/observations", request)

    def history(
        self, reference: str, *, since: str = "", until: str = "", cursor: str = "", limit: int = 0
    ) -> ObservationPage:
        """What was seen of a version, a page of it."""
        from drafter_registry.acceptance_documents import ObservationPage

        given = {"since": since, "until": until, "cursor": cursor, "limit": str(limit) if limit else ""}
        params = {key: value for key, value in given.items() if value}
        return self._read(
            ObservationPage, self._http.send("GET", _referred(reference) + "/observations", params=params)
        )

    def create_token(self, request: documents.TokenRequest) -> documents.NewToken:
        """A new token."""
        return self._asked(documents.NewToken, "/v1/tokens", request, repeatable=False)

    def tokens(self) -> documents.TokenList:
        """All tokens."""
        return self._read(documents.TokenList, self._http.send("GET", "/v1/tokens"))

    def revoke_token(self, token_id: str) -> None:
        """End a token."""
        self._http.send("DELETE", f"/v1/tokens/{quote(token_id, safe='')}", repeatable=False)

    def audit(self, cursor: str, limit: int, subject: str) -> documents.AuditPage:
        """The audit log, newest first."""
        given = {"cursor": cursor, "limit": str(limit), "subject": subject}
        params = {key: value for key, value in given.items() if value}
        return self._read(documents.AuditPage, self._http.send("GET", "/v1/audit", params=params))

    def _asked(self, kind: type[T], path: str, request: msgspec.Struct, *, repeatable: bool = True) -> T:
        body = msgspec.json.encode(request)
        return self._read(kind, self._http.send("POST", path, headers=_JSON, body=body, repeatable=repeatable))

    def _reasoned(self, method: str, path: str, why: str, headers: dict[str, str]) -> None:
        body = msgspec.json.encode(documents.ReasonRequest(why=why))
        self._http.send(method, path, headers=_JSON | headers, body=body, repeatable=False)

    def _read(self, kind: type[T], answer: Answer) -> T:
        return answer.read_as(kind, self.name)


def _referred(reference: str) -> str:
    """Path of what a reference names.

    Raises:
        InvalidError: It is no reference.
    """
    read = names.read_reference(reference)
    return _version(read.name, read.version or read.alias or read.digest, check=False)


def _version(name: str, version: str, *, check: bool = True) -> str:
    if check:
        names.check_version(version)
    return f"/v1/drafters/{names.check_name(name)}/versions/{quote(version, safe=':')}"


def _alias(name: str, alias: str) -> str:
    return f"/v1/drafters/{names.check_name(name)}/aliases/{names.check_alias(alias)}"


def _condition(expected: int | None) -> dict[str, str]:
    if expected is None:
        return {}
    return {"If-Match": f'"{expected}"'} if expected else {"If-None-Match": "*"}


def _seconds(settings: InForce) -> float:
    text = settings.value("timeout")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86400:
        raise UsageError(f"timeout is {text!r} ({settings.get('timeout').source})", "write seconds, for example 60")
    return seconds


def _tool() -> str:
    from drafter_cli.main import version

    return f"drafters/{version()}"
