"""`drafters token create | list | revoke` and `drafters audit`: who may do what, and who did."""

from __future__ import annotations

from contextlib import closing

from drafter_cli.client.connect import OPTIONS, connect
from drafter_cli.client.paging import PAGING, Paging
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.table import Column, print_table
from drafter_cli.terminal import printable, write, write_json
from drafter_cli.words import moment, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend
    from drafter_registry.documents import AuditEntry, TokenRecord

_DAY = 86400
_DEFAULT_EXPIRY = "90d"

COMMANDS = {
    "token create": Command(
        name="token create",
        summary="make a token with scopes and an expiry",
        description=(
            "Makes a token and prints it, alone, on standard output; it is shown this once and kept only as a digest.\n"
            "Scopes: read, publish:GLOB, alias:GLOB and observe:GLOB for names that GLOB fits, admin."
        ),
        words=("NAME",),
        options=(
            Option("--scope", "what it may do", "SCOPE...", many=True),
            Option("--expires", f"when it ends: 90d, 12w, or never; default: {_DEFAULT_EXPIRY}", "DURATION"),
            JSON,
            *OPTIONS,
        ),
        examples=(
            ("drafters token create trainer --scope read 'publish:kimi-*' > trainer.token", "for a training job"),
            ("drafters token create launcher --scope read --expires never", "for engines"),
            ("drafters token create observer --scope 'observe:*' --expires never", "for drafters observe beside them"),
        ),
    ),
    "token list": Command(
        name="token list",
        summary="the tokens, without their secrets",
        description="Lists all tokens, newest first: scopes, expiry, when each was last used.",
        options=(JSON, *OPTIONS),
        examples=(("drafters token list", "all of them"),),
    ),
    "token revoke": Command(
        name="token revoke",
        summary="end a token",
        description="Ends a token now. It stays in the list, as the audit log names it.",
        words=("ID",),
        options=(JSON, *OPTIONS),
        examples=(("drafters token revoke 3f9a2c", "by the id that token list shows"),),
    ),
    "audit": Command(
        name="audit",
        summary="every write: who, what, when",
        description="Lists every write, newest first: publications, moves of aliases, yanks, deletions, tokens, gc.",
        options=(
            Option("--subject", "only what concerns this drafter, version, alias or token", "SUBJECT"),
            *PAGING,
            JSON,
            *OPTIONS,
        ),
        examples=(("drafters audit --subject kimi-k2.5-eagle3 --limit 20", "the latest about one drafter"),),
    ),
}

_TOKENS = (
    Column("ID"),
    Column("NAME", shrinks=True),
    Column("SCOPES", shrinks=True),
    Column("STATE"),
    Column("EXPIRES"),
    Column("LAST USED", leaves=3),
    Column("MADE", leaves=2),
    Column("BY", leaves=1),
)
_ENTRIES = (
    Column("WHEN"),
    Column("WHO", shrinks=True),
    Column("WHAT"),
    Column("SUBJECT", shrinks=True),
    Column("DETAIL", shrinks=True, leaves=3),
    Column("FROM", leaves=2),
    Column("REQUEST", leaves=1),
)


def run(command: Command, parsed: Parsed) -> int:
    """Run one of them."""
    actions = {"token create": _create, "token list": _list, "token revoke": _revoke, "audit": _audit}
    if command.name == "token create":
        _days(parsed)
        if not parsed.many("--scope"):
            raise UsageError("token create needs --scope", "read, publish:GLOB, alias:GLOB, observe:GLOB or admin")
    Paging.of(parsed)
    with closing(connect(parsed, create=command.name == "token create")) as registry:
        actions[command.name](registry, parsed)
    return EXIT_OK


def _days(parsed: Parsed) -> int | None:
    """Days until the token ends, None for never.

    Raises:
        UsageError: A duration that is none, or not of whole days.
    """
    text = parsed.value("--expires") or _DEFAULT_EXPIRY
    if text == "never":
        return None
    days, rest = divmod(seconds("--expires", text), _DAY)
    if rest or not days:
        raise UsageError(f"--expires is {text!r}", "write whole days or weeks, 90d or 12w, or never")
    return days


def _create(registry: Backend, parsed: Parsed) -> None:
    from drafter_registry.documents import TokenRequest

    request = TokenRequest(name=parsed.word(0), scopes=parsed.many("--scope"), expires_in_days=_days(parsed))
    made = registry.create_token(request)
    if parsed.has("--json"):
        write_json(made)
        return
    write(made.token)
    record = made.record
    until = f"until {moment(record.expires_at)}" if record.expires_at else "without an end"
    scopes = ", ".join(record.scopes)
    write(f"token {record.id} ({printable(record.name)}) may {scopes}, {until}; it is not shown again", to_stderr=True)
    write(f"  drafters token revoke {record.id} ends it", to_stderr=True)


def _list(registry: Backend, parsed: Parsed) -> None:
    found = registry.tokens()
    if parsed.has("--json"):
        write_json({"items": found.items})
    elif found.items:
        print_table(_TOKENS, [_token_row(record) for record in found.items])
    else:
        write("there is no token", to_stderr=True)
        write("  drafters token create NAME --scope read makes one", to_stderr=True)


def _token_row(record: TokenRecord) -> tuple[str, ...]:
    return (
        record.id,
        record.name,
        ", ".join(record.scopes),
        f"revoked {moment(record.revoked_at)}" if record.revoked_at else "expired" if _is_past(record) else "",
        moment(record.expires_at) or "never",
        moment(record.last_used_at) or "never",
        moment(record.created_at),
        record.created_by,
    )


def _is_past(record: TokenRecord) -> bool:
    from datetime import UTC, datetime

    return bool(record.expires_at) and datetime.fromisoformat(record.expires_at) <= datetime.now(UTC)


def _revoke(registry: Backend, parsed: Parsed) -> None:
    registry.revoke_token(parsed.word(0))
    if parsed.has("--json"):
        write_json({"id": parsed.word(0), "revoked": True})
    else:
        write(f"token {printable(parsed.word(0))} is revoked", to_stderr=True)


def _audit(registry: Backend, parsed: Parsed) -> None:
    from drafter_registry import limits

    paging = Paging.of(parsed)

    def page(cursor: str) -> tuple[tuple[AuditEntry, ...], str]:
        answer = registry.audit(cursor, paging.limit or limits.page_items, parsed.value("--subject"))
        return answer.items, answer.next

    items, more = paging.collect(page)
    if parsed.has("--json"):
        write_json({"items": items, "next": more})
        return
    if items:
        print_table(_ENTRIES, [_entry_row(entry) for entry in items])
    else:
        write("nothing was written" + (" about that" if parsed.value("--subject") else ""), to_stderr=True)
    paging.tell(more)


def _entry_row(entry: AuditEntry) -> tuple[str, ...]:
    detail = ", ".join(f"{name} {value}" for name, value in entry.detail.items() if value)
    return (moment(entry.at), entry.actor, entry.action, entry.subject, detail, entry.address, entry.request_id)
