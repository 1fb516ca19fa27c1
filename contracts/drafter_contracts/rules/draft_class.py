"""The release's class for the drafter: known, readable, and of the kind that the launch asks for."""

from __future__ import annotations

from drafter_contracts.checkpoint.facts import (
    DFLASH,
    DFLASH2,
    DSPARK,
    EAGLE,
    EAGLE3,
    NEXTN,
    STANDALONE,
    UNKNOWN_METHOD,
)
from drafter_contracts.engines.capture import lookup
from drafter_contracts.engines.profile import OPAQUE
from drafter_contracts.rules.captured import source_text
from drafter_contracts.rules.rule import Rule, drafter, engine, release_names, whole
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation

#: Algorithm as a launch names it, to the kinds of drafter that it serves.
SERVES = {
    "EAGLE": (EAGLE, NEXTN),
    "NEXTN": (NEXTN, EAGLE),
    "EAGLE3": (EAGLE3,),
    "DFLASH": (DFLASH, DFLASH2),
    "DSPARK": (DSPARK,),
    "STANDALONE": (STANDALONE,),
}
#: Algorithms that draft without a model.
_NO_DRAFTER = ("NGRAM",)


def _judged(s: Situation) -> bool:
    """Whether the drafter is a checkpoint of its own whose class the release looks up by name."""
    return s.drafter is not None and s.profile is not None and not s.bundled and bool(s.profile.drafters)


def known_class(s: Situation) -> Outcome:
    """The drafter's architecture is one that the release registers as a drafter."""
    if not _judged(s) or s.drafter is None or s.profile is None:
        return None
    names, algorithm = s.drafter.architectures, s.serving.speculation.algorithm
    if s.drafter.method == NEXTN or algorithm == "STANDALONE":
        return _known_model(s, names)
    if s.draft_class is not None:
        return _other_kind(s, s.draft_class.kind)
    speculators = _speculators_format(s)
    base = [name for name in names if name in s.profile.targets]
    wanted = sorted(name for name, known in s.profile.drafters.items() if known.kind in SERVES.get(algorithm, ()))
    fault = f"{engine(s)} has no drafter class {' or '.join(names) or '(config.json names none)'}"
    if base:
        fault = f"{drafter(s)} names {base[0]}, a target class: {engine(s)} would load it as a whole model"
    return (
        Finding(
            "DRAFT_CLASS",
            REFUSE,
            fault + (", and reads no config in speculators' format" if speculators else ""),
            expected=f"one of {', '.join(wanted[:6])}{' ...' if len(wanted) > 6 else ''}"
            if wanted
            else "a known class",
            actual=", ".join(names) or "nothing",
            source="config.json: architectures",
            remedy=_class_remedy(s, wanted),
        ),
    )


def _other_kind(s: Situation, kind: str) -> Outcome:
    """The class named is one for another kind of drafter than this one is."""
    algorithm = s.serving.speculation.algorithm
    served = SERVES.get(algorithm, ())
    if s.drafter is None or s.profile is None or not kind or kind in served or s.drafter.method not in served:
        return ()
    wanted = sorted(name for name, known in s.profile.drafters.items() if known.kind in served)
    return (
        Finding(
            "DRAFT_CLASS",
            REFUSE,
            f"{drafter(s)} is a drafter for {s.drafter.method}, and its config names {s.drafter.architectures[0]},"
            f" which {engine(s)} runs as {kind}",
            expected=f"one of {', '.join(wanted[:6])}",
            actual=s.drafter.architectures[0],
            source="config.json: architectures",
            remedy=_class_remedy(s, wanted),
        ),
    )


def _class_remedy(s: Situation, wanted: list[str]) -> str:
    others = release_names(s, (other for other in s.elsewhere if other.draft_class is not None))
    if others:
        return f"Known to {others}."
    kin = [name for name in wanted if name.startswith(("Llama", "Qwen3"))] or wanted
    if not kin:
        return "Use a release that knows this class."
    return f"If its tensors are those of {kin[0]}, copy it with a config.json that says so."


def _known_model(s: Situation, names: tuple[str, ...]) -> Outcome:
    profile = s.profile
    if profile is None or not profile.targets:
        return None
    if any(name in profile.targets or name in profile.drafters for name in names):
        return ()
    return (
        Finding(
            "DRAFT_CLASS",
            REFUSE,
            f"{engine(s)} registers no class {' or '.join(names) or '(config.json names none)'} for {drafter(s)}",
            expected="a registered class",
            actual=", ".join(names) or "nothing",
            source="config.json: architectures",
            remedy="Use a release that knows this class.",
        ),
    )


def _speculators_format(s: Situation) -> bool:
    config = s.draft_config
    return "speculators_model_type" in config or "speculators_config" in config or "transformer_layer_config" in config


