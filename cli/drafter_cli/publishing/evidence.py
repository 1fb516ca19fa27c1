"""Evidence by values that a publication is given: documents, or samples that are identified here."""

from __future__ import annotations

import hashlib

from drafter_cli.commandline import Option, Parsed
from drafter_cli.errors import UsageError
from drafter_contracts import limits
from drafter_contracts.errors import EvidenceError
from drafter_contracts.evidence.documents import decode
from drafter_contracts.evidence.given import Given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.publishing.view import View

OPTIONS = (
    Option("--evidence", "what drafters identify or drafters evaluate wrote", "FILE...", many=True),
    Option("--sample", "recorded states: identify their layers here, by running --target", "FILE...", many=True),
)


def gather(parsed: Parsed, view: View) -> tuple[Given, ...]:
    """Every document that the command line gives, and the one that its samples make.

    Args:
        parsed: The command line.
        view: Told what the samples were found to hold.

    Raises:
        UsageError: A sample without a target that can be run, or the tensor libraries are not installed.
        EvidenceError: A file that is no document of evidence.
        SampleError: Samples that cannot be read, or hold nothing that can be told.
        CaptureError: The target does not run here.
    """
    given = [_document(path) for path in parsed.many("--evidence")]
    if parsed.has("--sample"):
        given.append(_identified_here(parsed, view))
    return tuple(given)


def _document(path: str) -> Given:
    try:
        with open(path, "rb") as file:
            data = file.read(limits.evidence_max_bytes + 1)
    except OSError as error:
        raise EvidenceError("the document cannot be read", where=path, actual=str(error.strerror)) from None
    return Given(decode(data, where=path), path, hashlib.sha256(data).hexdigest())


def _identified_here(parsed: Parsed, view: View) -> Given:
    """The document is written nowhere: the manifest keeps what it says, and no digest of it."""
    from drafter_cli.values.need import require_tensors

    require_tensors()
    if not parsed.has("--target"):
        raise UsageError("--sample says nothing without --target", "give the target's directory, which is run on it")

    from drafter_cli.values.identify_view import lines
    from drafter_cli.values.identifying import identify_files
    from drafter_cli.values.reference_of import Reference

    samples = parsed.many("--sample")
    reference = Reference(target=parsed.value("--target"), revision=parsed.value("--target-revision"))
    document = identify_files(samples, reference)
    for line in lines(document):
        view.note(line)
    return Given(document, f"--sample {' '.join(samples)}")
