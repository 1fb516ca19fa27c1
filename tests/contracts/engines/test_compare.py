"""What an upgrade changes, in words."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines import store
from drafter_contracts.engines.compare import advisory_changes, capture_changes
from drafter_contracts.engines.compare import diff as changes_of
from drafter_contracts.engines.launch_rules import Flag, GraphSwitch, LaunchRules, SpeculativeRules, Triple
from drafter_contracts.engines.profile import (
    BROKEN,
    FITTED,
    OPAQUE,
    SCHEMA,
    Advisory,
    CaptureMethod,
    CaptureRule,
    Drafter,
    GraphReplay,
    IdReading,
    Profile,
    ReadingShift,
    Region,
    Shift,
    Source,
)

PLAIN = CaptureMethod(FITTED, default=("2", "N//2", "N-3"), shifts=(Shift(1),), source=Source("models/a.py", "f", 1))
CONDITIONAL = msgspec.structs.replace(PLAIN, shifts=(Shift(1, "first==1"), Shift(0)))


def profile(**parts):
    return Profile(SCHEMA, "sglang", "1", **parts)


def diff(before, after, architecture=""):
    return [change.sentence() for change in changes_of(before, after, architecture)]


def test_nothing_changes_from_a_release_to_itself():
    for release in store.releases("sglang"):
        shipped = store.load_profile("sglang", release)
        assert diff(shipped, shipped) == []


def test_another_line_of_the_source_is_no_change():
    moved = msgspec.structs.replace(PLAIN, source=Source("models/a.py", "f", 900))
    assert capture_changes(PLAIN, moved) == []


def test_classes_that_change_alike_are_one_sentence():
    old = profile(rules=(PLAIN,), targets={"A": {"EAGLE3": 0}, "B": {"EAGLE3": 0}, "C": {"EAGLE3": 0}})
    new = profile(rules=(PLAIN, CONDITIONAL), targets={"A": {"EAGLE3": 1}, "B": {"EAGLE3": 1}, "C": {"EAGLE3": 0}})
    assert diff(old, new) == ["EAGLE3, A, B: ids become boundaries: id+1 -> id+1 if first==1, else id"]


def test_parts_of_a_rule_are_named():
    after = msgspec.structs.replace(
        PLAIN,
        default=("3",),
        sticky=True,
        capture=CaptureRule(last=Region(), zero=Region("error", "TypeError", "forward"), short="RuntimeError"),
    )
    assert capture_changes(PLAIN, after) == [
        "without ids: boundaries 2, N//2, N-3 -> boundaries 3",
        "a second call of the setter: replaces the first -> adds to the first",
        "boundary 0 (embedding output): captured -> TypeError at the first batch",
        "boundary N (output of the last layer): dropped silently -> captured",
        "fewer states than asked for: goes unnoticed -> RuntimeError",
    ]


def test_hooks_come_go_and_break():
    broken = CaptureMethod(BROKEN, "nothing is captured")
    opaque = CaptureMethod(OPAQUE, "no rule")
    assert capture_changes(None, PLAIN) == ["no capture hook -> captures"]
    assert capture_changes(PLAIN, None) == ["captures -> no capture hook"]
    assert capture_changes(PLAIN, broken) == ["captures -> has a hook that cannot work (nothing is captured)"]
    assert capture_changes(broken, opaque) == [
        "has a hook that cannot work (nothing is captured) -> not decidable (no rule)"
    ]
    assert capture_changes(None, None) == []


def test_registered_classes_readings_and_drafters():
    old = profile(targets={"A": {}}, readings={"EAGLE3": IdReading(keys=("x",))}, drafters={"D": Drafter("EAGLE3")})
    new = profile(targets={"B": {}}, readings={"EAGLE3": IdReading(keys=("x", "y"))}, drafters={"E": Drafter("EAGLE3")})
    assert diff(old, new) == [
        "A: no longer registered as a target",
        "B: registered as a target",
        "reading of EAGLE3 ids, keys of the drafter's config: + y",
        "drafter class E: new",
        "drafter class D: gone",
    ]


def test_options():
    old = profile(launch=LaunchRules(flags=(Flag(("--a",), "a"), Flag(("--b",), "b", default=1), Flag(("--old",)))))
    new = profile(
        launch=LaunchRules(flags=(Flag(("--alpha", "--a"), "a"), Flag(("--b",), "b", default=2), Flag(("--new",))))
    )
    assert diff(old, new) == [
        "new options: --new",
        "options that no longer exist: --old",
        "option --b, default: 1 -> 2",
    ]


def test_the_upgrade_that_moved_the_deepseek_family():
    changes = diff(store.load_profile("sglang", "0.5.12.post1"), store.load_profile("sglang", "0.5.15"))
    (moved,) = [c for c in changes if c.startswith("EAGLE3") and "ids become boundaries" in c]
    assert moved.endswith("id+1 -> id+1 if first==1, else id")
    assert "KimiK25ForConditionalGeneration" in moved
    assert "DeepseekV3ForCausalLM" in moved


def test_one_class_is_told_with_what_reaches_it_and_nothing_else():
    readings = {"EAGLE3": IdReading(keys=("x",)), "DFLASH": IdReading(keys=("y",))}
    old = profile(
        rules=(PLAIN, CONDITIONAL),
        targets={"A": {"EAGLE3": 0}, "B": {"EAGLE3": 0}},
        readings=readings,
        launch=LaunchRules(flags=(Flag(("--old",)),), speculative=SpeculativeRules(auto={"A": Triple(5, 4, 8)})),
    )
    new = profile(
        rules=(PLAIN, CONDITIONAL),
        targets={"A": {"EAGLE3": 1}, "B": {"EAGLE3": 1}},
        readings={name: msgspec.structs.replace(one, keys=("z",)) for name, one in readings.items()},
        graphs={"EAGLE3": GraphReplay("default")},
        launch=LaunchRules(speculative=SpeculativeRules(auto={"A": Triple(3, 1, 4)}, bundled=("A",))),
    )
    assert diff(old, new, "A") == [
        "EAGLE3, A: ids become boundaries: id+1 -> id+1 if first==1, else id",
        "reading of EAGLE3 ids, keys of the drafter's config: + z; - x",
        "CUDA graphs of EAGLE3: new",
        "steps, topk and draft tokens chosen where none is given: [5,4,8] -> [3,1,4]",
        "without a draft path, its own checkpoint serves as the drafter",
    ]


def test_a_move_of_ids_for_one_model_concerns_its_classes_only():
    shift = ReadingShift(1, "muse_glimmer", ("DFlash2DraftModel",))
    old = profile(rules=(PLAIN,), targets={"MuseGlimmerForCausalLM": {"DFLASH": 0}, "Qwen3ForCausalLM": {"DFLASH": 0}})
    old = msgspec.structs.replace(old, readings={"DFLASH": IdReading(keys=("x",))})
    new = msgspec.structs.replace(old, readings={"DFLASH": IdReading(keys=("x",), shifts=(shift,))})
    assert diff(old, new, "Qwen3ForCausalLM") == []
    (told,) = diff(old, new, "MuseGlimmerForCausalLM")
    assert told.startswith("reading of DFLASH ids, ids moved before the setter sees them: nothing -> ")


def test_what_decides_the_layers_moves_and_what_does_not_does_not():
    old = profile(
        rules=(PLAIN, CONDITIONAL),
        targets={"A": {"EAGLE3": 0}, "B": {}},
        readings={"EAGLE3": IdReading(keys=("x",), no_hook="AttributeError")},
        graphs={"EAGLE3": GraphReplay("default", disabled_by=("--off",))},
    )
    new = profile(
        rules=(PLAIN, CONDITIONAL),
        targets={"A": {"EAGLE3": 1}, "B": {"EAGLE3": 0}},
        readings={"EAGLE3": IdReading(keys=("y",), no_hook="ValueError")},
        graphs={"EAGLE3": GraphReplay("same")},
    )
    moves = {change.sentence(): change.moves for change in changes_of(old, new)}
    assert moves == {
        "EAGLE3, A: ids become boundaries: id+1 -> id+1 if first==1, else id": True,
        "EAGLE3, B: no capture hook -> captures": False,
        "reading of EAGLE3 ids, keys of the drafter's config: + y; - x": True,
        "reading of EAGLE3 ids, exception for a target class without a hook: AttributeError -> ValueError": False,
        "CUDA graphs of EAGLE3, captured layers: default -> same": True,
    }


def test_what_turns_graphs_off_is_told():
    old = profile(launch=LaunchRules(graphs=(GraphSwitch("a"),)))
    new = profile(launch=LaunchRules(graphs=(GraphSwitch("a"), GraphSwitch("b", on=True))))
    assert diff(old, new) == ["CUDA graphs of decode and verify steps: + on if b"]


def test_advisories_that_begin_and_end():
    ended = Advisory("OLD", "states are overwritten", "models/a.py:3", "read", architectures=("A",), when="tap:0")
    begun = Advisory("NEW", "the revision is shared", "arguments.py:5", "read")
    stays = Advisory("STAYS", "always", "x.py:1", "read")
    told = advisory_changes((ended, stays), (stays, begun), "A")
    assert [change.sentence() for change in told] == [
        "NEW, from now on: the revision is shared (arguments.py:5)",
        "OLD, no longer where boundary 0 is captured: states are overwritten (models/a.py:3)",
    ]
    assert [change.text[:3] for change in advisory_changes((ended,), (begun,), "B")] == ["NEW"]
