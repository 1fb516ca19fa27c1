"""Acceptances and observations over HTTP, and what `/metrics` tells of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import msgspec
import pytest

from drafter_registry import limits
from drafter_registry.acceptance_documents import AcceptanceList, AddedAcceptance, ObservationPage
from drafter_registry.api.observed import Observed
from drafter_registry.api.reports import Reports
from drafter_registry.errors import TooManyRequestsError, UnavailableError

VERSION = "/v1/drafters/tiny-eagle3/versions/1.0.0"
NOW = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
MEASURED = {"length": 3.1, "engine": "sglang 0.5.23", "positions": [0.9, 0.7]}


@pytest.fixture
def kind():
    """The verbs' own tests are for both."""
    return "sqlite-local"


@pytest.fixture
def there(client, publish):
    """A client of a registry with one version, whose clock stands still."""
    shared = client.app.state.shared
    shared.registry = msgspec.structs.replace(shared.registry, now=lambda: NOW)
    assert publish(client)[0].status_code == 201
    return client


def hour(ago=0):
    moment = NOW.replace(minute=0) - timedelta(hours=ago)
    return moment.isoformat().replace("+00:00", "Z")


def seen(length=2.5, ago=0, instance="gpu-1", release="0.5.23", **more):
    return {
        "hour": hour(ago),
        "instance": instance,
        "conditions": {"engine": "sglang", "release": release},
        "readings": 10,
        "verify_steps": 100,
        "length": length,
        "lowest": length,
        "highest": length,
    } | more


def report(client, *observations, run="a", **keywords):
    return client.post(f"{VERSION}/observations", json={"run": run, "observations": observations}, **keywords)


def test_an_acceptance_is_attached_once_listed_and_removed(there, assert_problem):
    before = there.get(VERSION).json()
    first = there.post(f"{VERSION}/acceptance", json=MEASURED)
    again = there.post(f"{VERSION}/acceptance", json=dict(reversed(MEASURED.items())))
    assert (first.status_code, again.status_code) == (201, 200)
    added = msgspec.json.decode(first.content, type=AddedAcceptance)
    assert (added.created, again.json()["created"], again.json()["item"]["digest"]) == (True, False, added.item.digest)
    answer = there.get(f"{VERSION}/acceptance")
    found = msgspec.json.decode(answer.content, type=AcceptanceList)
    assert found.items == (added.item,)
    assert there.get(VERSION).json() == before
    tag = answer.headers["etag"]
    assert there.get(f"{VERSION}/acceptance", headers={"if-none-match": tag}).status_code == 304
    place = f"{VERSION}/acceptance/{added.item.digest}"
    assert there.delete(place).status_code == 204
    assert_problem(there.delete(place), "NOT_FOUND")
    assert there.get(f"{VERSION}/acceptance", headers={"if-none-match": tag}).json()["items"] == []


def test_wrong_acceptances_are_told_field_by_field(there, assert_problem):
    wrong = assert_problem(
        there.post(f"{VERSION}/acceptance", json={"length": 0.5, "lenght": 2, "steps": 0}), "INVALID"
    )
    assert sorted(fault.pointer for fault in wrong.errors) == ["/lenght", "/length", "/steps"]
    assert_problem(there.post("/v1/drafters/none/versions/1.0/acceptance", json=MEASURED), "NOT_FOUND")


def test_too_many_acceptances_are_a_problem_of_their_own(there, assert_problem, monkeypatch):
    monkeypatch.setattr(limits, "acceptances_max", 1)
    there.post(f"{VERSION}/acceptance", json=MEASURED)
    assert_problem(there.post(f"{VERSION}/acceptance", json={"length": 2}), "LIMIT_REACHED")


