"""On whose word the trained layout is taken."""

from __future__ import annotations

from drafter_contracts.checkpoint.facts import CONTRADICTORY, DECLARED, ENGINE_DEFAULT
from drafter_contracts.layout import Tap, describe_taps
from drafter_contracts.rules.captured import capture_source, eager_taps, numbers_fit_another_reading
from drafter_contracts.rules.rule import Rule, drafter, engine
from drafter_contracts.solve import same_taps
from drafter_contracts.verdict import NOTE, UNKNOWN, WARN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.rules.rule import Outcome
    from drafter_contracts.situation import Situation

_SAY = (
    "Say which layers it was trained on: --boundaries or --output-ids, or a drafters-manifest.json beside the weights."
)


def undeclared(s: Situation) -> Outcome:
    """The numbers are stated, what they mean is not: it follows from a producer's habit or an engine's guess."""
    if not s.method or s.capture_off or s.drafter is None or (s.stated is not None and s.stated.origin != "config"):
        return None
    reading = s.drafter.layout
    if not reading.ids or reading.confidence in {DECLARED, CONTRADICTORY, ENGINE_DEFAULT}:
        return None
    got = eager_taps(s)
    if numbers_fit_another_reading(s) and got is not None:
        mine = describe_taps(s.stated.layout.taps) if s.stated is not None else "another reading of them"
        return (_undeclared(s, f"{engine(s)} takes them as {describe_taps(got)}; read by their key they are {mine}"),)
    if s.stated is None:
        return None
    rivals = [other for other in reading.alternatives if other != s.stated.layout.boundaries]
    if not rivals:
        return (_undeclared(s, f"they are taken as {describe_taps(s.stated.layout.taps)} by {reading.numbering}"),)
    other = describe_taps(tuple(Tap(boundary) for boundary in rivals[0]))
    mine = describe_taps(s.stated.layout.taps)
    return (_undeclared(s, f"they are taken as {mine} by {reading.numbering}; they could also mean {other}"),)


def _undeclared(s: Situation, doubt: str) -> Finding:
    reading = s.drafter.layout if s.drafter is not None else None
    ids, key = (list(reading.ids), reading.key) if reading is not None else ([], "")
    return Finding(
        "NUMBERING_UNDECLARED",
        WARN,
        f"{drafter(s)} does not say which numbering its ids {ids} are in: {doubt}",
        expected="a stated numbering",
        actual=reading.reason if reading is not None else "",
        source=f"config.json: {key}" + (f"; {capture_source(s)}" if s.rule is not None else ""),
        remedy=_SAY,
    )


def unstated(s: Situation) -> Outcome:
    """Nothing states the trained layout."""
    if not s.method or s.drafter is None:
        return None
    if s.stated is not None or numbers_fit_another_reading(s) or s.capture_off:
        return ()
    reading = s.drafter.layout
    return (
        Finding(
            "LAYOUT_UNSTATED",
            UNKNOWN,
            f"nothing says for certain which layers {drafter(s)} was trained on"
            + (f": {reading.reason}" if reading.reason else ""),
            expected="a stated layout",
            actual=f"ids {list(reading.ids)} at {reading.key}" if reading.ids else "no ids",
            source="config.json" + (f": {reading.key}" if reading.key else ""),
            remedy=reading.settle or _SAY,
        ),
    )


def differs_from_config(s: Situation) -> Outcome:
    """The stated layout and the config's own reading differ."""
    if s.stated is None or s.stated.origin in {"config", "render"} or s.drafter is None:
        return None
    if s.drafter.layout.layout is None:
        return None
    reading, own = s.drafter.layout, s.drafter.layout.layout
    if same_taps(s.stated.layout.taps, own.taps):
        return ()
    return (
        Finding(
            "LAYOUT_DIFFERS",
            WARN if reading.confidence == DECLARED else NOTE,
            f"{s.stated.detail} states other layers for {drafter(s)} than its config.json, read on its own"
            f" ({reading.confidence}); the statement is used",
            expected=f"{describe_taps(s.stated.layout.taps)}, by {s.stated.detail}",
            actual=f"{describe_taps(own.taps)}, by {reading.key or 'the default'}"
            f" ({reading.numbering or reading.reason})",
            source=f"config.json: {reading.key}" if reading.key else "config.json",
            remedy="Make sure of the statement: compare recorded states, or ask whoever trained it.",
        ),
    )


RULES = (
    Rule(
        "NUMBERING_UNDECLARED",
        "The numbering of the ids is declared",
        "The same numbers mean layers one apart to different producers, and some releases guess from the first id. "
        "A layout one off costs most of the acceptance and raises no error.",
        "https://github.com/sgl-project/sglang/pull/25454",
        ("R04",),
        undeclared,
    ),
    Rule(
        "LAYOUT_UNSTATED",
        "Something states the trained layout",
        "Without it there is nothing to compare: a head would be served on whatever the engine captures by default.",
        "https://github.com/vllm-project/vllm/pull/50170",
        ("R01", "R04"),
        unstated,
    ),
    Rule(
        "LAYOUT_DIFFERS",
        "The stated layout agrees with the config",
        "One of the two is wrong, or the config is written for another engine's numbering. In the incident behind this "
        "tool the config was right and a label in the training data wrong.",
        "https://github.com/vllm-project/vllm/pull/43671",
        ("R01", "R04", "R27"),
        differs_from_config,
    ),
)
