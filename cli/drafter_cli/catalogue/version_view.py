"""How `drafters list`, `show` and `diff` show versions to people."""

from __future__ import annotations

from drafter_cli.catalogue.evidence_view import show_evidence
from drafter_cli.sheet import Sheet
from drafter_cli.table import Column
from drafter_cli.terminal import BOLD, GREEN, RED, YELLOW, Style, printable
from drafter_cli.words import moment, plural, size
from drafter_contracts.errors import ManifestError
from drafter_contracts.layout import NORM_CONCATENATION, NORM_PER_CHUNK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.layout import CaptureLayout
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.manifest_records import FileRecord, LayoutRecord
    from drafter_registry.documents import Difference, VersionDocument, VersionSummary

_COLOURS = {"live": GREEN, "yanked": YELLOW, "deleted": RED}
_NORMS = {NORM_CONCATENATION: "one over the concatenation", NORM_PER_CHUNK: "one for each tap"}

#: Longest sentence about one change, signs: an evidence may be a page.
_WORDS = 240

#: Columns of `drafters list`; the least useful ones leave first.
COLUMNS = (
    Column("DRAFTER", shrinks=True),
    Column("ALIASES", shrinks=True),
    Column("STATE"),
    Column("METHOD", leaves=4),
    Column("TARGET", shrinks=True),
    Column("BOUNDARIES", leaves=5),
    Column("SIZE", leaves=3, right=True),
    Column("PUBLISHED", leaves=2),
    Column("CONTRACT", leaves=1),
)


def row(summary: VersionSummary) -> tuple[str, ...]:
    """One version in `COLUMNS`."""
    return (
        f"{summary.name}@{summary.version}",
        ", ".join(summary.aliases),
        "" if summary.state == "live" else summary.state,
        summary.method,
        summary.target_model or summary.target_architecture,
        ",".join(map(str, summary.boundaries)),
        size(summary.size),
        moment(summary.published.at) if summary.published else "",
        short(summary.fingerprint),
    )


def short(digest: str) -> str:
    """The first twelve digits of a digest, for tables."""
    return digest.removeprefix("sha256:")[:12]


def render(document: VersionDocument, *, style: Style, width: int) -> str:
    """One version in full."""
    sheet = Sheet(style, width)
    summary, manifest = document.summary, document.manifest
    sheet.title(f"{summary.name}@{summary.version}", summary.state, _COLOURS.get(summary.state, ""))
    if summary.state == "yanked":
        by = f" by {document.yanked_by}" if document.yanked_by else ""
        at = f" on {moment(document.yanked_at)}" if document.yanked_at else ""
        sheet.field("yanked", f"{document.yanked_why or 'no reason given'}{by and ','}{by}{at}", YELLOW)
    sheet.field("digest", summary.digest)
    sheet.field("contract", summary.fingerprint)
    sheet.field("aliases", ", ".join(summary.aliases))
    if summary.published is not None:
        tool = f", with {summary.published.tool}" if summary.published.tool else ""
        sheet.field("published", f"{moment(summary.published.at)} by {summary.published.by}{tool}")
    _layout(sheet, manifest)
    _target(sheet, manifest)
    _draft(sheet, manifest)
    _use(sheet, manifest)
    _provenance(sheet, manifest)
    _files(sheet, manifest.files)
    return sheet.text()


def _layout(sheet: Sheet, manifest: Manifest) -> None:
    sheet.section("Capture layout")
    sheet.field("method", manifest.method)
    record = manifest.layout
    if record is None:
        sheet.field("reads", "no aux hidden states, or it is not recorded which")
        return
    try:
        layout = manifest.capture_layout()
    except ManifestError as error:  # the registry refuses such a manifest; show what it says all the same
        sheet.field("reads", f"boundaries {list(record.boundaries)}, which cannot be: {error.diagnostics()}", RED)
        return
    if layout is not None:
        sheet.field("boundaries", _ids(record.boundaries))
        sheet.field("output ids", _ids(layout.output_ids) + " (-1 is the embedding)" * (-1 in layout.output_ids))
        sheet.field("fc input", _width(record, layout.fc_input_width))
        for line in _columns(record, layout):
            sheet.field("", line)
        sheet.field("norm before fc", _NORMS.get(layout.norm, ""))
    _known(sheet, record, manifest)


def _known(sheet: Sheet, record: LayoutRecord, manifest: Manifest) -> None:
    sheet.field("known by", record.known_by, GREEN if record.known_by else "")
    if record.stated is not None:
        stated = record.stated
        producer = f", by {stated.producer}" if stated.producer else ""
        sheet.field("stated as", f"{stated.key} = {list(stated.values)} ({stated.numbering}{producer})")
    for line in record.evidence:
        sheet.field("evidence", line)
    show_evidence(sheet, manifest)


