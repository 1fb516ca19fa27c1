"""The speculative arguments: algorithm, draft path, and steps, branches and draft tokens."""

from __future__ import annotations

from drafter_contracts.checkpoint.facts import DFLASH, DFLASH2, DSPARK, P_EAGLE
from drafter_contracts.rules.draft_class import SERVES
from drafter_contracts.rules.rule import Rule, drafter, engine, given, release_names, ways
from drafter_contracts.verdict import NOTE, REFUSE, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation

_STEPS, _TOPK, _TOKENS = "--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens"
_FLAGS = f"{_STEPS}, {_TOPK} and {_TOKENS}"
_TREES = ("EAGLE", "NEXTN", "EAGLE3", "STANDALONE")


#: Keys of every model's config: an override of one is meant for one model and changes both. (The target's config is
#: known with overrides applied only, so that its own keys cannot be told from those just added.)
_EVERY_CONFIG = frozenset({
    "architectures", "head_dim", "hidden_size", "intermediate_size", "max_position_embeddings", "model_type",
    "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "quantization_config", "rope_parameters",
    "rope_scaling", "rope_theta", "tie_word_embeddings", "vocab_size",
})  # fmt: skip
#: Keys that only drafters have, beside those of the capture ids: rules of their own look at them.
_DRAFTERS_ALONE = frozenset({"draft_vocab_size", "num_aux_hidden_states", "num_target_layers", "target_hidden_size"})
_QUANTIZATION = "quantization_config"


def algorithm(s: Situation) -> Outcome:
    """The release has this algorithm."""
    speculation = s.serving.speculation
    if s.profile is None or speculation.known is None:
        return None
    if speculation.known:
        return ()
    known = s.profile.launch.speculative.algorithms
    others = release_names(s, (other for other in s.elsewhere if speculation.algorithm in other.algorithms))
    return (
        Finding(
            "ALGORITHM_UNKNOWN",
            REFUSE,
            f"{engine(s)} has no speculative algorithm {speculation.stated_algorithm or speculation.algorithm}",
            expected=", ".join(known),
            actual=speculation.stated_algorithm or speculation.algorithm,
            source=_source(s),
            remedy=f"Known to {others}." if others else "Use an algorithm of this release.",
        ),
    )


def _source(s: Situation) -> str:
    place = s.profile.launch.speculative.source if s.profile is not None else None
    return f"{engine(s)} {place.text()}" if place is not None else ""


def draft_path(s: Situation) -> Outcome:
    """A draft path is given, unless the target brings its own drafter."""
    speculation = s.serving.speculation
    if s.profile is None or speculation.algorithm not in SERVES:
        return None
    if speculation.draft_path:
        return ()
    bundles = s.profile.launch.speculative.bundled
    if s.target is None and bundles:
        severity, why = UNKNOWN, "whether the target brings one cannot be told, because its config cannot be read"
    elif speculation.algorithm == "DSPARK":
        severity, why = UNKNOWN, "whether the target's checkpoint bundles a DSpark head is not read by this check"
    else:
        severity, why = REFUSE, f"{s.target.architecture if s.target else 'the target'} brings none of its own"
    return (
        Finding(
            "DRAFT_PATH",
            severity,
            f"the launch names no drafter for {speculation.algorithm} on {engine(s)}, and {why}",
            expected="--speculative-draft-model-path",
            actual="not given",
            source=_source(s),
            remedy="Add --speculative-draft-model-path.",
        ),
    )


def draft_other(s: Situation) -> Outcome:
    """The launch loads the drafter that is judged."""
    speculation = s.serving.speculation
    if s.drafter is None or s.drafter_served is None or not speculation.stated_draft_path:
        return None
    if not s.drafter_served:
        return ()
    return (
        Finding(
            "DRAFT_OTHER",
            REFUSE,
            f"the launch loads another drafter than {s.drafter_name}: {s.drafter_served}",
            expected=f"the files of {s.drafter_name} at the launch's draft path",
            actual=speculation.stated_draft_path,
            source="the launch command",
            remedy=f"Launch with the files of {s.drafter_name}, or name no drafter to have the launch's own judged.",
        ),
    )


