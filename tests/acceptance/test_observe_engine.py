"""An engine that is asked: which path, what is refused, and what an engine that means harm can do."""

from __future__ import annotations

import pytest

from drafter_cli.engine_request import EngineAddress
from drafter_cli.errors import UnreachableError, UsageError
from drafter_cli.observing import engine as engine_module
from drafter_cli.observing.engine import EngineClient
from drafter_contracts.errors import EngineReportError

SGLANG = {
    "version": "0.5.23",
    "model_path": "meta/target",
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
    "internal_states": [{"avg_spec_accept_length": 2.5}, {}],
}


@pytest.fixture
def client(stub):
    return EngineClient(stub.url)


def test_the_newer_path_then_the_older(stub, client):
    stub.answers["/server_info"] = SGLANG
    stub.answers["/get_server_info"] = SGLANG | {"version": "0.0.0"}
    state = client.state()
    assert (state.engine, state.release, state.lengths) == ("sglang", "0.5.23", (2.5, None))
    assert state.conditions.steps == 3
    del stub.answers["/server_info"]
    assert client.state().release == "0.0.0"
    assert stub.asked == ["/server_info", "/server_info", "/get_server_info"]


def test_vllm_is_known_by_its_version_and_model(stub, client):
    stub.answers["/version"] = {"version": "0.29.0"}
    stub.answers["/v1/models"] = {"data": [{"id": "served-as", "root": "meta/target"}]}
    state = client.state()
    assert (state.engine, state.release, state.conditions.target_model) == ("vllm", "0.29.0", "meta/target")
    stub.answers["/server_info"] = {"vllm_config": "VllmConfig(...)"}
    for models in ({}, {"data": []}, {"data": [3]}, {"data": [{"id": 4}]}, {"data": {"a": 1}}):
        stub.answers["/v1/models"] = models
        assert client.state().conditions.target_model == ""
    stub.answers["/v1/models"] = {"data": [{"id": "served-as"}]}
    assert client.state().conditions.target_model == "served-as"


@pytest.mark.parametrize("version", [{}, {"version": 3}, None])
def test_something_else_is_no_engine(stub, client, version):
    if version is not None:
        stub.answers["/version"] = version
    with pytest.raises(UnreachableError, match="none of /server_info"):
        client.state()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"<html>", b"[" * 100_000, b'{"a":' * 100_000]
)
def test_garbage_is_told_as_such(stub, client, body):
    stub.answers["/server_info"] = body
    with pytest.raises(UnreachableError, match="does not answer with a JSON object"):
        client.state()


def test_another_service_s_json_and_impossible_figures(stub, client):
    stub.answers["/server_info"] = {"hello": "world"}
    with pytest.raises(EngineReportError, match="no answer of SGLang"):
        client.state()
    stub.answers["/server_info"] = SGLANG | {"internal_states": [{"avg_spec_accept_length": -2}]}
    with pytest.raises(EngineReportError, match="avg_spec_accept_length"):
        client.state()


def test_an_engine_that_is_not_up_and_one_that_wants_a_key(stub, client, monkeypatch):
    stub.answers["/server_info"] = (503, b"loading")
    with pytest.raises(UnreachableError, match="answers 503"):
        client.state()
    stub.answers["/server_info"] = (401, b"")
    with pytest.raises(UsageError, match="answers 401") as caught:
        client.state()
    assert "DRAFTERS_ENGINE_KEY" in caught.value.hint
    monkeypatch.setenv("DRAFTERS_ENGINE_KEY", "secret")
    stub.answers["/server_info"] = SGLANG
    EngineClient(stub.url).state()
    assert stub.headers[-1]["authorization"] == "Bearer secret"


def test_a_redirect_is_followed_nowhere_and_takes_no_key_along(stub, other_stub, monkeypatch):
    monkeypatch.setenv("DRAFTERS_ENGINE_KEY", "secret")
    client = EngineClient(stub.url)
    for status in (301, 302, 303, 307, 308):
        stub.answers["/server_info"] = (status, b"", {"location": other_stub.url + "/server_info"})
        stub.answers["/metrics/"] = (500, b"")
        stub.answers["/metrics"] = (status, b"", {"location": other_stub.url + "/metrics/"})
        with pytest.raises(UnreachableError, match=f"answers {status}"):
            client.state()
        with pytest.raises(UnreachableError, match="/metrics answers"):
            client.metrics()
    assert other_stub.asked == []


def test_metrics_that_are_mounted_elsewhere_below_the_same_address(stub, client):
    stub.answers["/metrics"] = (307, b"", {"location": "http://elsewhere.example/metrics/"})
    stub.answers["/metrics/"] = "vllm:spec_decode_num_drafts_total 5\n"
    assert client.metrics().engine == "vllm"
    assert stub.asked == ["/metrics", "/metrics/"]
    del stub.answers["/metrics"]
    assert client.metrics() is None


def test_a_body_without_end_is_cut(stub, client, monkeypatch):
    monkeypatch.setattr(engine_module, "_LARGEST", 1000)
    stub.answers["/server_info"] = stub.ENDLESS
    with pytest.raises(UnreachableError, match="more than 1000 bytes"):
        client.state()
    stub.answers["/metrics"] = stub.ENDLESS
    with pytest.raises(UnreachableError, match="more than 1000 bytes"):
        client.metrics()


def test_a_body_that_drips_for_ever_is_given_up(stub):
    times = iter(range(0, 10_000, 10))
    client = EngineClient(stub.url, patience=30, now=lambda: next(times))
    stub.answers["/server_info"] = stub.ENDLESS
    with pytest.raises(UnreachableError, match="does not answer in time"):
        client.state()
    assert next(times) < 100


def test_nobody_there(stub):
    url = stub.url
    stub.close()
    with pytest.raises(UnreachableError, match="cannot be reached"):
        EngineClient(url).state()


@pytest.mark.parametrize(
    "url",
    ["localhost:1", "ftp://a", "http://", "http://a?b", "http://u:p@a", "http://a:x", "http://[::1", "http://a#b"],
)
def test_what_is_no_address(url):
    with pytest.raises(UsageError, match="URL"):
        EngineClient(url)


def test_a_key_goes_only_encrypted_or_to_this_machine(monkeypatch):
    monkeypatch.setenv("DRAFTERS_ENGINE_KEY", "secret")
    with pytest.raises(UsageError, match="unencrypted"):
        EngineClient("http://engine.example")
    assert EngineClient("https://engine.example").address.port == 443
    assert EngineClient("http://127.0.0.9").address.port == 80


@pytest.mark.parametrize(
    ("host", "is_ours"), [("localhost", True), ("127.0.0.1", True), ("[::1]", True), ("10.0.0.1", False)]
)
def test_which_addresses_are_this_machine(host, is_ours):
    assert EngineAddress(f"http://{host}:1", timeout=1).is_loopback is is_ours
