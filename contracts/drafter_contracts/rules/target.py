"""The target: the one that the drafter was trained for."""

from __future__ import annotations

from drafter_contracts.rules.draft_class import num_target_layers
from drafter_contracts.rules.rule import Rule, drafter, engine, target_class
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.serving.launch import TargetFacts
    from drafter_contracts.situation import Situation

#: Rows by which one tokenizer's vocabulary is padded, or grows by added tokens, without being another one.
PADDING = 1024


def readable(s: Situation) -> Outcome:
    """The target's config can be read."""
    if not s.serving.speculation.algorithm:
        return None
    target = s.target
    lacking = (
        []
        if target is None
        else [
            name
            for name, value in (("num_hidden_layers", target.num_layers), ("hidden_size", target.hidden_size))
            if value is None
        ]
    )
    if target is not None and not (lacking and s.method):
        return _moved_ids(s, target)
    why = s.target_problem or "no config found"
    if target is not None:
        why = f"{target.source or target.path} does not say {' or '.join(lacking)}"
    return (
        Finding(
            "TARGET_UNREADABLE",
            UNKNOWN,
            f"what {drafter(s)} would be fed depends on the target, and its config cannot be used: {why}",
            expected="the target's config.json",
            actual=why,
            source=s.serving.target_path,
            remedy="Give --target with a directory that has the target's config.json, or fetch it into the Hub cache.",
        ),
    )


def _moved_ids(s: Situation, target: TargetFacts) -> tuple[Finding, ...]:
    """The doubt that only a target of no known type leaves: some releases move the ids for some types."""
    reading = s.profile.readings.get(s.method) if s.profile is not None else None
    if reading is None or target.model_type or s.drafter is None:
        return ()
    classes = s.drafter.architectures
    moved = [
        shift.target_model_type
        for shift in reading.shifts
        if shift.target_model_type
        and (not shift.drafter_architectures or any(name in shift.drafter_architectures for name in classes))
    ]
    if not moved:
        return ()
    return (
        Finding(
            "TARGET_UNREADABLE",
            UNKNOWN,
            f"{engine(s)} moves the capture ids of such a drafter for targets of model type {', '.join(moved)}, and the"
            f" type of this one is not known",
            expected="model_type of the target's config.json",
            actual="not recorded",
            source=target.source,
            remedy="Give the target's config.json.",
        ),
    )


def is_drafter(s: Situation) -> Outcome:
    """The target's class is one that the release serves as a target."""
    if not s.serving.speculation.algorithm or s.profile is None or s.target is None or not s.target.architecture:
        return None
    if s.target.architecture not in s.profile.drafters:
        return ()
    return (
        Finding(
            "TARGET_IS_DRAFTER",
            REFUSE,
            f"{target_class(s)} is a drafter class of {engine(s)}, not a target: {drafter(s)} cannot draft for it",
            expected="the class of a whole model",
            actual=f"{target_class(s)}, which drafts ({s.profile.drafters[s.target.architecture].kind})",
            source=s.target.source or s.serving.target_path,
            remedy="Give the model that this drafter was trained for as the model of the launch; a drafter goes into"
            " --speculative-draft-model-path.",
        ),
    )


def _origin(s: Situation, *, stated: bool, key: str) -> str:
    return f"{s.requirements.source}: {key}" if stated else f"config.json of {drafter(s)}"


def architecture(s: Situation) -> Outcome:
    """The target's class is the one recorded."""
    wanted = s.requirements.target_architecture
    if not wanted or s.target is None or not s.target.architecture:
        return None
    if wanted == s.target.architecture:
        return ()
    return (
        Finding(
            "TARGET_ARCHITECTURE",
            WARN,
            f"{drafter(s)} was trained for a {wanted}, the target is a {s.target.architecture}",
            expected=wanted,
            actual=s.target.architecture,
            source=f"{s.requirements.source}: target.architecture; {s.target.source or s.target.path}",
            remedy="Make sure that it is the same text model under another wrapper.",
        ),
    )


