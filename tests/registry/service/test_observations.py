"""Observations: nothing counts twice, in whatever order and however often it arrives; old ones go."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import delete, select, update

from drafter_contracts.acceptance.records import Conditions, Observation
from drafter_registry import limits
from drafter_registry.db.models import ObservationRow, VersionRow
from drafter_registry.errors import FullError, InvalidError, NotAuthorisedError, NotFoundError
from drafter_registry.names import read_reference
from drafter_registry.service import aliases, audit, observations, versions
from drafter_registry.service.access import anonymous
from drafter_registry.service.collect import _Gone, _sweep_observations
from drafter_registry.service.context import Actor

NAME = "kimi-eagle3"
ONE = read_reference(f"{NAME}@1.0")
SERVED = Conditions(engine="sglang", release="0.5.23", steps=3, target_revision="7f3c")
HOUR = "2026-03-01T11:00:00Z"
#: What no database decides.
ON_SQLITE = pytest.mark.parametrize("kind", ["sqlite-local"], indirect=True)


def seen(readings=10, length=2.5, hour=HOUR, instance="gpu-1", conditions=SERVED, steps=100, **more):
    figures = {"length": length, "lowest": length - 0.5, "highest": length + 0.5, "verify_steps": steps} | more
    return Observation(hour=hour, instance=instance, conditions=conditions, readings=readings, **figures)


@pytest.fixture
def registry(rows, add_row):
    for version in ("1.0", "2.0"):
        add_row(rows, NAME, version)
    return rows


@pytest.fixture
def observer():
    return Actor("observer", ("observe:kimi-*",), "request-1", "127.0.0.1")


@pytest.fixture
def report(registry, observer):
    """`report(*observations, run="a")`: how many were taken."""

    def run_it(*told, run="a", reference=ONE):
        return observations.report(registry, observer, reference, run, told).taken

    return run_it


@pytest.fixture
def history(registry, observer):
    def read(reference=ONE, **asked):
        return observations.history(registry, observer, reference, **asked)

    return read


def items(page):
    return [one.observation for one in page.items]


def test_what_was_reported_is_told_with_who_and_when(registry, report, history, row_clock):
    row_clock.forward(minutes=5)
    told = seen(positions=(0.9, 0.4))
    assert report(told) == 1
    page = history()
    assert items(page) == [told]
    assert (page.name, page.version, page.next) == (NAME, "1.0", "")
    assert (page.items[0].by, page.items[0].at) == ("observer", "2026-03-01T12:05:00Z")


def test_a_report_that_grew_takes_the_place_of_the_one_before(report, history):
    assert report(seen(10, 2.5)) == 1
    assert report(seen(20, 2.8, steps=200)) == 1
    assert items(history()) == [seen(20, 2.8, steps=200)]


def test_the_same_again_and_an_older_one_change_nothing(registry, report, observer, history, row_clock):
    report(seen(20, 2.8))
    before = history()
    row_clock.forward(minutes=10)
    for again in (seen(20, 2.8), seen(10, 2.5), seen(20, 1.9)):
        answer = observations.report(registry, observer, ONE, "a", (again,))
        assert (answer.taken, answer.known) == (0, 1)
    assert history() == before


def test_two_runs_are_added_up_by_the_rule_of_hours(report, history):
    report(seen(10, 2.0, steps=100, lowest=1.5, highest=2.5), run="a")
    report(seen(30, 3.0, steps=300, lowest=2.5, highest=3.5), run="b")
    (both,) = items(history())
    assert (both.readings, both.verify_steps, both.length) == (40, 400, 2.75)
    assert (both.lowest, both.highest) == (1.5, 3.5)


@ON_SQLITE
def test_what_cannot_be_added_up_stands_apart(report, history):
    other = msgspec.structs.replace(SERVED, target_revision="8a11")
    report(seen(), seen(conditions=other), seen(instance="gpu-2"), seen(steps=None))
    assert sorted(map(repr, items(history()))) == sorted(
        map(repr, [seen(), seen(conditions=other), seen(instance="gpu-2"), seen(steps=None)])
    )


@ON_SQLITE
def test_of_one_report_the_larger_counts(report, history):
    assert report(seen(10), seen(30), seen(20)) == 1
    assert [one.readings for one in items(history())] == [30]


@given(
    reports=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), min_size=1, max_size=12),
    order=st.randoms(use_true_random=False),
)
@hypothesis_settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_order_and_any_repetition_give_the_same(registry, report, history, reports, order):
    """Each run's readings grow; what arrives late, twice or not at all but the last makes no difference."""
    with registry.database.write() as connection:
        connection.execute(delete(ObservationRow))
    arriving = reports * 2
    order.shuffle(arriving)
    for run, readings in arriving:
        report(seen(readings, 2 + readings / 10, steps=readings), run=run)
    most = {run: max(readings for who, readings in reports if who == run) for run, _ in reports}
    (found,) = items(history())
    assert found.readings == found.verify_steps == sum(most.values())
    assert found.length == pytest.approx(sum(n * (2 + n / 10) for n in most.values()) / sum(most.values()))


