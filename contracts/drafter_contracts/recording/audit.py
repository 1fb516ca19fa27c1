"""A manifest held against the drafter's own bytes: what they contradict, and what it must say to be stored.

The registry believes no claim that it can read off the files itself. What the files leave open is no contradiction.
"""

from __future__ import annotations

from itertools import pairwise

from drafter_contracts.checkpoint.config_view import dotted, layer_ids
from drafter_contracts.checkpoint.facts import (
    DECLARED,
    DFLASH,
    DFLASH2,
    EAGLE3,
    MEDUSA,
    NEXTN,
    P_EAGLE,
    PRODUCER_RULE,
    STANDALONE,
    UNKNOWN_METHOD,
    Disagreement,
    DrafterFacts,
)
from drafter_contracts.checkpoint.parts import AUX_METHODS, chunk_norms
from drafter_contracts.checkpoint.tensors import TensorIndex, described
from drafter_contracts.conventions.statements import KEYS
from drafter_contracts.layout import FINAL_NORM, RESIDUAL, Tap, describe_taps
from drafter_contracts.recording.claims import Claim, pointer, shown
from drafter_contracts.recording.derive import (
    OWN,
    derive_draft,
    derive_norm,
    fc_input_width,
    fc_place,
    plain_dtype,
    stated_depth,
)
from drafter_contracts.recording.kept_values import values_contradictions
from drafter_contracts.recording.layouts import GIVE_TARGET, SETTLED_BY, config_place, follows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_contracts.manifest import LayoutRecord, Manifest

#: Methods that a config without weights cannot tell apart: (it says, the drafter may be).
REFINEMENTS = {(EAGLE3, P_EAGLE), (DFLASH, DFLASH2)}
#: What a manifest must say of its target, and what settles it.
_TARGET = ("model", "architecture", "layers", "hidden_size")
#: What a person calls them.
_WORDS = {"model": "name", "layers": "number of layers", "hidden_size": "hidden size"}
_IDS = "capture layer ids"
#: Subject of a disagreement to the field of the manifest that it is about.
_SUBJECTS = {
    "method": "/method",
    "fc input width": "/layout/fc_input_width",
    "drafter's hidden size": "/draft/hidden_size",
    "norm before fc": "/layout/norm",
    "norm of each tap": "/layout/norm",
    "number of taps": "/layout/boundaries",
    "draft vocabulary": "/draft/vocab_size",
    "target vocabulary": "/draft/target_vocab_size",
    _IDS: "/layout/boundaries",
}


def contradictions(manifest: Manifest, facts: DrafterFacts) -> tuple[Claim, ...]:
    """Every claim of a manifest that the drafter's own files contradict; empty if none.

    Args:
        manifest: The manifest, decoded (so that it does not contradict itself).
        facts: The files, read with the manifest's `target.layers` and `target.hidden_size`.
    """
    return (
        *_files(manifest, facts),
        *_method(manifest, facts),
        *_target(manifest, facts),
        *_draft(manifest, facts),
        *_layout(manifest, facts),
        *values_contradictions(manifest),
    )


def missing(manifest: Manifest) -> tuple[Claim, ...]:
    """What a manifest must say to be stored, and does not; empty if nothing is missing."""
    found = [
        Claim(f"/{field}", f"the drafter's {field} is missing", f"--{field}")
        for field in ("name", "version")
        if not getattr(manifest, field)
    ]
    if manifest.method in ("", UNKNOWN_METHOD):
        why = "neither config.json nor tensors say what kind of drafter this is"
        found.append(Claim("/method", why, "a method that is stated", manifest.method or "nothing"))
    found += [
        Claim(f"/target/{field}", f"the target's {_WORDS.get(field, field)} is not known", GIVE_TARGET, "nothing")
        for field in _TARGET
        if not getattr(manifest.target, field)
    ]
    if manifest.method in AUX_METHODS and manifest.layout is None:
        why = f"{manifest.method} reads aux hidden states, and the layers that it reads are missing"
        found.append(Claim("/layout", why, SETTLED_BY, "nothing"))
    paths = [file.path for file in manifest.files]
    if not paths:
        found.append(Claim("/files", "no files", "every file of the drafter", "nothing"))
    elif any(a >= b for a, b in pairwise(paths)):
        found.append(Claim("/files", "files are listed once each, sorted by path", shown(sorted(set(paths)))))
    return tuple(found)


def _files(manifest: Manifest, facts: DrafterFacts) -> Iterator[Claim]:
    """The files contradict each other: no manifest of them can be right."""
    settled = manifest.layout is not None and manifest.layout.known_by in ("declared", "identified by values")
    for one in facts.disagreements:
        if one.fatal and not (one.what == _IDS and settled):
            yield _fatal(one)


def _fatal(one: Disagreement) -> Claim:
    message = f"{one.what}: {one.left}, but {one.right}"
    return Claim(_SUBJECTS.get(one.what, ""), message, one.left, one.right, "the drafter's files")


def _method(manifest: Manifest, facts: DrafterFacts) -> Iterator[Claim]:
    stated, read = manifest.method, facts.method
    if stated in ("", read) or read == UNKNOWN_METHOD:
        return
    if not facts.tensors and (read, stated) in REFINEMENTS:
        return
    yield _differs("method", stated, read, "; ".join(facts.method_evidence))


