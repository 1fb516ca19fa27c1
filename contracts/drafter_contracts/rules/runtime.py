"""How the drafter is run: positions, RoPE and attention backends."""

from __future__ import annotations

from drafter_contracts.checkpoint.config_view import as_number
from drafter_contracts.engines.capture import lookup
from drafter_contracts.rules.captured import source_text
from drafter_contracts.rules.rule import Rule, drafter, engine, on_record, option, ways, whole
from drafter_contracts.serving.speculation import page_size
from drafter_contracts.serving.target import text_config
from drafter_contracts.verdict import REFUSE, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation

#: Where a release looks for the number of positions, the first that is there counts (CONTEXT_LENGTH_KEYS).
POSITIONS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
_LIMIT = "--context-length"
_DRAFT_BACKEND = "--speculative-draft-attention-backend"
_BACKEND = "--attention-backend"
#: Backends that run on the most hardware, first.
_PORTABLE = ("flashinfer", "triton")
_TRUE = {"1", "true"}
_ARGS = "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/server_args.py"


def positions(config: dict[str, object]) -> tuple[int, str] | None:
    """Positions that every release derives from a model's config, and from which keys; None if it states none.

    A scaling factor multiplies what is stated, unless the config says how many positions there were before it
    (then the scaled number is the one stated): `get_context_length` in SGLang's Transformers utilities.
    """
    inner, _ = text_config(config)
    found = next(((value, key) for key in POSITIONS if (value := whole(inner.get(key))) is not None), None)
    scaling = inner.get("rope_scaling")
    if found is None or not isinstance(scaling, dict):
        return found
    factor = scaling.get("factor", 1)
    plain = "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3"
    if plain or not isinstance(factor, (int, float)) or factor == 1:
        return found
    try:
        scaled = int(factor * found[0])
    except (OverflowError, ValueError):  # as the release's own int() raises: infinite, or no number
        return None
    return scaled, f"{found[1]} = {found[0]} times rope_scaling.factor = {factor:g}"


def served_context(s: Situation) -> int | None:
    """Longest context that the launch serves: --context-length, else the target's own."""
    stated = whole(option(s, "context_length"))
    if stated is not None or s.target is None:
        return stated
    derived = positions(s.target.config)
    return derived[0] if derived is not None else s.target.max_position_embeddings


def context(s: Situation) -> Outcome:
    """The drafter's positions cover the context served."""
    served = served_context(s)
    if served is None and on_record(s):
        return _unknown_context(s)
    if served is None or s.drafter is None or s.profile is None or s.bundled or not s.serving.speculation.algorithm:
        return None
    found = []
    own = positions(s.draft_config)
    if own is None and s.drafter.max_position_embeddings is not None:
        own = s.drafter.max_position_embeddings, "max_position_embeddings"
    how = s.profile.launch.draft_context
    if own is not None and own[0] < served and how:
        found.append(_short_positions(s, own, served, how))
    if own is None and how and s.draft_config:
        found.append(_unstated_positions(s, served, how))
    trained = s.requirements.trained_context
    if trained is not None and trained < served:
        found.append(
            Finding(
                "CONTEXT",
                WARN,
                f"{drafter(s)} was trained on contexts of {trained} tokens, the launch serves {served}",
                expected=f"at most {trained} tokens",
                actual=f"{served} tokens",
                source=f"{s.requirements.source}: draft.trained_context",
                remedy=f"Expect little gain beyond {trained} tokens, or launch with {_LIMIT} {trained}.",
                flags=ways(s, (_LIMIT, str(trained))),
            )
        )
    return tuple(found) if found or own is not None or trained is not None else None


