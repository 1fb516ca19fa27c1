"""Which states the engine feeds the drafter, against those it was trained on."""

from __future__ import annotations

from drafter_contracts.engines.profile import FITTED
from drafter_contracts.layout import Tap, describe_taps
from drafter_contracts.rules.captured import (
    capture_source,
    eager_taps,
    ids_text,
    requested_text,
    source_text,
    stated_text,
    trained_taps,
)
from drafter_contracts.rules.remedy import graphs_off_flag, layout_remedy
from drafter_contracts.rules.rule import Rule, drafter, engine, target_class, ways
from drafter_contracts.solve import same_taps
from drafter_contracts.verdict import REFUSE, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.capture import Capture
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation

_CONVENTIONS = "https://github.com/sgl-project/sglang/pull/25454"


def layers(s: Situation) -> Outcome:
    """As many taps as trained on, from other layers."""
    wanted, got = trained_taps(s), eager_taps(s)
    if wanted is None:
        return None
    if got is None:
        return _asked(s, wanted)
    if len(wanted) != len(got) or sorted(tap.boundary for tap in wanted) == sorted(tap.boundary for tap in got):
        return () if same_taps(wanted, got) or len(wanted) != len(got) else _state(s, wanted, got)
    pairs = [(a, b) for a, b in zip(wanted, got, strict=True) if a.boundary != b.boundary]
    each = "; ".join(f"{a.label()} becomes {b.label()}" for a, b in pairs)
    return (
        Finding(
            "CAPTURE_LAYERS",
            REFUSE,
            f"{engine(s)} feeds {drafter(s)} other layers of {target_class(s)} than it was trained on: {each}",
            expected=stated_text(s),
            actual=f"{describe_taps(got)}, from {ids_text(s)}",
            source=capture_source(s),
            remedy=layout_remedy(s),
        ),
    )


def _asked(s: Situation, wanted: tuple[Tap, ...]) -> Outcome:
    """The release raises on these ids; they ask for other layers than the trained ones all the same."""
    asked = s.capture.eager.requested if s.capture is not None and s.capture.eager.phase == "forward" else ()
    if not asked:
        return None
    missing = [tap for tap in wanted if tap.boundary not in asked]
    if not missing:
        return ()
    told = f"nothing asks for {describe_taps(missing)}"
    if len(asked) == len(wanted):
        pairs = [(tap, boundary) for tap, boundary in zip(wanted, asked, strict=True) if tap.boundary != boundary]
        told = "; ".join(f"{tap.label()} becomes {_asked_label(boundary)}" for tap, boundary in pairs)
    return (
        Finding(
            "CAPTURE_LAYERS",
            REFUSE,
            f"{engine(s)} is asked for other layers of {target_class(s)} than {drafter(s)} was trained on: {told}",
            expected=stated_text(s),
            actual=f"asks for {requested_text(s)}, from {ids_text(s)}",
            source=capture_source(s),
            remedy=layout_remedy(s),
        ),
    )


def _asked_label(boundary: int) -> str:
    return Tap(boundary).label() if boundary >= 0 else f"boundary {boundary} (which no target has)"


def _state(s: Situation, wanted: tuple[Tap, ...], got: tuple[Tap, ...]) -> Outcome:
    """Right boundaries, wrong state there (an order fault is CAPTURE_ORDER's)."""
    by_boundary = {tap.boundary: tap for tap in got}
    if all(same_taps((tap,), (by_boundary[tap.boundary],)) for tap in wanted):
        return ()
    return (
        Finding(
            "CAPTURE_LAYERS",
            REFUSE,
            f"{engine(s)} feeds {drafter(s)} another state of {target_class(s)} than it was trained on",
            expected=stated_text(s),
            actual=describe_taps(got),
            source=capture_source(s),
            remedy=layout_remedy(s),
        ),
    )


def order(s: Situation) -> Outcome:
    """The trained layers in another order: every column of `fc.weight` meets the wrong state."""
    wanted, got = trained_taps(s), eager_taps(s)
    if wanted is None or got is None:
        return None
    mine, theirs = [tap.boundary for tap in wanted], [tap.boundary for tap in got]
    if mine == theirs or sorted(mine) != sorted(theirs):
        return ()
    return (
        Finding(
            "CAPTURE_ORDER",
            REFUSE,
            f"{engine(s)} concatenates the layers that {drafter(s)} reads in another order than it was trained with",
            expected=stated_text(s),
            actual=describe_taps(got),
            source=capture_source(s),
            remedy=layout_remedy(s),
        ),
    )


def count(s: Situation) -> Outcome:
    """More or fewer taps than trained on."""
    wanted, got = trained_taps(s), eager_taps(s)
    if wanted is None or got is None:
        return None
    if len(wanted) == len(got):
        return ()
    have, need = {tap.boundary for tap in got}, {tap.boundary for tap in wanted}
    missing = [tap for tap in wanted if tap.boundary not in have]
    extra = [tap for tap in got if tap.boundary not in need]
    parts = [f"missing {describe_taps(missing)}"] if missing else []
    parts += [f"too many: {describe_taps(extra)}"] if extra else []
    told = f" ({'; '.join(parts)})" if parts else ""
    return (
        Finding(
            "CAPTURE_COUNT",
            REFUSE,
            f"{engine(s)} feeds {drafter(s)} {len(got)} states of {target_class(s)}, trained on {len(wanted)}{told}",
            expected=stated_text(s),
            actual=f"{describe_taps(got)}, from {ids_text(s)}",
            source=capture_source(s),
            remedy=layout_remedy(s),
        ),
    )


