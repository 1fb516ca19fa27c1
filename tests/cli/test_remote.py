"""A registry over HTTP: what is tried again, what is not, and what each answer becomes."""

from __future__ import annotations

import re
import socket

import msgspec
import pytest
from remote_answers import problem

from drafter_cli.client.configuration import read
from drafter_cli.client.http_client import TRIES
from drafter_cli.client.remote import Remote
from drafter_cli.errors import EXIT_UNREACHABLE, UnreachableError, UsageError, exit_code_of_error
from drafter_contracts.acceptance.records import Observation
from drafter_registry import errors
from drafter_registry.acceptance_documents import ObservationsRequest, ObservationsTaken
from drafter_registry.documents import (
    PROBLEM_TYPE,
    AliasState,
    NewToken,
    Problem,
    TokenRecord,
    TokenRequest,
    VersionPage,
)
from drafter_registry.errors import Fault

TOKEN = "drg_" + "secret" * 3
PAGE = msgspec.json.encode(VersionPage())


def every(kind=errors.RegistryError):
    return [kind, *(deeper for one in kind.__subclasses__() for deeper in every(one))]


@pytest.mark.parametrize("kind", every(), ids=lambda kind: kind.__name__)
def test_a_refusal_is_the_error_that_the_verb_itself_raises(scripted, remote, naps, kind):
    faults = (Fault("/a", "wrong", "x", "y", "z"),)
    scripted.answer = lambda request: problem(kind, hint="do this", errors=faults)
    with pytest.raises(errors.RegistryError) as told:
        remote().list_versions({})
    assert type(told.value) is kind
    assert (told.value.message, told.value.hint, told.value.faults) == ("what happened", "do this", faults)


@pytest.mark.parametrize(("status", "kind"), [
    (401, errors.NotAuthorisedError), (403, errors.NotAuthorisedError), (404, errors.NotFoundError),
    (413, errors.TooLargeError), (418, errors.InvalidError), (500, errors.InternalError),
    (502, errors.UnavailableError), (507, errors.StorageFullError), (599, errors.InternalError),
])  # fmt: skip
@pytest.mark.parametrize("body", [b"<html>", b"{", b""])
def test_an_answer_that_is_no_registry_s_is_told_by_its_status(scripted, remote, naps, status, kind, body):
    scripted.answer = lambda request: (status, {"Content-Type": PROBLEM_TYPE if body == b"{" else "text/html"}, body)
    with pytest.raises(errors.RegistryError, match=str(status)) as told:
        remote().list_versions({})
    assert type(told.value) is kind


def test_a_code_of_a_newer_server_is_told_by_its_status(scripted, remote):
    document = Problem(type="urn:x", title="t", status=409, detail="new", code="NEW_CODE")
    scripted.answer = lambda request: (409, {"Content-Type": PROBLEM_TYPE}, msgspec.json.encode(document))
    with pytest.raises(errors.ConflictError, match="new"):
        remote().list_versions({})


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_passing_fault_is_waited_for_as_long_as_the_server_asks(scripted, remote, naps, status):
    def answer(request):
        return (status, {"Retry-After": "7"}, b"") if len(scripted.requests) < 3 else (200, {}, PAGE)

    scripted.answer = answer
    assert remote().list_versions({}) == VersionPage()
    assert len(scripted.requests) == 3
    assert len(naps) == 2
    assert all(nap >= 7 for nap in naps)


def test_tries_are_bounded_and_long_waits_are_not_sat_out(scripted, remote, naps):
    scripted.answer = lambda request: (503, {}, b"")
    with pytest.raises(errors.UnavailableError):
        remote().list_versions({})
    assert len(scripted.requests) == TRIES
    scripted.requests.clear()
    scripted.answer = lambda request: (429, {"Retry-After": "3600"}, b"")
    with pytest.raises(errors.TooManyRequestsError) as told:
        remote().list_versions({})
    assert len(scripted.requests) == 1
    assert told.value.retry_after == 3600


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 500, 507])
def test_what_will_not_pass_is_not_tried_again(scripted, remote, naps, status):
    scripted.answer = lambda request: (status, {}, b"")
    with pytest.raises(errors.RegistryError):
        remote().list_versions({})
    assert len(scripted.requests) == 1


@pytest.mark.parametrize("answer", [(503, {}, b""), None], ids=["503", "cut"])
def test_what_would_do_something_twice_is_asked_once(scripted, remote, naps, answer):
    scripted.answer = lambda request: request.read() and answer
    client = remote()
    for ask in (
        lambda: client.create_token(TokenRequest(name="t", scopes=("read",))),
        lambda: client.set_alias("n", "prod", "1", expected=None, why=""),
        lambda: client.delete("n", "1", why="x"),
        lambda: client.yank("n", "1", why="x", undo=False),
    ):
        scripted.requests.clear()
        with pytest.raises((UnreachableError, errors.UnavailableError)):
            ask()
        assert len(scripted.requests) == 1


def test_a_report_and_an_acceptance_may_be_repeated_as_they_are(scripted, remote, naps):
    """What was taken although the answer was lost is not taken twice: it is the same run, and the same digest."""
    observation = Observation(hour="2026-03-01T11:00:00Z", readings=1, length=2, lowest=2, highest=2)
    taken = ObservationsTaken(name="n", version="1", digest="d", taken=1, known=0)
    bodies = []

    def answer(request):
        bodies.append(request.read())
        waits = (429, {"Retry-After": "7"}, b"")
        return None if len(bodies) == 1 else waits if len(bodies) == 2 else (200, {}, msgspec.json.encode(taken))

    scripted.answer = answer
    client = remote()
    assert client.observe("n@prod", [observation]) == taken
    assert client.observe("n@prod", [observation]) == taken
    assert client.observe("n@prod", [observation], run="mine") == taken
    sent = [msgspec.json.decode(body, type=ObservationsRequest) for body in bodies]
    assert len(set(bodies[:4])) == 1
    assert [one.run == sent[0].run for one in sent] == [True] * 4 + [False]
    assert sent[4].run == "mine"
    assert set(scripted.asked("POST")) == {"/v1/drafters/n/versions/prod/observations"}
    assert remote().observe("n@prod", [observation]) == taken
    assert msgspec.json.decode(bodies[-1], type=ObservationsRequest).run != sent[0].run
    assert naps[1] >= 7


