"""What SGLang says of itself: a real engine's answer, the shapes of releases before, and answers that cannot be."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.acceptance.server_info import read_state
from drafter_contracts.acceptance.simulation import simulated_in
from drafter_contracts.errors import EngineReportError

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "acceptance")
with open(os.path.join(DATA, "sglang-0.5.23.json"), encoding="utf-8") as _file:
    REAL = json.load(_file)
ARGUMENTS = {
    "model_path": "meta-llama/Llama-3.1-8B-Instruct",
    "revision": None,
    "dtype": "auto",
    "quantization": None,
    "speculative_algorithm": "EAGLE3",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}
#: Scheduler and server merged (0.4.5: http_server.py:208, tokenizer_manager.py:796); states per rank (0.4.10 on).
MERGED = {**ARGUMENTS, "last_gen_throughput": 30.5, "avg_spec_accept_length": 2.75, "version": "0.4.5"}
PER_RANK = {
    **ARGUMENTS,
    "internal_states": [{"last_gen_throughput": 30.5, "avg_spec_accept_length": 2.75}, {"last_gen_throughput": 0.0}],
    "version": "0.4.10.post2",
}


def read(document):
    return read_state(document, where="http://engine/server_info")


def test_a_real_engine_before_and_after_its_first_requests():
    before, after = (read(REAL["right"][when]) for when in ("before", "after"))
    assert before.lengths == (None,)
    assert after.lengths == (pytest.approx(2.7682119205298013),)
    for state in (before, after):
        told = state.conditions
        assert (state.engine, state.release, state.speculating, state.simulated) == ("sglang", "0.5.23", True, "")
        assert (told.engine, told.release, told.method) == ("sglang", "0.5.23", "EAGLE3")
        assert (told.steps, told.topk, told.draft_tokens) == (3, 1, 4)
        assert (told.target_model, told.target_dtype, told.target_quantization) == ("/models/target", "float32", "")
        assert state.arguments["speculative_draft_model_path"] == "/models/drafter"
        assert state.arguments["launch_command"].startswith("--model-path /models/target ")
        assert not {"internal_states", "memory_usage", "version", "kv_events", "world_size"} & set(state.arguments)


def test_the_log_of_the_same_engine_gives_the_same_mean():
    from drafter_contracts.acceptance.sglang_log import read_line

    lengths = [read_line(line).length for line in REAL["right"]["log"]]
    assert sum(lengths) / len(lengths) == pytest.approx(read(REAL["right"]["after"]).lengths[0], abs=0.005)


def test_a_real_engine_that_makes_its_figures_up():
    state = read(REAL["simulated"]["after"])
    assert state.simulated == "SGLANG_SIMULATE_ACC_LEN=2.5 in the engine's environment: acceptance is simulated"
    assert state.lengths[0] == pytest.approx(2.5, abs=0.2)


def test_answers_of_older_releases():
    assert read(MERGED).lengths == (2.75,)
    assert read(PER_RANK).lengths == (2.75, None)
    for state in (read(MERGED), read(PER_RANK)):
        assert state.conditions.method == "EAGLE3"
        assert state.conditions.target_model == "meta-llama/Llama-3.1-8B-Instruct"
        assert (state.conditions.target_revision, state.conditions.target_dtype) == ("", "")
        assert "last_gen_throughput" not in state.arguments


@pytest.mark.parametrize("nothing", [None, 0, 0.0])
def test_a_rank_that_has_verified_nothing_tells_no_length(nothing):
    assert read({**MERGED, "avg_spec_accept_length": nothing}).lengths == (None,)


def test_speculation_that_is_off_is_told_from_one_that_is_not_known():
    off = read({**PER_RANK, "speculative_algorithm": None})
    assert (off.speculating, off.lengths, off.conditions.method) == (False, (), "")
    assert (off.conditions.steps, off.conditions.topk, off.conditions.draft_tokens) == (None, None, None)
    assert read({**PER_RANK, "speculative_algorithm": "NONE"}).speculating is False
    unknown = {key: value for key, value in PER_RANK.items() if key != "speculative_algorithm"}
    assert (read(unknown).speculating, read(unknown).lengths) == (None, ())
    assert read(PER_RANK).speculating is True


def test_the_scheduler_s_own_numbers_of_speculation_are_in_force():
    state = read({**PER_RANK, "internal_states": [{"speculative_num_steps": 5, "dtype": "half", "x": 1}]})
    assert state.conditions.steps == 5
    assert state.arguments["speculative_num_steps"] == 5
    assert (state.arguments["dtype"], "x" in state.arguments) == ("auto", False)
    adaptive = read({**PER_RANK, "internal_states": [{"speculative_num_steps": 0}]})
    assert adaptive.conditions.steps is None


@pytest.mark.parametrize(
    ("written", "method"), [("NEXTN", "NEXTN"), ("eagle", "EAGLE"), ("LOOKAHEAD", "NGRAM"), ("DSPARK", "DSPARK")]
)
def test_names_of_methods(written, method):
    assert read({**MERGED, "speculative_algorithm": written}).conditions.method == method


def test_target_revision_dtype_and_quantisation():
    commit = "0e9e39f249a16976918f6564b8830bc894c89659"
    path = f"/hub/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/{commit}"
    told = read({**MERGED, "model_path": path, "dtype": "half", "quantization": "fp8"}).conditions
    assert (told.target_model, told.target_revision) == ("meta-llama/Llama-3.1-8B-Instruct", commit)
    assert (told.target_dtype, told.target_quantization) == ("float16", "fp8")
    assert read({**MERGED, "revision": commit}).conditions.target_revision == commit


def test_secrets_do_not_leave():
    command = "--model-path m --api-key SECRET1 --admin-api-key='SECRET2' --ssl-keyfile-password SECRET3 --port 1"
    state = read(
        {
            **MERGED,
            "api_key": "SECRET4",
            "admin_api_key": "SECRET5",
            "ssl_keyfile_password": "SECRET6",
            "watermark_key_b": "SECRET7",
            "launch_command": command,
            "tokenizer_path": "kept",
        }
    )
    assert "SECRET" not in repr(state)
    assert state.arguments["launch_command"].endswith("--port 1")
    assert state.arguments["tokenizer_path"] == "kept"
    nested = {"loader": {"AWS_SECRET_ACCESS_KEY": "SECRET", "bucket": "b"}, "hf_token": "SECRET", "API_KEY": "SECRET"}
    state = read({**MERGED, **nested, "launch_command": ["python", "-m", "sglang", "--api_key", "SECRET", "--tp", "8"]})
    assert "SECRET" not in repr(state)
    assert state.arguments["loader"] == {"bucket": "b"}
    assert state.arguments["launch_command"] == "python -m sglang --api_key *** --tp 8"
    for told in (
        "env HF_TOKEN=SECRET python -m sglang.launch_server --api-k\tSECRET --port 1",
        """python -m sglang.launch_server --trust --extra '{"api_key": "SECRET", "n": 1}' --api-key 'SECRET'""",
        "python -m sglang.launch_server --skip-server-warmup --admin-api-key SECRET",
    ):
        assert "SECRET" not in repr(read({**MERGED, "launch_command": told})), told
    called = read({**MERGED, "launch_command": "Engine(model_path='m', api_key='SECRET', port=1)"})
    assert called.arguments["launch_command"] == "Engine(model_path='m', api_key=***, port=1)"


WRONG = {
    "too short": (0.5, "0.5 is not from 1 to 5"),
    "more than is drafted": (5.5, "5.5 is not from 1 to 5"),
    "negative": (-2.0, "-2.0 is not from 1 to 5"),
    "infinite": (float("inf"), "inf is no length"),
    "no number": (float("nan"), "nan is no length"),
    "a text": ("2.5", "'2.5' is no length"),
    "a truth": (True, "True is no length"),
    "a list": ([2.5], "list is no length"),
}


@pytest.mark.parametrize(("value", "message"), WRONG.values(), ids=WRONG)
def test_lengths_that_cannot_be_are_refused_by_name(value, message):
    with pytest.raises(EngineReportError) as caught:
        read({**PER_RANK, "internal_states": [{"avg_spec_accept_length": 2.0}, {"avg_spec_accept_length": value}]})
    assert message in caught.value.message
    assert "internal_states[1]." in caught.value.message
    assert caught.value.where == "http://engine/server_info"


def test_the_longest_possible_length_is_taken():
    assert read({**MERGED, "avg_spec_accept_length": 5}).lengths == (5.0,)
    none = {key: value for key, value in MERGED.items() if not key.startswith("speculative_num")}
    assert read({**none, "avg_spec_accept_length": 900.0}).lengths == (900.0,)


def test_everything_that_is_wrong_is_named_at_once():
    with pytest.raises(EngineReportError) as caught:
        read({**PER_RANK, "speculative_num_steps": -1, "speculative_eagle_topk": "x", "internal_states": [1, {}]})
    for part in ("speculative_num_steps: -1", "speculative_eagle_topk: 'x'", "internal_states[0]: no object"):
        assert part in caught.value.message


@pytest.mark.parametrize("states", [7, "x", None, [{}] * 5000])
def test_states_that_are_no_list_of_ranks_are_refused(states):
    with pytest.raises(EngineReportError, match="internal_states: no list"):
        read({**PER_RANK, "internal_states": states})


@pytest.mark.parametrize("document", [{}, {"version": "0.5.23"}, {"version": 5, "model_path": "m"}, {"detail": "x"}])
def test_what_is_no_answer_of_sglang_s_is_refused(document):
    with pytest.raises(EngineReportError, match=r"no answer of SGLang's"):
        read(document)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
keys = st.sampled_from([*MERGED, "internal_states", "env_vars", "dspark_info_record", "launch_command", "api_key"])


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(keys, values), st.dictionaries(keys, values))
def test_no_answer_raises_anything_else_and_no_length_is_out_of_bounds(document, state):
    for given_document in (document, {**PER_RANK, **document}, {**PER_RANK, "internal_states": [state, state]}):
        try:
            found = read(given_document)
        except EngineReportError:
            continue
        assert all(length is None or 1 <= length <= 1025 for length in found.lengths)


SIMULATED = [
    ({"SGLANG_SIMULATE_ACC_LEN": "2.5"}, "0.5.23", True),
    ({"SGLANG_SIMULATE_ACC_LEN": "2.5"}, "0.5.3", True),
    ({"SGLANG_SIMULATE_ACC_LEN": "2.5"}, "0.5.2", False),
    ({"SGLANG_SIMULATE_ACC_LEN": "2.5"}, "", True),
    ({"SGL_SIMULATE_ACC_LEN": "1"}, "0.5.9", True),
    ({"SGLANG_SIMULATE_ACC_LEN": "-1"}, "0.5.23", False),
    ({"SGLANG_SIMULATE_ACC_LEN": "0"}, "0.5.23", False),
    ({"SGLANG_SIMULATE_ACC_LEN": "nan"}, "0.5.23", False),
    ({"SGLANG_SIMULATE_ACC_LEN": "two"}, "0.5.23", False),
    ({"SGLANG_SIMULATE_ACC_LEN": ""}, "0.5.23", False),
    ({"SIMULATE_ACC_LEN": "0"}, "0.5.2", True),
    ({"SIMULATE_ACC_LEN": "2"}, "0.4.10.post2", True),
    ({"SIMULATE_ACC_LEN": ""}, "0.5.2", False),
    ({"SIMULATE_ACC_LEN": "2"}, "0.5.3", False),
    ({"SIMULATE_ACC_LEN": "2"}, "0.10.0", False),
    ({"SIMULATE_ACC_LEN": "2"}, "", True),
    ({"PATH": "/bin"}, "0.5.23", False),
]


@pytest.mark.parametrize(("environ", "release", "is_on"), SIMULATED)
def test_the_switch_is_read_as_the_release_reads_it(environ, release, is_on):
    reason = simulated_in(environ, release)
    assert bool(reason) is is_on
    assert not reason or all(name in reason for name in environ)


def test_simulation_of_dspark_is_told_by_its_records():
    states = [{}, {"dspark_info_record": {"simulate_acc_len": 1.0}}]
    assert "simulate_acc_len is 1.0" in read({**PER_RANK, "internal_states": states}).simulated
    states[1]["dspark_info_record"]["simulate_acc_len"] = None
    assert read({**PER_RANK, "internal_states": states}).simulated == ""
