"""Exit codes of `drafters`, the errors that only the command line knows, and the one map from errors to codes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.verdict import Verdict
    from drafter_registry.errors import Fault, RegistryError

#: The launch may start, or the command did what it was asked.
EXIT_OK = 0
#: A fault of this program.
EXIT_INTERNAL = 1
#: The command line cannot be understood, or names something that is not there.
EXIT_USAGE = 2
#: Refused: the launch would be wrong, or the file is of a kind that is never read.
EXIT_REFUSED = 3
#: Not authorised by a registry.
EXIT_NOT_AUTHORISED = 4
#: Something that decides is not known.
EXIT_UNKNOWN = 5
#: A registry or the package index does not answer.
EXIT_UNREACHABLE = 6
#: Files contradict each other or their own header.
EXIT_INTEGRITY = 7
#: Somebody else's content or move stands in the way.
EXIT_CONFLICT = 8
#: The launch names a program that cannot be executed; a shell answers the same.
EXIT_NOT_EXECUTABLE = 126
#: The launch names a program that does not exist; a shell answers the same.
EXIT_NOT_FOUND = 127
#: Interrupted from the keyboard (128 + SIGINT).
EXIT_INTERRUPTED = 130

#: Every exit code with its meaning: printed by `drafters --help`, documented in docs/exit-codes.md.
EXIT_CODES: tuple[tuple[int, str], ...] = (
    (EXIT_OK, "allow or warn; the command succeeded"),
    (EXIT_INTERNAL, "internal error: a fault of this program"),
    (EXIT_USAGE, "usage: the command line, or something that it names, is wrong"),
    (EXIT_REFUSED, "refused: the launch would be wrong, or the weights exist only as pickle"),
    (EXIT_NOT_AUTHORISED, "not authorised by the registry"),
    (EXIT_UNKNOWN, "unknown: something that decides is missing; the output says what would settle it"),
    (EXIT_UNREACHABLE, "registry or package index unreachable"),
    (EXIT_INTEGRITY, "integrity: files contradict each other, their own header, their manifest or their digest"),
    (EXIT_CONFLICT, "conflict: the version holds other content, or the alias was moved by somebody else"),
    (EXIT_NOT_EXECUTABLE, "guard only: the launch's program cannot be executed"),
    (EXIT_NOT_FOUND, "guard only: the launch's program was not found"),
    (EXIT_INTERRUPTED, "interrupted from the keyboard"),
)

_DECISION_CODES = {"allow": EXIT_OK, "warn": EXIT_OK, "refuse": EXIT_REFUSED, "unknown": EXIT_UNKNOWN}

#: Stable code of an error of `drafter_contracts` to the exit code; every code not named here is a usage error.
#: The codes of `drafter_registry` are here too; those not named are usage errors.
_ERROR_CODES = {
    "INTERNAL": EXIT_INTERNAL,
    "CHECKPOINT_PICKLE": EXIT_REFUSED,
    "RENDER_IMPOSSIBLE": EXIT_REFUSED,
    "CHECKPOINT_INVALID": EXIT_INTEGRITY,
    "CHECKPOINT_CONTRADICTION": EXIT_INTEGRITY,
    "MANIFEST_INVALID": EXIT_INTEGRITY,
    "LOCK_INVALID": EXIT_INTEGRITY,
    "PROFILE_INVALID": EXIT_INTEGRITY,
    "PROFILE_UNKNOWN_RELEASE": EXIT_UNKNOWN,
    "SAMPLE_INVALID": EXIT_INTEGRITY,
    "SAMPLE_DEGENERATE": EXIT_INTEGRITY,
    "CAPTURE_INVALID": EXIT_INTEGRITY,
    "EVIDENCE_INVALID": EXIT_INTEGRITY,
    "ENGINE_REPORT_INVALID": EXIT_INTEGRITY,
    "DRAFTER_UNSUPPORTED": EXIT_UNKNOWN,
    "NOT_AUTHORISED": EXIT_NOT_AUTHORISED,
    "REFUSED": EXIT_REFUSED,
    "UNDECIDED": EXIT_UNKNOWN,
    "MANIFEST_CONTRADICTS_FILES": EXIT_INTEGRITY,
    "DIGEST_MISMATCH": EXIT_INTEGRITY,
    "INTEGRITY": EXIT_INTEGRITY,
    "CONFLICT": EXIT_CONFLICT,
    "NAME_TOO_SIMILAR": EXIT_CONFLICT,
    "PRECONDITION_FAILED": EXIT_CONFLICT,
    "UNAVAILABLE": EXIT_UNREACHABLE,
    "TOO_MANY_REQUESTS": EXIT_UNREACHABLE,
    "DATABASE_SCHEMA": EXIT_UNREACHABLE,
    "STORAGE_FULL": EXIT_UNREACHABLE,
}

#: Longest value of a fault in one line, signs: of a manifest's evidence the whole line is lost.
_VALUE = 120


class UsageError(Exception):
    """The command line cannot be understood.

    Args:
        message: One sentence.
        hint: The one thing to do next ("" if the message says it).
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UnreachableError(UsageError):
    """Somebody else's service does not answer."""


