"""Evidence by values in a recording: it settles a layout, confirms it, or contradicts it; what it must be about."""

from __future__ import annotations

import msgspec
import pytest
from recorded_facts import named, pointers

from drafter_contracts.evidence.documents import (
    EVALUATION,
    IDENTIFICATION,
    Evaluation,
    Identification,
    LayoutScore,
    ReferenceRecord,
    SampleRecord,
    StateMatch,
    weights_digest,
)
from drafter_contracts.evidence.given import Given
from drafter_contracts.manifest import canonical, decode
from drafter_contracts.recording.audit import contradictions
from drafter_contracts.recording.build import record
from drafter_contracts.recording.kept_values import values_contradictions

replace = msgspec.structs.replace

H, N = 64, 31
TRUE = (3, 15, 28)
SAMPLE = SampleRecord(
    name="s.ckpt", sha256="1" * 64, format="specforge eagle3", tokens=600, compared=512, dtype="bfloat16"
)
REFERENCE = ReferenceRecord(
    kind="target", model="Target", sha256="2" * 64, layers=N, hidden_size=H, vocab_size=1000, dtype="bfloat16"
)


def match(number, boundary, **more):
    told = {"found": "identified", "error": 2e-4, "tolerance": 1e-2, "next_boundary": boundary - 1, "next_error": 0.31}
    return StateMatch(number=number, boundary=boundary, **{**told, **more})


def identification(boundaries=TRUE, *, reference=REFERENCE, verdict="identified", matches=None, **more):
    matches = tuple(match(i, b) for i, b in enumerate(boundaries)) if matches is None else tuple(matches)
    return Identification(
        schema=IDENTIFICATION,
        tool="drafters/1",
        created="2026-01-01T00:00:00+00:00",
        samples=(SAMPLE,),
        reference=reference,
        states=matches,
        verdict=verdict,
        boundaries=tuple(one.boundary for one in matches) if verdict == "identified" else (),
        **more,
    )


def given(document, name="identify.json"):
    return Given(document, name, "d" * 64)


def score(name, boundaries, length, states=()):
    steps = (min(length - 1, 0.95), max(length - 1.95, 0.3))
    return LayoutScore(name=name, boundaries=boundaries, states=states, steps=steps, length=length)


def behind(scores):
    """Scores that say of themselves how far they are behind the first."""
    return tuple(replace(one, behind=one.length - scores[0].length) for one in scores)


def evaluation(files, *, verdict="stated", scores=None, reference=REFERENCE, weights=None):
    return Evaluation(
        schema=EVALUATION,
        tool="drafters/1",
        created="2026-01-01T00:00:00+00:00",
        drafter="head",
        weights_sha256=weights or weights_digest({file.path: file.sha256 for file in files}),
        method="EAGLE3",
        samples=(SAMPLE,),
        reference=reference,
        rows=400,
        scores=behind(scores or (score("stated", TRUE, 2.05), score("tap 0 one lower", (2, 15, 28), 1.81))),
        verdict=verdict,
        reason="because",
    )


@pytest.fixture
def open_facts(reading, shapes):
    """The small EAGLE-3 drafter, whose config names no layers."""
    config, tensors = shapes["eagle3"]
    return reading({key: value for key, value in config.items() if key != "eagle_config"}, tensors)


@pytest.fixture
def recorded(fitting_target, listed):
    """`recorded(facts, *documents, **statement)`."""

    def run(facts, *documents, **more):
        evidence = tuple(one if isinstance(one, Given) else given(one) for one in documents)
        return record(facts, named(evidence=evidence, **more), fitting_target(facts), listed)

    return run


def only(found):
    (claim,) = found.obstacles
    return claim


def is_open(claim):
    return claim.expected.startswith("--")


