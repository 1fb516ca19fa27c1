"""Look-ups without a thread, on a real PostgreSQL: right answers to many at once, and no harm from a cut."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from sqlalchemy import bindparam, insert, select

from drafter_registry.db.database import LookUp
from drafter_registry.db.models import DrafterRow
from drafter_registry.db.pipeline import NotAnsweredError, Pipeline

BY_NAME = LookUp(select(DrafterRow.normal_form).where(DrafterRow.name == bindparam("name")))


@pytest.fixture
def kind():
    return "postgresql-s3"


@pytest.fixture
def names(rows):
    """Drafters that are stored."""
    made = [f"drafter-{i}" for i in range(40)]
    with rows.database.write() as connection:
        values = [{"name": name, "normal_form": name.upper(), "created_at": rows.now()} for name in made]
        connection.execute(insert(DrafterRow), values)
    return made


def asked(database, question, keys=(BY_NAME,)):
    """What `question` says of a pipeline."""

    async def run():
        pipeline = Pipeline(database, keys, asyncio.to_thread)
        try:
            return await question(pipeline)
        finally:
            pipeline.close()

    return asyncio.run(run())


def test_many_at_once_get_each_its_own_answer(rows, names):
    async def question(pipeline):
        await pipeline.first(BY_NAME, {"name": "none"})
        wanted = [*names, "missing", "with ' and \\ and ü", *names]
        return wanted, await asyncio.gather(*(pipeline.first(BY_NAME, {"name": name}) for name in wanted))

    wanted, found = asked(rows.database, question)
    assert found == [(name.upper(),) if name in names else None for name in wanted]


def test_whoever_goes_away_takes_nobody_elses_answer(rows, names):
    async def question(pipeline):
        await pipeline.first(BY_NAME, {"name": "none"})
        gone = asyncio.ensure_future(pipeline.first(BY_NAME, {"name": names[0]}))
        stays = asyncio.ensure_future(pipeline.first(BY_NAME, {"name": names[1]}))
        await asyncio.sleep(0)
        gone.cancel()
        return await stays, await pipeline.first(BY_NAME, {"name": names[2]})

    assert asked(rows.database, question) == ((names[1].upper(),), (names[2].upper(),))


def test_what_is_committed_elsewhere_is_seen_at_once(rows, names):
    async def question(pipeline):
        found = [await pipeline.first(BY_NAME, {"name": "new"})]
        with rows.database.write() as connection:
            connection.execute(insert(DrafterRow).values(name="new", normal_form="NEW", created_at=rows.now()))
        return [*found, await pipeline.first(BY_NAME, {"name": "new"})]

    assert asked(rows.database, question) == [None, ("NEW",)]


def test_a_cut_is_told_to_everybody_who_waits_and_rests_a_moment(rows, names):
    url = rows.database.url.set(drivername="postgresql").render_as_string(hide_password=False)

    async def question(pipeline):
        await pipeline.first(BY_NAME, {"name": "none"})
        with psycopg.connect(url, autocommit=True) as other:
            pid = pipeline._connection.info.backend_pid
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        several = (pipeline.first(BY_NAME, {"name": name}) for name in names)
        return await asyncio.gather(*several, return_exceptions=True)

    assert {type(one) for one in asked(rows.database, question)} == {NotAnsweredError}


def test_a_question_that_cannot_be_prepared_is_asked_elsewhere(rows):
    wrong = LookUp(select(DrafterRow.name).where(DrafterRow.id == bindparam("name")).with_for_update(of=DrafterRow))
    other = LookUp(select(DrafterRow.__table__.alias("a").c.name).where(DrafterRow.name == bindparam("name")))

    async def question(pipeline):
        with pytest.raises(NotAnsweredError):
            await pipeline.first(wrong, {"name": "x"})  # no number: the database refuses the value
        with pytest.raises(NotAnsweredError):
            await pipeline.first(other, {"name": "x"})  # and now it rests

    asked(rows.database, question, (wrong, other))


def test_a_database_that_is_not_there_is_asked_elsewhere(rows):
    rows.database.url = rows.database.url.set(database="none")

    async def question(pipeline):
        with pytest.raises(NotAnsweredError):
            await pipeline.first(BY_NAME, {"name": "x"})

    asked(rows.database, question)
