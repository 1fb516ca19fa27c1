"""The options of `drafters publish`, and what they state on word."""

from __future__ import annotations

from typing import Any, cast

from drafter_cli.client.connect import OPTIONS as REGISTRY
from drafter_cli.commandline import JSON, Option, Parsed
from drafter_cli.errors import UsageError
from drafter_cli.gate_options import numbers
from drafter_cli.publishing import acceptance, evidence
from drafter_contracts.checkpoint.facts import METHODS, UNKNOWN_METHOD
from drafter_contracts.recording.statement import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.value_types import State

_METHODS = tuple(method for method in METHODS if method != UNKNOWN_METHOD)
_STATES = ("residual", "final_norm", "stream_mean", "stream_mixture")

#: What is said of a drafter, wherever its files are.
STATEMENTS = (
    Option("--name", "the drafter's name; default: its manifest's", "NAME"),
    Option("--version", "its version, a digit first; default: its manifest's", "VERSION"),
    Option("--target", "directory or Hub id of the target that it was trained for", "PATH|ID"),
    Option("--target-name", "what to record as the target's name; default: its Hub id or directory's name", "ID"),
    Option("--target-revision", "commit of the target's repository", "COMMIT"),
    Option("--output-ids", "the layers trained on, as output ids in concatenation order: 2,30,58", "LIST"),
    Option("--boundaries", "the same as boundaries: 3,31,59", "LIST"),
    Option("--states", f"state per layer, if not all are residual: {', '.join(_STATES)}", "LIST"),
    Option("--method", "where the files do not tell it", "METHOD", choices=_METHODS),
    Option("--producer", "training tool and version: specforge==0.2.0", "TOOL==VERSION"),
    Option("--steps", "recommended --speculative-num-steps", "N"),
    Option("--topk", "recommended --speculative-eagle-topk", "N"),
    Option("--draft-tokens", "recommended --speculative-num-draft-tokens, the root included", "N"),
    Option("--speculative-tokens", "recommended drafted tokens, the root not counted", "N"),
    *acceptance.OPTIONS,
    Option("--training-data", "what it was trained on", "TEXT"),
    Option("--trained-context", "longest context trained on, tokens", "N"),
    Option("--thinking-mode", "chat mode trained on: on, off, both, or in words", "TEXT"),
    Option("--dtype", "dtype that it must run in", "DTYPE"),
    Option("--embeddings", "whose embeddings it was trained with", "WHOSE", choices=("own", "target")),
    Option("--lm-head", "whose head it was trained with", "WHOSE", choices=("own", "target")),
    Option("--rotated", "it was trained on a rotated residual basis"),
    Option("--created", "when it was trained, ISO 8601", "DATE"),
    Option("--source", "where the files come from", "URL"),
    Option("--revision", "commit there", "COMMIT"),
    Option("--links", "where to read more", "URL...", many=True),
    Option("--notes", "anything else, one line each", "TEXT...", many=True),
)
OPTIONS = (
    *STATEMENTS,
    *evidence.OPTIONS,
    Option("--alias", "point this alias at the version once it is published", "ALIAS"),
    Option("--why", "reason of that move, for the alias's history", "TEXT"),
    Option("--repair", "send every file, those that the registry has too: mends what fsck found damaged"),
    Option("--dry-run", "read everything, print the manifest, publish nothing"),
    *REGISTRY,
    JSON,
)


def statement(parsed: Parsed, beside: Manifest | None, *, source: str = "", revision: str = "") -> Statement:
    """What the command line states.

    Args:
        parsed: The command line.
        beside: The manifest that lay beside the weights.
        source: Where the files were taken from, if no option says it.
        revision: Commit there.

    Raises:
        UsageError: Values that cannot be read, or two statements of one thing.
        EvidenceError: A file of acceptances that holds none.
    """
    boundaries, option = _layout(parsed)
    whole = ("steps", "topk", "draft-tokens", "speculative-tokens", "trained-context")
    counts: dict[str, Any] = {name.replace("-", "_"): _count(parsed, f"--{name}") for name in whole}
    texts: dict[str, Any] = {
        name.replace("-", "_"): parsed.value(f"--{name}")
        for name in ("name", "version", "method", "producer", "training-data", "thinking-mode", "dtype", "created")
    }
    return Statement(
        **counts,
        **texts,
        boundaries=boundaries,
        option=option,
        states=_states(parsed, boundaries),
        target_model=parsed.value("--target-name"),
        target_revision=parsed.value("--target-revision"),
        acceptance=acceptance.stated(
            parsed, steps=counts["steps"], topk=counts["topk"], draft_tokens=counts["draft_tokens"]
        ),
        source=parsed.value("--source") or source,
        revision=parsed.value("--revision") or revision,
        urls=parsed.many("--links"),
        notes=parsed.many("--notes"),
        embeddings=cast("Any", parsed.value("--embeddings")),
        lm_head=cast("Any", parsed.value("--lm-head")),
        rotated=True if parsed.has("--rotated") else None,
        manifest=beside,
    )


def _layout(parsed: Parsed) -> tuple[tuple[int, ...] | None, str]:
    if parsed.has("--boundaries") and parsed.has("--output-ids"):
        raise UsageError("--boundaries and --output-ids state the same thing", "give one of them")
    for name, offset in (("--boundaries", 0), ("--output-ids", 1)):
        if parsed.has(name):
            boundaries = tuple(number + offset for number in numbers(name, parsed.value(name)))
            return boundaries, f"{name} {parsed.value(name)}"
    return None, ""


def _states(parsed: Parsed, boundaries: tuple[int, ...] | None) -> tuple[State, ...]:
    if not parsed.has("--states"):
        return ()
    states = tuple(parsed.value("--states").replace(",", " ").split())
    if boundaries is None or len(states) != len(boundaries) or not set(states) <= set(_STATES):
        raise UsageError(
            f"--states is {parsed.value('--states')!r}",
            f"one of {', '.join(_STATES)} for each of --output-ids or --boundaries",
        )
    return cast("tuple[State, ...]", states)


def _count(parsed: Parsed, name: str) -> int | None:
    text = parsed.value(name)
    if not parsed.has(name):
        return None
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise UsageError(f"{name} is {text!r}", "write a whole number, 1 or more")
    return int(text)