def _differs(field: str, stated: object, read: object, place: str) -> Claim:
    ours, theirs = shown(stated), shown(read) or "none"
    return Claim(pointer(field), f"the manifest says {field} {ours}, {place} says {theirs}", theirs, ours, place)


def _target(manifest: Manifest, facts: DrafterFacts) -> Iterator[Claim]:
    layers, width, depth = manifest.target.layers, manifest.target.hidden_size, stated_depth(facts)
    # Targets that run their layers several times are as deep as all passes together.
    if layers is not None and depth is not None and layers % depth:
        yield _differs("target.layers", layers, depth, "config.json of the drafter")
    if width is not None and facts.target_hidden_size and width != facts.target_hidden_size:
        yield _differs("target.hidden_size", width, facts.target_hidden_size, "config.json: target_hidden_size")


def _draft(manifest: Manifest, facts: DrafterFacts) -> Iterator[Claim]:
    for name, read in derive_draft(facts).items():
        stated = getattr(manifest.draft, name)
        if name in ("lm_head", "embeddings"):
            # What it was trained with may be missing; what it holds may not be the target's where it cannot be.
            wrong = stated == "target" and read.value == OWN
        elif name == "weights_dtype":
            wrong = bool(stated) and plain_dtype(stated) != read.value
        else:
            wrong = stated not in (None, "", read.value)
        if wrong:
            yield _differs(f"draft.{name}", stated, read.value, read.place)
    # Engines take both from config.json alone: what it does not say is not there.
    if manifest.draft.quantization and not facts.quantization:
        yield _differs("draft.quantization", manifest.draft.quantization, "", "config.json")
    if manifest.draft.rope_scaling and not facts.rope_scaling:
        yield _differs("draft.rope_scaling", manifest.draft.rope_scaling, "", "config.json")


def _layout(manifest: Manifest, facts: DrafterFacts) -> Iterator[Claim]:
    record = manifest.layout
    if record is None:
        return
    if facts.method in (NEXTN, STANDALONE, MEDUSA):
        yield _differs("layout", record.boundaries, "", "; ".join(facts.method_evidence))
        return
    yield from _declared(record, facts)
    yield from _stated(record, facts)
    yield from _widths(record, manifest, facts)
    norm = derive_norm(facts)
    if norm is not None and record.norm != norm.value:
        yield _differs("layout.norm", record.norm, norm.value, norm.place)


def _declared(record: LayoutRecord, facts: DrafterFacts) -> Iterator[Claim]:
    """What the files declare, or say by their producer's rule where the manifest appeals to that."""
    reading = facts.layout
    known = record.states if len(record.states) == len(record.boundaries) else (RESIDUAL,) * len(record.boundaries)
    taps = tuple(Tap(boundary, state) for boundary, state in zip(record.boundaries, known, strict=True))
    if reading.layout is not None and reading.confidence == DECLARED and reading.layout.taps != taps:
        same = reading.layout.boundaries == record.boundaries
        field = "layout.states" if same else "layout.boundaries"
        yield _differs(field, describe_taps(taps), describe_taps(reading.layout.taps), config_place(reading))
    elif record.known_by == "producer rule" and not follows(reading, record.boundaries):
        if reading.layout is not None and reading.confidence == PRODUCER_RULE:
            theirs = describe_taps(reading.layout.taps)
            yield _differs("layout.boundaries", describe_taps(taps), f"{theirs} by that rule", config_place(reading))
        else:
            yield _differs("layout.known_by", record.known_by, reading.confidence, config_place(reading))


def _stated(record: LayoutRecord, facts: DrafterFacts) -> Iterator[Claim]:
    """What the manifest quotes from config.json is there."""
    stated = record.stated
    if stated is None or stated.key not in dict(KEYS):
        return
    ids = layer_ids(dotted(facts.config, stated.key)) or ()
    if stated.values != ids:
        yield _differs("layout.stated.values", stated.values, ids, f"config.json: {stated.key}")


def _widths(record: LayoutRecord, manifest: Manifest, facts: DrafterFacts) -> Iterator[Claim]:
    """The taps together are as wide as the input of `fc`, and every one has a norm of its own if any has."""
    columns, taps = fc_input_width(facts), len(record.boundaries)
    chunks = chunk_norms(TensorIndex(facts.tensors)) if facts.method in AUX_METHODS else []
    if chunks and len(chunks) != taps and all(state != FINAL_NORM for state in record.states):
        place = f"tensors: {described(chunks[0])} and {len(chunks) - 1} more"
        yield _differs("layout.boundaries", f"{taps} taps", f"{len(chunks)} norms", place)
        return
    if columns is None:
        return
    if record.fc_input_width not in (None, columns):
        yield _differs("layout.fc_input_width", record.fc_input_width, columns, fc_place(facts))
    if record.widths:
        if sum(record.widths) != columns:
            yield _differs("layout.widths", record.widths, f"{columns} columns", fc_place(facts))
        return
    # A width that the config contradicts is told of already.
    width = facts.target_hidden_size or manifest.target.hidden_size
    total = taps * width if width else columns if columns % taps == 0 else 0
    if total != columns:
        ours = f"{taps} taps of {width}" if width else f"{taps} taps"
        yield _differs("layout.boundaries", ours, f"{columns} columns", fc_place(facts))
