"""States from an engine or a file, held against a fingerprint."""

from __future__ import annotations

import os

import msgspec
import torch

from drafter_cli.errors import UsageError
from drafter_cli.values.running_engine import EngineInfo, Prefill, Refusal, RunningEngine
from drafter_cli.values.verification import SCHEMA, Verification, reason_of, verdict
from drafter_contracts.errors import SampleError
from drafter_contracts.layout import CaptureLayout, Tap
from drafter_contracts.values.fingerprints import DIFFERENT, UNKNOWN, compare, resemblances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.manifest import Manifest
    from drafter_contracts.manifest_values import FingerprintRecord

FLAG = "--enable-return-aux-hidden-states"
#: First release of SGLang that has it.
SINCE = "0.5.23"
#: Part of a file in which the name of the format stands.
_HEADER = 256 * 1024


def engine(
    drafter: str,
    fingerprint: FingerprintRecord,
    manifest: Manifest | None,
    url: str,
    timeout: float,
    most: float | None,
) -> Verification:
    """What a running engine returns for the fingerprint's tokens.

    Raises:
        UsageError: An address that is none, or an engine that wants a key.
        UnreachableError: It does not answer, or not as SGLang does.
        DegenerateSampleError: States that are not finite.
    """
    running = RunningEngine(url, timeout=timeout)
    info = running.info()
    if info is None:
        return _open(drafter, running, None, "what answers there is no SGLang", _elsewhere(fingerprint))
    if info.mode != "full" and not info.enable_return_hidden_states and not info.aux_hidden_state_capture:
        return _open(drafter, running, info, "it returns no states", _flags(fingerprint, manifest, running, info))
    answer = running.prefill(fingerprint.tokens, fingerprint.width * (2 * len(fingerprint.taps) + 2))
    if isinstance(answer, Refusal):
        return _open(drafter, running, info, f"it answers {answer.status}: {answer.text}", "")
    count = len(fingerprint.tokens)
    if not answer.rows or len(answer.rows) + answer.cached != count:
        reason = f"it returns the states of {len(answer.rows)} of {count} tokens, with {answer.cached} in its cache"
        return _open(drafter, running, info, reason, f"let it prefill {count} tokens at once, and ask again")
    return _of_rows(drafter, fingerprint, manifest, running, info, answer, most)


def _of_rows(
    drafter: str,
    fingerprint: FingerprintRecord,
    manifest: Manifest | None,
    running: RunningEngine,
    info: EngineInfo,
    answer: Prefill,
    most: float | None,
) -> Verification:
    widths = sorted({len(row) for row in answer.rows})
    width, taps = fingerprint.width, len(fingerprint.taps)
    said = _said(drafter, running, info)
    if len(widths) != 1 or widths[0] % width or not widths[0]:
        reason = f"its states are {' and '.join(map(str, widths))} wide, no multiple of the target's {width}"
        return msgspec.structs.replace(
            said, found=DIFFERENT, reason=reason, settle="does it serve this drafter's target?"
        )
    if widths[0] == width and taps > 1 and not info.aux_hidden_state_capture:
        reason = "it returns the target's last state only"
        return _open(drafter, running, info, reason, _flags(fingerprint, manifest, running, info))
    nan = float("nan")  # JSON has no such number: the engine writes null
    rows = torch.tensor([[nan if x is None else x for x in row] for row in answer.rows], dtype=torch.float32)
    states = torch.split(rows, width, dim=1)
    tokens = fingerprint.tokens[answer.cached :]
    return _held(said, fingerprint, states, tokens, most)


def recording(drafter: str, fingerprint: FingerprintRecord, path: str, most: float | None) -> Verification:
    """What a file of recorded states holds: a capture, or a sample of any format that is read.

    Raises:
        UsageError: No such file.
        CaptureError, SampleError: It cannot be read, or is of other tokens.
    """
    if not os.path.exists(path):
        raise UsageError(f"{path} does not exist", "name a recording of the fingerprint's tokens")
    said = Verification(schema=SCHEMA, drafter=drafter, source=path, found=UNKNOWN)
    states, tokens, spare = _of_capture(fingerprint, path) or _of_sample(fingerprint, path)
    probe = len(fingerprint.tokens)  # what follows the probe in a recording does not change its states
    states, tokens = tuple(state[:probe] for state in states), tokens[:probe]
    if len(tokens) < probe:  # an engine leaves out what it has in its cache; whoever records leaves out nothing
        raise SampleError("fewer tokens than the probe", where=path, expected=f"{probe} rows", actual=str(len(tokens)))
    try:
        if spare and _is_last(fingerprint, states[-1], tokens):
            states = states[:-1]
        return _held(said, fingerprint, states, tokens, most)
    except SampleError as error:
        where = f"{path}: {error.where}" if error.where else path
        raise type(error)(error.message, where=where, expected=error.expected, actual=error.actual) from None


def _is_last(fingerprint: FingerprintRecord, state: torch.Tensor, tokens: torch.Tensor) -> bool:
    """Whether a state may be the target's last one, which such recordings hold beside those that feed `fc`.

    Where the fingerprint knows the drafter's own layers alone, it may be, unless it is one of these.
    """
    (found,) = resemblances(fingerprint, [state], tokens)
    if found.is_it:
        return found.boundary == fingerprint.layers
    return not fingerprint.landmarks