def test_the_numbers_settle_what_nothing_else_states(open_facts, recorded):
    assert recorded(open_facts).manifest is None
    layout = recorded(open_facts, identification()).manifest.layout
    assert (layout.boundaries, layout.states, layout.known_by) == (TRUE, (), "identified by values")
    kept = layout.identified
    assert [(tap.boundary, tap.error, tap.next_boundary, tap.next_error) for tap in kept.taps] == [
        (b, 2e-4, b - 1, 0.31) for b in TRUE
    ]
    assert (kept.tokens, kept.dtype, kept.sample_sha256) == (512, "bfloat16", "1" * 64)
    assert (kept.document_sha256, kept.reference_sha256, kept.tool) == ("d" * 64, "2" * 64, "drafters/1")
    line = next(line for line in layout.evidence if line.startswith("identified by values"))
    for text in (
        "boundaries 3, 15, 28 (outputs of layers 2, 14, 27)",
        "2.0e-04",
        "0.31",
        "512 tokens",
        "document sha256:dddddddddddd",
    ):
        assert text in line
    assert "identify.json" not in line, "where it lies is nobody else's business"
    assert (layout.fc_input_width, layout.widths) == (3 * H, (H,) * 3)


def test_what_values_tell_is_neither_read_nor_taken_on_word(open_facts, recorded):
    found = recorded(open_facts, identification())
    told = {line.fact: line.source for line in found.told_by_values}
    assert told == {"layout.boundaries": "identify.json", "layout.identified": "identify.json"}
    assert not told.keys() & {line.fact for line in (*found.read, *found.taken_on_word)}


@pytest.mark.parametrize("stated", [{}, {"boundaries": TRUE, "option": "--boundaries 3,15,28"}])
def test_a_stated_layout_is_confirmed(incident, recorded, stated):
    layout = recorded(incident, identification(), **stated).manifest.layout
    assert layout.known_by == "identified by values"
    assert layout.stated.values == (2, 14, 27)
    assert recorded(incident, **stated).manifest.layout.known_by in ("producer rule", "declared")


def test_a_stated_layout_that_the_numbers_contradict_is_refused(incident, recorded):
    found = recorded(incident, identification((2, 14, 27)), boundaries=TRUE, option="--output-ids 2,14,27")
    claim = only(found)
    assert (found.manifest, claim.pointer, is_open(claim)) == (None, "/layout/boundaries", False)
    for text in (
        "--output-ids 2,14,27 states boundaries 3, 15, 28 (outputs of layers 2, 14, 27)",
        "identify.json identified boundaries 2, 14, 27 (outputs of layers 1, 13, 26)",
        "every state was recorded one layer early",
    ):
        assert text in claim.message
    assert (claim.actual[:20], claim.expected[:20]) == ("boundaries 3, 15, 28", "boundaries 2, 14, 27")


def test_a_producers_rule_that_the_numbers_contradict_is_refused_until_the_numbers_are_stated(incident, recorded):
    document = identification((2, 14, 27))
    claim = only(recorded(incident, document))
    assert not is_open(claim)
    assert "eagle_config.eagle_aux_hidden_state_layer_ids = [2, 14, 27]" in claim.message
    layout = recorded(incident, document, boundaries=(2, 14, 27), option="--boundaries 2,14,27").manifest.layout
    assert (layout.boundaries, layout.known_by) == ((2, 14, 27), "identified by values")


def test_a_declared_layout_that_the_numbers_contradict_is_refused(reading, shapes, recorded):
    facts = reading(*shapes["dflash declared"])
    true = facts.layout.layout.boundaries
    assert recorded(facts, identification(true)).manifest.layout.known_by == "identified by values"
    wrong = tuple(b - 1 for b in true)
    found = recorded(facts, identification(wrong))
    assert found.manifest is None
    stated = recorded(facts, identification(wrong), boundaries=wrong, option="--boundaries")
    assert stated.manifest is None, "config.json declares another one"


UNSETTLED = {
    "unknown": (
        {"found": "unknown", "reason": "nothing comes near", "settle": "the right target"},
        "nothing comes near",
    ),
    "shifted": ({"shift": 1}, "shifted"),
    "transformed": ({"found": "transformed", "map": "rotated", "scale": 1.0}, "another basis"),
}