def failure(s: Situation) -> Outcome:
    """The release accepts this combination of the three numbers."""
    speculation = s.serving.speculation
    if s.profile is None or not speculation.algorithm:
        return None
    if not speculation.failure:
        return _unset_tokens(s)
    names = ("steps", "topk", "draft tokens")
    have = [f"{name} {value}" for name, value in zip(names, speculation.stated, strict=True) if value is not None]
    lack = [name for name, value in zip(names, speculation.stated, strict=True) if value is None]
    partial = have and lack
    return (
        Finding(
            "SPECULATION_FAILS",
            REFUSE,
            f"{engine(s)} fails on these speculative arguments: {speculation.failure}"
            + (f" with {', '.join(have)} given and {', '.join(lack)} left out" if partial else ""),
            expected=f"all of {_FLAGS}" if partial else "arguments that this release accepts",
            actual=", ".join(have) or "none of the three given",
            source=speculation.failure_source or _source(s),
            remedy=_right_numbers(s, partial=bool(partial)),
        ),
    )


def _right_numbers(s: Situation, *, partial: bool) -> str:
    speculation = s.serving.speculation
    blocks = s.profile.launch.speculative.blocks if s.profile is not None else {}
    if speculation.algorithm in blocks and any(speculation.stated):
        return f"Leave {_FLAGS} out: {engine(s)} takes them from the drafter's block."
    return f"Give all three of {_FLAGS}." if partial else "Change the arguments named."


def _unset_tokens(s: Situation) -> tuple[Finding, ...]:
    """Steps and branches of a tree, and nothing that says or sets how many of its tokens are verified."""
    speculation = s.serving.speculation
    steps, topk, tokens = speculation.effective
    if speculation.algorithm not in _TREES or speculation.unknown or None in {steps, topk} or tokens is not None:
        return ()
    return (
        Finding(
            "SPECULATION_FAILS",
            REFUSE,
            f"{engine(s)} sets no number of draft tokens for topk {topk}, and fails without one once it drafts",
            expected=f"all of {_FLAGS}",
            actual=f"steps {steps}, topk {topk}",
            source="organize_draft_results of the release keeps the best draft_tokens - 1 candidates",
            remedy=f"Give {_TOKENS}, too.",
        ),
    )


def adjusted(s: Situation) -> Outcome:
    """What the release changes silently is said."""
    speculation = s.serving.speculation
    if s.profile is None or not speculation.algorithm:
        return None
    found = []
    for one in speculation.adjustments:
        if one.stated == one.effective:
            continue
        stated = one.stated not in {"", "None"}
        renamed = one.what in {"algorithm", "draft_model_path"}
        found.append(
            Finding(
                "SPECULATION_ADJUSTED",
                WARN if stated and not renamed else NOTE,
                f"{engine(s)} "
                + (f"changes {one.what} from {one.stated} to {one.effective}" if stated else "")
                + ("" if stated else f"chooses {one.effective} for {one.what}")
                + f": {one.why}",
                expected=f"{one.what} {one.stated}" if stated else "",
                actual=f"{one.what} {one.effective}",
                source=one.source,
                remedy=f"State {one.effective} if that is meant." if stated and not renamed else "",
            )
        )
    return tuple(found)


def untold(s: Situation) -> Outcome:
    """What the release makes of the speculative arguments can be told from its profile."""
    speculation = s.serving.speculation
    if s.profile is None or not speculation.algorithm or speculation.failure:
        return None
    if not speculation.unknown:
        return ()
    return (
        Finding(
            "SPECULATION_UNTOLD",
            WARN,
            f"what {engine(s)} makes of the speculative arguments cannot be told: {speculation.unknown}",
            expected="steps, topk and draft tokens as the engine will use them",
            actual="not known; they are not checked against the tree or the trained block",
            source=_source(s),
            remedy=f"Read the values that the engine logs at start, and give all three of {_FLAGS}.",
        ),
    )