def _ids(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _width(record: LayoutRecord, computed: int | None) -> str:
    width = record.fc_input_width if record.fc_input_width is not None else computed
    taps = plural(len(record.boundaries), "tap")
    return f"{width} wide, {taps} in this order:" if width is not None else f"{taps} in this order:"


def _columns(record: LayoutRecord, layout: CaptureLayout) -> list[str]:
    """What each range of `fc`'s columns reads: the order of concatenation."""
    width, taps = record.fc_input_width, len(layout.taps)
    widths = layout.widths or ((width // taps,) * taps if width is not None and width % taps == 0 else ())
    if not widths:
        return [tap.label() for tap in layout.taps]
    lines, start = [], 0
    for tap, wide in zip(layout.taps, widths, strict=True):
        lines.append(f"columns {start} to {start + wide - 1}: {tap.label()}")
        start += wide
    return lines


def _target(sheet: Sheet, manifest: Manifest) -> None:
    target = manifest.target
    sheet.section("Target")
    sheet.field("model", target.model)
    sheet.field("revision", target.revision)
    sheet.field("architecture", target.architecture)
    sheet.field("layers", target.layers)
    sheet.field("hidden size", target.hidden_size)
    sheet.field("vocabulary", target.vocab_size)
    sheet.field("positions", target.context_length)
    sheet.field("tokenizer", target.tokenizer_sha256 and f"sha256:{target.tokenizer_sha256}")


def _draft(sheet: Sheet, manifest: Manifest) -> None:
    draft = manifest.draft
    sheet.section("Drafter")
    sheet.field("architecture", draft.architecture)
    sheet.field("hidden size", draft.hidden_size)
    sheet.field("layers", draft.layers)
    of_target = f" of the target's {draft.target_vocab_size}" if draft.target_vocab_size != draft.vocab_size else ""
    if draft.vocab_size is not None:
        mapping = f", mapped by {draft.vocab_mapping}" if draft.vocab_mapping not in {"", "none"} else ""
        sheet.field("vocabulary", f"{draft.vocab_size}{of_target if draft.target_vocab_size else ''}{mapping}")
    for label, owner in (("head", draft.lm_head), ("embedding", draft.embeddings)):
        sheet.field(label, {"own": "its own", "target": "borrowed from the target"}.get(owner, ""))
    sheet.field("trained on", draft.trained_context and f"{draft.trained_context} tokens of context")
    sheet.field("context", draft.context_length and f"{draft.context_length} tokens at most")
    sheet.field("RoPE", draft.rope_theta and f"theta {draft.rope_theta:g}")
    sheet.field("weights", ", ".join(filter(None, (draft.weights_dtype or draft.dtype, draft.quantization))))
    sheet.field("block size", draft.block_size)
    sheet.field("thinking mode", draft.thinking_mode)


def _use(sheet: Sheet, manifest: Manifest) -> None:
    told = manifest.recommended
    values = (("steps", told.steps), ("topk", told.topk), ("draft tokens", told.draft_tokens))
    parts = [f"{value} {name}" if name != "topk" else f"topk {value}" for name, value in values if value is not None]
    if told.speculative_tokens is not None:
        parts.append(f"{told.speculative_tokens} drafted tokens")
    if not parts and not manifest.acceptance:
        return
    sheet.section("Use")
    sheet.field("recommended", ", ".join(parts))
    for one in manifest.acceptance:
        where = ", ".join(filter(None, (one.dataset, one.engine, one.notes)))
        sheet.field("accepted", f"{one.length:g} tokens per step" + (f" ({where})" if where else ""))


def _provenance(sheet: Sheet, manifest: Manifest) -> None:
    told = manifest.provenance
    source = f"{told.source}@{told.revision}" if told.source and told.revision else told.source
    rows = (("producer", told.producer), ("data", told.training_data), ("created", told.created), ("source", source))
    if not any(value for _, value in rows) and not told.urls and not told.notes:
        return
    sheet.section("Where it comes from")
    for label, value in rows:
        sheet.field(label, value)
    for url in told.urls:
        sheet.field("see", url)
    for note in told.notes:
        sheet.field("note", note)


def _files(sheet: Sheet, files: tuple[FileRecord, ...]) -> None:
    total = sum(file.size for file in files)
    sheet.section(f"Files: {plural(len(files), 'file')}, {size(total)}")
    wide = max((len(printable(file.path)) for file in files), default=0)
    for file in files:
        line = f"  {printable(file.path):<{wide}}  {size(file.size):>8}  sha256:{file.sha256}"
        sheet.lines.append(line)
        if file.elsewhere:
            sheet.lines.append(f"  {'':<{wide}}  not kept here: {printable(file.elsewhere)}")


def render_difference(difference: Difference, *, style: Style, width: int) -> str:
    """What changed, in words; what decides compatibility first."""
    sheet = Sheet(style, width)
    same = difference.same_contract
    sheet.title(
        f"{difference.name}: {difference.before} -> {difference.after}",
        "the same contract" if same else "another contract",
        GREEN if same else RED,
    )
    groups = (("Contract", True), ("Everything else", False))
    for heading, contract in groups:
        changes = [change for change in difference.changes if change.contract is contract]
        if changes:
            sheet.lines += ["", style.paint(heading, BOLD)]
        for change in changes:
            sheet.lines.append(f"  {printable(change.field)}")
            # What the contract changes is what is looked for here: it is told to its end.
            whole = contract or len(change.words) <= _WORDS
            sheet.field("", change.words if whole else f"{change.words[:_WORDS]}... (--json has all)")
    if not difference.changes:
        sheet.lines.append("  nothing else differs" if same else "  what differs is not told")
    return sheet.text()