@pytest.mark.parametrize(("more", "text"), UNSETTLED.values(), ids=UNSETTLED)
def test_what_is_not_identified_settles_nothing_and_confirms_nothing(open_facts, incident, recorded, more, text):
    matches = [match(0, 3), match(1, 15, **more), match(2, 28)]
    document = identification(matches=matches, verdict="unknown")
    for facts in (open_facts, incident):
        found = recorded(facts, document)
        assert found.manifest is None
        assert all(map(is_open, found.obstacles)), found.obstacles
        told = next(claim for claim in found.obstacles if claim.pointer == "/layout/identified")
        assert text in told.message
        assert "identify.json" in told.message
    if "settle" in more:
        assert more["settle"] in told.expected


def test_known_states_contradict_a_layout_although_others_are_unknown(incident, recorded):
    matches = [match(0, 2), match(1, 15, found="unknown"), match(2, 28)]
    found = recorded(incident, identification(matches=matches, verdict="unknown"))
    wrong = [claim for claim in found.obstacles if not is_open(claim)]
    assert [claim.pointer for claim in wrong] == ["/layout/boundaries"]
    assert "boundary 3 (output of layer 2) for tap 0" in wrong[0].message
    assert "boundary 2 (output of layer 1) there" in wrong[0].message


def test_two_documents_agree_or_nothing_is_published(open_facts, recorded):
    assert recorded(open_facts, identification(), identification()).manifest is not None
    claim = only(recorded(open_facts, given(identification(), "a.json"), given(identification((3, 15, 27)), "b.json")))
    assert "a.json identified boundaries 3, 15, 28" in claim.message
    assert "b.json identified boundaries 3, 15, 27" in claim.message
    assert not is_open(claim)


@pytest.mark.parametrize(
    ("field", "value"),
    [("layers", 32), ("hidden_size", 128), ("vocab_size", 999), ("model", "other/Target"), ("revision", "b" * 40)],
)
@pytest.mark.parametrize("kind", ["identification", "evaluation"])
def test_evidence_is_about_the_target_of_the_manifest(incident, recorded, listed, kind, field, value):
    same = replace(REFERENCE, model="Org/target", revision="a" * 40)
    make = identification if kind == "identification" else lambda **more: evaluation(listed, **more)
    told = {"target_model": "org/Target", "target_revision": "a" * 40}
    assert recorded(incident, make(reference=same), **told).manifest is not None
    claim = only(recorded(incident, make(reference=replace(same, **{field: value})), **told))
    assert "another target" in claim.message
    assert str(value) in claim.message
    assert not is_open(claim)


def test_what_one_side_does_not_know_of_the_target_is_no_difference(incident, recorded):
    reference = replace(REFERENCE, model="kimi-copy", revision="", vocab_size=0)
    assert recorded(incident, identification(reference=reference), target_revision="a" * 40).manifest is not None