def test_a_report_may_be_repeated_and_is_told_in_pages(there):
    told = [seen(ago=2), seen(ago=1), seen(ago=1, instance="gpu-2")]
    first, again = report(there, *told), report(there, *told)
    assert (first.status_code, first.json()["taken"], first.json()["known"]) == (200, 3, 0)
    assert (again.status_code, again.json()["taken"], again.json()["known"]) == (200, 0, 3)
    page = msgspec.json.decode(there.get(f"{VERSION}/observations?limit=2").content, type=ObservationPage)
    last = there.get(f"{VERSION}/observations?limit=2&cursor={page.next}").json()
    assert [one.observation.instance for one in page.items] == ["gpu-2", "gpu-1"]
    assert ([one["observation"]["hour"] for one in last["items"]], last["next"]) == ([hour(2)], "")
    since = there.get(f"{VERSION}/observations", params={"since": hour(1)}).json()["items"]
    assert len(since) == 2


@pytest.mark.parametrize(("document", "pointers"), [
    ({"run": "a b", "observations": [seen()]}, ["/run"]),
    ({"run": "a", "observations": []}, ["/observations"]),
    ({"run": "a", "observations": [seen()] * 201}, ["/observations"]),
    ({"run": "a", "observations": [seen(), seen(length=0.5)]}, ["/observations/1/" + one for one in (
        "length", "lowest", "highest")]),
    ({"run": "a", "observations": [seen(hour="2026")]}, ["/observations/0/hour"]),
    ({"run": "a", "observations": [seen() | {"rate": 0.3}]}, ["/observations/0/rate"]),
    ({"run": "a", "observations": [seen(ago=-2)]}, ["/observations/0/hour"]),
])  # fmt: skip
def test_wrong_reports_are_told_field_by_field(there, assert_problem, document, pointers):
    wrong = assert_problem(there.post(f"{VERSION}/observations", json=document), "INVALID")
    assert sorted(fault.pointer for fault in wrong.errors) == sorted(pointers)
    assert there.get(f"{VERSION}/observations").json()["items"] == []


def test_a_report_has_a_largest_size(there, assert_problem):
    body = b" " * (limits.observations_max_bytes + 1)
    answer = there.post(f"{VERSION}/observations", content=body, headers={"content-type": "application/json"})
    assert_problem(answer, "TOO_LARGE")


def test_only_a_token_to_observe_reports(there, outside, token, assert_problem):
    observer, publisher = token("observe:tiny-*"), token("publish:*")
    assert report(outside, seen(), headers=observer).status_code == 200
    assert_problem(report(outside, seen(), headers=publisher), "NOT_FOUND")
    assert_problem(report(outside, seen(), headers=token("observe:other")), "NOT_FOUND")
    assert_problem(report(outside, seen()), "NOT_AUTHORISED")
    assert_problem(outside.post(f"{VERSION}/acceptance", json=MEASURED, headers=observer), "NOT_FOUND")
    assert outside.post(f"{VERSION}/acceptance", json=MEASURED, headers=publisher).status_code == 201
    assert outside.get(f"{VERSION}/observations", headers=token("read")).status_code == 200


def test_an_instance_that_is_reported_too_often_has_to_wait(there, outside, token, assert_problem, monkeypatch):
    monkeypatch.setattr(limits, "instance_reports_burst", 2)
    first, second = token("observe:*", name="first"), token("observe:*", name="second")
    reader = token("read", name="first")
    for _ in range(3):  # who may not observe takes nothing of what others may
        assert_problem(report(outside, seen(), headers=reader), "NOT_FOUND")
    for _ in range(2):
        assert report(outside, seen(), headers=first).status_code == 200
    answer = report(outside, seen(20), headers=first)
    assert_problem(answer, "TOO_MANY_REQUESTS")
    assert 1 <= int(answer.headers["retry-after"]) <= 3
    assert report(outside, seen(instance="gpu-2"), headers=first).status_code == 200
    assert report(outside, seen(), headers=second).status_code == 200


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_reports_come_free_again_and_a_refused_one_costs_nothing(monkeypatch):
    monkeypatch.setattr(limits, "token_reports_burst", 3)
    monkeypatch.setattr(limits, "token_reports_per_minute", 60)
    monkeypatch.setattr(limits, "instance_reports_burst", 1)
    monkeypatch.setattr(limits, "instance_reports_per_minute", 6)
    clock = Clock()
    reports = Reports(clock)
    reports.take("a", {"x"})
    for _ in range(5):
        with pytest.raises(TooManyRequestsError, match="instance 'x'") as refused:
            reports.take("a", {"x", "y"})
        assert refused.value.retry_after == 11
    reports.take("a", {"y"})
    reports.take("b", {"x"})
    clock.now += 9.9
    with pytest.raises(TooManyRequestsError):
        reports.take("a", {"x"})
    clock.now += 0.2
    reports.take("a", {"x"})
    for instance in "pq":
        reports.take("a", {instance})
    with pytest.raises(TooManyRequestsError, match="this token"):
        reports.take("a", {"r"})
    clock.now += 1
    reports.take("a", {"r"})


