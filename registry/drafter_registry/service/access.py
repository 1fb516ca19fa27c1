"""Who may do what. A token has scopes; what it may not do looks to it exactly like what is not there.

- "read": everything that is published. Every other scope includes it: who may publish or move an alias must be able to
  see the result, and nothing published here is kept from the holder of a token.
- "publish:GLOB": publish, yank and upload for names that GLOB matches.
- "alias:GLOB": move and remove aliases of names that GLOB matches.
- "observe:GLOB": report what engines accept of names that GLOB matches. It lies on every machine with an engine, so it
  may nothing else; and who publishes promises does not by that write what they are judged by.
- "admin": all of that for every name, and deletion, tokens, the audit log, collection and scrubs.

In a GLOB, "*" stands for any characters and "?" for one; there is nothing else.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Final, Literal

from drafter_registry import limits
from drafter_registry.errors import Fault, InvalidError, NotAuthorisedError, NotFoundError
from drafter_registry.names import shown
from drafter_registry.service.context import Actor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_registry.settings import Settings

Verb = Literal["read", "publish", "alias", "observe", "admin"]

READ: Final = "read"
ADMIN: Final = "admin"
#: Name of whoever shows no token. No token can have it.
ANONYMOUS = "anonymous"

_WITH_NAMES = ("publish", "alias", "observe")
_GLOB = re.compile(r"[a-z0-9._*?-]+")
_SCOPES = '"read", "publish:GLOB", "alias:GLOB", "observe:GLOB" or "admin"; a GLOB has small letters, digits, . _ - * ?'


def anonymous(settings: Settings, request_id: str = "", address: str = "") -> Actor:
    """Whoever shows no token: may read if the settings say so, and nothing else."""
    return Actor(ANONYMOUS, (READ,) if settings.anonymous_read else (), request_id, address)


def require(actor: Actor, verb: Verb, name: str = "", subject: str = "") -> None:
    """Return if the actor may do that, and raise if not.

    Args:
        actor: Who asks.
        verb: What for.
        name: The drafter, for "publish", "alias" and "observe". Without one, a scope for any name is enough: an upload
            is not yet for a name.
        subject: What the caller would say is missing if it were; "" for the name.

    Raises:
        NotFoundError: The token may not; the same error as `missing(subject)`.
        NotAuthorisedError: There is no token, and without one it is not allowed.
    """
    if allowed(actor, verb, name):
        return
    if actor.name == ANONYMOUS:
        raise NotAuthorisedError("this needs a token", hint="set DRAFTERS_TOKEN, or send it as a bearer token")
    raise missing(subject or name)


def allowed(actor: Actor, verb: Verb, name: str = "") -> bool:
    """Whether the actor may do that; see `require`."""
    if ADMIN in actor.scopes:
        return True
    if verb == READ:
        return bool(actor.scopes)
    if verb not in _WITH_NAMES:
        return False
    globs = [scope.partition(":")[2] for scope in actor.scopes if scope.startswith(f"{verb}:")]
    return bool(globs) if not name else any(fnmatchcase(name, glob) for glob in globs)


def missing(subject: str = "") -> NotFoundError:
    """The one error for what is not there and for what the token may not do.

    Args:
        subject: What was asked for ("kimi-eagle3@prod"); "" if it has no name of its own.
    """
    return NotFoundError(
        f"{subject or 'that'} is not here, or this token may not do that",
        hint="`drafters list` shows what is here; `drafters token list` what each token may do",
    )


def check_scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes, without repetitions, if each is one.

    Raises:
        InvalidError: There is none, or some are none; lists every one of those.
    """
    if not scopes:
        raise InvalidError("a token without a scope can do nothing", hint=f"give it {_SCOPES}")
    faults = tuple(
        Fault(f"/scopes/{i}", f"{shown(scope)} is no scope", expected=_SCOPES, actual=shown(scope))
        for i, scope in enumerate(scopes)
        if not _is_scope(scope)
    )
    if faults:
        raise InvalidError("; ".join(fault.message for fault in faults), hint=f"write {_SCOPES}", faults=faults)
    return tuple(dict.fromkeys(scopes))


def _is_scope(scope: str) -> bool:
    kind, colon, glob = scope.partition(":")
    if not colon:
        return scope in {READ, ADMIN}
    return kind in _WITH_NAMES and len(glob) <= limits.name_max_length and _GLOB.fullmatch(glob) is not None
