"""What one engine release does, as data: the document that a scan writes and the gate reads.

A profile is derived from a release's own source by `drafters engine scan`; nothing in it is typed in by hand.
It is one JSON document per release. The classes below are its schema (and the gate's fast reader); the rule
language is small on purpose, and `drafter_contracts.engines.capture` is its only interpreter.

Rule language
-------------
* An *expression* is a string over the target's depth N: "2", "N", "N//2", "N-3", "N//2+1".
* A *shift* turns the ids of a drafter's config into boundaries: the first shift whose `when` holds applies to
  the whole list. Conditions: "always", "first==C", "max==N", "min>=C".
* A *guard* is a refusal by the engine's own setter. Conditions: "unsorted", "duplicate", "empty",
  "id<C", "id>=N", "id>N", "id==N-1" (true if any id is so).
* A *region* says what happens to a boundary: "capture", "drop" (silently), "error" (with the exception's
  name), "wrap" (Python's negative index: boundary N + b).
"""

# No `from __future__ import annotations` here: msgspec would have to evaluate every annotation of this document from
# its text before it can decode a profile, and that costs a gate a sixth of a bare interpreter's start.

import msgspec

from drafter_contracts.engines.launch_rules import LaunchRules, Source
from drafter_contracts.errors import ProfileError

SCHEMA = "drafters.engine-profile.v1"
#: Newest version of the rule language that this package reads.
SCAN_VERSION = 1

#: Method names as keys of `Target.methods` and `Profile.readings`.
METHODS = ("EAGLE3", "DFLASH", "DSPARK")

FITTED = "fitted"
OPAQUE = "opaque"
BROKEN = "broken"
ABSENT = "absent"


class Shift(msgspec.Struct, frozen=True, omit_defaults=True):
    """Add `add` to every id of the list when `when` holds."""

    add: int
    when: str = "always"


class Guard(msgspec.Struct, frozen=True, omit_defaults=True):
    """The setter raises `error` when any id is as `when` says."""

    when: str
    error: str


