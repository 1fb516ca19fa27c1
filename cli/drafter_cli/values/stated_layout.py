"""Which layout a drafter is said to be trained on: by option, by the manifest beside its weights, or by its files."""

from __future__ import annotations

import msgspec

from drafter_cli.errors import UsageError
from drafter_contracts.layout import CaptureLayout, layout_from_boundaries
from drafter_contracts.recording.claims import Claim
from drafter_contracts.recording.layouts import GIVE_TARGET, SETTLED_BY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.commandline import Parsed
    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.manifest import Manifest

#: Name of the layout that the files state, where an option states another one.
FILES = "as the files say"


class Stated(msgspec.Struct, frozen=True):
    """What is said.

    Attributes:
        layout: The layout, or None.
        files: What the files say, where an option says otherwise.
        obstacles: Why there is no layout, each with what settles it.
        possible: Layouts that the files may mean, where they do not decide.
    """

    layout: CaptureLayout | None
    files: CaptureLayout | None = None
    obstacles: tuple[Claim, ...] = ()
    possible: tuple[tuple[int, ...], ...] = ()

    @property
    def contradicted(self) -> bool:
        """Whether something is said wrongly, and not merely left open."""
        return any(claim.expected not in (SETTLED_BY, GIVE_TARGET) for claim in self.obstacles)


def stated_layout(
    parsed: Parsed, facts: DrafterFacts, beside: Manifest | None, *, layers: int, hidden_size: int
) -> Stated:
    """Read it, as publishing does; but an option is taken on its word, and what the files say stands beside it.

    Args:
        parsed: A command line that may have `--boundaries` or `--output-ids`.
        facts: The drafter's files, read with the target's depth and width.
        beside: The manifest beside them.
        layers: N of the target.
        hidden_size: Width of the target's residual stream.

    Raises:
        UsageError: Both options, or one that cannot be read.
        LayoutError: A boundary outside 0..N.
        ManifestError: A layout in the manifest that cannot exist.
    """
    option = by_option(parsed)
    if option is not None:
        stated = layout_from_boundaries(option, width=hidden_size, num_layers=layers)
        files = _by_files(facts, beside, layers, hidden_size).layout
        return Stated(stated, files if files is not None and files.taps != stated.taps else None)
    return _by_files(facts, beside, layers, hidden_size)


def by_option(parsed: Parsed) -> tuple[int, ...] | None:
    """Boundaries that the command line states, or None.

    Raises:
        UsageError: See `stated_layout`.
    """
    from drafter_cli.gate_options import numbers

    if parsed.has("--boundaries") and parsed.has("--output-ids"):
        raise UsageError("--boundaries and --output-ids state the same thing", "give one of them")
    for name, offset in (("--boundaries", 0), ("--output-ids", 1)):
        if parsed.has(name):
            return tuple(number + offset for number in numbers(name, parsed.value(name)))
    return None


def _by_files(facts: DrafterFacts, beside: Manifest | None, layers: int, hidden_size: int) -> Stated:
    from drafter_contracts.manifest import SCHEMA, Manifest, TargetRecord
    from drafter_contracts.recording.layouts import record_layout
    from drafter_contracts.recording.ledger import Ledger
    from drafter_contracts.recording.statement import Statement

    base = beside or Manifest(schema=SCHEMA)
    target = TargetRecord(layers=layers, hidden_size=hidden_size)
    ledger = Ledger("drafters-manifest.json")
    record = record_layout(facts, base.method or facts.method, Statement(manifest=beside), target, ledger)
    if record is None or ledger.obstacles:
        reading = facts.layout
        first = () if reading.layout is None else (reading.layout.boundaries,)
        return Stated(None, None, tuple(ledger.obstacles), (*first, *reading.alternatives))
    return Stated(msgspec.structs.replace(base, layout=record, target=target).capture_layout())