def test_a_cut_answer_is_asked_for_again(scripted, remote, naps):
    scripted.answer = lambda request: None if len(scripted.requests) < 2 else (200, {}, PAGE)
    assert remote().list_versions({}) == VersionPage()


def test_nobody_there_is_unreachable(tmp_path, naps):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = Remote(read(None, {"HOME": str(tmp_path), "DRAFTERS_URL": f"http://127.0.0.1:{port}"}))
    with pytest.raises(UnreachableError, match=str(port)) as told:
        client.list_versions({})
    client.close()
    assert exit_code_of_error(told.value) == EXIT_UNREACHABLE
    assert len(naps) == TRIES - 1


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"[]", b'{"items": 3}', b"\xff"])
def test_a_success_that_is_no_document_is_no_registry(scripted, remote, body):
    scripted.answer = lambda request: (200, {}, body)
    with pytest.raises(UnreachableError, match="does not answer as a registry does"):
        remote().list_versions({})


def test_the_token_is_not_carried_to_another_address(scripted, remote):
    scripted.answer = lambda request: (307, {"Location": "http://127.0.0.2:1/v1"}, b"")
    with pytest.raises(UsageError, match=re.escape("127.0.0.2")):
        remote(DRAFTERS_TOKEN=TOKEN).list_versions({})
    assert len(scripted.requests) == 1


def test_the_token_goes_with_each_request_and_into_no_message(scripted, remote, naps):
    client = remote(DRAFTERS_TOKEN=TOKEN)
    for answer in ((401, {}, b""), (200, {}, b"no"), (500, {}, b""), None):
        scripted.answer = lambda request, answer=answer: answer
        with pytest.raises((UsageError, errors.RegistryError)) as told:
            client.list_versions({})
        assert TOKEN not in f"{told.value!r} {told.value} {getattr(told.value, 'hint', '')} {client!r}"
    assert {request.headers["authorization"] for request in scripted.requests} == {f"Bearer {TOKEN}"}
    assert all(request.headers["user-agent"].startswith("drafters/") for request in scripted.requests)


@pytest.mark.parametrize(("url", "token", "more", "allowed"), [
    ("http://registry.example", TOKEN, {}, False),
    ("http://10.0.0.1:8080", TOKEN, {}, False),
    ("http://localhost.example", TOKEN, {}, False),
    ("http://registry.example", TOKEN, {"DRAFTERS_PLAIN_HTTP": "1"}, True),
    ("http://registry.example", "", {}, True),
    ("https://registry.example", TOKEN, {}, True),
    ("http://localhost:1", TOKEN, {}, True),
    ("http://127.8.9.1:1", TOKEN, {}, True),
    ("http://[::1]:1", TOKEN, {}, True),
])  # fmt: skip
def test_a_token_leaves_the_machine_encrypted_or_not_at_all(tmp_path, url, token, more, allowed):
    settings = read(None, {"HOME": str(tmp_path), "DRAFTERS_URL": url, "DRAFTERS_TOKEN": token, **more})
    if allowed:
        Remote(settings).close()
    else:
        with pytest.raises(UsageError, match="unencrypted") as told:
            Remote(settings)
        assert TOKEN not in told.value.message


@pytest.mark.parametrize("url", ["registry", "ftp://x", "http://", "http://me:pw@localhost", "http://localhost/?a=b"])
def test_a_url_that_is_none_is_refused(tmp_path, url):
    with pytest.raises(UsageError):
        Remote(read(None, {"HOME": str(tmp_path), "DRAFTERS_URL": url}))


def test_paths_and_conditions_are_as_the_routes_have_them(scripted, remote):
    state = AliasState(name="n", alias="prod", version="1", digest="d", revision=1, at="", by="")
    record = TokenRecord(id="t", name="t", scopes=(), created_at="")
    bodies = {"aliases": state, "tokens": NewToken(token=TOKEN, record=record), "drafters?": VersionPage()}

    def answer(request):
        request.read()
        found = next((body for part, body in bodies.items() if part in request.path), VersionPage())
        return 200, {}, msgspec.json.encode(found)

    scripted.answer = answer
    client = remote()
    client.set_alias("n", "prod", "1", expected=0, why="w")
    client.set_alias("n", "prod", "1", expected=4, why="w")
    client.set_alias("n", "prod", "1", expected=None, why="w")
    client.list_versions({"name": "a&b", "method": ""})
    client.yank("n", "1.0+a", why="w", undo=True)
    conditions = [(one.headers.get("if-match"), one.headers.get("if-none-match")) for one in scripted.requests[:3]]
    assert conditions == [(None, "*"), ('"4"', None), (None, None)]
    assert scripted.requests[3].path == "/v1/drafters?name=a%26b"
    assert scripted.requests[4].method == "DELETE"
    assert scripted.requests[4].path == "/v1/drafters/n/versions/1.0%2Ba/yank"


@pytest.mark.parametrize("reference", ["n", "n@", "../x@1", "n@1/../2", "N@1", "n@1\r\nX: y"])
def test_what_is_no_reference_is_never_sent(scripted, remote, reference):
    with pytest.raises(errors.InvalidError):
        remote().show(reference)
    assert not scripted.requests