def test_metrics_tell_the_latest_hour_to_whoever_may_read(there, outside, token):
    report(there, seen(2.0, ago=1), seen(2.5), seen(3.0, instance="gpu-2"), seen(1.0, release="0.5.20", ago=1))
    report(there, seen(1.0, ago=4, instance="gone"))
    report(there, seen(3.5, readings=30, verify_steps=300, lowest=3.0), run="b")
    text = outside.get("/metrics", headers=token("read")).text
    labels = 'instance="{}",name="tiny-eagle3",release="{}",version="1.0.0"'
    lengths = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in text.splitlines() if "observed" in line}
    assert {name: value for name, value in lengths.items() if name.startswith("drafters_observed_length{")} == {
        f'drafters_observed_length{{engine="sglang",{labels.format(*one)}}}': length
        for one, length in {("gpu-1", "0.5.23"): "3.25", ("gpu-2", "0.5.23"): "3.0", ("gpu-1", "0.5.20"): "1.0"}.items()
    }
    here = f'{{engine="sglang",{labels.format("gpu-1", "0.5.23")}}}'
    assert lengths["drafters_observed_lowest_length" + here] == "2.5"
    assert lengths["drafters_observed_readings" + here] == "40.0"
    began = datetime.fromtimestamp(float(lengths["drafters_observed_hour_timestamp_seconds" + here]), UTC)
    assert began == datetime.fromisoformat(hour())
    assert lengths["drafters_observed_left_out"] == "0.0"
    assert "drafters_requests_total" in text
    for nobody in (outside.get("/metrics"), outside.get("/metrics", headers={"authorization": "Bearer drt_wrong"})):
        assert "tiny-eagle3" not in nobody.text
    assert nobody.status_code == 401


def test_metrics_have_a_bounded_number_of_series(there, monkeypatch):
    monkeypatch.setattr(limits, "metrics_max_series", 2)
    report(there, seen(ago=1, instance="a"), seen(ago=0, instance="b"), seen(ago=2, instance="c"))
    text = there.get("/metrics").text
    assert "drafters_observed_left_out 1.0" in text
    assert [one for one in "abc" if f'drafters_observed_length{{engine="sglang",instance="{one}"' in text] == ["a", "b"]


def test_metrics_are_told_without_a_token_where_everybody_reads(there, outside):
    shared = outside.app.state.shared
    settings = msgspec.structs.replace(shared.registry.settings, anonymous_read=True)
    shared.registry = msgspec.structs.replace(shared.registry, settings=settings)
    report(there, seen())
    assert 'drafters_observed_length{engine="sglang"' in outside.get("/metrics").text


def test_counters_are_told_while_the_database_is_gone(there, monkeypatch):
    from drafter_registry.service import observed_now

    def gone(*_):
        raise UnavailableError("gone")

    monkeypatch.setattr(observed_now, "latest", gone)
    answer = there.get("/metrics")
    assert answer.status_code == 200
    assert "drafters_requests_total" in answer.text
    assert "drafters_observed_length" not in answer.text


def test_metrics_are_looked_up_now_and_then():
    asked, clock = [], Clock()

    async def verb(function):
        asked.append(function)
        return (), len(asked)

    async def scrape(observed):
        texts = []
        for pause in (0, 14.9, 0.2):
            clock.now += pause
            texts.append(await observed.text(verb))
        return texts

    texts = anyio.run(scrape, Observed(clock))
    assert [b"left_out 1.0" in text for text in texts] == [True, True, False]
    assert len(asked) == 2
