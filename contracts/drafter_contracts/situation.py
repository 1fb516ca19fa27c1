"""What a check looks at: drafter, target, engine and launch, read once and handed to every rule."""

from __future__ import annotations

import msgspec

from drafter_contracts.checkpoint.facts import DrafterFacts
from drafter_contracts.engines.capture import EffectiveCapture
from drafter_contracts.engines.profile import Advisory, CaptureMethod, Drafter, Profile
from drafter_contracts.layout import CaptureLayout
from drafter_contracts.serving.launch import ServingConfig, TargetFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.engines.elsewhere import OtherRelease


class StatedLayout(msgspec.Struct, frozen=True, omit_defaults=True):
    """The layout that the drafter was trained on, and on whose word.

    Attributes:
        layout: The layout.
        origin: "manifest", "render" (the manifest of one: its config is written for one release, in that release's
            numbering), "option" or "config".
        detail: File, option or config key it came from, for the output.
        confidence: Of a config reading (see `checkpoint.facts`); "declared" for an option, and for a manifest that does
            not itself appeal to the producer's rule.
    """

    layout: CaptureLayout
    origin: str
    detail: str
    confidence: str = "declared"


class Requirements(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a manifest records beyond what can be read off the bytes. None or empty: not recorded.

    Attributes:
        source: Where this was read ("drafters-manifest.json"), for messages.
        target_name: The target's name.
        target_architecture: Its class.
        target_layers: Its depth.
        target_hidden_size: Its width.
        target_vocab_size: Its vocabulary.
        target_tokenizer_sha256: Digest of its tokenizer.json.
        trained_context: Longest context trained on, tokens.
        trained_block_size: Block size trained with (parallel drafters), or steps unrolled in training.
        dtype: Dtype that the drafter must run in.
        embeddings: "own" or "target": whose embeddings it was trained with.
        lm_head: "own" or "target".
        rope_theta: RoPE base actually trained with, if it differs from the config's.
        norm_output: Which state is recycled.
        norm_before_residual: Which state feeds the residual.
        speculative_tokens: Drafted tokens per step that it is recommended with (vLLM's K: root not counted).
        thinking_mode: Chat mode it was trained on, free text.
        rotated: Whether it was trained on a rotated residual basis (QuaRot and kin).
    """

    source: str = ""
    target_name: str = ""
    target_architecture: str = ""
    target_layers: int | None = None
    target_hidden_size: int | None = None
    target_vocab_size: int | None = None
    target_tokenizer_sha256: str = ""
    trained_context: int | None = None
    trained_block_size: int | None = None
    dtype: str = ""
    embeddings: str = ""
    lm_head: str = ""
    rope_theta: float | None = None
    norm_output: bool | None = None
    norm_before_residual: bool | None = None
    speculative_tokens: int | None = None
    thinking_mode: str = ""
    rotated: bool | None = None


class Contradiction(msgspec.Struct, frozen=True):
    """An option of the operator's own that says otherwise than what a drafter needs.

    Attributes:
        stated: The option and what it says ("--speculative-algo EAGLE").
        needed: What the drafter needs there ("--speculative-algorithm EAGLE3").
        why: Why it needs that, one clause.
        remedy: The one thing to do next.
    """

    stated: str
    needed: str
    why: str
    remedy: str


class Situation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One drafter, one target, one engine release, one launch.

    Attributes:
        serving: The launch as this release reads it.
        profile: The engine release; None if no profile is known (`engine` names what was asked for).
        engine: "sglang 0.5.9", or what is known of it.
        engine_guess: The name that the release was guessed from (an image's tag), or "" if it is a fact.
        engine_problem: Why there is no profile ("" if there is one, or nothing more to say).
        engine_remedy: What would give one.
        drafter: The drafter's facts; None if its files cannot be read (`drafter_problem` says why).
        drafter_name: What to call it in messages.
        drafter_problem: Why there are no facts.
        drafter_served: In what the launch's own drafter differs from this one, "" if in nothing that headers, config
            and manifest tell, None if it is not on this machine.
        target: The target's facts; None if its config cannot be read (`target_problem` says why).
        target_problem: Why there are no facts.
        stated: The layout trained on; None if nothing states it.
        requirements: What a manifest records beyond that.
        method: Method as keys of the profile: "EAGLE3", "DFLASH", "DSPARK", or "" where no aux capture is involved.
        rule: The target class's capture rule in this release for that method, or None.
        draft_class: What this release's class for the drafter's architecture does, or None.
        draft_config: The drafter's config.json as the engine sees it: `--json-model-override-args` applied where this
            release applies it to the drafter.
        bundled: The launch names no drafter of its own: the target's checkpoint holds it.
        capture_off: The drafter's config turns aux capture off in this release.
        ids: Capture ids that this release reads from the drafter's config, as they reach the target's setter, or None.
        ids_key: Where they were read.
        ids_error: Exception that the release raises while reading them, or "".
        capture: What this launch will capture, or None where it cannot be evaluated.
        advisories: Those that concern this release.
        plugins: The launch's own selection of the engine's plugins, where it leaves out this project's, which is
            installed; else "".
        elsewhere: What other releases do with this drafter and target, oldest first, for remedies.
        contradictions: Where flags are made for a drafter: the operator's own options that say otherwise than they do.
    """

    serving: ServingConfig
    profile: Profile | None = None
    engine: str = ""
    engine_guess: str = ""
    engine_problem: str = ""
    engine_remedy: str = ""
    drafter: DrafterFacts | None = None
    drafter_name: str = ""
    drafter_problem: str = ""
    drafter_served: str | None = ""
    target: TargetFacts | None = None
    target_problem: str = ""
    stated: StatedLayout | None = None
    requirements: Requirements = Requirements()
    method: str = ""
    rule: CaptureMethod | None = None
    draft_class: Drafter | None = None
    draft_config: dict[str, object] = msgspec.field(default_factory=dict)
    bundled: bool = False
    capture_off: bool = False
    ids: tuple[int, ...] | None = None
    ids_key: str = ""
    ids_error: str = ""
    capture: EffectiveCapture | None = None
    advisories: tuple[Advisory, ...] = ()
    plugins: str = ""
    elsewhere: Sequence[OtherRelease] = ()
    contradictions: tuple[Contradiction, ...] = ()