def _of_sample(fingerprint: FingerprintRecord, path: str) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, bool]:
    """States and tokens of the sample that begins with the probe; of the first one, if none does.

    The third says that the last of the states is one more than feed `fc`, and may be the target's last one.

    Raises:
        SampleError: It cannot be read.
    """
    from drafter_contracts.values.samples import read_samples

    wanted, chosen = list(fingerprint.tokens), None
    for sample in read_samples(path):
        chosen = chosen or sample
        if sample.tokens[: len(wanted)].tolist() == wanted:
            chosen = sample
            break
    if chosen is None:
        raise SampleError("no sample", where=path)
    states = chosen.split(fingerprint.width)
    spare = len(states) == len(fingerprint.taps) + 1 and chosen.last_may_be_inside
    return states, chosen.tokens, spare


def _of_capture(
    fingerprint: FingerprintRecord, path: str
) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, bool] | None:
    """The taps' states and tokens of a capture file; None if it is another kind of file.

    Raises:
        CaptureError: A capture that cannot be read, or lacks a tap.
    """
    from drafter_contracts.errors import CaptureError
    from drafter_contracts.layout import describe_taps
    from drafter_contracts.values.captures import read_capture

    if not _is_capture(path):
        return None
    capture = read_capture(path)
    taps = [Tap(tap.boundary, tap.state) for tap in fingerprint.taps]
    absent = [tap for tap in taps if tap not in capture.states]
    if absent:
        raise CaptureError("the capture lacks states of the fingerprint", where=path, expected=describe_taps(absent))
    return tuple(capture.states[tap] for tap in taps), capture.tokens, False


def _is_capture(path: str) -> bool:
    """Whether a file's header names the format of captures; what is wrong with one is told when it is read."""
    from drafter_contracts.values.capture_writer import FORMAT

    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return FORMAT.encode() in file.read(_HEADER)


def _held(
    said: Verification,
    fingerprint: FingerprintRecord,
    states: Sequence[torch.Tensor],
    tokens: torch.Tensor | Sequence[int],
    most: float | None,
) -> Verification:
    wanted = len(fingerprint.taps)
    if len(states) != wanted:
        reason = f"there are {len(states)} states per token where the drafter reads {wanted}"
        chunks = resemblances(fingerprint, states, tokens)
        return msgspec.structs.replace(said, found=DIFFERENT, chunks=chunks, reason=reason)
    taps = compare(fingerprint, states, tokens, most=most)
    found, reason = verdict(taps), reason_of(taps)
    return msgspec.structs.replace(said, found=found, taps=taps, reason=reason)


def _said(drafter: str, running: RunningEngine, info: EngineInfo | None) -> Verification:
    ids = None if info is None else info.return_aux_hidden_state_layer_ids
    release = "" if info is None else f"sglang {info.version or '(release not said)'}"
    return Verification(
        schema=SCHEMA, drafter=drafter, source=running.url, engine=release, asked_ids=ids, found=UNKNOWN
    )


def _open(drafter: str, running: RunningEngine, info: EngineInfo | None, reason: str, settle: str) -> Verification:
    return msgspec.structs.replace(_said(drafter, running, info), reason=reason, settle=settle)


def _elsewhere(fingerprint: FingerprintRecord) -> str:
    tokens = ",".join(map(str, fingerprint.tokens))
    return f"record the states of the tokens {tokens} there, and give the file (docs/fingerprint.md)"


def _flags(fingerprint: FingerprintRecord, manifest: Manifest | None, running: RunningEngine, info: EngineInfo) -> str:
    """The flags to start it with, if this release can return these states."""
    from drafter_contracts.engines.versions import version_key

    if info.version and version_key(info.version) < version_key(SINCE):
        return f"SGLang {info.version} cannot return them, {SINCE} can; or {_elsewhere(fingerprint)}"
    method = manifest.method if manifest is not None and manifest.method in ("DFLASH", "DSPARK") else "EAGLE3"
    flags = f"{FLAG} --speculative-algorithm {method} --return-aux-hidden-state-layer-ids"
    architecture = manifest.target.architecture if manifest is not None else ""
    ids = _ids(fingerprint, architecture or running.architecture(), info.version, method)
    told = " ".join(map(str, ids)) if ids else "IDS, the ids of its numbering"
    return f"start a canary of it without the drafter's own flags, and with {flags} {told}"


def _ids(fingerprint: FingerprintRecord, architecture: str, release: str, method: str) -> tuple[int, ...]:
    """The ids that make this release's target class return the taps; empty if that is not known."""
    from drafter_contracts.engines.capture import capture_once
    from drafter_contracts.engines.store import load_profile
    from drafter_contracts.errors import ContractsError
    from drafter_contracts.solve import same_taps

    wanted = CaptureLayout(tuple(Tap(tap.boundary, tap.state) for tap in fingerprint.taps))
    try:
        rule = load_profile("sglang", release).capture_method(architecture, method)
        if rule is None:
            return ()
        for less in (1, 0):
            plain = tuple(boundary - less for boundary in wanted.boundaries)
            for ids in (plain, (*plain[1:], plain[0])):  # some classes read the first id as a sign
                if min(ids) >= 0 and same_taps(wanted.taps, capture_once(rule, fingerprint.layers, ids).taps):
                    return ids
    except ContractsError:
        pass
    return ()