def test_many_at_once_lose_nothing(registry, report, history):
    told = [(f"run-{run}", seen(readings, steps=readings)) for run in range(4) for readings in range(1, 8)]
    told = told[::3] + told[1::3] + told[2::3]
    with ThreadPoolExecutor(8) as pool:
        taken = sum(pool.map(lambda one: report(one[1], run=one[0]), told))
    (found,) = items(history())
    assert found.readings == 4 * 7
    assert 4 <= taken <= 28


def test_an_alias_means_where_it_points_now_also_to_a_yanked_version(registry, local_admin, observer, report):
    prod = read_reference(f"{NAME}@prod")
    aliases.move(registry, local_admin, NAME, "prod", "1.0", expected=0)
    answer = observations.report(registry, observer, prod, "a", (seen(),))
    assert (answer.name, answer.version) == (NAME, "1.0")
    versions.yank(registry, local_admin, NAME, "1.0", why="bad")
    assert report(seen(20), reference=prod) == 1
    with registry.database.read() as connection:
        digest = connection.execute(select(VersionRow.digest).where(VersionRow.version == "1.0")).scalar_one()
    assert answer.digest == digest
    assert observations.history(registry, observer, read_reference(f"{NAME}@{digest}")).version == "1.0"
    aliases.remove(registry, local_admin, NAME, "prod", expected=None)
    with pytest.raises(NotFoundError):
        report(seen(), reference=prod)


@ON_SQLITE
@pytest.mark.parametrize(("scopes", "allowed"), [
    (("observe:kimi-*",), True), (("admin",), True), (("observe:other",), False), (("publish:*", "alias:*"), False),
    (("read",), False),
])  # fmt: skip
def test_only_who_may_observe_reports(registry, scopes, allowed):
    if allowed:
        assert observations.report(registry, Actor("a", scopes), ONE, "a", (seen(),)).taken == 1
        return
    with pytest.raises(NotFoundError):
        observations.report(registry, Actor("a", scopes), ONE, "a", (seen(),))
    with pytest.raises(NotAuthorisedError):
        observations.report(registry, anonymous(registry.settings), ONE, "a", (seen(),))


@ON_SQLITE
def test_what_a_program_in_this_process_makes_is_held_to_the_same(registry, observer, history):
    made = seen(length=2, lowest=1, highest=3, conditions=Conditions(engine="sglang", temperature=0))
    assert observations.report(registry, observer, ONE, "a", (made,)).taken == 1
    read = msgspec.json.decode(msgspec.json.encode(made), type=Observation)
    assert observations.report(registry, observer, ONE, "a", (read,)).known == 1
    assert items(history()) == [read]
    for wrong in (seen(0), seen(length=0.9, lowest=0.5), seen(hour="noon"), seen(instance="x" * 129)):
        with pytest.raises(InvalidError):
            observations.report(registry, observer, ONE, "a", (wrong,))


