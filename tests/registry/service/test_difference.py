"""What changed between two versions."""

import pytest

from drafter_registry.errors import InvalidError, NotAuthorisedError, NotFoundError
from drafter_registry.service import aliases
from drafter_registry.service.context import Actor
from drafter_registry.service.difference import diff
from drafter_registry.service.versions import yank

READER = Actor("reader", ("read",))
NAME = "tiny-eagle3"
#: Nothing here depends on the back end.
one_kind = pytest.mark.parametrize("kind", ["sqlite-local"])


@pytest.fixture
def three(registry, admin, publish, drafter):
    swapped = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 29, 16], "use_aux_hidden_state": True}}
    publish(drafter(version="1.0.0"))
    publish(drafter(version="1.0.1", extra={"README.md": b"words"}))
    done = publish(drafter(version="2.0.0", boundaries=(3, 30, 17), config=swapped))
    aliases.move(registry, admin, NAME, "prod", "1.0.0", expected=None)
    return done


@one_kind
def test_a_change_of_the_contract_is_told_in_words(registry, three):
    for before, after in (("1.0.0", "2.0.0"), ("prod", three.digest)):
        found = diff(registry, READER, NAME, before, after)
        assert (found.name, found.before, found.after, found.same_contract) == (NAME, "1.0.0", "2.0.0", False)
        (change,) = [one for one in found.changes if one.field == "layout.boundaries"]
        assert change.contract
        assert (change.before, change.after) == ("[3, 17, 30]", "[3, 30, 17]")
        assert "another order" in change.words


@one_kind
def test_a_change_of_files_alone_is_the_same_contract(registry, three):
    found = diff(registry, READER, NAME, "1.0.0", "1.0.1")
    assert found.same_contract
    assert not any(one.contract for one in found.changes)
    assert {"version", "files.README.md"} <= {one.field for one in found.changes}


@one_kind
def test_a_version_does_not_differ_from_itself(registry, three):
    found = diff(registry, READER, NAME, "prod", "1.0.0")
    assert (found.same_contract, found.changes) == (True, ())


@one_kind
def test_what_is_not_there_cannot_be_compared(registry, admin, three):
    with pytest.raises(NotFoundError, match=r"9\.9 is not here"):
        diff(registry, READER, NAME, "1.0.0", "9.9")
    with pytest.raises(InvalidError):
        diff(registry, READER, NAME, "1.0.0", "")
    with pytest.raises(NotAuthorisedError):
        diff(registry, Actor("anonymous", ()), NAME, "1.0.0", "1.0.1")
    yank(registry, admin, NAME, "1.0.0")
    with pytest.raises(NotFoundError, match="yanked"):
        diff(registry, READER, NAME, "prod", "2.0.0")
    assert diff(registry, READER, NAME, "1.0.0", "2.0.0").changes
