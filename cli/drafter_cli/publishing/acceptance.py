"""Acceptances that a publication states: one on the command line, or those of files."""

from __future__ import annotations

import msgspec

from drafter_cli.commandline import Option, Parsed
from drafter_cli.errors import UsageError
from drafter_contracts import limits
from drafter_contracts.errors import EvidenceError
from drafter_contracts.manifest_records import Acceptance

OPTIONS = (
    Option("--accept-length", "measured mean accepted length, tokens per step", "X"),
    Option("--accept-dataset", "what was generated then", "TEXT"),
    Option("--accept-engine", "with which engine and version", "TEXT"),
    Option(
        "--acceptance", "measured acceptances as a manifest records them, as evaluate --acceptance writes one", "FILE"
    ),
)


class _Named(msgspec.Struct):
    schema: str = ""


def stated(parsed: Parsed, *, steps: int | None, topk: int | None, draft_tokens: int | None) -> tuple[Acceptance, ...]:
    """The acceptances that the command line states; empty if none.

    Args:
        parsed: The command line.
        steps: `--steps`, with which the length was measured.
        topk: `--topk`.
        draft_tokens: `--draft-tokens`.

    Raises:
        UsageError: A length that is none, or two statements of one thing.
        EvidenceError: A file that holds no acceptance.
    """
    single = [option.name for option in OPTIONS[:3] if parsed.has(option.name)]
    if parsed.has("--acceptance"):
        if single:
            raise UsageError(f"--acceptance and {single[0]} state the same thing", "give one of them")
        return read_file(parsed.value("--acceptance"))
    if not parsed.has("--accept-length"):
        if single:
            raise UsageError(f"{single[0]} says nothing without --accept-length", "give both")
        return ()
    text = parsed.value("--accept-length")
    try:
        measured = {
            "length": float(text),
            "dataset": parsed.value("--accept-dataset"),
            "engine": parsed.value("--accept-engine"),
            "steps": steps,
            "topk": topk,
            "draft_tokens": draft_tokens,
        }
        return (msgspec.convert(measured, Acceptance),)
    except (ValueError, msgspec.ValidationError):
        raise UsageError(f"--accept-length is {text!r}", "write tokens per step, 1 or more: 2.7") from None


def read_file(path: str) -> tuple[Acceptance, ...]:
    """The acceptances of a file: one record, or a list of them.

    Raises:
        EvidenceError: It holds none.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(limits.evidence_max_bytes + 1)
    except OSError as error:
        raise EvidenceError("the acceptance cannot be read", where=path, actual=str(error.strerror)) from None
    if len(data) > limits.evidence_max_bytes:
        expected = f"at most {limits.evidence_max_bytes} bytes"
        raise EvidenceError("too large for an acceptance", where=path, expected=expected, actual=f"{len(data)} bytes")
    try:
        many = data.lstrip()[:1] == b"["
        found = msgspec.json.decode(data, type=tuple[Acceptance, ...] if many else Acceptance)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise EvidenceError(
            "not an acceptance as a manifest records one",
            where=path,
            expected="what drafters evaluate --acceptance writes, or a list of such records" + _instead(data),
            actual=str(error),
        ) from None
    if found == ():
        raise EvidenceError("no acceptance", where=path, expected="one record or more", actual="an empty list")
    return found if isinstance(found, tuple) else (found,)


def _instead(data: bytes) -> str:
    """What to do with a document of evidence that was taken for an acceptance."""
    try:
        schema = msgspec.json.decode(data, type=_Named).schema
    except (msgspec.MsgspecError, RecursionError):
        return ""
    return f"; a document of {schema} is given by --evidence" if schema else ""