def config_format(s: Situation) -> Outcome:
    """The drafter's config is laid out as the release's class reads it."""
    if not _judged(s) or s.drafter is None:
        return None
    if not _speculators_format(s):
        return ()
    known = s.draft_class
    if known is not None and any(key.startswith(("transformer_layer_config", "speculators")) for key in known.keys):
        return ()
    nested = "transformer_layer_config" in s.draft_config and "hidden_size" not in s.draft_config
    return (
        Finding(
            "DRAFT_FORMAT",
            REFUSE if nested else WARN,
            f"{drafter(s)} has a config in speculators' format, which {engine(s)} does not read: "
            + ("its dimensions lie in transformer_layer_config" if nested else "its capture ids and flags are ignored"),
            expected="dimensions and flags at the top level, capture ids where this release reads them",
            actual="transformer_layer_config, speculators_config",
            source="config.json",
            remedy="Convert it: flatten transformer_layer_config, name the class this release registers, and write the"
            " ids in its numbering.",
        ),
    )


def opaque_class(s: Situation) -> Outcome:
    """What the release's drafter class does is known."""
    if s.draft_class is None:
        return None
    if s.draft_class.status != OPAQUE:
        return ()
    return (
        Finding(
            "DRAFT_OPAQUE",
            UNKNOWN,
            f"what {engine(s)} does with the config and weights of {drafter(s)} could not be derived:"
            f" {s.draft_class.reason}",
            actual="not known",
            source=source_text(s, s.draft_class.source),
            remedy="Read that class for the flags and tensors of this drafter before launching.",
        ),
    )


def method(s: Situation) -> Outcome:
    """The algorithm of the launch serves this kind of drafter."""
    algorithm = s.serving.speculation.algorithm
    if algorithm not in SERVES or s.drafter is None or s.bundled:
        return None
    kind = s.drafter.method
    by_class = s.draft_class.kind if s.draft_class is not None else ""
    if kind == UNKNOWN_METHOD and not by_class:
        return (
            Finding(
                "METHOD_MISMATCH",
                UNKNOWN,
                f"it cannot be told what kind of drafter {drafter(s)} is",
                expected=f"a drafter for {algorithm}",
                actual="; ".join(s.drafter.method_evidence) or "no evidence",
                source="config.json and tensor names",
                remedy="Say what it is in a drafters-manifest.json, or check that it was trained for this method.",
            ),
        )
    ok = kind in SERVES[algorithm] or (kind == UNKNOWN_METHOD and by_class in SERVES[algorithm])
    if algorithm == "STANDALONE" and kind == UNKNOWN_METHOD:
        ok = True
    if ok:
        return ()
    return (_mismatch(s, kind, algorithm),)


def _mismatch(s: Situation, kind: str, algorithm: str) -> Finding:
    right = next((name for name, kinds in SERVES.items() if kind in kinds), "")
    algorithms = s.profile.launch.speculative.algorithms if s.profile is not None else ()
    skips = kind == EAGLE3 and algorithm in {"EAGLE", "NEXTN"}
    return Finding(
        "METHOD_MISMATCH",
        REFUSE,
        f"{drafter(s)} is a drafter for {kind}, launched as {algorithm} on {engine(s)}: "
        + (
            "it captures no hidden states and skips fc without a message"
            if skips
            else "the engine feeds it other states than it reads"
        ),
        expected=f"--speculative-algorithm {right}" if right else f"an engine that serves {kind}",
        actual=f"--speculative-algorithm {s.serving.speculation.stated_algorithm or algorithm}",
        source="; ".join(s.drafter.method_evidence) if s.drafter is not None else "",
        remedy=f"Launch with --speculative-algorithm {right}."
        if right and (right in algorithms or not algorithms)
        else f"{engine(s)} serves no {kind} drafters; use a release or engine that does.",
    )


def checkable(s: Situation) -> Outcome:
    """This check has rules for what the algorithm feeds its drafter."""
    algorithm = s.serving.speculation.algorithm
    if s.profile is None or not algorithm or s.serving.speculation.known is False:
        return None
    if algorithm in SERVES or algorithm in _NO_DRAFTER:
        return ()
    return (
        Finding(
            "METHOD_UNCHECKED",
            UNKNOWN,
            f"this check has no rules for what {algorithm} feeds a drafter on {engine(s)}",
            expected=", ".join(sorted({*SERVES, *_NO_DRAFTER})),
            actual=algorithm,
            source=s.serving.speculation.stated_algorithm,
            remedy="Compare the drafter's model card with the release's own code for this algorithm.",
        ),
    )