def tree(s: Situation) -> Outcome:
    """The tree of drafted candidates holds as many tokens as are asked for."""
    steps, topk, tokens = s.serving.speculation.effective
    if s.serving.speculation.algorithm not in _TREES or steps is None or topk is None or tokens is None:
        return None
    held = topk + (steps - 1) * topk * topk + 1
    if tokens <= held:
        return ()
    return (
        Finding(
            "SPECULATION_TREE",
            REFUSE,
            f"{tokens} draft tokens are asked for, and {steps} steps with topk {topk} yield {held - 1} candidates and"
            f" the root: {engine(s)} selects more than there are",
            expected=f"at most {held} draft tokens: topk + (steps - 1) x topk x topk, and the root",
            actual=f"{tokens} draft tokens",
            source="organize_draft_results of the release keeps the best draft_tokens - 1 candidates",
            remedy=f"Set {_TOKENS} to at most {held}, or raise steps or topk.",
            flags=ways(s, (_TOKENS, str(held))),
        ),
    )


def trained_block(s: Situation) -> Outcome:
    """No more tokens are drafted at once than the drafter was trained for."""
    if s.drafter is None:
        return None
    stated = s.requirements.trained_block_size
    block = stated if stated is not None else s.drafter.block_size
    steps, _, tokens = s.serving.speculation.effective
    parallel = s.drafter.method in {DFLASH, DFLASH2, DSPARK, P_EAGLE}
    if block is None or tokens is None or steps is None:
        return None
    # A DFLASH block counts the root, a DSPARK block does not; an autoregressive head is unrolled once per step.
    asked = tokens if s.drafter.method in {DFLASH, DFLASH2} else tokens - 1 if parallel else steps
    if asked <= block:
        return ()
    what = "tokens per block" if parallel else "steps"
    return (
        Finding(
            "TRAINED_BLOCK",
            WARN if parallel else NOTE,
            f"{drafter(s)} was trained for {block} {what}, and the launch asks for {asked}",
            expected=f"at most {block} {what}",
            actual=f"{asked} {what}",
            source=s.requirements.source if stated is not None else "config.json: block_size",
            remedy=f"Draft {block} at most; positions beyond the trained block are rarely accepted.",
        ),
    )


def copied_k(s: Situation) -> Outcome:
    """A K recommended in tokens without the root is not copied into a number that counts the root."""
    k = s.requirements.speculative_tokens
    speculation = s.serving.speculation
    tokens, topk = speculation.effective[2], speculation.effective[1]
    if k is None or tokens is None or topk not in {None, 1}:
        return None
    drafted, where = tokens - 1, s.requirements.source
    copied = drafted == k - 1 and k in {speculation.stated[2], tokens}
    if drafted == k:
        return ()
    if copied:
        severity = REFUSE
        fault = f"the recommended K {k} stands where the engine counts the root too: it drafts {drafted}"
    else:
        severity = WARN if drafted > k else NOTE
        fault = f"the launch drafts {drafted} tokens per step, {drafter(s)} is recommended with {k}"
    return (
        Finding(
            "COPIED_K",
            severity,
            f"{fault} (SGLang's draft tokens are K + 1)",
            expected=f"{_STEPS} {k} {_TOKENS} {k + 1}",
            actual=f"{tokens} draft tokens with the root",
            source=f"{where}: recommended.speculative_tokens",
            remedy=f"Set {_STEPS} {k} {_TOPK} 1 {_TOKENS} {k + 1}.",
            flags=ways(s, (_STEPS, str(k), _TOPK, "1", _TOKENS, str(k + 1))) if copied else (),
        ),
    )


def _shared(s: Situation, key: str, own: dict[str, object]) -> bool:
    """Whether an override gives the drafter something else than its own config: its fusion's keys have other rules."""
    reading = s.profile.readings.get(s.method) if s.profile is not None else None
    captures = {dotted.partition(".")[0] for dotted in reading.keys} if reading is not None else set()
    if key in captures or key in _DRAFTERS_ALONE:
        return False
    if key not in own:
        return key == _QUANTIZATION
    return key in _EVERY_CONFIG or own[key] != s.serving.overrides[key]


