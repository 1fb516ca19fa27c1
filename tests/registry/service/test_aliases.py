"""Aliases: every move counts, compare-and-swap holds, and races lose nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update

from drafter_registry.db.models import VersionRow
from drafter_registry.errors import ConflictError, InvalidError, MovedError, NotAuthorisedError, NotFoundError
from drafter_registry.service import aliases, audit
from drafter_registry.service.access import anonymous
from drafter_registry.service.context import Actor

NAME, ALIAS = "kimi-eagle3", "prod"


@pytest.fixture
def registry(rows, add_row):
    """A drafter with three versions: 1.0, 2.0, 3.0."""
    for version in ("1.0", "2.0", "3.0"):
        add_row(rows, NAME, version)
    return rows


@pytest.fixture
def move(registry, local_admin):
    def move(version, expected=None, why="", actor=local_admin):
        return aliases.move(registry, actor, NAME, ALIAS, version, expected=expected, why=why)

    return move


def set_state(registry, version, state, why=""):
    with registry.database.write() as connection:
        statement = update(VersionRow).where(VersionRow.version == version).values(state=state, state_why=why)
        connection.execute(statement)


def moves(registry, actor):
    items = aliases.history(registry, actor, NAME, ALIAS).items
    return [(move.revision, move.from_version, move.to_version) for move in items]


def test_a_move_is_seen_with_who_when_and_why(registry, move, local_admin, row_clock):
    move("1.0", why="first")
    row_clock.forward(hours=1)
    moved = move("2.0", why="better\nacceptance")
    assert moved == aliases.state(registry, local_admin, NAME, ALIAS)
    assert (moved.version, moved.revision, moved.by, moved.why) == ("2.0", 2, "local:tests", "better\nacceptance")
    assert moved.at == "2026-03-01T13:00:00Z"
    assert moved.digest.startswith("sha256:")
    assert moves(registry, local_admin) == [(2, "1.0", "2.0"), (1, "", "1.0")]
    assert [entry.action for entry in audit.entries(registry, local_admin).items] == ["alias.move"] * 2
    assert audit.entries(registry, local_admin).items[0].detail == {
        "from": "1.0", "to": "2.0", "revision": "2", "why": "better\nacceptance",
    }  # fmt: skip


def test_a_move_to_where_it_is_counts(registry, move, local_admin):
    move("1.0")
    assert move("1.0").revision == 2
    assert moves(registry, local_admin) == [(2, "1.0", "1.0"), (1, "", "1.0")]


@pytest.mark.parametrize(("expected", "good"), [(None, True), (1, False), (2, True), (3, False), (0, False)])
def test_a_move_happens_only_from_the_expected_revision(registry, move, local_admin, expected, good):
    move("1.0")
    move("2.0")
    if good:
        assert move("3.0", expected).revision == 3
        return
    with pytest.raises(MovedError, match=r"is at revision 2.*local:tests moved it to 2\.0"):
        move("3.0", expected)
    assert moves(registry, local_admin)[0] == (2, "1.0", "2.0")
    assert len(audit.entries(registry, local_admin).items) == 2


def test_expecting_none_makes_it_once(registry, move):
    assert move("1.0", 0).revision == 1
    with pytest.raises(MovedError, match="not new"):
        move("2.0", 0)


def test_expecting_one_that_never_was_fails(registry, move, local_admin):
    with pytest.raises(MovedError, match="not there"):
        move("1.0", 1)
    with pytest.raises(NotFoundError):
        aliases.history(registry, local_admin, NAME, ALIAS)


def test_a_removed_alias_can_be_set_again_and_its_revision_goes_on(registry, move, local_admin):
    move("1.0")
    aliases.remove(registry, local_admin, NAME, ALIAS, expected=1, why="retired")
    for verb in (
        lambda: aliases.state(registry, local_admin, NAME, ALIAS),
        lambda: aliases.remove(registry, local_admin, NAME, ALIAS, expected=None),
    ):
        with pytest.raises(NotFoundError):
            verb()
    with pytest.raises(MovedError):
        move("2.0", 2)
    assert move("2.0", 0).revision == 3
    assert moves(registry, local_admin) == [(3, "", "2.0"), (2, "1.0", ""), (1, "", "1.0")]
    assert [entry.action for entry in audit.entries(registry, local_admin).items][1] == "alias.remove"


def test_a_removal_happens_only_from_the_expected_revision(registry, move, local_admin):
    move("1.0")
    move("2.0")
    with pytest.raises(MovedError):
        aliases.remove(registry, local_admin, NAME, ALIAS, expected=1)
    assert aliases.state(registry, local_admin, NAME, ALIAS).version == "2.0"


def test_a_yanked_version_is_refused_with_what_to_do(registry, move):
    set_state(registry, "2.0", "yanked", "acceptance 19 %")
    with pytest.raises(ConflictError, match=r"2\.0 is yanked: acceptance 19 %") as caught:
        move("2.0")
    assert "--undo" in caught.value.hint


@pytest.mark.parametrize("version", ["9.9", "3.0"])
def test_a_missing_or_deleted_version_is_not_there(registry, move, local_admin, version):
    set_state(registry, "3.0", "deleted")
    with pytest.raises(NotFoundError, match=f"{NAME}@{version}"):
        move(version)
    with pytest.raises(NotFoundError):
        aliases.history(registry, local_admin, NAME, ALIAS)


def test_aliases_of_other_drafters_and_other_aliases_are_their_own(registry, move, local_admin, add_row):
    add_row(registry, "qwen-eagle3", "1.0")
    move("1.0")
    aliases.move(registry, local_admin, "qwen-eagle3", ALIAS, "1.0", expected=0)
    aliases.move(registry, local_admin, NAME, "canary", "2.0", expected=0)
    assert aliases.state(registry, local_admin, NAME, ALIAS).version == "1.0"
    with pytest.raises(NotFoundError):
        aliases.move(registry, local_admin, "qwen-eagle3", ALIAS, "2.0", expected=None)


def test_who_may_not_gets_what_is_not_there(registry, move):
    move("1.0")
    stranger = Actor("ci", ("read", "alias:qwen-*", "publish:*"))
    for verb in (
        lambda: move("2.0", actor=stranger),
        lambda: aliases.remove(registry, stranger, NAME, ALIAS, expected=None),
    ):
        with pytest.raises(NotFoundError) as forbidden:
            verb()
        with pytest.raises(NotFoundError) as absent:
            aliases.state(registry, stranger, NAME, "none")
        assert str(forbidden.value).replace(ALIAS, "none") == str(absent.value)
    nobody = anonymous(registry.settings)
    for verb in (aliases.state, aliases.history):
        with pytest.raises(NotAuthorisedError):
            verb(registry, nobody, NAME, ALIAS)
    assert move("2.0", actor=Actor("ci", ("alias:kimi-*",))).by == "ci"


@pytest.mark.parametrize(
    ("name", "alias", "version", "why"),
    [
        ("Kimi", "prod", "1.0", ""),
        (NAME, "1.0", "1.0", ""),
        (NAME, "prod", "prod", ""),
        (NAME, "prod", "1.0", "x" * 1001),
        (NAME, "prod", "1.0", "nul \x00"),
    ],
)
def test_what_cannot_be_is_refused_unwritten(registry, local_admin, name, alias, version, why):
    with pytest.raises(InvalidError):
        aliases.move(registry, local_admin, name, alias, version, expected=None, why=why)
    with pytest.raises(NotFoundError):
        aliases.history(registry, local_admin, NAME, "prod")


def test_a_race_of_threads_loses_no_move(registry, move, local_admin):
    """Sixteen threads: half say where they believe it is and try again, half do not care."""

    def swap(i):
        done, wanted = 0, f"{i % 3 + 1}.0"
        while done < 4:
            if i % 2:
                move(wanted)
                done += 1
                continue
            try:
                seen = aliases.state(registry, local_admin, NAME, ALIAS)
                move(wanted, seen.revision)
                done += 1
            except MovedError:
                pass
        return done

    move("1.0", 0)
    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(swap, range(16))) == 64
    _whole(registry, local_admin, 65)


def test_of_threads_that_expect_the_same_one_wins(registry, move, local_admin):
    def swap(i):
        try:
            return move(f"{i % 3 + 1}.0", 0).version
        except MovedError:
            return None

    with ThreadPoolExecutor(16) as pool:
        won = [version for version in pool.map(swap, range(16)) if version]
    assert len(won) == 1
    assert moves(registry, local_admin) == [(1, "", won[0])]


PROGRAM = """
import json, sys
from drafter_registry.db.database import Database
from drafter_registry.errors import MovedError
from drafter_registry.service import aliases
from drafter_registry.service.context import LOCAL_SCOPES, Actor, Registry
from drafter_registry.settings import Settings

