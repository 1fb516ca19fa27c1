"""`drafters fingerprint`: keeps what a target's states are on a fixed probe, for the taps that a drafter reads."""

from __future__ import annotations

import json
import os

import msgspec

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK, EXIT_UNKNOWN, UsageError
from drafter_cli.terminal import printable, write, write_json
from drafter_cli.values.need import require_tensors
from drafter_cli.values.whole_file import check_output, replace_file
from drafter_cli.words import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.layout import CaptureLayout
    from drafter_contracts.manifest_values import FingerprintRecord
    from drafter_contracts.recording.claims import Claim
    from drafter_contracts.values.records import Capture

_DTYPES = ("auto", "float32", "bfloat16", "float16")

COMMANDS = {
    "fingerprint": Command(
        name="fingerprint",
        summary="keep the target's states on a fixed probe, to ask engines by",
        description=(
            "Runs the target on 16 token ids (--print-probe) and writes what its states are at the drafter's layers\n"
            "into DRAFTER_DIR/drafters-manifest.json, which publish carries on: norms, first elements and a random\n"
            "projection, a few kB per layer. `drafters verify` then asks a running engine whether it feeds the same.\n"
            "The layers are those of the manifest, of the files as publish reads them, or of the options. Exits with\n"
            "5 where nothing says them, with 7 where they contradict each other."
        ),
        words=("[DRAFTER_DIR]",),
        options=(
            Option("--target", "directory or Hub id of the target, which is run here", "PATH"),
            Option("--target-revision", "commit of a target in this machine's Hub cache", "COMMIT"),
            Option("--reference", "instead: a capture of exactly the probe's tokens, recorded elsewhere", "CAPTURE"),
            Option("--boundaries", "the layers, as boundaries: 3,31,59", "LIST"),
            Option("--output-ids", "the same as output ids: 2,30,58", "LIST"),
            Option("--dtype", "run the target in this dtype; default: that of its config", "DTYPE", choices=_DTYPES),
            Option("--device", "run the target there; default: cpu", "DEVICE"),
            Option("--print-probe", "print the probe of a vocabulary of --vocab-size tokens, and do nothing else"),
            Option("--vocab-size", "rows of the target's embedding, where nothing else says it", "N"),
            Option("--output", "write the fingerprint alone to FILE, and leave the manifest", "FILE", short="-o"),
            JSON,
        ),
        examples=(
            ("drafters fingerprint ./kimi-eagle3 --target ./Kimi-K2.5", "before publishing"),
            ("drafters fingerprint --print-probe --vocab-size 163840", "the tokens to record elsewhere"),
            ("drafters fingerprint ./d --reference probe.safetensors --output-ids 2,30,58 -o d.json", "from a capture"),
        ),
    )
}


