"""What an upgrade does to a drafter that somebody serves."""

from __future__ import annotations

import msgspec
import pytest

from drafter_cli.demo_files import KIMI, drafter_config, drafter_tensors
from drafter_contracts.checkpoint.read import read_drafter
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.engines.profile import (
    BROKEN,
    FITTED,
    OPAQUE,
    SCHEMA,
    CaptureMethod,
    CaptureRule,
    Drafter,
    GraphReplay,
    IdReading,
    Profile,
    Region,
    Shift,
)
from drafter_contracts.engines.store import load_profile
from drafter_contracts.manifest import LayoutRecord, Manifest, TargetRecord
from drafter_contracts.upgrades.drafters import Target, fate, target_of

KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"
CLASS = "LlamaForCausalLMEagle3"
ONE_MORE = CaptureMethod(FITTED, default=("2", "N//2", "N-3"), shifts=(Shift(1),))
AS_IS = msgspec.structs.replace(ONE_MORE, shifts=(Shift(0),))
KNOWN = Drafter("EAGLE3", taps=("3",), width=("hidden_size",), keys=("eagle_config", "hidden_size"))


def release(version, rules, drafter=KNOWN, graphs="same"):
    """A release whose target classes follow these rules; None is a class without a hook."""
    distinct = [rule for rule in rules.values() if rule is not None]
    return Profile(
        SCHEMA,
        "sglang",
        version,
        readings={"EAGLE3": IdReading(keys=(KEY,), switch="eagle_config.use_aux_hidden_state")},
        graphs={"EAGLE3": GraphReplay(graphs)},
        rules=tuple(distinct),
        targets={name: {} if rule is None else {"EAGLE3": distinct.index(rule)} for name, rule in rules.items()},
        drafters={CLASS: drafter} if drafter is not None else {},
    )


@pytest.fixture
def write(tmp_path):
    """Writes the incident's drafter with changes to its config; `tensors=False` leaves config.json alone."""

    def make(ids=(2, 30, 58), *, tensors=True, **changes):
        folder = str(tmp_path / "drafter")
        config = {**drafter_config(ids), **changes}
        write_skeleton(folder, config, drafter_tensors() if tensors else {})
        return read_drafter(folder)

    return make


def asked(architecture="", layers=61):
    return Target(architecture, layers, origin="--architecture" if architecture else "")


def test_a_capture_that_moves_is_told_with_the_ids_that_keep_it(write):
    found = fate(release("1", {"A": ONE_MORE}), release("2", {"A": AS_IS}), write(), target=asked("A"))
    (move,) = found.moves
    assert found.moved
    assert (found.ids, found.key) == ((2, 30, 58), KEY)
    assert (move.before.boundaries, move.after.boundaries) == ("3, 31, 59", "2, 30, 58")
    assert (move.keep.key, move.keep.ids) == (KEY, (3, 31, 59))


def test_a_capture_that_stays_is_told_too(write):
    found = fate(release("1", {"A": ONE_MORE}), release("2", {"A": ONE_MORE}), write(), target=asked("A"))
    (move,) = found.moves
    assert not found.moved
    assert not move.changes
    assert move.keep is None


def test_where_the_change_came_in_is_found_between_the_two(write):
    between = [release("1.1", {"A": ONE_MORE}), release("1.2", {"A": AS_IS}), release("1.3", {"A": AS_IS})]
    before, after = release("1", {"A": ONE_MORE}), release("2", {"A": AS_IS})
    (move,) = fate(before, after, write(), target=asked("A"), between=between).moves
    assert [(span.first, span.last, seen.boundaries) for span, seen in move.steps] == [
        ("1", "1.1", "3, 31, 59"),
        ("1.2", "2", "2, 30, 58"),
    ]


def test_graphs_that_stop_replaying_the_default_are_a_change(write):
    before, after = release("1", {"A": ONE_MORE}, graphs="default"), release("2", {"A": ONE_MORE})
    (move,) = fate(before, after, write(), target=asked("A")).moves
    assert move.moves
    assert move.before.replays_otherwise
    assert move.keep is None  # the older release fed two layouts: there is none to keep