url, version, times = sys.argv[1:]
registry = Registry(Database(url), None, Settings())
actor = Actor(f"mover-{version}", LOCAL_SCOPES)
won = []
while len(won) < int(times):
    seen = aliases.state(registry, actor, "kimi-eagle3", "prod")
    try:
        won.append(aliases.move(registry, actor, "kimi-eagle3", "prod", version, expected=seen.revision).revision)
    except MovedError:
        pass
print(json.dumps(won))
"""


def run(registry, version, times, **variables):
    command = [sys.executable, "-c", PROGRAM, registry.database.url.render_as_string(hide_password=False), version]
    environment = {**os.environ, **variables}
    return subprocess.Popen([*command, str(times)], stdout=subprocess.PIPE, text=True, env=environment)


def test_a_race_of_processes_loses_no_move(registry, move, local_admin):
    move("1.0", 0)
    started = [run(registry, version, 10) for version in ("1.0", "2.0", "3.0", "2.0")]
    won = [json.loads(process.communicate(timeout=120)[0]) for process in started]
    assert sorted(revision for one in won for revision in one) == list(range(2, 42))
    _whole(registry, local_admin, 41)


def test_a_process_that_dies_before_its_commit_moved_nothing(registry, move, local_admin):
    move("1.0", 0)
    process = run(registry, "2.0", 1, DRAFTERS_FAILPOINT="alias.before_commit")
    process.communicate(timeout=60)
    assert process.returncode == -9
    assert moves(registry, local_admin) == [(1, "", "1.0")]
    assert move("3.0", 1).revision == 2
    assert len(audit.entries(registry, local_admin).items) == 2


def _whole(registry, actor, count):
    """The history has `count` moves without a gap, each from where the one before led, and the log has them too."""
    history = aliases.history(registry, actor, NAME, ALIAS).items[::-1]
    assert [move.revision for move in history] == list(range(1, count + 1))
    assert [move.from_version for move in history] == ["", *(move.to_version for move in history[:-1])]
    now = aliases.state(registry, actor, NAME, ALIAS)
    assert (now.version, now.revision) == (history[-1].to_version, count)
    assert len(audit.entries(registry, actor, limit=500).items) == count