def dropped(s: Situation) -> Outcome:
    """Ids that are silently dropped: duplicates, negative ones, boundaries the class does not reach."""
    got = eager_taps(s)
    if got is None or s.capture is None:
        return None
    lost = s.capture.eager.dropped
    if not lost:
        return ()
    wanted = trained_taps(s)
    fits = wanted is not None and same_taps(wanted, got)
    n = s.target.num_layers if s.target is not None else None
    why = ", ".join(_why_dropped(boundary, s.capture.eager, n) for boundary in lost)
    return (
        Finding(
            "CAPTURE_DROPPED",
            WARN if fits else REFUSE,
            f"{engine(s)} drops {len(lost)} of the {len(s.capture.eager.requested)} layers that {drafter(s)}"
            f" asks for without a message: {why}",
            expected=f"{len(s.capture.eager.requested)} states, one per id",
            actual=f"{len(got)} states: {describe_taps(got)}",
            source=capture_source(s),
            remedy=layout_remedy(s) if s.stated is not None else "State distinct ids that this class captures.",
        ),
    )


def _why_dropped(boundary: int, capture: Capture, n: int | None) -> str:
    if capture.requested.count(boundary) > 1:
        return f"boundary {boundary} asked for more than once"
    if boundary < 0:
        return f"boundary {boundary} is below the embedding output"
    if n is not None and boundary > n:
        return f"boundary {boundary} is above the last one, {n}"
    return f"boundary {boundary} (output of layer {boundary - 1}) is not captured by this class"


def graphs(s: Situation) -> Outcome:
    """CUDA-graph replay, which runs every verify step, captures other layers than eager execution."""
    if s.capture is None or s.profile is None or s.rule is None or s.rule.status != FITTED:
        return None
    replay = s.capture.replay
    if replay is None:
        return ()
    wanted = trained_taps(s) or eager_taps(s)
    if wanted is None or replay.error:
        return None
    if same_taps(wanted, replay.taps):
        return ()
    how = s.profile.graphs.get(s.method)
    return (
        Finding(
            "CAPTURE_GRAPHS",
            REFUSE,
            f"{engine(s)} records its CUDA graphs with the default layers of {target_class(s)}, so that every verify"
            f" step feeds {drafter(s)} {describe_taps(replay.taps)}, whatever its config says",
            expected=stated_text(s) or describe_taps(wanted),
            actual=f"graph replay: {describe_taps(replay.taps)}; eager prefill:"
            f" {s.capture.eager.error or describe_taps(s.capture.eager.taps)}",
            source=source_text(s, how.source if how else None),
            remedy=layout_remedy(s) if s.stated is not None else f"Add {graphs_off_flag(s)}.",
            flags=ways(s, (graphs_off_flag(s),)) if s.stated is None else (),
        ),
    )


RULES = (
    Rule(
        "CAPTURE_LAYERS",
        "The layers fed are the layers trained on",
        "Everything loads, shapes match, output is right, and the drafter is hardly ever accepted: the states come "
        "from other layers, typically one off.",
        _CONVENTIONS,
        ("R01", "R02"),
        layers,
    ),
    Rule(
        "CAPTURE_ORDER",
        "The layers are concatenated in the trained order",
        "Engines concatenate in ascending layer order whatever the config says; a drafter trained in another order "
        "meets every block of fc.weight with the wrong state.",
        "https://github.com/sgl-project/sglang/blob/v0.5.9/python/sglang/srt/layers/logits_processor.py",
        ("R01",),
        order,
    ),
    Rule(
        "CAPTURE_COUNT",
        "As many states are fed as were trained on",
        "fc meets an input of the wrong width, at the first batch and after minutes of loading; or a count that fits "
        "by chance hides the wrong layers.",
        "https://github.com/sgl-project/sglang/issues/32226",
        ("R02", "R03"),
        count,
    ),
    Rule(
        "CAPTURE_DROPPED",
        "No requested layer is dropped silently",
        "Duplicates, negative ids and the last layer are dropped by most classes without a message; fewer states than "
        "fc expects arrive.",
        "https://github.com/NVIDIA-NeMo/Automodel/issues/3082",
        ("R02", "R05"),
        dropped,
    ),
    Rule(
        "CAPTURE_GRAPHS",
        "CUDA-graph replay captures what eager execution captures",
        "Some releases record their graphs before the configured ids are set: prefill uses the configured layers, "
        "every verify step the default ones. Acceptance collapses, and turning graphs off for debugging hides it.",
        "https://github.com/sgl-project/sglang/pull/22836",
        ("R01", "R02"),
        graphs,
    ),
)