def _unknown_context(s: Situation) -> Outcome:
    """Neither launch nor manifest say what is served: the config of the target would."""
    own = positions(s.draft_config)
    if own is None or s.profile is None or not s.profile.launch.draft_context or not s.serving.speculation.algorithm:
        return None
    return (
        Finding(
            "CONTEXT",
            UNKNOWN,
            f"{drafter(s)} has {own[0]} positions; how many the target has is not known",
            expected=f"at most {own[0]} served",
            actual="not recorded",
            source=s.target.source if s.target is not None else "",
            remedy=f"Give the target's config.json, or launch with --context-length {own[0]} or less.",
        ),
    )


def _unstated_positions(s: Situation, served: int, how: str) -> Finding:
    """The config class fills the number in: 2048 for llama in Transformers, more for others; not checked here."""
    effect = "raises at start-up" if how.startswith("error") else "runs the drafter beyond its positions"
    return Finding(
        "CONTEXT",
        WARN,
        f"the config of {drafter(s)} states no positions: its config class's own default applies, and {engine(s)}"
        f" {effect} if that is below the {served} that the launch serves",
        expected=f"at least {served} positions, stated",
        actual="no max_position_embeddings; not checked",
        source=f"config.json; {engine(s)} configs/model_config.py",
        remedy="State max_position_embeddings in the drafter's config.",
    )


def _short_positions(s: Situation, own: tuple[int, str], served: int, how: str) -> Finding:
    """`how` is what the release does: "error" (unless the variable allows it), "warn" or "override"."""
    count, keys = own
    allowed = s.serving.invocation.environment.get(LONGER, "").lower() in _TRUE
    crash = how.startswith("error") and not allowed
    wider = "override" in how
    effect = "raises at start-up"
    if not crash:
        effect = "enlarges its positions" if wider else "runs it beyond its positions"
    return Finding(
        "CONTEXT",
        REFUSE if crash else WARN,
        f"{drafter(s)} has {count} positions and the launch serves {served}: {engine(s)} {effect}",
        expected=f"at least {served} positions",
        actual=f"{count} positions, from {keys}",
        source=f"config.json: {keys.partition(' ')[0]}; {engine(s)} configs/model_config.py",
        remedy=f"Launch with {_LIMIT} {count}"
        + (f", or set {LONGER}=1 and expect little gain beyond {count} tokens." if crash else "."),
        flags=ways(s, (_LIMIT, str(count))),
    )


def rope(s: Situation) -> Outcome:
    """RoPE runs with the base trained with. It may well differ from the target's: that is no fault."""
    trained = s.requirements.rope_theta
    if trained is None or s.drafter is None:
        return None
    used: object = None
    for key in ("rope_theta", "rope_parameters.rope_theta", "rope_scaling.rope_theta"):
        used = used if used is not None else lookup(s.draft_config, key)
    used = s.drafter.rope_theta if used is None else used  # some exporters nest it
    used = as_number(10000.0 if used is None else used)
    if used is None or used == trained:
        return ()
    return (
        Finding(
            "ROPE",
            WARN,
            f"{drafter(s)} was trained with RoPE base {trained:g} and runs with {used:g}",
            expected=f"rope_theta {trained:g}",
            actual=f"rope_theta {used:g}",
            source=f"{s.requirements.source}: draft.rope_theta; config.json: rope_theta",
            remedy=f"Set rope_theta to {trained:g} in the drafter's config; the target's value does not matter.",
        ),
    )


def _backends(s: Situation) -> list[str]:
    names = (option(s, name) for name in ("attention_backend", "decode_attention_backend", "prefill_attention_backend"))
    return [name for name in names if isinstance(name, str)]


def _in_force(s: Situation, at: int) -> int | None:
    """Steps (0) or topk (1) as the release uses them; as stated where it raises, which may be for this very number."""
    speculation = s.serving.speculation
    return speculation.stated[at] if speculation.failure else speculation.effective[at]


