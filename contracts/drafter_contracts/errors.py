"""Every exception that a public function of `drafter_contracts` raises.

Two families: the caller's input is wrong (`InputError` and below), or something that was promised
not to happen did (`InternalError`). Each carries a stable `code`, where the fault is (`where`: a file,
a key, a flag), what was expected and what was found, so that a program can act on it and a person can
read it without the traceback.
"""

from __future__ import annotations


class ContractsError(Exception):
    """Base of all errors of this package.

    Args:
        message: One sentence for a person.
        where: File, key path or flag that is at fault ("" if there is none).
        expected: What would have been right.
        actual: What was found.
    """

    code = "CONTRACTS_ERROR"

    def __init__(self, message: str, *, where: str = "", expected: str = "", actual: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.expected = expected
        self.actual = actual

    def diagnostics(self) -> str:
        """The error as one line for a person: where, what, expected and actual."""
        text = f"{self.where}: {self.message}" if self.where else self.message
        if self.expected:
            text += f" (expected {self.expected}"
            text += f", got {self.actual})" if self.actual else ")"
        elif self.actual:
            text += f" (got {self.actual})"
        return text


class InternalError(ContractsError):
    """A promise of this package itself was broken; a bug, never the caller's fault."""

    code = "INTERNAL"


class InputError(ContractsError):
    """The caller's input is wrong."""

    code = "INPUT"


class LayoutError(InputError):
    """A layer number, tap or layout that cannot exist."""

    code = "LAYOUT_INVALID"


class CheckpointError(InputError):
    """A drafter directory, config.json or weight header that cannot be read."""

    code = "CHECKPOINT_INVALID"


class PickleRefusedError(CheckpointError):
    """The weights exist only as pickle; they are never loaded."""

    code = "CHECKPOINT_PICKLE"


class ContradictionError(CheckpointError):
    """config.json and the tensors say different things about the same fact."""

    code = "CHECKPOINT_CONTRADICTION"


class RenderError(InputError):
    """A drafter whose files cannot be rendered as asked: nothing is known that would keep its meaning."""

    code = "RENDER_IMPOSSIBLE"


class ManifestError(InputError):
    """A manifest that does not follow its schema."""

    code = "MANIFEST_INVALID"


class LockError(InputError):
    """A lock file that does not follow its schema, or that was changed after it was written."""

    code = "LOCK_INVALID"


class LaunchError(InputError):
    """A launch command that cannot be read."""

    code = "LAUNCH_INVALID"


class TargetError(InputError):
    """The target's config.json cannot be found or read."""

    code = "TARGET_INVALID"


class ProfileError(InputError):
    """An engine profile that cannot be found or read."""

    code = "PROFILE_INVALID"


class UnknownReleaseError(ProfileError):
    """No profile is shipped for this engine release."""

    code = "PROFILE_UNKNOWN_RELEASE"


class ScanError(InputError):
    """A source tree that cannot be scanned."""

    code = "SCAN_FAILED"


class SampleError(InputError):
    """A file of recorded states that cannot be read, or is of no known format."""

    code = "SAMPLE_INVALID"


class DegenerateSampleError(SampleError):
    """Recorded states that are no states: zero, constant, repeated or not finite. Nothing can be told from them."""

    code = "SAMPLE_DEGENERATE"


class CaptureError(InputError):
    """A reference that cannot be used: a target that does not run here, or a capture file that cannot be read."""

    code = "CAPTURE_INVALID"


class UnsupportedDrafterError(InputError):
    """A drafter of a kind that the reference forward does not compute."""

    code = "DRAFTER_UNSUPPORTED"


class EvidenceError(InputError):
    """A document of evidence that does not follow its schema, or that is about other files."""

    code = "EVIDENCE_INVALID"


class EngineReportError(InputError):
    """What an engine answers of itself is no report of a known release, or holds figures that cannot be."""

    code = "ENGINE_REPORT_INVALID"
