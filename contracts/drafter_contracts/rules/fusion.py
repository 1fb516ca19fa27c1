"""The fusion layer: width of `fc`, norms around it, and whether it runs at all."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.capture import lookup
from drafter_contracts.engines.profile import FITTED
from drafter_contracts.rules.captured import eager_taps, source_text
from drafter_contracts.rules.remedy import OVERRIDE, graphs_off_flag
from drafter_contracts.rules.rule import (
    Rule,
    drafter,
    engine,
    on_record,
    quoted,
    release_names,
    switched_on,
    target_class,
    ways,
    whole,
)
from drafter_contracts.verdict import REFUSE, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Drafter
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation


def _class(s: Situation) -> Drafter | None:
    """The release's class for the drafter, if its behaviour is known."""
    return s.draft_class if s.draft_class is not None and s.draft_class.status == FITTED else None


def arriving_width(s: Situation) -> int | None:
    """Width of what reaches the drafter in eager execution, or None if it cannot be computed."""
    if s.target is None or s.target.hidden_size is None or not s.method:
        return None
    if s.capture_off:
        return s.target.hidden_size
    taps = eager_taps(s)
    return None if taps is None else len(taps) * s.target.hidden_size


def built_width(s: Situation) -> tuple[int, str] | None:
    """Columns that the release gives `fc`, and from which keys; None if the profile or config does not say."""
    known = _class(s)
    if known is None:
        return None
    taps = next(
        ((found, word) for word in known.taps if (found := stated_taps(s.draft_config, word)) is not None), None
    )
    width = next(((found, key) for key in known.width if (found := whole(lookup(s.draft_config, key)))), None)
    if taps is None or width is None:
        return None
    return taps[0] * width[0], f"{taps[1]} = {taps[0]} times {width[1]} = {width[0]}"


def stated_taps(config: dict[str, object], word: str) -> int | None:
    """The number of taps by one source of a profile: a literal, `len(KEY)` or a key; None where the config lacks it."""
    if word.isdigit():
        return int(word)
    if word.startswith("len(") and word.endswith(")"):
        value = lookup(config, word[4:-1])
        return len(value) if isinstance(value, list) and value else None
    return whole(lookup(config, word)) or None


def fc_width(s: Situation) -> Outcome:
    """`fc` is as wide as what arrives: captured states times the target's hidden size."""
    if s.drafter is None or s.drafter.fc is None or s.target is None or s.target.hidden_size is None:
        return None
    arriving = arriving_width(s)
    if arriving is None or s.capture_off:
        return None
    columns, width = s.drafter.fc.in_width, s.target.hidden_size
    if arriving == columns:
        return ()
    need = f"{columns // width} states" if columns % width == 0 else f"no whole number of states of width {width}"
    return (
        Finding(
            "FC_WIDTH",
            REFUSE,
            f"{engine(s)} feeds {drafter(s)} {arriving // width} states of width {width}, {arriving} columns,"
            f" but its {s.drafter.fc.name} has {columns}",
            expected=f"{columns} columns, {need}",
            actual=f"{arriving} columns, {arriving // width} states of {target_class(s)}",
            source=f"{s.drafter.fc.name} {[s.drafter.fc.out_width, columns]}",
            remedy="State as many capture ids as fc has columns for, or serve it on its own target.",
        ),
    )


def fc_size(s: Situation) -> Outcome:
    """The release builds `fc` as wide as it is in the checkpoint."""
    if s.drafter is None or s.drafter.fc is None or not s.method:
        return None
    built = built_width(s)
    known = _class(s)
    if built is None or known is None:
        return None
    if built[0] == s.drafter.fc.in_width:
        return ()
    fixed = all(word.isdigit() for word in known.taps)
    return (
        Finding(
            "FC_SIZE",
            REFUSE,
            f"{engine(s)} builds fc with {built[0]} columns ({built[1]}), but {s.drafter.fc.name} of {drafter(s)}"
            f" has {s.drafter.fc.in_width}: the weights do not load",
            expected=f"{s.drafter.fc.in_width} columns",
            actual=f"{built[0]} columns, from {built[1]}",
            source=source_text(s, known.source),
            remedy=f"This release builds fc for {known.taps[0]} states whatever the config says; use a newer release."
            if fixed
            else f"Set {known.taps[0]} or {known.width[0]} in the drafter's config so that the product is"
            f" {s.drafter.fc.in_width}.",
        ),
    )