class IncompatibleError(Exception):
    """A launch that must not start, with the verdict that says why.

    Args:
        verdict: What was found; its decision is "refuse" or "unknown".
        told: The verdict as text.
    """

    def __init__(self, verdict: Verdict, told: str) -> None:
        super().__init__(told)
        self.verdict = verdict


class OutputError(UsageError):
    """Standard output cannot be written: a full disk, say. Whoever asked does not get the answer."""


def exit_code_of_decision(decision: str) -> int:
    """Exit code of a verdict's decision; a word that is no decision is a fault of this program."""
    return _DECISION_CODES.get(decision, EXIT_INTERNAL)


def exit_code_of_error(error: BaseException) -> int:
    """Exit code of any exception that reaches the top."""
    if isinstance(error, UnreachableError):
        return EXIT_UNREACHABLE
    if isinstance(error, UsageError):
        return EXIT_USAGE
    if isinstance(error, IncompatibleError):
        return exit_code_of_decision(error.verdict.decision)
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    from drafter_contracts.errors import ContractsError

    registry = _registry_error()
    if isinstance(error, ContractsError) or (registry is not None and isinstance(error, registry)):
        return _ERROR_CODES.get(error.code, EXIT_USAGE)
    return EXIT_INTERNAL


def _registry_error() -> type[RegistryError] | None:
    """The registry's base error, if anything has imported it: only then can one have been raised."""
    import sys

    module = sys.modules.get("drafter_registry.errors")
    return None if module is None else module.RegistryError


def describe_error(error: BaseException) -> dict[str, str]:
    """An exception as text fields: code, message, where, expected, actual, hint. Empty where it does not say."""
    fields = {"code": "INTERNAL", "message": "", "where": "", "expected": "", "actual": "", "hint": ""}
    if isinstance(error, UsageError):
        code = "UNREACHABLE" if isinstance(error, UnreachableError) else "USAGE"
        return fields | {"code": code, "message": error.message, "hint": error.hint}
    if isinstance(error, KeyboardInterrupt):
        return fields | {"code": "INTERRUPTED", "message": "interrupted"}
    from drafter_contracts.errors import ContractsError

    if isinstance(error, ContractsError):
        told = {"message": error.message, "where": error.where, "expected": error.expected, "actual": error.actual}
        return fields | {"code": error.code} | told
    registry = _registry_error()
    if registry is not None and isinstance(error, registry):
        if len(error.faults) == 1 and error.faults[0].message == error.message:  # said once is enough
            message = _fault_line(error.faults[0])
        else:
            message = ": ".join(filter(None, (error.message, "; ".join(map(_fault_line, error.faults)))))
        return fields | {"code": error.code, "message": message, "hint": error.hint}
    hint = "this is a fault of drafters; DRAFTERS_TRACEBACK=1 shows where, please report it"
    return fields | {"message": f"{type(error).__name__}: {error}", "hint": hint}


def _fault_line(fault: Fault) -> str:
    text = f"{fault.pointer}: {fault.message}" if fault.pointer else fault.message
    expected = f"expected {_shortened(fault.expected)}" if fault.expected else ""
    actual = f"got {_shortened(fault.actual)}" if fault.actual else ""
    told = ", ".join(filter(None, (expected, actual)))
    return f"{text} ({told})" if told else text


def _shortened(value: str) -> str:
    return value if len(value) <= _VALUE else f"{value[:_VALUE]}..."


def error_line(error: BaseException) -> str:
    """An exception as one line for a person, without its hint."""
    fields = describe_error(error)
    text = f"{fields['where']}: {fields['message']}" if fields["where"] else fields["message"]
    if fields["expected"] and fields["actual"]:
        return f"{text} (expected {fields['expected']}, got {fields['actual']})"
    if fields["expected"]:
        return f"{text} (expected {fields['expected']})"
    return f"{text} (got {fields['actual']})" if fields["actual"] else text