class Region(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happens to a boundary in this region.

    Attributes:
        action: "capture", "drop", "error" or "wrap".
        error: Exception name, for "error".
        phase: "setter" (at start-up) or "forward" (at the first batch), for "error".
    """

    action: str = "capture"
    error: str = ""
    phase: str = "forward"


_CAPTURE = Region()
_DROP = Region("drop")


class CaptureRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the forward pass does with the boundaries that the setter asked for.

    Attributes:
        state: The state that is captured: "residual", "stream_mean", "stream_mixture", or free text for a state that is
            not a residual stream at all (an engine defect: then no drafter can be served rightly).
        negative: Region for boundaries below 0.
        below: Region for boundaries below -N, where that differs from `negative`; None for the same.
        zero: Region for boundary 0, the embedding output.
        last: Region for boundary N.
        above: Region for boundaries above N.
        order: "ascending" (by layer) or "given" (as listed in the config).
        duplicates: "once" (collapse) or "repeat".
        short: Exception raised when some, but fewer states were captured than asked for; "" if nobody looks.
        none: Exception raised when nothing at all was captured; "" if nobody looks.
    """

    state: str = "residual"
    negative: Region = _DROP
    zero: Region = _CAPTURE
    last: Region = _DROP
    above: Region = _DROP
    order: str = "ascending"
    duplicates: str = "once"
    short: str = ""
    none: str = ""
    below: Region | None = None


class CaptureMethod(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one target class captures for one method.

    Attributes:
        status: "fitted" (the rules below reproduce the release's own code on every probe), "opaque" (no rule
            fits; the gate answers unknown), "broken" (the hook exists and cannot work in this release).
        reason: For opaque and broken: what was seen.
        source: The setter.
        forward: The forward pass that captures.
        depth: Path of the config key that the setter takes N from, e.g. "text_config.num_hidden_layers".
        default: Boundaries captured when no ids are given, as expressions; None if ids are required.
        shifts: How given ids become boundaries.
        guards: What the setter refuses.
        capture: What the forward pass does with them.
        sticky: A second call of the setter adds to the first (per-layer flags), so that eager execution after
            CUDA-graph capture with other ids captures the union.
        last_rank_only: The setter does nothing except on the last pipeline stage.
    """

    status: str
    reason: str = ""
    source: Source | None = None
    forward: Source | None = None
    depth: str = "num_hidden_layers"
    default: tuple[str, ...] | None = None
    shifts: tuple[Shift, ...] = ()
    guards: tuple[Guard, ...] = ()
    capture: CaptureRule = CaptureRule()
    sticky: bool = False
    last_rank_only: bool = False


class ReadingShift(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ids are moved before they reach the setter, for these targets and drafters only."""

    add: int
    target_model_type: str = ""
    drafter_architectures: tuple[str, ...] = ()


class IdReading(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a release finds the capture ids of a method in the drafter's config.

    Attributes:
        keys: Dotted config keys, first hit wins. Empty: the release reads none, ids are ignored.
        switch: Dotted key that turns aux capture off when its value is false, null, 0 or empty; "" if none.
        missing: "default" (the target class's default list), "formula" (spread evenly, see `capture.even_ids`)
            or "error".
        broken: What a value of the wrong kind (text, a number, a mapping) at one of `keys` leads to: "default",
            "error", or "setter" (it is handed on as it is, and the setter or the forward pass raises).
            A parent of the wrong kind (`eagle_config: null`) always counts as a missing key.
        error: Exception name, where missing or broken is "error".
        range_low: Lowest id accepted, or None where the release does not look.
        range_high: Expression of the highest id accepted ("N-1"), or "" where the release does not look.
        shifts: Moves applied before the setter sees the ids.
        requires: Dotted keys of a number without which the method is refused: the first that is present must
            be positive (DSPARK: "markov_rank").
        hooks: Setter names in order of preference, e.g. ["set_dspark_layers_to_capture", "set_dflash_..."].
        source: Where it is read.
        status: "fitted" (what is said here reproduces the release's own code on every probe) or "opaque".
        reason: For opaque: what was seen.
        null_stops: Those of `keys` whose null counts as "missing" at once, without a look at the next key.
        unchecked: Those of `keys` whose ids escape the range check.
        checks_all: Where one of `unchecked` wins, the other keys are read all the same, and may be refused.
        coerces: Every id goes through int(), so that "3" and 3.7 become 3.
        empty: What an empty list leads to: "setter" (handed on: nothing is captured) or "error".
        no_hook: Exception raised when the target has none of `hooks`.
    """

    keys: tuple[str, ...] = ()
    switch: str = ""
    missing: str = "default"
    broken: str = "default"
    error: str = ""
    range_low: int | None = None
    range_high: str = ""
    shifts: tuple[ReadingShift, ...] = ()
    requires: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    source: Source | None = None
    status: str = FITTED
    reason: str = ""
    null_stops: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    checks_all: bool = False
    coerces: bool = False
    empty: str = "setter"
    no_hook: str = ""


class GraphReplay(msgspec.Struct, frozen=True, omit_defaults=True):
    """What CUDA-graph replay (decode and verify steps) captures.

    Attributes:
        ids: "same" (as eager execution), "default" (the graph runner calls the setter again without ids before
            it records, and the configured ids are set only afterwards) or "unknown" (the order of these calls
            cannot be told; `reason` says why).
        source: The call that decides.
        disabled_by: Flags that turn graphs off, so that only eager execution remains.
        reason: For unknown: what was seen.
    """

    ids: str = "same"
    source: Source | None = None
    disabled_by: tuple[str, ...] = ()
    reason: str = ""


class TapBuffers(msgspec.Struct, frozen=True, omit_defaults=True):
    """How wide the engine makes its own buffers for the states that a drafter is fed (draft-extend graphs).

    Attributes:
        of: Whose config is read for it: "drafter" or "target".
        taps: Where the number of taps is read, in precedence, as in `Drafter.taps`.
        source: The function that computes the width.
    """

    of: str
    taps: tuple[str, ...] = ()
    source: Source | None = None


class Drafter(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one drafter class of the release does with a drafter's config and weights.

    Attributes:
        kind: Method it belongs to: "EAGLE", "EAGLE3", "DFLASH", "DFLASH2", "DSPARK", "NEXTN", "P-EAGLE", ...
        status: "fitted", "opaque", or "broken" (what was seen proves that it cannot work in this release).
        reason: For opaque and broken: what was seen.
        source: The class that owns `fc`.
        taps: Where the number of taps is read, in precedence: dotted keys ("num_aux_hidden_states"), "len(KEY)"
            for the length of a list, or a literal number as text ("3").
        width: Where the width of one tap is read, in precedence ("target_hidden_size", "hidden_size").
        bias: Whether `fc` gets a bias: "no", "yes", or the dotted key that decides ("bias").
        norm_before_fc: Dotted keys that switch one norm over the concatenation on; empty: not implemented.
        fc_norm: Dotted keys that switch per-chunk norms on; empty: not implemented.
        norm_output: Dotted keys that make the normed state the recycled one; empty: not implemented.
        either: Those of the three fields before whose switch is on if any of its keys is true ("fc_norm"); the others
            follow the first of their keys that is present.
        skips_fc: `fc` is skipped when the incoming width equals the drafter's own (the silent path).
        max_layers: Most draft layers it accepts, 0 for no limit.
        keys: Every config key it reads, dotted, sorted; not recorded for a target's own MTP layers (kind "NEXTN").
        loads: Tensor names (of the scanner's list of well-known names) that it loads; not recorded for "NEXTN".
            A decoder layer's bare name ("layers.0") stands for all its tensors, here and in the next two.
        ignores: Those that it drops without a message.
        refuses: Those at which its loader raises.
        embed: "target" (always replaced by the target's), "own", or "target unless target_hidden_size differs".
        lm_head: What happens per case: keys "tied", "draft_vocab_null", "own" to "target" | "own" | "embed".
            "error" means that the class or the worker raises; further keys: "draft_vocab_missing" (no such key in
            the config) and "unmapped" ("error" if a checkpoint without the map below is refused).
        vocab_map: Tensor that maps draft to target ids ("d2t"), or "".
        vocab_encoding: "offset" (the map holds target id minus draft id), "absolute", or "" without a map.
        ids_below: Dotted keys of a number that every capture id must stay below: the first that is present
            counts, and the class refuses to be built otherwise. Empty: the class does not look.
    """

    kind: str
    status: str = FITTED
    reason: str = ""
    source: Source | None = None
    taps: tuple[str, ...] = ()
    width: tuple[str, ...] = ()
    bias: str = "no"
    norm_before_fc: tuple[str, ...] = ()
    fc_norm: tuple[str, ...] = ()
    norm_output: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    skips_fc: bool = False
    max_layers: int = 0
    keys: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    refuses: tuple[str, ...] = ()
    embed: str = ""
    lm_head: dict[str, str] = msgspec.field(default_factory=dict)
    vocab_map: str = ""
    vocab_encoding: str = ""
    ids_below: tuple[str, ...] = ()


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One release.

    Attributes:
        schema: `SCHEMA`.
        engine: "sglang".
        release: Version as published, e.g. "0.5.12.post1".
        sources: File below `sglang/srt` to the first 16 hex digits of its sha256: what this profile was derived from.
        readings: Method to how its ids are read.
        graphs: Method to what graph replay captures.
        rules: Distinct capture rules; targets refer to them by index.
        targets: Target architecture to method to index into `rules`. An architecture that the release registers
            without any capture hook has an empty mapping, and so have drafter classes, which are no targets whatever
            they inherit; one that it does not register is absent.
        drafters: Drafter architecture to what its class does.
        buffers: Method to how wide the engine's own buffers for captured states are; absent where no function of the
            release computes that.
        rewrites: Architecture of a checkpoint to the drafter class that it is loaded as in draft mode (a target's
            own MTP layers), where that is another one.
        launch: The launch command.
        scan_version: Version of the scanner's rule language.
    """

    schema: str
    engine: str
    release: str
    sources: dict[str, str] = msgspec.field(default_factory=dict)
    readings: dict[str, IdReading] = msgspec.field(default_factory=dict)
    graphs: dict[str, GraphReplay] = msgspec.field(default_factory=dict)
    rules: tuple[CaptureMethod, ...] = ()
    targets: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    drafters: dict[str, Drafter] = msgspec.field(default_factory=dict)
    buffers: dict[str, TapBuffers] = msgspec.field(default_factory=dict)
    rewrites: dict[str, str] = msgspec.field(default_factory=dict)
    launch: LaunchRules = LaunchRules()
    scan_version: int = 1  # a document that does not say is of the first

    @property
    def name(self) -> str:
        """Engine and release for messages, e.g. "sglang 0.5.9"."""
        return f"{self.engine} {self.release}"

    def capture_method(self, architecture: str, method: str) -> CaptureMethod | None:
        """The rule of a target class for a method; None if it has no hook, is a drafter or is not registered."""
        if architecture in self.drafters:  # documents of earlier scans have rules of setters that drafters inherit
            return None
        index = self.targets.get(architecture, {}).get(method)
        return None if index is None else self.rules[index]


class Advisory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that a scan cannot see, found by reading or running; shown as a finding with its source.

    Attributes:
        id: Stable id, e.g. "SGLANG-EMBEDDING-ALIAS".
        first: First release it holds for ("" for the oldest).
        last: Last release it holds for ("" for still true).
        architectures: Target architectures, empty for all.
        methods: Methods, empty for all.
        when: "always", "tap:0" (boundary 0 is captured), "tensor:TEXT" (a tensor of the drafter has that in its name),
            "tbo" (two-batch overlap on), "pp" (pipeline parallel), ...
        severity: "note", "warn", "unknown" or "refuse".
        effect: What happens, one sentence.
        source: File and line in the release.
        evidence: How it is known: "read", "run", "upstream report URL".
        remedy: What to do.
    """

    id: str
    effect: str
    source: str
    evidence: str
    severity: str = "warn"
    first: str = ""
    last: str = ""
    architectures: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    when: str = "always"
    remedy: str = ""


def check_schema(schema: str, scan_version: int, where: str) -> None:
    """Refuse a profile that this package cannot read.

    Args:
        schema: Its schema.
        scan_version: Its version of the rule language.
        where: Where it comes from, for messages.

    Raises:
        ProfileError: Another schema, or a newer rule language.
    """
    if schema != SCHEMA:
        raise ProfileError("a profile of another schema", where=where, expected=SCHEMA, actual=schema)
    if scan_version > SCAN_VERSION:
        raise ProfileError(
            "a profile in a newer rule language than this version reads",
            where=where,
            expected=f"scan_version {SCAN_VERSION} at most",
            actual=str(scan_version),
        )
