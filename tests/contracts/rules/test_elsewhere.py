"""Remedies that name other releases: all of them, as ranges of those known, each way of serving worked out once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from drafter_contracts.checkpoint.facts import TensorFact
from drafter_contracts.engines.profile import CaptureRule, Drafter, Guard, Shift
from drafter_contracts.rules import remedy

KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"


def releases(scene, *names, **changes):
    """Profiles of these releases as the scene has it, changed."""
    return [replace(scene.profile(name), **changes) for name in names]


@pytest.fixture
def foreign(scene):
    """A launch that no ids can put right on the release at hand, 9.9.3."""
    own = scene.profile
    scene.profile = lambda release="9.9.3": own(release)
    return scene


def test_releases_that_follow_each_other_are_a_range(foreign):
    foreign.others = [
        *releases(foreign, "9.8.9", "9.9.0", "9.9.1"),
        *releases(foreign, "9.9.2", "9.9.10", targets={}),
        *releases(foreign, "9.9.11"),
    ]
    foreign.targets = {"LlamaForCausalLM": {}}
    assert foreign.finding("CAPTURE_NO_HOOK").remedy == "Use a release that has it: sglang 9.8.9 to 9.9.1, 9.9.11."


def test_the_release_at_hand_interrupts_a_range(foreign):
    foreign.others = releases(foreign, "9.9.1", "9.9.2", "9.9.4", "9.9.5")
    foreign.drafters = {"OtherEagle3": Drafter("EAGLE3")}
    assert foreign.finding("DRAFT_CLASS").remedy == "Known to sglang 9.9.1 to 9.9.2, from 9.9.4 on."


def test_an_algorithm_is_looked_for_in_the_other_releases(foreign):
    foreign.others = releases(foreign, "9.9.1", "9.9.2")
    foreign.edit("launch", speculative=replace(foreign.launch.speculative, algorithms=("EAGLE",)))
    foreign.edit("speculation", known=False)
    assert foreign.finding("ALGORITHM_UNKNOWN").remedy == "Known to sglang 9.9.1 to 9.9.2."
    foreign.others = releases(foreign, "9.9.1")
    assert foreign.finding("ALGORITHM_UNKNOWN").remedy == "Use an algorithm of this release."


def test_releases_that_take_more_layers_are_named(foreign):
    foreign.others = releases(foreign, "9.9.1", "9.9.2")
    foreign.edit("draft_class", max_layers=1)
    foreign.others += releases(foreign, "9.9.4")
    foreign.edit("facts", config_layers=2, real_layers=2)
    foreign.config["num_hidden_layers"] = 2
    assert foreign.finding("DRAFT_LAYERS").remedy == "Releases that take more: sglang 9.9.1 to 9.9.2."


def test_each_way_of_serving_has_its_releases_and_is_worked_out_once(foreign, monkeypatch):
    as_it_is = releases(foreign, "9.8.0", "9.8.1", "9.9.0")
    moved = replace(foreign.rule, shifts=(Shift(0),))
    elsewhere = [replace(moved, source=replace(moved.source, line=line)) for line in (7, 8)]
    with_ids = [*releases(foreign, "9.9.1", rules=(elsewhere[0],)), *releases(foreign, "9.9.2", rules=(elsewhere[1],))]
    unknown = releases(foreign, "9.9.4", drafters={"Another": foreign.draft_class})
    foreign.edit("rule", shifts=(Shift(1, "first==1"), Shift(2)), capture=CaptureRule())
    foreign.edit("reading", range_low=2)
    foreign.others = [*as_it_is, *with_ids, *unknown]

    solved = []
    solve = remedy.solve
    monkeypatch.setattr(
        remedy, "solve", lambda rule, *rest, **named: solved.append(rule) or solve(rule, *rest, **named)
    )
    text = foreign.finding("CAPTURE_LAYERS").remedy
    assert text.startswith("No ids work on sglang 9.9.3")
    assert f"sglang 9.9.1 to 9.9.2 with {KEY} = [3, 17, 29]" in text
    assert "sglang 9.8.0 to 9.9.0 with the drafter's config as it is" in text
    assert "9.9.4" not in text, "a release that does not know the drafter"
    assert len([rule for rule in solved if rule.shifts == (Shift(0),)]) == 1, "two releases that differ in lines alone"


def test_nothing_is_claimed_of_other_releases_that_nobody_read(foreign):
    foreign.edit("rule", shifts=(Shift(1, "first==1"), Shift(2)), capture=CaptureRule())
    foreign.edit("reading", range_low=2)
    assert "other" not in foreign.finding("CAPTURE_LAYERS").remedy
    foreign.others = releases(foreign, "9.9.1", targets={})
    assert "No other known release feeds this layout." in foreign.finding("CAPTURE_LAYERS").remedy


PULL = "fc's column blocks permuted by a render: drafters pull REF --for sglang=="


def test_another_order_is_a_render_of_the_release_at_hand(scene):
    scene.boundaries = (17, 3, 29)
    fed = "No ids give sglang 9.9.9 this order, only the ascending order 3, 17, 29."
    assert scene.finding("CAPTURE_ORDER").remedy == f"{fed} It serves the drafter with {PULL}9.9.9."


def test_graphs_that_must_be_off_for_another_order_are_part_of_the_remedy(scene):
    scene.boundaries = (16, 3, 29)
    scene.graphs = replace(scene.graphs, ids="default", disabled_by=("--disable-cuda-graph",))
    scene.config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [15, 2, 28]}
    assert f"{PULL}9.9.9, together with --disable-cuda-graph." in scene.finding("CAPTURE_ORDER").remedy


def test_weights_that_cannot_be_put_in_another_order_are_named_and_nobody_is_told_to_render(foreign):
    foreign.boundaries = (17, 3, 29)
    scale = TensorFact("fc.weight_scale", "F32", (32, 96))
    foreign.facts = replace(foreign.facts, tensors=(*foreign.facts.tensors, scale))
    foreign.others = releases(foreign, "9.9.1", "9.9.2")
    remedy = foreign.finding("CAPTURE_ORDER").remedy
    assert "the drafter's weights cannot be put in it: fc.weight_scale [32, 96] F32: a quantised fc" in remedy
    assert "in the order 3, 17, 29 alone" in remedy
    assert "render" not in remedy
    assert "No other known release feeds this layout." in remedy


def test_a_release_that_serves_only_by_a_render_is_named_so_and_last_and_the_nearest_are_named(foreign):
    """At hand: a release that feeds no such layer at all. Elsewhere: some keep the order, some sort."""
    foreign.boundaries = (17, 1, 29)
    keeps = replace(foreign.rule, capture=CaptureRule(order="given"))
    foreign.others = [
        *releases(foreign, "9.8.0", "9.8.1", rules=(keeps,)),
        *releases(foreign, "9.9.1", "9.9.5", "9.9.6"),
        *releases(foreign, "9.9.7", rules=(replace(keeps, guards=(Guard("unsorted", "ValueError"),)),)),
    ]
    foreign.edit("reading", range_low=1)
    foreign.edit("rule", shifts=(Shift(1),))
    foreign.others = [replace(o, readings={"EAGLE3": replace(foreign.reading, range_low=None)}) for o in foreign.others]
    foreign.config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [16, 3, 28]}
    remedy = foreign.finding("CAPTURE_LAYERS").remedy
    assert remedy.startswith("No ids work on sglang 9.9.3: no ids give these layers")
    assert "in whatever order the column blocks of fc are put" in remedy
    assert remedy.endswith(
        "Other releases that feed this layout: "
        f"sglang 9.8.0 to 9.8.1 with {KEY} = [16, 0, 28]; "
        f"sglang 9.9.1, from 9.9.5 on with {KEY} = [0, 16, 28], {PULL}V. "
        "The nearest of those that ask least: 9.8.1 (older)."
    )


def test_releases_that_need_no_graphs_off_come_before_those_that_do(foreign):
    replays = replace(foreign.graphs, ids="default", disabled_by=("--disable-cuda-graph",))
    foreign.boundaries = (4, 17, 29)
    foreign.config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [3, 16, 28]}
    late, early = releases(foreign, "9.9.8", "9.9.9"), releases(foreign, "9.8.0", "9.9.2", "9.9.4")
    foreign.others = [*(replace(o, graphs={"EAGLE3": replays}) for o in early), *late]
    foreign.graphs = replays
    remedy = foreign.finding("CAPTURE_GRAPHS").remedy
    assert remedy.endswith(
        "Other releases that feed this layout: sglang from 9.9.8 on with the drafter's config as it is; "
        f"sglang 9.8.0 to 9.9.2, 9.9.4 with {KEY} = [3, 16, 28] and CUDA graphs off. "
        "The nearest of those that ask least: 9.9.8 (newer)."
    )


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (("9.8.0", "9.9.1", "9.9.2"), " The nearest: 9.9.2 (older)."),
        (("9.9.4", "9.9.10", "9.10.0"), " The nearest: 9.9.4 (newer)."),
        (("9.9.2.post1", "9.9.2", "9.9.3.post1", "9.10.0"), " The nearest: 9.9.2.post1 (older), 9.9.3.post1 (newer)."),
        (("9.9.2", "9.9.4"), ""),
    ],
)
def test_the_nearest_releases_are_named_where_there_is_a_choice(foreign, others, words):
    foreign.others = releases(foreign, *others)
    foreign.edit("rule", shifts=(Shift(1, "first==1"), Shift(2)), capture=CaptureRule())
    foreign.edit("reading", range_low=2)
    remedy = foreign.finding("CAPTURE_LAYERS").remedy
    assert remedy.endswith(f"with the drafter's config as it is.{words}")


def test_every_key_that_ids_must_be_left_out_of_is_named(scene):
    """The release spreads ids by itself; at neither key can these be written while the other holds what it refuses."""
    keys = ("dspark_target_layer_ids", "target_layer_ids")
    scene.reading = replace(
        scene.reading,
        keys=keys, missing="formula", error="ValueError", range_low=0, range_high="N-1",
        unchecked=keys[:1], checks_all=True,
    )  # fmt: skip
    scene.boundaries = (2, 16, 30)
    scene.config |= {keys[0]: [1, 2, 3], keys[1]: [99], "num_hidden_layers": 3}
    fed = scene.situation()
    assert remedy.layout_remedy(fed) == (
        f"Leave {keys[0]} and {keys[1]} out of the drafter's config.json (the layers that the release spreads over the "
        "target's depth are this layout)."
    )