@ON_SQLITE
def test_everything_that_cannot_be_is_named_and_nothing_is_kept(registry, observer, history):
    told = (
        seen(),
        seen(hour="2026-03-01T13:00:00Z"),  # it is noon
        seen(hour="2025-11-30T10:00:00Z"),  # 91 days ago
        seen(hour="2026-02-31T10:00:00Z"),
        seen(instance="gpu\n1"),
        seen(conditions=Conditions(engine="x" * 256)),
        seen(lowest=2.6),
        seen(highest=2.4),
        seen(2**53 + 1),
        seen(steps=2**53 + 1),
        seen(positions=(0.5,) * 257),
    )
    with pytest.raises(InvalidError, match="10 of 11 observations cannot be kept") as refused:
        observations.report(registry, observer, ONE, "a", told)
    assert [fault.pointer for fault in refused.value.faults] == [
        "/observations/1/hour", "/observations/2/hour", "/observations/3/hour", "/observations/4/instance",
        "/observations/5/conditions/engine", "/observations/6/length", "/observations/7/length",
        "/observations/8/readings", "/observations/9/verify_steps", "/observations/10/positions",
    ]  # fmt: skip
    assert items(history()) == []


@ON_SQLITE
def test_a_clock_may_be_a_little_ahead(report, row_clock):
    row_clock.forward(minutes=55)
    assert report(seen(hour="2026-03-01T13:00:00Z")) == 1
    row_clock.forward(seconds=-1)
    with pytest.raises(InvalidError, match="has not begun"):
        report(seen(20, hour="2026-03-01T13:00:00Z"))