def topk_backend(s: Situation) -> Outcome:
    """The attention backend takes this topk with this page size."""
    topk = _in_force(s, 1)
    if s.profile is None or topk is None:
        return None
    if topk <= 1:
        return ()
    rules, backends = s.profile.launch.speculative, _backends(s)
    page = page_size(rules, s.serving.arguments.values)
    main = option(s, "attention_backend")  # with pages, releases look at this one alone
    bad = [name for name in backends if name in rules.topk_rejects]
    place = source_text(s, rules.source)
    if bad:
        fault, severity = f"{engine(s)} refuses topk {topk} with attention backend {bad[0]}", REFUSE
    elif page > 1 and rules.topk_needs is not None and main not in rules.topk_needs:
        fault = f"{engine(s)} takes topk {topk} with page size {page} on {', '.join(rules.topk_needs)} only"
        severity = REFUSE if main else UNKNOWN
    else:
        return ()
    return (
        Finding(
            "TOPK_BACKEND",
            severity,
            fault,
            expected=f"topk 1, page size 1, or one of {', '.join(rules.topk_needs or ())}",
            actual=f"attention backend {', '.join(backends) or 'chosen by the engine'}, page size {page}",
            source=place,
            remedy="Launch with --speculative-eagle-topk 1"
            + (f", or name {_BACKEND} {rules.topk_needs[0]}." if rules.topk_needs else "."),
            flags=_topk_ways(s, rules.topk_needs or ()),
        ),
    )


def _topk_ways(s: Situation, takers: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """A backend that takes this topk; else a chain, whose draft tokens are its steps and the root."""
    named = sorted(takers, key=lambda name: _PORTABLE.index(name) if name in _PORTABLE else len(_PORTABLE))
    steps = _in_force(s, 0)
    tokens = () if steps is None else ("--speculative-num-draft-tokens", str(steps + 1))
    return ways(s, *((_BACKEND, name) for name in named), ("--speculative-eagle-topk", "1", *tokens))


def draft_attention(s: Situation) -> Outcome:
    """An attention backend made for MLA is not inherited by a drafter that has none."""
    if s.drafter is None or s.bundled or not s.serving.speculation.algorithm:
        return None
    backends = [name for name in _backends(s) if "mla" in name]
    if not backends:
        return None
    own = option(s, "speculative_draft_attention_backend")
    if s.drafter.attention == "mla" or (isinstance(own, str) and "mla" not in own):
        return ()
    flags = ways(s, (_DRAFT_BACKEND, "triton"))
    return (
        Finding(
            "DRAFT_ATTENTION",
            WARN,
            f"{drafter(s)} has no latent attention and is given the MLA backend {own or backends[0]} on {engine(s)}",
            expected="a backend for multi-head attention",
            actual=str(own or backends[0]),
            source="config.json: no kv_lora_rank",
            remedy=f"Add {_DRAFT_BACKEND} triton."
            if flags
            else "Use a backend that serves both, or a drafter with latent attention.",
            flags=flags,
        ),
    )


RULES = (
    Rule(
        "CONTEXT",
        "The drafter's positions cover the context served",
        "A drafter with 2048 positions on a target of 40960 crashes at start-up, or drafts noise beyond them.",
        "https://github.com/sgl-project/SpecForge/issues/249",
        ("R20",),
        context,
    ),
    Rule(
        "ROPE",
        "RoPE runs with the base trained with",
        "Heads trained by tools that ignored rope_theta really use 10000; forcing another value costs acceptance. What "
        "matters is trained value = value used, never that it equals the target's.",
        "https://github.com/vllm-project/vllm-ascend/issues/6612",
        ("R21",),
        rope,
    ),
    Rule(
        "TOPK_BACKEND",
        "The attention backend takes the topk and page size",
        "topk above 1 works on some backends only, and with pages above 1 on fewer; the server dies or, in old "
        "releases, drops to topk 1.",
        _ARGS,
        ("R16",),
        topk_backend,
    ),
    Rule(
        "DRAFT_ATTENTION",
        "The drafter's attention fits the backend it inherits",
        "An MHA head under an MLA-only backend fails when the drafter's backend is built.",
        "https://github.com/sgl-project/sglang/pull/21272",
        ("R17",),
        draft_attention,
    ),
)