class _OpenError(Exception):
    """The layout cannot be told from what there is."""

    def __init__(self, claims: tuple[Claim, ...], *, contradicted: bool) -> None:
        super().__init__()
        self.claims, self.contradicted = claims, contradicted


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Make a fingerprint; see the description."""
    require_tensors()
    if parsed.has("--print-probe"):
        return _print_probe(parsed)
    directory = parsed.word(0)
    if not os.path.isdir(directory):
        raise UsageError(f"{directory or 'DRAFTER_DIR'} is no directory", "name the drafter's directory")
    if parsed.has("--output"):
        check_output(parsed.value("--output"), parsed.value("--reference"))
    try:
        layout = _layout(parsed, directory)
    except _OpenError as found:
        return _tell_open(parsed, directory, found)
    from drafter_contracts.values.fingerprints import make_fingerprint

    record = make_fingerprint(_capture(parsed), layout)
    path = parsed.value("--output") or os.path.join(directory, "drafters-manifest.json")
    if parsed.has("--output"):
        replace_file(path, msgspec.json.encode(record))
    else:
        _write_beside(path, directory, record)
    _tell(parsed, path, record, layout)
    return EXIT_OK


def _print_probe(parsed: Parsed) -> int:
    from drafter_contracts.values.fingerprints import probe

    if not parsed.has("--vocab-size"):
        raise UsageError("--print-probe needs --vocab-size", "rows of the target's embedding: --vocab-size 163840")
    tokens = probe(number("--vocab-size", parsed.value("--vocab-size")))
    if parsed.has("--json"):
        write_json({"tokens": tokens})
    else:
        write(",".join(map(str, tokens)))
    return EXIT_OK


def _layout(parsed: Parsed, directory: str) -> CaptureLayout:
    """The layout to take: stated, else the manifest's, else the files', as `drafters publish` reads them.

    Raises:
        UsageError: The options cannot be read, or the directory is a render.
        _OpenError: Nothing says it, or the files contradict it.
    """
    from drafter_cli.publishing.command import read_facts
    from drafter_cli.publishing.no_render import stated_beside
    from drafter_contracts.layout import layout_from_boundaries
    from drafter_contracts.manifest import SCHEMA, Manifest
    from drafter_contracts.recording.layouts import GIVE_TARGET, SETTLED_BY, record_layout
    from drafter_contracts.recording.ledger import Ledger
    from drafter_contracts.recording.statement import Statement
    from drafter_contracts.recording.targets import record_target
    from drafter_contracts.serving.target import read_target

    beside = stated_beside(directory)
    boundaries, revision = _stated(parsed), parsed.value("--target-revision")
    target = read_target(parsed.value("--target"), revision=revision) if parsed.has("--target") else None
    base = beside or Manifest(schema=SCHEMA)
    if boundaries is not None:
        return layout_from_boundaries(boundaries, num_layers=target.num_layers if target else base.target.layers)
    ledger = Ledger("drafters-manifest.json")
    statement = Statement(manifest=beside)
    facts = read_facts(directory, target, beside)
    recorded_target = record_target(facts, statement, base.target, target, ledger)
    layout = record_layout(facts, base.method or facts.method, statement, recorded_target, ledger)
    if ledger.obstacles or layout is None:
        contradicted = any(claim.expected not in (SETTLED_BY, GIVE_TARGET) for claim in ledger.obstacles)
        raise _OpenError(tuple(ledger.obstacles), contradicted=contradicted)
    found = msgspec.structs.replace(base, layout=layout, target=recorded_target, state_fingerprint=None)
    taken = found.capture_layout()
    if taken is None:
        raise _OpenError((), contradicted=False)
    return taken


def _stated(parsed: Parsed) -> tuple[int, ...] | None:
    from drafter_cli.gate_options import numbers

    if parsed.has("--boundaries") and parsed.has("--output-ids"):
        raise UsageError("--boundaries and --output-ids state the same thing", "give one of them")
    for name, offset in (("--boundaries", 0), ("--output-ids", 1)):
        if parsed.has(name):
            return tuple(number + offset for number in numbers(name, parsed.value(name)))
    return None


def _tell_open(parsed: Parsed, directory: str, found: _OpenError) -> int:
    code = EXIT_INTEGRITY if found.contradicted else EXIT_UNKNOWN
    lines = [claim.message for claim in found.claims] or ["this drafter reads no layers of its target"]
    hint = "; ".join(dict.fromkeys(claim.expected for claim in found.claims if claim.expected))
    if parsed.has("--json"):
        word = "MANIFEST_CONTRADICTS_FILES" if found.contradicted else "UNDECIDED"
        error = {"code": word, "message": "; ".join(lines), "where": directory, "expected": hint, "actual": ""}
        write_json({"error": error | {"hint": ""}, "exit_code": code})
        return code
    for line in lines:
        write(f"{directory}: {printable(line)}", to_stderr=True)
    if hint:
        write(f"  settle it with {printable(hint)}", to_stderr=True)
    return code


def _capture(parsed: Parsed) -> Capture:
    """The target's states on the probe.

    Raises:
        UsageError: Neither a target nor a capture, or both; a target that is not here.
        CaptureError: The target does not run, or the capture is of other tokens.
    """
    from drafter_contracts.errors import CaptureError
    from drafter_contracts.values.fingerprints import probe

    if parsed.has("--target") == parsed.has("--reference"):
        raise UsageError(
            "--target and --reference state the same thing" if parsed.has("--target") else "nothing to take states of",
            "give --target, the target's directory, or --reference, a capture of the probe's tokens",
        )
    stated = number("--vocab-size", parsed.value("--vocab-size")) if parsed.has("--vocab-size") else 0
    if parsed.has("--target"):
        return _run_target(parsed, stated)
    from drafter_contracts.values.captures import read_capture

    path = parsed.value("--reference")
    capture = read_capture(path)
    size = stated or capture.record.vocab_size
    if not size:
        raise UsageError(f"{path} does not say how many tokens its target knows", "add --vocab-size N")
    wanted = list(probe(size))
    if capture.tokens.tolist() != wanted:
        raise CaptureError(
            "the capture is not of the probe",
            where=path,
            expected=",".join(map(str, wanted)),
            actual=",".join(map(str, capture.tokens[:16].tolist())),
        )
    return capture


def _run_target(parsed: Parsed, vocabulary: int) -> Capture:
    import torch

    from drafter_contracts import hub_cache
    from drafter_contracts.serving.target import read_target
    from drafter_contracts.values.fingerprints import probe
    from drafter_contracts.values.targets import run_target

    given, revision = parsed.value("--target"), parsed.value("--target-revision")
    directory = hub_cache.find(given, revision)
    if directory is None:
        raise UsageError(f"{given} is neither a directory nor in this machine's Hub cache", "give its directory")
    size = vocabulary or read_target(directory).vocab_size
    if not size:
        raise UsageError(f"{given} does not say how many tokens it knows", "add --vocab-size N")
    dtype, device = parsed.value("--dtype") or "auto", parsed.value("--device") or "cpu"
    return run_target(directory, torch.tensor(probe(size)), dtype=dtype, device=device)


def _write_beside(path: str, directory: str, record: FingerprintRecord) -> None:
    """Put the record into the manifest, every other field as it is; nothing is written that could not be read again.

    Raises:
        ManifestError: The manifest cannot be read, or does not go with this fingerprint.
        UsageError: It cannot be written.
    """
    from drafter_contracts.manifest import SCHEMA, decode, read_manifest

    document: dict[str, object] = {"schema": SCHEMA}
    if read_manifest(directory) is not None:
        with open(path, "rb") as file:
            document = json.load(file)
    document.pop("state_fingerprint", None)
    # Indented as people read it, but for the numbers, which stand on one line.
    text = json.dumps(document, indent=2, ensure_ascii=False).removesuffix("\n}")
    data = text.encode() + b',\n  "state_fingerprint": ' + msgspec.json.encode(record) + b"\n}\n"
    if decode(data, where=path).state_fingerprint != record:
        raise UsageError(f"{path} would not hold what was written", "write it elsewhere: -o FILE")
    replace_file(path, data)


def _tell(parsed: Parsed, path: str, record: FingerprintRecord, layout: CaptureLayout) -> None:
    from drafter_contracts.layout import describe_taps

    size = len(msgspec.json.encode(record))
    if parsed.has("--json"):
        write_json({"path": path, "bytes": size, "state_fingerprint": record})
        return
    write(f"{describe_taps(layout.taps)} on {len(record.tokens)} tokens in {record.dtype}: {size} bytes in {path}")
    if not record.landmarks:
        write(
            "the capture lacks some boundaries: a wrong state will be named among the drafter's own only",
            to_stderr=True,
        )