def test_pages_follow_one_another_newest_first(report, history):
    told = [
        seen(readings, hour=f"2026-03-01T{hour:02}:00:00Z", instance=instance)
        for hour in range(8, 12)
        for instance in ("a", "b", "c")
        for readings in (1, 2)
    ]
    report(*told[::2], run="x")
    report(*told[1::2], run="y")
    whole = items(history())
    assert [one.hour[11:13] for one in whole] == [hour for hour in ("11", "10", "09", "08") for _ in "abc"]
    assert {one.readings for one in whole} == {3}
    assert len({(one.hour, one.instance) for one in whole}) == 12
    for limit in (1, 5, 12):
        found, cursor = [], ""
        for _ in range(-(-len(whole) // limit)):
            page = history(cursor=cursor, limit=limit)
            assert len(page.items) <= limit
            found += items(page)
            cursor = page.next
        assert (found, cursor) == (whole, "")
    between = history(since="2026-03-01T09:00:00Z", until="2026-03-01T12:00:00+01:00")
    assert [one.hour[11:13] for one in items(between)] == ["10"] * 3 + ["09"] * 3


@ON_SQLITE
@pytest.mark.parametrize("asked", [
    {"since": "yesterday"}, {"until": "2026-03-01T09:00:00"}, {"cursor": "x"}, {"limit": 0}, {"limit": 501},
    {"since": "0001-01-01T00:00:00+14:00"},
])  # fmt: skip
def test_what_cannot_be_asked_for(history, asked):
    with pytest.raises(InvalidError):
        history(**asked)


def test_old_ones_are_told_no_more_and_removed(registry, report, history, row_clock):
    report(seen(), seen(hour="2026-03-01T05:00:00Z"))
    page = history(limit=1)
    row_clock.forward(days=90, hours=-5)  # seven in the morning: 05 is over for 90 days and an hour
    assert [one.hour[11:13] for one in items(history())] == ["11"]
    assert items(history(cursor=page.next)) == []
    with registry.database.read() as connection:
        assert len(connection.execute(select(ObservationRow.id)).all()) == 2
    gone = _Gone()
    _sweep_observations(registry, gone, dry_run=True)
    assert gone.observations == 1
    report(seen(20))  # a report removes them too, where it is
    with registry.database.read() as connection:
        assert len(connection.execute(select(ObservationRow.id)).all()) == 1
    row_clock.forward(days=1)
    for wanted in (1, 0):
        gone = _Gone()
        _sweep_observations(registry, gone, dry_run=False)
        assert gone.observations == wanted
    assert items(history(cursor=page.next)) == []


@ON_SQLITE
def test_the_retention_is_a_setting(registry, observer):
    settings = msgspec.structs.replace(registry.settings, observation_retention_seconds=3600)
    short = msgspec.structs.replace(registry, settings=settings)
    with pytest.raises(InvalidError, match="too old: observations are kept for 3600 s"):
        observations.report(short, observer, ONE, "a", (seen(hour="2026-03-01T09:00:00Z"),))
    assert observations.report(short, observer, ONE, "a", (seen(hour="2026-03-01T10:00:00Z"),)).taken == 1


def test_an_hour_holds_only_so_many(report, monkeypatch):
    monkeypatch.setattr(limits, "observed_hour_max_rows", 3)
    report(seen(instance="a"), seen(instance="b"), seen(instance="c"))
    with pytest.raises(FullError, match=f"{NAME}@1.0 has 3 observations of {HOUR}"):
        report(seen(instance="d"))
    assert report(seen(20, instance="a")) == 1
    assert report(seen(instance="d", hour="2026-03-01T10:00:00Z")) == 1
    with pytest.raises(FullError):
        report(seen(30, instance="a"), run="b")
    monkeypatch.setattr(limits, "observed_hour_max_rows", 2)  # a later release's limit: what is there goes on
    assert report(seen(40, instance="a")) == 1


def test_an_hour_is_not_filled_together(report, history, monkeypatch):
    monkeypatch.setattr(limits, "observed_hour_max_rows", 5)

    def one(i):
        try:
            return report(seen(instance=f"gpu-{i}"))
        except FullError:
            return "full"

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(one, range(8)))
    assert (done.count(1), done.count("full"), len(items(history()))) == (5, 3, 5)


def test_a_deleted_version_has_none_and_takes_none(registry, local_admin, report, history):
    report(seen())
    report(seen(), reference=read_reference(f"{NAME}@2.0"))
    versions.delete(registry, local_admin, NAME, "1.0")
    for verb in (lambda: report(seen()), history):
        with pytest.raises(NotFoundError):
            verb()
    with registry.database.read() as connection:
        assert len(connection.execute(select(ObservationRow.id)).all()) == 1


@ON_SQLITE
def test_reports_are_not_in_the_audit_log(registry, report, local_admin):
    """They come all day, and each row says who reported it."""
    report(seen())
    assert audit.entries(registry, local_admin).items == ()


def test_damage_is_found_and_what_a_deletion_left_is_collected(registry, report):
    from drafter_registry.service.scrub_acceptance import scrub_acceptance

    report(seen())
    assert scrub_acceptance(registry) == []
    damages = ({"conditions": b"{}"}, {"conditions": b"{"}, {"length": 0.5}, {"highest": 1.0}, {"positions": b"{}"})
    for damage in damages:
        with registry.database.write() as connection:
            kept = connection.execute(select(ObservationRow.__table__)).one()
            connection.execute(update(ObservationRow).values(**damage))
        (problem,) = scrub_acceptance(registry)
        assert (problem.kind, problem.subject) == ("observation-differs", f"{NAME}@1.0 {HOUR} gpu-1")
        with registry.database.write() as connection:
            connection.execute(update(ObservationRow).values(**{name: kept._mapping[name] for name in damage}))
    with registry.database.write() as connection:  # as a server of the release before deletes
        connection.execute(update(VersionRow).where(VersionRow.version == "1.0").values(state="deleted"))
    assert [one.kind for one in scrub_acceptance(registry)] == ["rows-left"]
    gone = _Gone()
    _sweep_observations(registry, gone, dry_run=False)
    assert gone.observations == 1
    assert scrub_acceptance(registry) == []