def test_without_a_target_every_class_that_moves_is_told_alike_ones_together(write):
    opaque = CaptureMethod(OPAQUE, "no rule")
    old = {"A": ONE_MORE, "B": ONE_MORE, "C": ONE_MORE, "D": AS_IS, "E": None, "F": opaque, CLASS: ONE_MORE}
    new = {"A": AS_IS, "B": AS_IS, "C": ONE_MORE, "D": ONE_MORE, "E": ONE_MORE, "F": opaque, CLASS: AS_IS}
    before, after = release("1", old), release("2", new)
    found = fate(before, after, write(), target=asked())
    assert [move.architectures for move in found.moves] == [("A", "B"), ("D",)]
    assert (found.unmoved, found.newly, found.unknown) == (1, 1, 1)
    assert not found.undecided
    lost = fate(before, release("3", new | {"C": opaque}), write(), target=asked())
    assert lost.undecided


def test_a_depth_that_nobody_states_is_assumed_and_said(write):
    found = fate(release("1", {"A": ONE_MORE}), release("2", {"A": AS_IS}), write(), target=asked("A", layers=None))
    assert found.assumed == "a target of more than 59 layers"
    assert found.moves[0].after.boundaries == "2, 30, 58"


def test_no_ids_where_no_ids_can_feed_what_was_fed(write):
    dropping = msgspec.structs.replace(AS_IS, capture=CaptureRule(last=Region()))
    before = release("1", {"A": msgspec.structs.replace(dropping, shifts=(Shift(1),))})
    after = release("2", {"A": msgspec.structs.replace(AS_IS, capture=CaptureRule())})
    (move,) = fate(before, after, write(ids=(2, 30, 60)), target=asked("A")).moves
    assert move.before.boundaries == "3, 31, 61"
    assert not move.keep.found
    assert "dropped" in move.keep.reason


@pytest.mark.parametrize(
    ("old", "new", "moved", "undecided"),
    [
        (ONE_MORE, CaptureMethod(OPAQUE, "no rule"), False, True),
        (CaptureMethod(OPAQUE, "no rule"), CaptureMethod(OPAQUE, "no rule"), False, True),
        (ONE_MORE, CaptureMethod(BROKEN, "raises"), True, False),
        (ONE_MORE, None, True, False),
        (None, ONE_MORE, False, False),
        (CaptureMethod(BROKEN, "raises"), ONE_MORE, False, False),
    ],
)
def test_what_counts_as_a_move(write, old, new, moved, undecided):
    found = fate(release("1", {"A": old}), release("2", {"A": new}), write(), target=asked("A"))
    assert (found.moved, found.undecided) == (moved, undecided)


def test_weights_keys_and_limits_that_the_class_treats_otherwise(write):
    reads_norm = Drafter(
        "EAGLE3",
        taps=("3",),
        width=("hidden_size",),
        keys=("eagle_config", "norm_before_fc"),
        ignores=("midlayer.mlp.up_proj.weight",),
        norm_before_fc=("norm_before_fc",),
    )
    before, after = release("1", {"A": ONE_MORE}), release("2", {"A": ONE_MORE}, reads_norm)
    found = fate(before, after, write(norm_before_fc=False), target=asked("A"))
    assert (found.keys_gained, found.keys_lost) == (("norm_before_fc",), ("hidden_size",))
    (dropped,) = [finding for finding in found.appeared if finding.code == "DRAFT_WEIGHTS"]
    assert "midlayer.mlp.up_proj.weight" in dropped.message
    assert found.worsened
    back = fate(after, before, write(norm_before_fc=False), target=asked("A"))
    assert [finding.code for finding in back.vanished] == ["DRAFT_WEIGHTS"]
    assert not back.worsened


def test_what_the_gate_says_of_both_releases_is_not_the_upgrades_doing(write):
    drops = msgspec.structs.replace(KNOWN, ignores=("midlayer.mlp.up_proj.weight",))
    borrows = msgspec.structs.replace(KNOWN, lm_head={"tied": "target", "own": "own", "draft_vocab_null": "target"})
    before, after = release("1", {"A": ONE_MORE}, drops), release("2", {"A": ONE_MORE}, drops)
    assert fate(before, after, write(), target=asked("A")).appeared == ()
    noted = release("2", {"A": ONE_MORE}, borrows)
    facts = write(draft_vocab_size=None)
    assert fate(release("1", {"A": ONE_MORE}), noted, facts, target=asked("A")).appeared == ()