FLAWS = {
    "unknown state": {"matches": [match(0, 3), match(1, 15, found="unknown"), match(2, 28)]},
    "shift": {"matches": [match(0, 3), match(1, 15, shift=1), match(2, 28)]},
    "error": {"matches": [match(0, 3), match(1, 15, error=0.2), match(2, 28)]},
    "negative error": {"matches": [match(0, 3), match(1, 15, error=-1.0), match(2, 28)]},
    "another order": {"matches": [match(2, 28), match(1, 15), match(0, 3)]},
    "no error": {"matches": [match(0, 3), match(1, 15, error=None), match(2, 28)]},
    "margin": {"matches": [match(0, 3), match(1, 15, next_error=1e-5), match(2, 28)]},
    "beyond the target": {"matches": [match(0, 3), match(1, 15), match(2, 32)]},
    "a norm inside": {"matches": [match(0, 3), match(1, 15, state="final_norm"), match(2, 28)]},
    "nothing": {"matches": []},
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_document_that_contradicts_itself_is_no_evidence(open_facts, recorded, flaw):
    found = recorded(open_facts, identification(**FLAWS[flaw]))
    assert found.manifest is None
    assert "/layout/identified" in pointers(found)


def test_a_document_whose_boundaries_are_not_its_states_is_no_evidence(open_facts, recorded):
    changed = replace(identification(), boundaries=(2, 14, 27))
    assert "the states are of others" in " ".join(claim.message for claim in recorded(open_facts, changed).obstacles)


LAST = [match(0, 3), match(1, 15), match(2, N, state="final_norm")]


def test_states_come_with_the_numbers(open_facts, recorded):
    document = identification(matches=LAST)
    for more in ({}, {"boundaries": (3, 15, N), "option": "--boundaries 3,15,31"}):
        layout = recorded(open_facts, document, **more).manifest.layout
        assert (layout.boundaries, layout.states) == ((3, 15, N), ("residual", "residual", "final_norm"))
        assert layout.identified.taps[2].state == "final_norm"


def test_a_stated_state_is_contradicted_too(open_facts, recorded):
    stated = {"boundaries": (3, 15, N), "option": "--boundaries 3,15,31"}
    claim = only(recorded(open_facts, identification(matches=LAST), states=("residual",) * 3, **stated))
    assert "final norm" in claim.message
    ours = ("residual", "residual", "final_norm")
    assert only(recorded(open_facts, identification((3, 15, N)), states=ours, **stated)).pointer == "/layout/boundaries"


def test_taps_that_do_not_fill_fc_are_refused(open_facts, recorded):
    claim = only(recorded(open_facts, identification((3, 15))))
    assert "identify.json names 2 taps of 64, 128 columns, and the drafter's fusion layer takes 192" in claim.message


def test_a_drafter_that_reads_no_states_has_no_such_evidence(reading, shapes, recorded):
    found = recorded(reading(*shapes["nextn"]), identification())
    assert "reads no aux hidden states" in only(found).message


# Evaluations


def test_an_evaluation_of_the_layout_is_kept(incident, recorded, listed):
    found = recorded(incident, evaluation(listed))
    kept = found.manifest.layout.evaluated
    assert (kept.stated.boundaries, kept.stated.length, kept.stated.steps) == (TRUE, 2.05, (0.95, 0.3))
    assert (kept.next_best.boundaries, kept.next_best.length, kept.tried, kept.rows) == ((2, 15, 28), 1.81, 2, 400)
    assert found.manifest.layout.known_by != "identified by values", "it says what fits, not what was recorded"
    assert "2.05" in {line.fact: line.value for line in found.told_by_values}["layout.evaluated"]


def test_an_evaluation_of_other_weights_is_refused(incident, recorded, listed):
    claim = only(recorded(incident, evaluation(listed, weights="9" * 64)))
    assert (claim.pointer, claim.actual) == ("/layout/evaluated/weights_sha256", "9" * 64)
    assert "identify.json evaluated other weights" in claim.message


def test_an_evaluation_of_another_config_is_refused(incident, recorded, listed):
    """What it computes follows from the config too: norms and switches, not only the weights."""
    ours = {file.path: file.sha256 for file in listed}["config.json"]
    found = recorded(incident, replace(evaluation(listed), config_sha256=ours))
    assert found.manifest.layout.evaluated.config_sha256 == ours
    claim = only(recorded(incident, replace(evaluation(listed), config_sha256="9" * 64)))
    assert (claim.pointer, claim.expected) == ("/layout/evaluated/config_sha256", ours)
    assert "another config.json" in claim.message


def test_nothing_is_said_of_weights_that_are_not_hashed_yet(incident, fitting_target, listed):
    statement = named(evidence=(given(evaluation(listed)),))
    assert record(incident, statement, fitting_target(incident), ()).obstacles == ()


def test_an_evaluation_of_another_layout_is_refused(incident, recorded, listed):
    scores = (score("stated", (2, 14, 27), 2.0), score("other", TRUE, 1.5))
    claim = only(recorded(incident, evaluation(listed, scores=scores)))
    assert "evaluated boundaries 2, 14, 27" in claim.message
    assert "evaluate again" in claim.message
    scores = (score("stated", TRUE, 2.0, ("residual", "residual", "stream_mean")),)
    assert only(recorded(incident, evaluation(listed, scores=scores))).pointer == "/layout/evaluated"


def test_a_better_layout_refuses_with_both_figures(incident, recorded, listed):
    scores = (score("stated", TRUE, 1.2), score("tap 0 one lower", (2, 15, 28), 2.6))
    claim = only(recorded(incident, evaluation(listed, verdict="other", scores=scores)))
    for text in ("boundaries 2, 15, 28 (outputs of layers 1, 14, 27)", "2.60", "boundaries 3, 15, 28", "1.20"):
        assert text in claim.message
    assert not is_open(claim)


def test_an_evaluation_that_decides_nothing_is_noted_and_not_kept(incident, recorded, listed):
    found = recorded(incident, evaluation(listed, verdict="unknown"))
    assert found.manifest.layout.evaluated is None
    assert any("evaluation" in note or "because" in note for note in found.notes)


def test_an_evaluation_whose_verdict_its_figures_deny_is_refused(incident, recorded, listed):
    scores = (score("stated", TRUE, 1.2), score("other", (2, 15, 28), 2.6))
    assert "is better" in only(recorded(incident, evaluation(listed, scores=scores))).message
    by_chance = (scores[0], replace(score("other", (2, 15, 28), 1.25), behind_deviation=0.02))
    assert recorded(incident, evaluation(listed, scores=by_chance)).manifest is not None
    for none in (scores[:1], (scores[1], score("other", (2, 15, 28), 1.2))):
        claim = only(recorded(incident, evaluation(listed, verdict="other", scores=none)))
        assert "there is none" in claim.message


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"length": 1.6}, "no possible acceptance"),
        ({"length": 2.3}, "no possible acceptance"),
        ({"steps": (0.95, 1.2)}, "no possible acceptance"),
        ({"steps": ()}, "no possible acceptance"),
        ({"behind": -0.1}, "its length says otherwise"),
        ({"boundaries": (2, 15)}, "has 2 taps"),
        ({"boundaries": (2, 15, 32)}, "boundary out of range"),
    ],
)
def test_an_evaluation_whose_figures_do_not_go_together_is_refused(incident, recorded, listed, change, text):
    made = evaluation(listed)
    changed = replace(made, scores=(made.scores[0], replace(made.scores[1], **change)))
    claims = recorded(incident, changed).obstacles
    assert any(text in claim.message for claim in claims), claims
    assert "nothing was drafted" in only(recorded(incident, replace(made, rows=0))).message


