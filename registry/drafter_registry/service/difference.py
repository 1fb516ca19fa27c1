"""What changed between two versions of one drafter, in words."""

from __future__ import annotations

from drafter_contracts.manifest import decode
from drafter_contracts.recording.difference import changes
from drafter_registry.documents import Change, Difference
from drafter_registry.names import check_name, read_reference
from drafter_registry.service.access import require
from drafter_registry.service.context import Actor, Registry
from drafter_registry.service.versions import find


def diff(registry: Registry, actor: Actor, name: str, before: str, after: str) -> Difference:
    """What changed between two versions of a drafter.

    Args:
        registry: The registry.
        actor: Who asks.
        name: The drafter.
        before: A version, an alias or "sha256:DIGEST".
        after: Another.

    Raises:
        InvalidError: A name, version or alias that cannot be.
        NotFoundError: One of the two is not there.
        NotAuthorisedError: Reading needs a token.
        UnavailableError: The database does not answer.
    """
    check_name(name)
    first, second = read_reference(f"{name}@{before}"), read_reference(f"{name}@{after}")
    require(actor, "read", name, name)
    with registry.database.read() as connection:
        old, new = find(connection, first), find(connection, second)
    found = changes(decode(old.manifest), decode(new.manifest))
    return Difference(
        name=name,
        before=old.version,
        after=new.version,
        same_contract=old.fingerprint == new.fingerprint,
        changes=tuple(
            Change(field=one.field, before=one.before, after=one.after, words=one.words, contract=one.contract)
            for one in found
        ),
    )
