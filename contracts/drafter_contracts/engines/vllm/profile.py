"""What one vLLM release does with a drafter, as data: the document that a scan of a release writes.

Everything in it was seen when functions of that release's own source were executed; see `engines.vllm.scan`. Rules of
target classes are those of SGLang's profiles (`engines.profile.CaptureMethod`) with ids as vLLM numbers them.
"""

# No `from __future__ import annotations` here: see `engines.profile`.

import msgspec

from drafter_contracts.engines.launch_rules import Source
from drafter_contracts.engines.profile import FITTED, OPAQUE, CaptureMethod

ENGINE = "vllm"
SCHEMA = "drafters.vllm-profile.v1"


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place where a runner looks for capture ids.

    Attributes:
        key: Dotted config key of a list.
        add: What the runner adds to each id before the target's setter sees it.
        adds: The same, for drafters of some `model_type`.
        decides: Where the object that holds the key is there and not empty, no later place is looked at.
    """

    key: str
    add: int = 0
    adds: dict[str, int] = msgspec.field(default_factory=dict)
    decides: bool = False


class Runner(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one model runner of a release finds the capture ids of a drafter; without any, the target's default counts.

    Attributes:
        steps: Places, first hit wins.
        source: The function.
        status: "fitted" or "opaque" (then nothing follows).
        reason: For opaque: what was seen.
    """

    steps: tuple[Step, ...] = ()
    source: Source | None = None
    status: str = FITTED
    reason: str = ""


class Switch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A true-or-false key of a drafter's config that a class obeys.

    Attributes:
        keys: Dotted keys, the first that is present counts.
        default: What counts without any.
    """

    keys: tuple[str, ...]
    default: bool = False


class DraftClass(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a drafter's class builds from its config.

    Attributes:
        source: Its constructor.
        status: "fitted" or "opaque".
        reason: For opaque: what was seen.
        taps: Where the number of taps is read, in precedence: dotted keys, "len(KEY)", or a literal.
        width: Where the width of one tap is read, in precedence.
        switches: What it obeys of `norm_before_residual`, `norm_before_fc`, `fc_norm`, `norm_output` and
            `use_aux_hidden_state`, by that name.
    """

    source: Source | None = None
    status: str = FITTED
    reason: str = ""
    taps: tuple[str, ...] = ()
    width: tuple[str, ...] = ()
    switches: dict[str, Switch] = msgspec.field(default_factory=dict)


class Copied(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry that the translation of a speculators config makes.

    Attributes:
        key: Key of the speculators config that it comes from; "" for a constant.
        default: Its value as JSON without that key (or the constant); "" where it is then left out.
        add: What is added to each id of a list.
        negated: The opposite of the key's truth.
    """

    key: str = ""
    default: str = ""
    add: int = 0
    negated: bool = False


class Conversion(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a release turns a drafter in the speculators format into a config of its own.

    Attributes:
        method: Method that it serves it with.
        parallel: It is served with parallel drafting.
        requires: Keys without which it raises.
        architectures: `model_type` of the decoder's part to the drafter class; "" for any.
        entries: Dotted entry of the result to where it comes from. What the decoder's part
            (`transformer_layer_config`) holds is there already.
        source: The function.
        status: "fitted" or "opaque".
        reason: For opaque: what was seen.
    """

    method: str = ""
    parallel: bool = False
    requires: tuple[str, ...] = ()
    architectures: dict[str, str] = msgspec.field(default_factory=dict)
    entries: dict[str, Copied] = msgspec.field(default_factory=dict)
    source: Source | None = None
    status: str = FITTED
    reason: str = ""


class VllmProfile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One release of vLLM.

    Attributes:
        schema: `SCHEMA`.
        engine: "vllm".
        release: Version as published.
        sources: File below `vllm` to the first 16 hex digits of its sha256: what this was derived from.
        methods: Values that `method` of `--speculative-config` may have.
        options: Its other keys.
        runners: "V1" and "V2" to how each reads the ids. One that is absent is not in the release.
        rules: Distinct capture rules.
        targets: Target architecture to the index of its rule; -1 for a class without the hook.
        delegates: Target architecture to the part of its config that names its decoder's architecture.
        drafters: Drafter architecture that the release registers, to what its class builds.
        renames: Method to architecture of a drafter's config to the one that it is loaded as.
        speculators: Type of a speculators config to how it is translated.
    """

    schema: str
    engine: str
    release: str
    sources: dict[str, str] = msgspec.field(default_factory=dict)
    methods: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    runners: dict[str, Runner] = msgspec.field(default_factory=dict)
    rules: tuple[CaptureMethod, ...] = ()
    targets: dict[str, int] = msgspec.field(default_factory=dict)
    delegates: dict[str, str] = msgspec.field(default_factory=dict)
    drafters: dict[str, DraftClass] = msgspec.field(default_factory=dict)
    renames: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    speculators: dict[str, Conversion] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Engine and release for messages, "vllm 0.33.0"."""
        return f"{self.engine} {self.release}"


__all__ = [
    "ENGINE", "FITTED", "OPAQUE", "SCHEMA", "Conversion", "Copied", "DraftClass", "Runner", "Step", "Switch",
    "VllmProfile",
]  # fmt: skip