# What lies beside the weights, and what a registry is offered


@pytest.fixture
def kept(incident, recorded, listed):
    """A manifest with both kinds of evidence."""
    return recorded(incident, identification(), evaluation(listed)).manifest


def test_what_was_pulled_is_published_with_its_evidence(incident, recorded, kept):
    again = recorded(incident, manifest=decode(canonical(kept)))
    assert canonical(again.manifest) == canonical(kept)
    stated = recorded(incident, manifest=kept, boundaries=TRUE, option="--boundaries 3,15,28").manifest.layout
    assert (stated.identified, stated.evaluated) == (kept.layout.identified, kept.layout.evaluated)
    assert stated.known_by == "identified by values"


def test_an_option_does_not_talk_the_evidence_of_a_manifest_away(incident, recorded, kept):
    found = recorded(incident, manifest=kept, boundaries=(2, 14, 27), option="--boundaries 2,14,27")
    assert found.manifest is None
    told = " ".join(claim.message for claim in found.obstacles)
    assert "drafters-manifest.json says that there were identified boundaries 3, 15, 28" in told
    bare = replace(kept, layout=replace(kept.layout, identified=None, known_by="declared"))
    found = recorded(incident, manifest=bare, boundaries=(2, 14, 27), option="--boundaries 2,14,27")
    assert "evaluated boundaries 3, 15, 28" in only(found).message