def readable(s: Situation) -> Outcome:
    """The drafter's files can be read."""
    if s.bundled or not s.serving.speculation.draft_path or s.serving.speculation.algorithm not in SERVES:
        return None
    if s.drafter is not None and s.drafter.weights != "none":
        return ()
    if s.drafter is not None:
        return (
            Finding(
                "DRAFTER_UNREADABLE",
                UNKNOWN,
                f"{drafter(s)} has no weights here, only config.json: what they hold was not compared",
                expected="config.json and safetensors headers",
                actual="config.json alone",
                source=s.drafter.path,
                remedy="Complete the drafter's files; the headers alone would do for this check.",
            ),
        )
    return (
        Finding(
            "DRAFTER_UNREADABLE",
            UNKNOWN,
            f"{drafter(s)} cannot be read: {s.drafter_problem or 'no files found'}",
            expected="config.json and safetensors headers",
            actual=s.drafter_problem or "nothing",
            remedy="Give a local directory, or fetch it into this machine's Hub cache first.",
        ),
    )


def disagreements(s: Situation) -> Outcome:
    """The drafter's config and tensors do not contradict each other."""
    if s.drafter is None:
        return None
    return tuple(
        Finding(
            "DRAFTER_CONTRADICTION",
            REFUSE if one.fatal else WARN,
            f"{drafter(s)} contradicts itself about its {one.what}",
            expected=one.right,
            actual=one.left,
            source="config.json and tensor headers",
            remedy="Correct config.json; the tensors are what runs." if not one.fatal else "Export the drafter again.",
        )
        for one in s.drafter.disagreements
    )


def bundled(s: Situation) -> Outcome:
    """A drafter inside the target's own checkpoint is named as such."""
    if not s.bundled:
        return None
    return (
        Finding(
            "DRAFT_BUNDLED",
            NOTE,
            f"the launch names no draft path: {engine(s)} takes the drafter from the target's own checkpoint,"
            " whose tensors this check does not read",
            actual=s.serving.speculation.draft_path,
            remedy="Make sure that the checkpoint still has its MTP layers; quantised copies often lack them.",
        ),
    )


def num_target_layers(s: Situation) -> int | None:
    """The target's depth by the drafter's config, where the key means that.

    `num_target_layers` is the depth for most producers of DFLASH drafters and the number of taps for some
    (TorchSpec, DSpark heads of K3): a value equal to the number of ids says nothing.
    """
    if s.drafter is None:
        return None
    for key in ("dflash_config.num_target_layers", "num_target_layers"):
        value = whole(lookup(s.drafter.config, key))
        if value is not None and value != len(s.drafter.layout.ids):
            return value
    return None


RULES = (
    Rule(
        "DRAFT_CLASS",
        "The release knows the drafter's class",
        "A config that names the base model is loaded as a whole model, and a class that the release does not register "
        "ends the launch.",
        "https://github.com/sgl-project/sglang/pull/33966",
        ("R10",),
        known_class,
    ),
    Rule(
        "DRAFT_FORMAT",
        "The drafter's config has the layout that the release reads",
        "speculators nests the dimensions and uses keys of its own; SGLang reads neither, and falls back or crashes.",
        "https://github.com/vllm-project/speculators/issues/753",
        ("R10",),
        config_format,
    ),
    Rule(
        "DRAFT_OPAQUE",
        "What the drafter's class does is known",
        "Where a class could not be derived from the release's source, flags and weights may be ignored unseen.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/models/llama_eagle3.py",
        ("R26",),
        opaque_class,
    ),
    Rule(
        "METHOD_UNCHECKED",
        "The algorithm is one that this check understands",
        "Releases add algorithms (and plugins theirs); an allow that compared nothing would be a guess.",
        "https://github.com/sgl-project/sglang/blob/v0.5.12/python/sglang/srt/speculative/spec_info.py",
        ("R11", "R26"),
        checkable,
    ),
    Rule(
        "METHOD_MISMATCH",
        "The algorithm serves this kind of drafter",
        "An EAGLE-3 head launched as EAGLE starts, captures nothing, skips fc and is never accepted.",
        "https://github.com/sgl-project/sglang/pull/21272",
        ("R11",),
        method,
    ),
    Rule(
        "DRAFTER_UNREADABLE",
        "The drafter's files can be read",
        "Without config.json and headers nothing can be compared.",
        "https://huggingface.co/docs/safetensors/index",
        ("R28",),
        readable,
    ),
    Rule(
        "DRAFTER_CONTRADICTION",
        "Config and tensors agree",
        "A published config may say 40 layers for a one-layer head, or a draft vocabulary that its head does not have; "
        "engines believe either, at different places.",
        "https://huggingface.co/yuhuili/EAGLE3-Vicuna1.3-13B",
        ("R08", "R28"),
        disagreements,
    ),
    Rule(
        "DRAFT_BUNDLED",
        "A drafter inside the target's checkpoint is named",
        "Quantised copies of a target often lack its MTP layers; the engine then drafts with random weights.",
        "https://github.com/vllm-project/vllm/pull/35548",
        ("R12", "R19"),
        bundled,
    ),
)
