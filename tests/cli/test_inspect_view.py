"""What `drafters inspect` shows: facts, contradictions, and the target's stack with the taps marked."""

import json
from pathlib import Path

import pytest

from drafter_cli.inspect_view import render, render_json
from drafter_contracts.checkpoint.facts import DrafterFacts, TensorFact
from drafter_contracts.checkpoint.facts_from import drafter_facts

CONFIGS = Path(__file__).parents[1] / "data" / "configs"
KIMI = {
    "architectures": ["Eagle3DeepseekV2ForCausalLM"],
    "hidden_size": 7168,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 58]},
}


def facts(config: dict, fc: tuple[int, int] | None = (7168, 21504), **known: object) -> DrafterFacts:
    tensors = () if fc is None else (TensorFact("fc.weight", "BF16", fc),)
    return drafter_facts(config, tensors, path="heads/one", weights="safetensors" if fc else "none", **known)


def picture(text: str) -> list[str]:
    lines = text.splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith("boundary")) :]


def test_the_picture_marks_each_tap_with_its_columns_and_the_other_reading() -> None:
    text = render(facts(KIMI, target_layers=61), unicode=False)
    assert picture(text) == [
        "boundary  target of 61 layers               fc reads",
        "       0  + embedding output",
        "          |   layers 0 to 1",
        "       2  * output of layer 1 ------------> tap 1: columns 0 to 7167",
        "          |   layer 2",
        "       3  ? output of layer 2               another reading",
        "          |   layers 3 to 29",
        "      30  * output of layer 29 -----------> tap 2: columns 7168 to 14335",
        "          |   layer 30",
        "      31  ? output of layer 30              another reading",
        "          |   layers 31 to 57",
        "      58  * output of layer 57 -----------> tap 3: columns 14336 to 21503",
        "          |   layer 58",
        "      59  ? output of layer 58              another reading",
        "          |   layers 59 to 60",
        "      61  + output of layer 60, the last",
        "          |   final norm",
        "          v lm_head",
    ]


def test_columns_follow_the_order_of_the_list_not_of_the_layers() -> None:
    config = {
        "dflash_config": {"target_layer_ids": [5, -1, 9, 9]},
        "architectures": ["DFlashDraftModel"],
        "hidden_size": 8,
    }
    text = render(facts(config, (8, 32), target_layers=10), unicode=False)
    lines = picture(text)
    assert any("embedding output -------------> tap 2: columns 8 to 15" in line for line in lines)
    assert any("output of layer 5 ------------> tap 1: columns 0 to 7" in line for line in lines)
    assert any(
        "output of layer 9, the last --> tap 3: columns 16 to 23, tap 4: columns 24 to 31" in line for line in lines
    )
    assert "not in ascending order" in text.replace("\n" + " " * 16, " ")


def test_the_final_norm_is_a_state_of_its_own_below_the_last_boundary() -> None:
    config = {"eagle_config": {"use_aux_hidden_state": False}}
    lines = picture(render(facts(config, None, target_layers=36), unicode=False))
    assert lines[-4:] == [
        "          |   layers 0 to 35",
        "      36  + output of layer 35, the last",
        "          * final norm -------------------> tap 1",
        "          v lm_head",
    ]


def test_an_unknown_depth_is_drawn_as_unknown() -> None:
    config = {"dflash_config": {"target_layer_ids": [1, 5]}}
    lines = picture(render(facts(config, None), unicode=False))
    assert lines[0].startswith("boundary  target (depth not known)")
    assert lines[-4:-2] == ["          |   layers 6 to N-1", "       N  + last layer's output"]
    assert not any("boundary  " in line for line in render(facts({}, None)).splitlines())


def test_facts_and_contradictions_are_shown_with_both_sides() -> None:
    text = render(facts({**KIMI, "norm_before_fc": True, "num_hidden_layers": 40}, target_layers=61), width=200)
    assert "confidence    producer rule" in text
    assert "reads         boundaries 2, 30, 58 (outputs of layers 1, 29, 57)" in text
    assert "or else       boundaries 3, 31, 59 (outputs of layers 2, 30, 58)" in text
    assert "stated as     eagle_config.eagle_aux_hidden_state_layer_ids = [2, 30, 58]" in text
    assert "fusion        fc.weight [7168, 21504]: 3 taps of 7168" in text
    assert "Errors\n  - norm before fc: config.json norm_before_fc = True, but no such norm among the tensors" in text


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_every_stored_config_fits_eighty_columns_and_plain_ascii(path: Path) -> None:
    config = {key: value for key, value in json.loads(path.read_text()).items() if not key.startswith("_")}
    text = render(facts(config, None), unicode=False)
    text.encode("ascii")
    assert "\x1b" not in text
    # A single word longer than the terminal (a key, a Hub id) is not broken, so that it can be copied.
    assert all(len(line) <= 80 or len(line.split()) <= 4 for line in text.splitlines())
    assert config.get("architectures", [""])[0] in text


def test_colour_is_only_added_on_request() -> None:
    assert "\x1b[32m" in render(facts(KIMI, target_layers=61), color=True)


def test_json_holds_every_fact_under_its_name() -> None:
    document = json.loads(render_json(facts(KIMI, target_layers=61)))
    assert document["method"] == "EAGLE3"
    assert document["target_layers"] == 61
    assert document["layout"]["ids"] == [2, 30, 58]
    assert document["layout"]["layout"]["taps"][0] == {"boundary": 2, "state": "residual"}
    assert document["fc"]["in_width"] == 21504


def test_text_of_the_files_cannot_drive_the_terminal() -> None:
    config = {
        "architectures": ["Eagle3\x1b[2J\nfake  kind"],
        "speculators_config": {"verifier": {"name_or_path": "a\rb"}},
    }
    text = render(facts(config, None))
    assert "\x1b" not in text
    assert "\r" not in text
    assert "Eagle3\\x1b[2J\\nfake" in text
