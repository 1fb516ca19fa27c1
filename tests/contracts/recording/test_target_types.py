"""The target's model types are recorded: some readings of a drafter, and of its ids, depend on them."""

from __future__ import annotations

import msgspec

from drafter_contracts.launch.target_facts import target_of_record
from drafter_contracts.recording.build import record
from drafter_contracts.recording.statement import Statement

NAMED = Statement(name="d", version="1.0", boundaries=(3, 15, 28), option="--boundaries 3,15,28")


def test_both_types_are_recorded_and_known_again(drafters, fitting_target, listed):
    facts = drafters["eagle3"]
    plain = fitting_target(facts)
    for types in (("kimi_k25", "kimi_k2"), ("llama", "llama")):
        target = msgspec.structs.replace(plain, model_type=types[0], text_model_type=types[1])
        recorded = record(facts, NAMED, target, listed).manifest.target
        assert (recorded.model_type, recorded.text_model_type) == (types[0], "" if types[0] == types[1] else types[1])
        believed = target_of_record(recorded)
        assert (believed.model_type, believed.text_model_type) == types
