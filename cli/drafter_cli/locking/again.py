"""A question answered as a lock, the first time and again."""

from __future__ import annotations

from contextlib import closing

from drafter_cli.client.connect import connect
from drafter_cli.locking.make import make, require_published
from drafter_cli.locking.question import ask
from drafter_cli.resolving.answering import answer
from drafter_contracts.locking.differences import LockChange, differences
from drafter_registry.documents import LIVE
from drafter_registry.errors import NotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.commandline import Parsed
    from drafter_contracts.locking.document import Lock, Question
    from drafter_registry.documents import Resolution

#: Field of a change that is not in the document: whether the locked version may still be used.
STATE = "state"
#: Field of a change of what was asked for: it leads nowhere any more.
REFERENCE = "asked.reference"


def resolved(question: Question, parsed: Parsed, *, published: bool = True) -> tuple[Lock, Resolution]:
    """The lock of a question, and the answer that it was made from, its flags with the directory.

    Args:
        question: The question.
        parsed: The command line, for which registry.
        published: Whether to take nothing but files as they were published.

    Raises:
        DigestError: The files are others.
        RefusedError: There are no such flags; with the whole verdict.
        RegistryError: The registry does not give the drafter.
        UsageError: Neither registry nor cache has it, or something that the question names is not there.
        ContractsError: Files that cannot be read, or options that no launch can have.
    """
    asking = ask(question, offline=parsed.has("--offline"))
    found = answer(asking.asked, parsed)
    lock = make(asking, found)
    if published:
        require_published(lock, found)
    return lock, found.resolution


def changes_now(lock: Lock, parsed: Parsed) -> tuple[LockChange, ...]:
    """In what resolving again differs; errors as of `resolved`.

    Args:
        lock: As it was locked.
        parsed: The command line, for which registry.
    """
    state = () if parsed.has("--offline") else _state(lock, parsed)
    try:
        now, _ = resolved(lock.asked, parsed, published=False)  # other files are a difference
    except NotFoundError as error:
        if not state:  # the version is there, and what was asked for is not: an alias that was removed
            raise
        return (*state, LockChange(REFERENCE, lock.asked.reference, error.message))
    return (*state, *differences(lock, now))


def _state(lock: Lock, parsed: Parsed) -> tuple[LockChange, ...]:
    """Whether the locked version was yanked or deleted meanwhile."""
    with closing(connect(parsed)) as backend:
        try:
            shown = backend.show(lock.name)
        except NotFoundError as error:
            return (LockChange(STATE, LIVE, error.message),)
    if shown.summary.state == LIVE:
        return ()
    why = f": {shown.yanked_why}" if shown.yanked_why else ""
    return (LockChange(STATE, LIVE, f"{lock.name} is {shown.summary.state}{why}"),)