def depth(s: Situation) -> Outcome:
    """The target is as deep as the one trained for."""
    stated = s.requirements.target_layers is not None
    wanted = s.requirements.target_layers if stated else num_target_layers(s)
    if wanted is None or s.target is None or s.target.num_layers is None:
        return None
    if wanted in {s.target.num_layers, s.target.num_layers // max(s.target.num_loops, 1)}:
        return ()
    return (
        Finding(
            "TARGET_DEPTH",
            REFUSE,
            f"{drafter(s)} was trained for a target of {wanted} layers, this one has {s.target.num_layers}",
            expected=f"{wanted} layers",
            actual=f"{s.target.num_layers} layers",
            source=f"{_origin(s, stated=stated, key='target.layers')}; {s.target.source or s.target.path}",
            remedy="Serve it on the target that it was trained for.",
        ),
    )


def width(s: Situation) -> Outcome:
    """The target's hidden size is the one trained for (the drafter's own may differ)."""
    stated = s.requirements.target_hidden_size is not None
    facts = s.drafter
    wanted = s.requirements.target_hidden_size if stated else facts.target_hidden_size if facts is not None else None
    if wanted is None or s.target is None or s.target.hidden_size is None:
        return None
    if wanted == s.target.hidden_size:
        return ()
    return (
        Finding(
            "TARGET_WIDTH",
            REFUSE,
            f"{drafter(s)} was trained on hidden states {wanted} wide, this target's are {s.target.hidden_size}",
            expected=str(wanted),
            actual=str(s.target.hidden_size),
            source=f"{_origin(s, stated=stated, key='target.hidden_size')}; {s.target.source or s.target.path}",
            remedy="Serve it on the target that it was trained for.",
        ),
    )


def vocabulary(s: Situation) -> Outcome:
    """Target and drafter speak of the same tokens, as far as sizes can tell."""
    facts, target = s.drafter, s.target
    if target is None or target.vocab_size is None:
        return None
    claims = [(s.requirements.target_vocab_size, f"{s.requirements.source}: target.vocab_size")]
    if facts is not None and not s.bundled:
        claims.append((facts.vocabulary.t2d, "t2d"))
        if facts.vocabulary.t2d is None:
            claims.append((facts.vocabulary.target_size, "config.json: vocab_size"))
    known = [(size, source) for size, source in claims if size is not None]
    if not known:
        return None
    size, source = max(known, key=lambda claim: abs(claim[0] - target.vocab_size) if target.vocab_size else 0)
    gap = abs(size - target.vocab_size)
    if not gap:
        return ()
    far = gap > PADDING
    # A head with a vocabulary of its own may carry any number there: its map decides, and it was not exported.
    doubtful = source.startswith("config") and facts is not None and facts.vocabulary.reduced
    return (
        Finding(
            "TARGET_VOCABULARY",
            (WARN if doubtful else REFUSE) if far else NOTE,
            f"{drafter(s)} was made for a vocabulary of {size}, the target's has {target.vocab_size}"
            + ("" if far else ": a difference that padding or added tokens explain"),
            expected=str(size),
            actual=str(target.vocab_size),
            source=f"{source}; {target.source or target.path}",
            remedy="Serve it on a target with the tokenizer that it was trained with." if far else "",
        ),
    )


def tokenizer(s: Situation) -> Outcome:
    """The target's tokenizer is, byte for byte, the one recorded."""
    wanted = s.requirements.target_tokenizer_sha256
    if not wanted or s.target is None:
        return None
    if not s.target.tokenizer_sha256:
        return (
            Finding(
                "TARGET_TOKENIZER",
                WARN,
                f"the target has no tokenizer.json here to compare with the one that {drafter(s)} was trained with",
                expected=f"sha256 {wanted[:16]}...",
                actual="no tokenizer.json beside the target's config; not compared",
                source=f"{s.requirements.source}: target.tokenizer_sha256",
                remedy="Complete the target's files here.",
            ),
        )
    if wanted == s.target.tokenizer_sha256:
        return ()
    return (
        Finding(
            "TARGET_TOKENIZER",
            WARN,
            f"the target's tokenizer.json is not the one that {drafter(s)} was trained with",
            expected=f"sha256 {wanted[:16]}...",
            actual=f"sha256 {s.target.tokenizer_sha256[:16]}...",
            source=f"{s.requirements.source}: target.tokenizer_sha256",
            remedy="Compare the token strings of the two files; another layout of the same tokens is harmless.",
        ),
    )


def thinking(s: Situation) -> Outcome:
    """The chat mode that requests use is the one trained on."""
    mode = s.requirements.thinking_mode
    if not mode:
        return None
    if mode.lower() in {"both", "any", "mixed"}:
        return ()
    return (
        Finding(
            "THINKING_MODE",
            WARN,
            f"{drafter(s)} was trained with thinking {mode}; which mode requests will use cannot be seen in a launch",
            expected=f"requests with thinking {mode}",
            actual="the chat template's default, unless each request says otherwise",
            source=f"{s.requirements.source}: draft.thinking_mode",
            remedy=f"Send requests with thinking {mode}, or expect a lower acceptance length.",
        ),
    )


def rotated(s: Situation) -> Outcome:
    """A drafter trained on a rotated residual basis runs on such a target."""
    if not s.requirements.rotated:
        return None
    return (
        Finding(
            "TARGET_BASIS",
            WARN,
            f"{drafter(s)} was trained on a rotated residual basis; whether this target's weights are rotated the same"
            " way cannot be seen in its config",
            expected="the rotated target that it was trained on",
            actual=s.target.quantization if s.target is not None and s.target.quantization else "not known",
            source=f"{s.requirements.source}: draft.rotated",
            remedy="Make sure that the target is the very checkpoint that it was trained on.",
        ),
    )


RULES = (
    Rule(
        "TARGET_UNREADABLE",
        "The target's config can be read",
        "Depth and width of the target decide what is captured; without them there is no answer.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/models/llama.py",
        ("R06",),
        readable,
    ),
    Rule(
        "TARGET_IS_DRAFTER",
        "The target's class is no drafter class",
        "A drafter's directory given as the model: MTP, NextN and EAGLE classes inherit a target's setters and run one "
        "layer, so that nothing that was trained on a target's layers can be served from them.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/models/deepseek_nextn.py",
        ("R06",),
        is_drafter,
    ),
    Rule(
        "TARGET_ARCHITECTURE",
        "The target's class is the recorded one",
        "A drafter for a sibling model loads and drafts badly.",
        "https://github.com/NVIDIA-NeMo/Automodel/issues/3082",
        ("R06",),
        architecture,
    ),
    Rule(
        "TARGET_DEPTH",
        "The target is as deep as the one trained for",
        "Default layers depend on the depth: on another depth the same ids are other fractions of the model.",
        "https://github.com/NVIDIA-NeMo/Automodel/issues/3082",
        ("R06",),
        depth,
    ),
    Rule(
        "TARGET_WIDTH",
        "The target is as wide as the one trained for",
        "fc of another target's width fails at the first batch. The drafter's own width is free.",
        "https://github.com/sgl-project/sglang/pull/8163",
        ("R03", "R06"),
        width,
    ),
    Rule(
        "TARGET_VOCABULARY",
        "Target and drafter speak of the same tokens",
        "Ids of another tokenizer are other strings: nothing is accepted. Sizes that differ by padding are fine, equal "
        "sizes prove nothing.",
        "https://github.com/sgl-project/sglang/issues/24051",
        ("R06", "R23"),
        vocabulary,
    ),
    Rule(
        "TARGET_TOKENIZER",
        "The tokenizer is the recorded one",
        "Two tokenizers of equal size with other strings pass every check of sizes.",
        "https://github.com/sgl-project/sglang/pull/23838",
        ("R23",),
        tokenizer,
    ),
    Rule(
        "THINKING_MODE",
        "Requests use the chat mode trained on",
        "A head trained without thinking text accepts little of it, with a correct pairing.",
        "https://github.com/sgl-project/SpecForge/issues/296",
        ("R24",),
        thinking,
    ),
    Rule(
        "TARGET_BASIS",
        "The target has the residual basis trained on",
        "Rotated (QuaRot) targets have hidden states in another basis; a head from the plain target reads noise.",
        "https://github.com/vllm-project/vllm-ascend/pull/6914",
        ("R24",),
        rotated,
    ),
)
