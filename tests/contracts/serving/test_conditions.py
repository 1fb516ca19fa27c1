"""Conditions over a launch's options, and value converters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts.errors import ProfileError
from drafter_contracts.serving.conditions import holds
from drafter_contracts.serving.values import convert

VALUES = {
    "tp_size": 8,
    "device": "cuda",
    "disable_cuda_graph": True,
    "path": None,
    "cuda_graph_config": {"decode": {"backend": "disabled"}},
}


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "disable_cuda_graph",
        "tp_size>1",
        "tp_size>=8",
        "tp_size==8",
        "device!=cpu",
        "device in cuda|npu",
        "path==null",
        "missing==null",
        "cuda_graph_config.decode.backend==disabled",
        "tp_size>1 & device==cuda",
    ],
)
def test_holds(condition):
    assert holds(condition, VALUES)


@pytest.mark.parametrize(
    "condition",
    [
        "path",
        "tp_size>8",
        "device>1",
        "device==null",
        "cuda_graph_config.prefill.backend==disabled",
        "tp_size>1 & path",
    ],
)
def test_does_not_hold(condition):
    assert not holds(condition, VALUES)


def test_nonsense_is_an_error():
    with pytest.raises(ProfileError):
        holds("tp_size is large", VALUES)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1k", 1000), ("25.6k", 25600), ("1Ki", 1024), (" 12 ", 12), ("0.001k", 1), ("2M", 2000000), ("-3", -3)],
)
def test_human_integers(text, value):
    assert convert("human_int", text) == value


@pytest.mark.parametrize("text", ["1.5Ki", "1K", "k", "1..5k", "x", "", "1.5"])
def test_texts_that_are_no_human_integers(text):
    with pytest.raises(ValueError, match=r".*"):
        convert("human_int", text)


def test_json_converters_differ_about_nan():
    assert repr(convert("json", "NaN")) == "nan"
    with pytest.raises(ValueError, match="JSON"):
        convert("strict_json", "NaN")
    assert convert("json?parse_cuda_graph_config_arg", '{"decode": {}}') == {"decode": {}}


def test_an_unknown_converter_leaves_text_alone():
    assert convert("?odd", "anything") == "anything"


@given(st.integers())
def test_integers_come_back(number):
    assert convert("int", str(number)) == convert("human_int", str(number)) == number