def fc_buffers(s: Situation) -> Outcome:
    """The engine's own buffers for captured states have room for as many as arrive."""
    if s.profile is None or s.target is None or s.method not in s.profile.buffers or not s.serving.cuda_graphs:
        return None
    buffers, got = s.profile.buffers[s.method], eager_taps(s)
    if got is None or s.capture_off:
        return None
    config = s.target.config if buffers.of == "target" else s.draft_config
    room = next((found for word in buffers.taps if (found := stated_taps(config, word)) is not None), None)
    if room is None:
        return None
    if room == len(got):
        # Of a target that is only recorded the default was taken: its config may say another number.
        return None if buffers.of == "target" and on_record(s) else ()
    return (
        Finding(
            "FC_BUFFERS",
            UNKNOWN,
            f"{engine(s)} makes the buffers of its draft-extend graphs for {room} states, by the {buffers.of}'s config,"
            f" and {drafter(s)} is fed {len(got)}; attention backends with such a graph fail when it is recorded",
            expected=f"room for {len(got)} states",
            actual=f"room for {room}",
            source=source_text(s, buffers.source),
            remedy=_buffers_remedy(s, buffers.of, len(got)),
            flags=ways(s, (OVERRIDE, _room(s, len(got))), (graphs_off_flag(s),)),
        ),
    )


def _room(s: Situation, taps: int) -> str:
    """Overrides that state the number of taps, those of the launch included."""
    return msgspec.json.encode({**s.serving.overrides, "num_aux_hidden_states": taps}).decode()


def _buffers_remedy(s: Situation, of: str, taps: int) -> str:
    if of == "drafter":
        return f"Set num_aux_hidden_states to {taps} in the drafter's config."
    text = quoted(_room(s, taps))
    return f"Launch with {OVERRIDE} {text}, which reaches both configs, or without CUDA graphs."


def fc_skipped(s: Situation) -> Outcome:
    """`fc` is not skipped because the incoming width happens to be the drafter's own."""
    known = _class(s)
    if known is None or s.drafter is None or s.drafter.fc is None or not s.method or s.drafter.hidden_size is None:
        return None
    arriving = arriving_width(s)
    if arriving is None:
        return None
    if not known.skips_fc or arriving != s.drafter.hidden_size:
        return ()
    return (
        Finding(
            "FC_SKIPPED",
            REFUSE,
            f"{engine(s)} skips {s.drafter.fc.name} of {drafter(s)} without a message, because what arrives is already"
            f" {arriving} wide",
            expected="fc applied to the captured states",
            actual="fc skipped",
            source=source_text(s, known.source),
            remedy="Give the release as many states as fc was trained on; a single state of the drafter's own width"
            " cannot be served by this class.",
        ),
    )


def fc_bias(s: Situation) -> Outcome:
    """`fc` has a bias in the release exactly if it has one in the checkpoint."""
    known = _class(s)
    if known is None or s.drafter is None or s.drafter.fc is None or not s.method or not known.bias:
        return None
    has = s.drafter.fc.bias
    does = known.bias == "yes" or (known.bias != "no" and bool(lookup(s.draft_config, known.bias)))
    if has == does:
        return ()
    actual = "fc gets a bias that no tensor fills" if does else "fc.bias of the checkpoint is dropped"
    return (
        Finding(
            "FC_BIAS",
            WARN if does else REFUSE,
            f"{engine(s)} builds fc {'with' if does else 'without'} a bias, {drafter(s)} has"
            f" {'one' if has else 'none'}: {actual}",
            expected="a bias" if has else "no bias",
            actual=actual,
            source=source_text(s, known.source),
            remedy="Use a newer release; this one has no option for it."
            if known.bias in {"yes", "no"}
            else f"Set {known.bias} to {'true' if has else 'false'} in the drafter's config.",
        ),
    )


