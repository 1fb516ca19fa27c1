"""Whether a fingerprint of states can be one of the manifest that it stands in: sizes, taps and depth; no tensors."""

from __future__ import annotations

import array
import base64
import binascii
import itertools
import math
import sys

from drafter_contracts.errors import ManifestError
from drafter_contracts.layout import FINAL_NORM, CaptureLayout, Tap, describe_taps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.manifest_records import TargetRecord
    from drafter_contracts.manifest_values import FingerprintRecord, TapFingerprint

#: Numbers of a projection per token.
DIMENSIONS = 64
#: Elements of a state that are kept as they are, per token.
FIRST = 5
#: Token ids are kept in 64 bits by everybody who reads them.
_MOST_TOKEN = 2**31 - 1


def check_fingerprint(
    record: FingerprintRecord, layout: CaptureLayout | None = None, target: TargetRecord | None = None
) -> None:
    """Nothing if the record is whole and fits what stands beside it.

    Args:
        record: The fingerprint.
        layout: The layout beside it: its taps are the fingerprint's, in whatever order.
        target: The target beside it.

    Raises:
        ManifestError: Names the field below `state_fingerprint`, what was expected and what is there.
    """
    taps = tuple(Tap(tap.boundary, tap.state) for tap in record.taps)
    if any(a >= b for a, b in itertools.pairwise(taps)):
        raise _wrong("taps", "taps stand in ascending layer order, each once", describe_taps(sorted(set(taps))), taps)
    for number, tap in enumerate(taps):
        if tap.boundary > record.layers or (tap.state == FINAL_NORM and tap.boundary != record.layers):
            raise _wrong(f"taps[{number}].boundary", "no such state", f"0 to {record.layers}", (tap,))
    if layout is not None and set(taps) != set(layout.taps):
        raise _wrong("taps", "the taps are not the layout's", describe_taps(sorted(set(layout.taps))), taps)
    _check_target(record, target)
    for number, one in enumerate(record.taps):
        _check_tap(one, f"taps[{number}]", len(record.tokens), min(FIRST, record.width))
    if record.landmarks:
        _check_floats(record.landmarks, "landmarks", (record.layers + 2) * DIMENSIONS)


def _check_target(record: FingerprintRecord, target: TargetRecord | None) -> None:
    layers, width, vocabulary = (target.layers, target.hidden_size, target.vocab_size) if target else (None, None, None)
    for name, ours, theirs in (("layers", record.layers, layers), ("width", record.width, width)):
        if not ours or theirs not in (None, ours):
            raise _wrong(name, "not the target's", str(theirs or "1 or more"), str(ours))
    most = _MOST_TOKEN if vocabulary is None else vocabulary - 1
    if max(record.tokens) > most:
        raise _wrong("tokens", "not a token of the target", f"0 to {most}", str(max(record.tokens)))


def _check_tap(one: TapFingerprint, where: str, tokens: int, first: int) -> None:
    if len(one.norms) != tokens:
        raise _wrong(f"{where}.norms", "one norm per token", str(tokens), str(len(one.norms)))
    if any(norm < 0 for norm in one.norms):
        raise _wrong(f"{where}.norms", "a norm is not negative", "0 or more", str(min(one.norms)))
    if len(one.first) != tokens or any(len(row) != first for row in one.first):
        sizes = sorted({len(row) for row in one.first})
        actual = f"{len(one.first)} tokens, {' and '.join(map(str, sizes))} elements"
        raise _wrong(
            f"{where}.first", "the first elements of every token", f"{tokens} tokens, {first} elements", actual
        )
    _check_floats(one.projection, f"{where}.projection", tokens * DIMENSIONS)


def _check_floats(text: str, where: str, count: int) -> None:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _wrong(where, "not base64", f"base64 of {4 * count} bytes", str(error)) from None
    if len(data) != 4 * count:
        raise _wrong(where, "another size", f"{4 * count} bytes: {count} float32", f"{len(data)} bytes")
    numbers = array.array("f", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    if not all(map(math.isfinite, numbers)):
        raise _wrong(where, "not every number is finite", "finite numbers", "infinity or no number")


def _wrong(field: str, message: str, expected: str, actual: str | Sequence[Tap]) -> ManifestError:
    told = actual if isinstance(actual, str) else describe_taps(actual)
    return ManifestError(
        f"the fingerprint of states is not right: {message}",
        where=f"state_fingerprint.{field}",
        expected=expected,
        actual=told,
    )