def test_new_evidence_replaces_that_of_the_manifest_beside(incident, recorded, kept):
    fresh = identification(matches=[match(i, b, error=5e-4) for i, b in enumerate(TRUE)])
    layout = recorded(incident, given(fresh, "new.json"), manifest=kept).manifest.layout
    assert layout.identified.taps[0].error == 5e-4
    claim = only(
        recorded(
            incident,
            given(identification((2, 14, 27)), "new.json"),
            manifest=replace(kept, layout=replace(kept.layout, evaluated=None)),
        )
    )
    assert "drafters-manifest.json states boundaries 3, 15, 28" in claim.message
    assert "new.json identified boundaries 2, 14, 27" in claim.message


def test_other_weights_do_not_keep_an_evaluation(incident, recorded, kept, listed, fitting_target):
    files = tuple(replace(file, sha256="e" * 64) for file in listed)
    found = record(incident, named(manifest=kept), fitting_target(incident), files)
    assert pointers(found) == ["/layout/evaluated/weights_sha256"]


def changed(manifest, **more):
    return replace(manifest, layout=replace(manifest.layout, **more))


def test_a_registry_is_offered_no_evidence_that_contradicts_the_manifest(incident, kept):
    assert contradictions(kept, incident) == ()
    identified, evaluated = kept.layout.identified, kept.layout.evaluated
    worse = replace(identified.taps[1], error=0.4)
    wrong = {
        "/layout/known_by": [changed(kept, identified=None), changed(kept, known_by="declared")],
        "/layout/identified/taps/1/error": [
            changed(kept, identified=replace(identified, taps=(identified.taps[0], worse, identified.taps[2])))
        ],
        "/layout/identified/tokens": [changed(kept, identified=replace(identified, tokens=0))],
        "/layout/identified/taps/0/next_boundary": [
            changed(
                kept, identified=replace(identified, taps=(replace(identified.taps[0], **other), *identified.taps[1:]))
            )
            for other in ({"next_boundary": 3}, {"next_boundary": 32})
        ],
        "/layout/evaluated/weights_sha256": [changed(kept, evaluated=replace(evaluated, weights_sha256="0" * 64))],
        "/layout/evaluated/config_sha256": [changed(kept, evaluated=replace(evaluated, config_sha256="0" * 64))],
        "/layout/evaluated/rows": [changed(kept, evaluated=replace(evaluated, rows=0))],
        "/layout/evaluated/tried": [
            changed(kept, evaluated=replace(evaluated, tried=1)),
            changed(kept, evaluated=replace(evaluated, tried=0, next_best=None)),
        ],
        "/layout/evaluated/stated": [
            changed(kept, evaluated=replace(evaluated, stated=replace(evaluated.stated, length=3)))
        ],
        "/layout/evaluated/next_best": [
            changed(kept, evaluated=replace(evaluated, next_best=replace(evaluated.next_best, length=1.0)))
        ],
        "/layout/evaluated/next_best/length": [
            changed(
                kept,
                evaluated=replace(evaluated, next_best=replace(evaluated.next_best, length=2.09, steps=(0.9, 0.3))),
            )
        ],
        "/layout/evaluated/next_best/boundaries": [
            changed(kept, evaluated=replace(evaluated, next_best=replace(evaluated.next_best, boundaries=taps)))
            for taps in (TRUE, (2, 15), (2, 15, 32))
        ],
    }
    for where, manifests in wrong.items():
        for manifest in manifests:
            assert [claim.pointer for claim in values_contradictions(manifest)] == [where]
            assert where in [claim.pointer for claim in contradictions(manifest, incident)]


def test_another_layout_may_be_ahead_by_chance(incident, recorded, listed):
    near = replace(score("tap 0 one lower", (2, 15, 28), 2.09), behind_deviation=0.01)
    kept = recorded(incident, evaluation(listed, scores=(score("stated", TRUE, 2.05), near))).manifest
    assert kept.layout.evaluated.next_best.behind_deviation == 0.01
    assert contradictions(kept, incident) == ()


def test_an_older_manifest_that_only_claims_it_can_still_be_read(kept):
    old = changed(kept, identified=None, evaluated=None)
    assert decode(canonical(old)).layout.known_by == "identified by values"