def test_a_new_warning_is_told_and_is_no_reason_to_stop(write):
    biased = release("2", {"A": ONE_MORE}, msgspec.structs.replace(KNOWN, bias="yes"))
    found = fate(release("1", {"A": ONE_MORE}), biased, write(), target=asked("A"))
    assert [(finding.code, finding.severity) for finding in found.appeared] == [("FC_BIAS", "warn")]
    assert not found.worsened


def test_a_state_that_is_no_residual_stream_is_nothing_to_keep(write):
    foreign = msgspec.structs.replace(ONE_MORE, capture=CaptureRule(state="a part of it"))
    (move,) = fate(release("1", {"A": foreign}), release("2", {"A": ONE_MORE}), write(), target=asked("A")).moves
    assert move.moves
    assert move.keep is None


def test_a_config_alone_will_do(write):
    found = fate(release("1", {"A": ONE_MORE}), release("2", {"A": AS_IS}), write(tensors=False), target=asked("A"))
    assert found.moved
    assert found.appeared == ()


def test_a_class_that_goes_is_told(write):
    found = fate(release("1", {"A": ONE_MORE}), release("2", {"A": ONE_MORE}, None), write(), target=asked("A"))
    assert found.class_before == KNOWN
    assert found.class_after is None


def test_a_drafter_without_captured_layers_has_none_to_move(write):
    facts = msgspec.structs.replace(write(ids=None), method="EAGLE")
    found = fate(release("1", {"A": ONE_MORE}), release("2", {"A": AS_IS}), facts, target=asked("A"))
    assert (found.method, found.moves, found.moved) == ("", (), False)


def test_the_target_is_the_callers_then_the_manifests_then_the_configs(write):
    facts = write(speculators_config={"verifier": {"architectures": ["FromConfig"]}}, num_target_layers=80)
    manifest = Manifest(
        schema="drafters.manifest.v1",
        target=TargetRecord(architecture="FromManifest", layers=70),
        layout=LayoutRecord(boundaries=(3, 31, 59)),
    )
    called = target_of(facts, manifest, Target("Asked", 61, origin="--architecture"))
    assert (called.architecture, called.layers, called.origin) == ("Asked", 61, "--architecture")
    recorded = target_of(facts, manifest, Target())
    assert (recorded.architecture, recorded.layers) == ("FromManifest", 70)
    stated = target_of(facts, None, Target())
    assert (stated.architecture, stated.layers, stated.origin) == ("FromConfig", 80, "the drafter's config.json")


def test_a_manifest_says_which_of_the_two_is_right(write):
    manifest = Manifest(schema="drafters.manifest.v1", layout=LayoutRecord(boundaries=(2, 30, 58)))
    before, after = release("1", {"A": ONE_MORE}), release("2", {"A": AS_IS})
    found = fate(before, after, write(), target=asked("A"), manifest=manifest)
    assert found.moves[0].trained == (False, True)
    assert found.trained == "boundaries 2, 30, 58 (outputs of layers 1, 29, 57)"


def test_the_upgrade_of_the_incident(write):
    before, after = (load_profile("sglang", version) for version in ("0.5.12.post1", "0.5.23"))
    found = fate(before, after, write(), target=asked(KIMI))
    (move,) = found.moves
    assert (move.before.boundaries, move.after.boundaries) == ("3, 31, 59", "2, 30, 58")
    assert move.keep.ids == (3, 31, 59)
    assert "models/deepseek_v2.py" in move.after.source()
    everywhere = fate(before, after, write(), target=asked("", None))
    (family,) = [move for move in everywhere.moves if KIMI in move.architectures]
    assert "DeepseekV3ForCausalLM" in family.architectures
    assert "Qwen3ForCausalLM" not in {name for move in everywhere.moves for name in move.architectures}