def target_overridden(s: Situation) -> Outcome:
    """A model override meant for one of the two configs does not change the other."""
    if not given(s, "json_model_override_args") or s.profile is None or s.target is None or s.drafter is None:
        return None
    rules = s.profile.launch.overrides
    if not (rules.drafter and rules.target):
        return None
    shared = [key for key in s.serving.overrides if _shared(s, key, s.drafter.config)]
    if not shared:
        return ()
    return (
        Finding(
            "OVERRIDE_SHARED",
            WARN,
            f"{engine(s)} applies --json-model-override-args to target and drafter alike: {drafter(s)} gets"
            f" {', '.join(sorted(shared))} of it, too, in place of its own",
            expected="keys that only one of them has",
            actual=", ".join(sorted(shared)),
            source=f"{engine(s)} {rules.source.text()}" if rules.source is not None else "",
            remedy="Put these keys into the config.json that they are meant for.",
        ),
    )


RULES = (
    Rule(
        "ALGORITHM_UNKNOWN",
        "The release has the algorithm",
        "An algorithm that a release does not have ends the launch, or is taken for a plugin's.",
        "https://github.com/sgl-project/sglang/blob/v0.5.12/python/sglang/srt/speculative/spec_info.py",
        ("R10", "R11"),
        algorithm,
    ),
    Rule(
        "DRAFT_PATH",
        "A drafter is named, unless the target brings one",
        "Without a path the engine fails after start, or drafts from the target's own checkpoint.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/server_args.py",
        ("R12",),
        draft_path,
    ),
    Rule(
        "DRAFT_OTHER",
        "The drafter that is judged is the one that is loaded",
        "A drafter named to the gate and another one at the launch's draft path: the verdict is about files that are "
        "never served.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/server_args.py",
        ("R12",),
        draft_other,
    ),
    Rule(
        "SPECULATION_FAILS",
        "The release accepts the speculative arguments",
        "Partial sets of the three numbers end in a bare AssertionError or a comparison with None.",
        "https://github.com/sgl-project/sglang/pull/22895",
        ("R13",),
        failure,
    ),
    Rule(
        "SPECULATION_ADJUSTED",
        "Silent changes of the speculative arguments are said",
        "With topk 1 the engine uses steps + 1 draft tokens whatever was asked for; people measured 24 and ran 5.",
        "https://github.com/sgl-project/SpecForge/issues/310",
        ("R13",),
        adjusted,
    ),
    Rule(
        "SPECULATION_UNTOLD",
        "What the release makes of the numbers is known",
        "Numbers that nobody computed are not checked: a launch may fail or draft less than it says.",
        "https://github.com/sgl-project/sglang/blob/v0.5.12/python/sglang/srt/server_args.py",
        ("R13",),
        untold,
    ),
    Rule(
        "SPECULATION_TREE",
        "The tree holds the draft tokens asked for",
        "Selecting more candidates than the tree has raises at the first batch.",
        "https://github.com/sgl-project/sglang/issues/3883",
        ("R13", "R30"),
        tree,
    ),
    Rule(
        "TRAINED_BLOCK",
        "No more is drafted than was trained",
        "Drafting beyond the trained block was measured to be harmful; drafting less is fine.",
        "https://github.com/vllm-project/vllm/pull/41834",
        ("R14",),
        trained_block,
    ),
    Rule(
        "COPIED_K",
        "K is translated between engines",
        "vLLM counts drafted tokens, SGLang counts the root too: a copied K drafts one token less than measured.",
        "https://github.com/NVIDIA/Model-Optimizer/pull/2313",
        ("R15",),
        copied_k,
    ),
    Rule(
        "OVERRIDE_SHARED",
        "A config override changes only the config it is meant for",
        "The same override is applied to target and drafter; a key that both have changes both.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/configs/model_config.py",
        ("R21",),
        target_overridden,
    ),
)
