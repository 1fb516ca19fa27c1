"""What /metrics tells of promises: the nearest to what was seen, of a manifest or attached; none that is for others."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update

from drafter_contracts.acceptance.records import Conditions, Observation
from drafter_contracts.manifest_records import Acceptance
from drafter_registry.api.observed import _text
from drafter_registry.db.models import VersionRow
from drafter_registry.names import read_reference
from drafter_registry.service import acceptances, observations, observed_now, promised_now

pytestmark = pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)

ONE = read_reference("kimi-eagle3@1.0")
SERVED = Conditions(engine="sglang", release="0.5.23", steps=3, topk=1, draft_tokens=4)


@pytest.fixture
def registry(rows, add_row):
    add_row(rows, "kimi-eagle3", "1.0")
    add_row(rows, "kimi-eagle3", "2.0")
    return rows


@pytest.fixture
def no_manifest(monkeypatch):
    """Versions whose manifests promise nothing: rows alone have none."""
    monkeypatch.setattr(acceptances, "_of_manifest", lambda row: ())


@pytest.fixture
def see(registry, local_admin):
    """Reports one hour: `see(length, instance, conditions, reference)`."""

    def report(length=2.5, instance="gpu-1", conditions=SERVED, reference=ONE):
        figures = {"length": length, "lowest": length, "highest": length, "readings": 60}
        one = Observation(hour="2026-03-01T11:00:00Z", instance=instance, conditions=conditions, **figures)
        observations.report(registry, local_admin, reference, "run", [one])

    return report


def told(registry, actor):
    """Name of a metric to instance to value."""
    found = {}
    for family in text_string_to_metric_families(_text(*observed_now.latest(registry, actor)).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[sample.labels.get("instance")] = sample.value
    return found


def test_the_promise_nearest_to_what_is_seen_stands_beside_it(registry, local_admin, see, no_manifest):
    for length, engine, steps in ((2.75, "sglang 0.5.23", 3), (2.0, "vllm 0.11.0", 3), (3.5, "sglang 0.5.23", 5)):
        acceptance = Acceptance(length=length, engine=engine, steps=steps, topk=1, draft_tokens=steps + 1)
        acceptances.add(registry, local_admin, ONE, acceptance)
    see(2.5, "gpu-1")
    see(1.9, "gpu-2", Conditions(engine="vllm", release="0.11.0", steps=3))
    see(1.9, "gpu-3", reference=read_reference("kimi-eagle3@2.0"))
    found = told(registry, local_admin)
    assert found["drafters_observed_length"] == {"gpu-1": 2.5, "gpu-2": 1.9, "gpu-3": 1.9}
    assert found["drafters_promised_length"] == {"gpu-1": 2.75, "gpu-2": 2.0}
    assert found["drafters_promised_least_length"] == pytest.approx({"gpu-1": 2.575, "gpu-2": 1.9})


def test_an_estimate_promises_less_and_what_cannot_be_compared_nothing(registry, local_admin, see, no_manifest):
    estimate = Acceptance(length=2.0, steps=3, topk=1, draft_tokens=4, measured="teacher-forced")
    acceptances.add(registry, local_admin, ONE, estimate)
    see(2.5, "gpu-1")
    see(2.5, "gpu-2", msgspec.structs.replace(SERVED, topk=4))
    found = told(registry, local_admin)
    assert found["drafters_promised_length"] == {"gpu-1": 2.0}
    assert found["drafters_promised_least_length"] == pytest.approx({"gpu-1": 1.8})


def test_a_manifest_promises_too_and_a_damaged_one_hides_no_other(registry, local_admin, see, monkeypatch):
    with registry.database.read() as connection:
        assert set(promised_now.acceptances_of(connection, {1, 2}).values()) == {()}  # rows that are no manifests
    kept = Acceptance(length=2.25, steps=3, topk=1)

    def decoded(data, *, where):
        assert (data, where) == (b"{}", "kimi-eagle3@1.0")
        return type("Manifest", (), {"acceptance": (kept,)})

    monkeypatch.setattr("drafter_registry.service.versions.decode_manifest", decoded)
    digest = "sha256:" + hashlib.sha256(b"{}").hexdigest()
    with registry.database.write() as connection:
        connection.execute(update(VersionRow).where(VersionRow.version == "1.0").values(digest=digest))
    see(2.5, "gpu-1")
    see(2.5, "gpu-2", reference=read_reference("kimi-eagle3@2.0"))
    assert told(registry, local_admin)["drafters_promised_length"] == {"gpu-1": 2.25}
