"""Lines of a log beside its decode lines: arguments in force, known complaints, and text that only looks like them."""

from __future__ import annotations

import pytest

from drafter_cli.doctor.seen import of_log
from drafter_contracts.acceptance.causes_of_log import arguments_in, cause_in

HEAD = "[2026-11-30 03:00:00 TP0] "
#: As releases until 0.5.19 write them, and as 0.5.20 and later do.
CALL = (
    "server_args=ServerArgs(model_path='Org/target', tokenizer_path='Org/target', revision=None, port=30000, "
    "dtype='auto', quantization='fp8', speculative_algorithm='EAGLE3', speculative_num_steps=5, "
    "speculative_eagle_topk=1, speculative_num_draft_tokens=6, speculative_accept_threshold_single=1.0)"
)
MAPPING = (
    "server_args={'model_path': 'Org/target', 'revision': None, 'dtype': 'auto', 'quantization': 'fp8', "
    "'speculative_algorithm': 'EAGLE3', 'speculative_num_steps': 5, 'speculative_eagle_topk': 1, "
    "'speculative_num_draft_tokens': 6, 'speculative_accept_threshold_single': 1.0}"
)
FOUND = {
    "model_path": "Org/target",
    "revision": None,
    "dtype": "auto",
    "quantization": "fp8",
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 5,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 6,
    "speculative_accept_threshold_single": 1.0,
}


@pytest.mark.parametrize("line", [CALL, MAPPING], ids=["call", "mapping"])
def test_arguments_in_force(line):
    assert arguments_in(HEAD + line) == FOUND
    assert arguments_in(HEAD + "Decode batch, accept len: 2.0") == {}


#: Lines of the releases' own, the code of the cause, and a word of its message.
LINES = [
    (
        "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1",
        "SPECULATION_CHANGED",
        "one more than the steps",
    ),
    (
        "DFLASH only supports speculative_num_steps == 1; overriding speculative_num_steps=3 to 1.",
        "SPECULATION_CHANGED",
        "speculative_num_steps from 3 to 1, as DFLASH needs it",
    ),
    ("RuntimeError: captured 2 of 3 aux hidden states", "CAPTURE_COUNT", "captured 2 of the 3"),
    (
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied [32x128 and 192x64]".replace("[", "(").replace(
            "]", ")"
        ),
        "FC_WIDTH",
        "32x128 and 192x64",
    ),
    (
        "AttributeError: type object has no attribute 'set_eagle3_layers_to_capture'",
        "CAPTURE_NO_HOOK",
        "cannot capture layers for eagle3",
    ),
    (
        "Warning: Target model's context_length (40960) is greater than the derived context_length (2048). This may",
        "CONTEXT",
        "40960 tokens is longer than the 2048 positions",
    ),
    ("Parameter midlayer.extra.weight not found in params_dict", "DRAFT_WEIGHTS", "midlayer.extra.weight"),
    ("UserWarning: SGLANG_SIMULATE_ACC_LEN is set", "ACCEPTANCE_SIMULATED", "SGLANG_SIMULATE_ACC_LEN"),
]


@pytest.mark.parametrize(
    ("line", "code", "word"), LINES, ids=[f"{code}-{number}" for number, (_, code, _) in enumerate(LINES)]
)
def test_known_complaints(line, code, word):
    found = cause_in(HEAD + line)
    assert found.code == code
    assert word in found.message
    assert found.evidence == (f"log: {(HEAD + line)[:200]}",)
    assert found.next
    assert found.catalogue


@pytest.mark.parametrize("line", [line for line, _, _ in LINES] + [CALL, MAPPING])
def test_what_a_user_wrote_is_no_complaint(line):
    logged = f"{HEAD}Receive: obj=GenerateReqInput(text='what means {line}?', sampling_params={{}})"
    assert cause_in(logged) is None
    assert arguments_in(logged) == {}


def test_of_several_starts_the_last_one_counts():
    decode = (
        HEAD.replace(" TP0", "")
        + "Decode batch, #running-req: 1, #token: 9, token usage: 0.1, accept len: {}, accept rate: 0.1, "
    )
    first = [HEAD + CALL, HEAD + LINES[0][0], decode.format("1.00")]
    second = [HEAD + CALL.replace("steps=5", "steps=3"), decode.format("2.50")]
    seen = of_log(tuple(first + second), "engine.log")
    assert [reading.length for reading in seen.readings] == [2.5]
    assert seen.causes == ()
    assert seen.arguments["speculative_num_steps"] == 3
    assert seen.told == "1 decode lines of engine.log"
    once = of_log(tuple(first[:2] + first), "engine.log")
    assert [one.code for one in once.causes] == ["SPECULATION_CHANGED"]


def test_a_log_without_decode_lines_says_so():
    seen = of_log((HEAD + "Load weight begin.",), "engine.log")
    assert (seen.readings, seen.told) == ((), "")
    assert [one.decides for one in seen.open] == [True]
    assert "engine.log holds no decode line" in seen.open[0].why
