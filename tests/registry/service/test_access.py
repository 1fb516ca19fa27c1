"""Who may do what; forbidden looks like missing."""

from __future__ import annotations

import pytest

from drafter_registry.errors import InvalidError, NotAuthorisedError, NotFoundError
from drafter_registry.service.access import anonymous, check_scopes, missing, require
from drafter_registry.service.context import Actor
from drafter_registry.settings import Settings

#: Scopes, verb, name, and whether they allow it.
CASES = [
    (("read",), "read", "", True),
    (("publish:kimi-*",), "read", "other", True),
    (("alias:kimi-*",), "read", "other", True),
    (("read",), "publish", "kimi-eagle3", False),
    (("read",), "alias", "kimi-eagle3", False),
    (("read",), "admin", "", False),
    (("publish:kimi-*",), "publish", "kimi-eagle3", True),
    (("publish:kimi-*",), "publish", "qwen-eagle3", False),
    (("publish:kimi-*",), "publish", "a-kimi-eagle3", False),
    (("publish:kimi-?",), "publish", "kimi-10", False),
    (("publish:kimi.eagle3",), "publish", "kimixeagle3", False),
    (("publish:kimi-*",), "publish", "", True),
    (("read",), "publish", "", False),
    (("publish:*",), "alias", "kimi-eagle3", False),
    (("alias:*",), "publish", "kimi-eagle3", False),
    (("alias:*",), "alias", "kimi-eagle3", True),
    (("observe:kimi-*",), "observe", "kimi-eagle3", True),
    (("observe:kimi-*",), "observe", "qwen-eagle3", False),
    (("observe:*",), "publish", "kimi-eagle3", False),
    (("observe:*",), "alias", "kimi-eagle3", False),
    (("observe:*",), "read", "", True),
    (("publish:*", "alias:*"), "observe", "kimi-eagle3", False),
    (("admin",), "observe", "anything", True),
    (("publish:*", "alias:*", "observe:*", "read"), "admin", "", False),
    (("admin",), "publish", "anything", True),
    (("admin",), "alias", "anything", True),
    (("admin",), "read", "", True),
    (("admin",), "admin", "", True),
    ((), "read", "", False),
]


@pytest.mark.parametrize(("scopes", "verb", "name", "allowed"), CASES)
def test_scopes_allow_what_they_say(scopes, verb, name, allowed):
    actor = Actor("ci", scopes)
    if allowed:
        require(actor, verb, name)
    else:
        with pytest.raises(NotFoundError) as caught:
            require(actor, verb, name, "kimi-eagle3@prod")
        there_is_none = missing("kimi-eagle3@prod")
        assert (str(caught.value), caught.value.hint) == (str(there_is_none), there_is_none.hint)


@pytest.mark.parametrize("verb", ["read", "publish", "alias", "observe", "admin"])
def test_without_a_token_one_is_asked_for(verb):
    with pytest.raises(NotAuthorisedError, match="needs a token"):
        require(anonymous(Settings()), verb, "kimi-eagle3")


@pytest.mark.parametrize("verb", ["publish", "alias", "observe", "admin"])
def test_anonymous_reading_is_for_reading_alone(verb):
    everybody = anonymous(Settings(anonymous_read=True))
    require(everybody, "read", "kimi-eagle3")
    with pytest.raises(NotAuthorisedError):
        require(everybody, verb, "kimi-eagle3")


def test_scopes_are_kept_once_and_in_order():
    assert check_scopes(("read", "publish:kimi-*", "read")) == ("read", "publish:kimi-*")


def test_every_wrong_scope_is_named():
    bad = (
        "write",
        "observe",
        "observe:K",
        "publish:",
        "publish",
        "alias:Kimi",
        "publish:[a-z]*",
        "alias:a b",
        "read:x",
        "admin ",
        "",
    )
    with pytest.raises(InvalidError) as caught:
        check_scopes(("read", *bad))
    assert [fault.pointer for fault in caught.value.faults] == [f"/scopes/{i + 1}" for i in range(len(bad))]
    with pytest.raises(InvalidError, match="without a scope"):
        check_scopes(())