def _norm(s: Situation, code: str, what: str, has: bool, field: str) -> Outcome:
    known = _class(s)
    if known is None or s.drafter is None or not s.method:
        return None
    keys: tuple[str, ...] = getattr(known, field)
    either = field in known.either
    does = bool(keys) and switched_on(s.draft_config, keys, either=either)
    if has == does or (does and s.drafter.weights == "none"):
        return ()
    if has:
        why = f"its config does not say {' or '.join(keys)}" if keys else "this release does not know it"
        fault = f"{engine(s)} leaves out the {what} that {drafter(s)} was trained with: {why}"
    else:
        fault = f"{engine(s)} applies a {what} that {drafter(s)} has no weights for"
    return (
        Finding(
            code,
            REFUSE,
            fault,
            expected=f"{what} {'applied' if has else 'not applied'}",
            actual=f"{what} {'applied with weights as initialised' if does else 'dropped without a message'}",
            source=source_text(s, known.source),
            remedy=f"Set {keys[0] if has or not either else ' and '.join(keys)} to {'true' if has else 'false'}"
            " in the drafter's config."
            if keys
            else "Use a release that implements it: "
            + (_releases_with(s, code) or "none of the known ones does")
            + ".",
        ),
    )


def _releases_with(s: Situation, code: str) -> str:
    def has_norm(known: Drafter | None) -> bool:
        return known is not None and bool(known.norm_before_fc if code == "NORM_BEFORE_FC" else known.fc_norm)

    return release_names(s, (other for other in s.elsewhere if has_norm(other.draft_class)))


def norm_before_fc(s: Situation) -> Outcome:
    """One norm over the concatenation is applied exactly if trained."""
    if s.drafter is None or s.draft_class is None:
        return None
    return _norm(s, "NORM_BEFORE_FC", "norm before fc", s.drafter.norm_before_fc, "norm_before_fc")


def norm_per_chunk(s: Situation) -> Outcome:
    """One norm per captured state is applied exactly if trained."""
    if s.drafter is None or s.draft_class is None:
        return None
    return _norm(s, "NORM_PER_CHUNK", "norm of each state before fc", s.drafter.fc_norm, "fc_norm")


_EAGLE3 = "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/models/llama_eagle3.py"

RULES = (
    Rule(
        "FC_WIDTH",
        "fc is as wide as what arrives",
        "A width that does not match ends in a shape error at the first batch, after minutes of loading. The drafter's "
        "own hidden size may differ from the target's; that alone is no fault.",
        "https://github.com/sgl-project/sglang/issues/32226",
        ("R03",),
        fc_width,
    ),
    Rule(
        "FC_SIZE",
        "The release builds fc as wide as the checkpoint's",
        "Releases size fc from different config keys, older ones for three states only: five-state heads fail.",
        "https://github.com/verl-project/verl-SpeCo/pull/6",
        ("R03",),
        fc_size,
    ),
    Rule(
        "FC_BUFFERS",
        "The engine's buffers hold as many states as arrive",
        "Some releases size a graph's buffer from the target's config: heads with other than three states load and "
        "then fail while graphs are recorded.",
        "https://github.com/verl-project/verl-SpeCo/pull/6",
        ("R03",),
        fc_buffers,
    ),
    Rule(
        "FC_SKIPPED",
        "fc is applied",
        "fc runs only if the incoming width differs from the drafter's own; with one state of equal width it is "
        "skipped in silence and acceptance collapses.",
        _EAGLE3,
        ("R03", "R11"),
        fc_skipped,
    ),
    Rule(
        "FC_BIAS",
        "fc has a bias only where the checkpoint has one",
        "A bias that no tensor fills keeps its random start values; one that the class has no place for is dropped.",
        "https://github.com/sgl-project/sglang/blob/v0.4.6.post5/python/sglang/srt/models/llama_eagle3.py",
        ("R28",),
        fc_bias,
    ),
    Rule(
        "NORM_BEFORE_FC",
        "The norm over the concatenation is applied as trained",
        "Releases that do not know norm_before_fc drop input_norm.weight without a message; acceptance falls to about "
        "one token.",
        "https://github.com/sgl-project/sglang/issues/32226",
        ("R22", "R28"),
        norm_before_fc,
    ),
    Rule(
        "NORM_PER_CHUNK",
        "The norm of each state is applied as trained",
        "Releases that do not know fc_norm drop its weights without a message.",
        _EAGLE3,
        ("R22", "R28"),
        norm_per_chunk,
    ),
)
