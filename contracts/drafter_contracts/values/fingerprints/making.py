"""A fingerprint from a target's own states on the probe."""

from __future__ import annotations

import math

import torch

from drafter_contracts.errors import CaptureError
from drafter_contracts.fingerprint_check import FIRST
from drafter_contracts.layout import FINAL_NORM, CaptureLayout, Tap, describe_taps
from drafter_contracts.manifest_values import FingerprintRecord, TapFingerprint
from drafter_contracts.values.fingerprints.projection import encode, project

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.values.records import Capture


def make_fingerprint(capture: Capture, layout: CaptureLayout) -> FingerprintRecord:
    """The fingerprint of a layout's taps.

    Args:
        capture: The target's states on the tokens of `probe`, and on no other.
        layout: What the drafter reads. The order of its taps does not matter.

    Returns:
        The record. It has no landmarks where the capture lacks a boundary.

    Raises:
        CaptureError: A tap that the capture does not have, another number of rows, or numbers that are not finite.
    """
    taps = sorted(set(layout.taps))
    absent = [tap for tap in taps if tap not in capture.states]
    if absent:
        raise CaptureError(
            "the capture lacks states of the layout",
            expected=describe_taps(taps),
            actual=f"none at {describe_taps(absent)}",
        )
    return FingerprintRecord(
        spec="drafters.fingerprint.v1",
        tokens=tuple(capture.tokens.tolist()),
        taps=tuple(_tap(tap, _checked(capture, tap)) for tap in taps),
        landmarks=_landmarks(capture),
        layers=capture.record.layers,
        width=capture.record.hidden_size,
        dtype=capture.record.dtype,
        made_with=capture.record.made_with,
        reference_sha256=capture.record.sha256,
    )


def landmark_taps(layers: int) -> tuple[Tap, ...]:
    """What the landmarks stand for: every boundary in ascending order, then the final norm."""
    return (*(Tap(boundary) for boundary in range(layers + 1)), Tap(layers, FINAL_NORM))


def _checked(capture: Capture, tap: Tap) -> torch.Tensor:
    states = capture.states[tap]
    shape = (len(capture.tokens), capture.record.hidden_size)
    if tuple(states.shape) != shape:
        raise CaptureError(
            f"{tap.label()} is no state per token", expected=str(list(shape)), actual=str(list(states.shape))
        )
    if not bool(torch.isfinite(states).all()):
        raise CaptureError(f"{tap.label()} holds numbers that are not finite", expected="finite numbers")
    return states.to(torch.float64)


def _tap(tap: Tap, states: torch.Tensor) -> TapFingerprint:
    return TapFingerprint(
        boundary=tap.boundary,
        state=tap.state,  # type: ignore[arg-type]
        norms=tuple(_short(norm) for norm in states.norm(dim=1).tolist()),
        first=tuple(tuple(_short(value) for value in row) for row in states[:, :FIRST].tolist()),
        projection=encode(project(states)),
    )


def _short(number: float) -> float:
    """Nine digits: those of a float32."""
    return float(f"{number:.9g}") if math.isfinite(number) else number


def _landmarks(capture: Capture) -> str:
    """The last token's projection at every boundary and after the final norm; "" where one of them is not there."""
    rows = []
    for tap in landmark_taps(capture.record.layers):
        found = _state_at(capture, tap)
        if found is None:
            return ""
        rows.append(project(_checked(capture, found)[-1:]))
    return encode(torch.cat(rows))


def _state_at(capture: Capture, tap: Tap) -> Tap | None:
    """The capture's state at a boundary: of a target with several streams it is their mean or mixture."""
    if tap in capture.states:
        return tap
    if tap.state == FINAL_NORM:
        return None
    return next((one for one in capture.taps() if one.boundary == tap.boundary and one.state != FINAL_NORM), None)
