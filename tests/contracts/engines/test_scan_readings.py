"""How ids are read, what graph replay captures and how overrides reach a config: on small releases written here."""

from __future__ import annotations

import textwrap

import pytest

from drafter_contracts.engines.capture import capture_switched_off, even_ids, read_ids, unmet_requirement
from drafter_contracts.engines.profile import IdReading
from drafter_contracts.engines.scan.readings import derive, spread_is_even
from drafter_contracts.engines.scan.tree import SourceTree

NESTED = "eagle_config.eagle_aux_hidden_state_layer_ids"

SPEC_INFO = """
from enum import IntEnum, auto

class SpeculativeAlgorithm(IntEnum):
    NONE = auto()
    EAGLE3 = auto()
    {more}

    def is_none(self):
        return self == SpeculativeAlgorithm.NONE

    def is_eagle3(self):
        return self == SpeculativeAlgorithm.EAGLE3

    def is_dflash(self):
        return self.name == "DFLASH"

    @classmethod
    def from_string(cls, name):
        return cls[name]
"""

GRAPH_RUNNER = """
class CudaGraphRunner:
    def __init__(self, model_runner):
        {reset}
        self.capture()

    def capture(self):
        pass
"""

RESET = "model_runner.model.set_eagle3_layers_to_capture()"

RUNNER = """
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner

class ModelRunner:
    def __init__(self, server_args, spec_algorithm):
        self.server_args = server_args
        self.spec_algorithm = spec_algorithm
        self.use_aux = False
        if self.spec_algorithm.is_eagle3() and not self.is_draft_worker:
            draft_model_config = ModelConfig.from_server_args(server_args, is_draft_model=True)
{read}
{order}

    def init_device_graphs(self):
        if self.server_args.disable_cuda_graph:
            return
        self.graph_runner = CudaGraphRunner(self)

    def set_layers(self):
        if self.use_aux:
            self.model.set_eagle3_layers_to_capture(self.layer_ids)
"""

READ = """
            self.use_aux = True
            try:
                eagle_config = getattr(draft_model_config.hf_config, "eagle_config", None)
                self.use_aux = eagle_config.get("use_aux_hidden_state", True)
                self.layer_ids = eagle_config["eagle_aux_hidden_state_layer_ids"]
            except:
                self.layer_ids = None
"""

TOP_FIRST = """
            self.use_aux = True
            config = draft_model_config.hf_config
            ids = (getattr(config, "zz_config", None) or {}).get("layers")
            if ids is None:
                ids = getattr(config, "eagle_aux_hidden_state_layer_ids", None)
            self.layer_ids = None if ids is None else [int(i) for i in ids]
"""

DROPS_DUPLICATES = """
            self.use_aux = True
            ids = (getattr(draft_model_config.hf_config, "eagle_config", None) or {}).get(
                "eagle_aux_hidden_state_layer_ids"
            )
            self.layer_ids = None if ids is None else [i for n, i in enumerate(ids) if i not in ids[:n]]
"""

AFTER = """
        self.init_device_graphs()
        self.set_layers()
"""
BEFORE = """
        self.set_layers()
        self.init_device_graphs()
"""

MODEL_CONFIG = """
class ModelConfig:
    @staticmethod
    def from_server_args(server_args, is_draft_model=False):
        return ModelConfig(model_override_args={given})
"""

GET_CONFIG = """
def get_config(model, model_override_args=None):
    config = load(model)
    if model_override_args:
{apply}
    return config
"""


def release(
    *,
    read: str = READ,
    order: str = AFTER,
    reset: str = RESET,
    more: str = "",
    given: str = "server_args.json_model_override_args",
    apply: str = "config.update(model_override_args)",
    extra: dict[str, str] | None = None,
) -> SourceTree:
    """A release of the shape that SGLang's have."""
    files = {
        "speculative/spec_info.py": SPEC_INFO.format(more=more),
        "model_executor/cuda_graph_runner.py": GRAPH_RUNNER.format(reset=reset),
        "model_executor/model_runner.py": RUNNER.format(read=read, order=order),
        "configs/model_config.py": MODEL_CONFIG.format(given=given),
        "utils/hf_transformers/config.py": GET_CONFIG.format(apply=textwrap.indent(apply, " " * 8)),
        **(extra or {}),
    }
    return SourceTree("here", "9.9.9", {path: text.encode() for path, text in files.items()})


def test_the_key_its_switch_and_the_silent_fall_back_are_found_in_the_middle_of_a_constructor():
    part, files = derive(release())
    reading = part.readings["EAGLE3"]
    assert reading.status == "fitted"
    assert reading.keys == (NESTED,)
    assert reading.switch == "eagle_config.use_aux_hidden_state"
    assert (reading.missing, reading.broken, reading.range_high) == ("default", "setter", "")
    assert reading.hooks == ("set_eagle3_layers_to_capture",)
    assert reading.no_hook == "AttributeError"
    assert reading.source.file == "model_executor/model_runner.py"
    assert "model_executor/model_runner.py" in files
    assert "DFLASH" not in part.readings


def test_keys_come_in_the_precedence_that_the_code_has_not_in_alphabetical_order():
    part, _ = derive(release(read=TOP_FIRST))
    reading = part.readings["EAGLE3"]
    assert reading.keys == ("zz_config.layers", "eagle_aux_hidden_state_layer_ids")
    assert (reading.broken, reading.coerces, reading.switch) == ("error", True, "")


def test_code_that_does_what_no_rule_says_is_opaque_and_the_first_differing_config_is_named():
    part, _ = derive(release(read=DROPS_DUPLICATES))
    reading = part.readings["EAGLE3"]
    assert reading.status == "opaque"
    assert "[2, 2, 9]" in reading.reason
    assert "the release gives ('ids', [2, 9])" in reading.reason


def test_a_release_whose_code_is_nowhere_to_be_found_is_opaque_not_absent():
    tree = release(extra={"model_executor/model_runner.py": "class ModelRunner:\n    pass\n"})
    part, _ = derive(tree)
    assert part.readings["EAGLE3"].status == "opaque"
    assert "EAGLE3" not in part.graphs


@pytest.mark.parametrize(
    ("order", "reset", "expected"),
    [(AFTER, RESET, "default"), (BEFORE, "", "same"), (BEFORE, RESET, "unknown"), (AFTER, "", "unknown")],
)
def test_replay_is_told_by_the_last_call_of_the_setter_before_graphs_are_recorded(order, reset, expected):
    part, _ = derive(release(order=order, reset=reset or "pass"))
    graphs = part.graphs["EAGLE3"]
    assert graphs.ids == expected
    assert graphs.disabled_by == ("--disable-cuda-graph",)
    assert bool(graphs.reason) == (expected == "unknown")


def test_a_graph_runner_s_class_that_is_handed_on_by_a_method_is_followed_across_files():
    """As from 0.5.17 on: the worker sets layers and records in turn, and the class is a method's result."""
    runner = RUNNER.format(read=READ, order="").replace(
        "self.graph_runner = CudaGraphRunner(self)",
        "self.graph_runner = capture_decode_graph(model_runner=self)\n\n"
        "    def _decode_cuda_graph_runner_cls(self):\n"
        "        return CudaGraphRunner",
    )
    setup = (
        "def capture_decode_graph(*, model_runner):\n"
        "    made = defaultdict(model_runner._decode_cuda_graph_runner_cls, {'cpu': None})\n"
        "    return made[model_runner.device](model_runner)\n"
    )
    worker = (
        "class TpModelWorker:\n"
        "    def init_model_worker(self):\n"
        "        self.model_runner.set_layers()\n"
        "        self.model_runner.init_device_graphs()\n"
    )
    extra = {
        "model_executor/model_runner.py": runner,
        "model_executor/cuda_graph_setup.py": setup,
        "managers/tp_worker.py": worker,
    }
    part, files = derive(release(reset="pass", extra=extra))
    assert (part.graphs["EAGLE3"].ids, part.graphs["EAGLE3"].reason) == ("same", "")
    assert "model_executor/model_runner.py" in files


REGISTRY = """
class SpeculativeAlgorithm:
    _by_name = {}

    def __init__(self, name):
        self.name = name

    @classmethod
    def from_string(cls, name):
        if name not in cls._by_name:
            raise ValueError(name)
        return cls._by_name[name]

    @classmethod
    def register(cls, name):
        cls._by_name[name] = cls(name)

    def is_eagle3(self):
        return self.name == "EAGLE3"

def register_speculative_algorithm(name):
    SpeculativeAlgorithm.register(name)

register_speculative_algorithm("EAGLE3")
"""


def test_algorithms_that_are_registered_by_calls_are_algorithms_all_the_same():
    part, _ = derive(release(extra={"speculative/spec_info.py": REGISTRY}))
    assert list(part.readings) == ["EAGLE3"]
    assert part.readings["EAGLE3"].keys == (NESTED,)


def test_without_a_key_that_is_read_replay_and_eager_execution_use_the_same_default():
    runner = RUNNER.format(read="            pass", order=AFTER).replace("(self.layer_ids)", "()")
    runner = runner.replace("if self.use_aux:", "if self.spec_algorithm.is_eagle3():")
    part, _ = derive(release(extra={"model_executor/model_runner.py": runner}))
    assert part.readings["EAGLE3"].keys == ()
    assert part.readings["EAGLE3"].status == "fitted"
    assert part.graphs["EAGLE3"].ids == "same"


DFLASH_UTILS = """
def build_target_layer_ids(num_target_layers, num_draft_layers):
    if num_draft_layers == 1:
        return [num_target_layers // 2]
    start, end = 1, num_target_layers - {margin}
    if num_target_layers < 4:
        raise ValueError("too shallow")
    return [int(round(start + i * (end - start) / (num_draft_layers - 1))) for i in range(num_draft_layers)]

class Parsed:
    def __init__(self, config):
        nested = getattr(config, "dflash_config", None)
        nested = nested if isinstance(nested, dict) else {{}}
        self.ids = nested.get("target_layer_ids", getattr(config, "target_layer_ids", None))
        if self.ids is not None:
            self.ids = [int(i) for i in self.ids]
        self.depth = config.num_hidden_layers

    def resolve(self, layers):
        if self.ids is None:
            return build_target_layer_ids(layers, self.depth)
        if not self.ids or any(i < 0 or i >= layers for i in self.ids):
            raise ValueError("out of range")
        return self.ids

def parse_dflash_draft_config(config):
    return Parsed(config)
"""

DFLASH_READ = """
        if self.spec_algorithm.is_dflash():
            from sglang.srt.speculative.dflash_utils import parse_dflash_draft_config
            draft_model_config = self._build_model_config(server_args)
            parsed = parse_dflash_draft_config(draft_model_config.hf_config)
            self.dflash_ids = parsed.resolve(self.model_config.hf_text_config.num_hidden_layers)
            if self.model_config.hf_config.model_type == "oddity" and "ShiftedDraft" in (
                getattr(draft_model_config.hf_config, "architectures", None) or []
            ):
                self.dflash_ids = [i + 1 for i in self.dflash_ids]
"""
DFLASH_ORDER = """
        if self.spec_algorithm.is_dflash():
            if hasattr(self.model, "set_dspark_layers_to_capture"):
                self.model.set_dspark_layers_to_capture(self.dflash_ids)
            elif hasattr(self.model, "set_dflash_layers_to_capture"):
                self.model.set_dflash_layers_to_capture(self.dflash_ids)
            else:
                raise ValueError("no hook")
        self.init_device_graphs()
"""


def dflash_release(margin: int = 3, read: str = DFLASH_READ, **extra: str) -> SourceTree:
    runner = RUNNER.format(read="            pass", order=read + DFLASH_ORDER)
    utils = DFLASH_UTILS.format(margin=margin)
    files = {"model_executor/model_runner.py": runner, "speculative/dflash_utils.py": utils, **extra}
    return release(more="DFLASH = auto()", extra=files)


def test_range_coercion_null_formula_shift_and_preferred_setter_are_found():
    part, files = derive(dflash_release())
    reading = part.readings["DFLASH"]
    assert reading.status == "fitted", reading.reason
    assert reading.keys == ("dflash_config.target_layer_ids", "target_layer_ids")
    assert reading.null_stops == ("dflash_config.target_layer_ids",)
    assert (reading.range_low, reading.range_high, reading.coerces) == (0, "N-1", True)
    assert (reading.missing, reading.empty, reading.error) == ("formula", "error", "ValueError")
    assert reading.hooks == ("set_dspark_layers_to_capture", "set_dflash_layers_to_capture")
    assert reading.no_hook == "ValueError"
    shift = reading.shifts[0]
    assert (shift.add, shift.target_model_type, shift.drafter_architectures) == (1, "oddity", ("ShiftedDraft",))
    assert part.graphs["DFLASH"].ids == "same"
    assert "speculative/dflash_utils.py" in files


def test_ids_that_are_moved_whatever_the_target_is_are_moved_for_every_target():
    read = DFLASH_READ.replace('self.model_config.hf_config.model_type == "oddity" and ', "")
    shifts = derive(dflash_release(read=read))[0].readings["DFLASH"].shifts
    assert [(s.add, s.target_model_type, s.drafter_architectures) for s in shifts] == [(1, "", ("ShiftedDraft",))]


def test_what_the_reading_code_imports_is_found_wherever_it_lies():
    read = DFLASH_READ.replace(
        "            parsed =", "            from sglang.srt.mem_cache.sizes import cell\n            parsed ="
    )
    assert derive(dflash_release(read=read))[0].readings["DFLASH"].status == "opaque"
    tree = dflash_release(read=read, **{"mem_cache/sizes.py": "def cell():\n    return 1\n"})
    assert derive(tree)[0].readings["DFLASH"].status == "fitted"


def test_a_spread_that_is_not_the_known_formula_is_opaque():
    part, _ = derive(dflash_release(margin=2))
    assert part.readings["DFLASH"].status == "opaque"
    assert "way of its own" in part.readings["DFLASH"].reason


def test_the_known_spread_is_recognised_with_its_refusals_and_any_other_is_not():
    def table(build):
        return [(n, layers, build(n, layers)) for n in range(1, 40) for layers in range(1, 6)]

    def right(n, layers):
        return list(even_ids(n, layers)) if layers == 1 or n >= 4 else "ValueError"

    assert spread_is_even(table(right))
    assert not spread_is_even(table(lambda n, layers: [0] * layers))
    assert not spread_is_even(table(lambda n, layers: list(even_ids(n, layers)) if n > 3 else []))
    assert not spread_is_even([])


@pytest.mark.parametrize(
    ("given", "apply", "expected"),
    [
        ("server_args.json_model_override_args", "config.update(model_override_args)", (True, "replace", ())),
        (
            "None if is_draft_model else server_args.json_model_override_args",
            "config.update(model_override_args)",
            (False, "replace", ()),
        ),
        (
            "server_args.json_model_override_args",
            (
                "for key, value in model_override_args.items():\n"
                "    held = getattr(config, key, None)\n"
                "    if key == 'rope_scaling' and isinstance(held, dict):\n"
                "        value = {**held, **value}\n"
                "    setattr(config, key, value)"
            ),
            (True, "replace", ("rope_scaling",)),
        ),
        (
            "server_args.json_model_override_args",
            (
                "for key, value in model_override_args.items():\n"
                "    held = getattr(config, key, None)\n"
                "    setattr(config, key, {**held, **value} if isinstance(held, dict) else value)"
            ),
            (True, "unknown", ("dflash_config", "eagle_config", "rope_parameters", "rope_scaling")),
        ),
    ],
)
def test_overrides_reach_the_drafter_and_replace_or_merge_as_the_code_does(given, apply, expected):
    part, _ = derive(release(given=given, apply=apply))
    assert (part.overrides.drafter, part.overrides.merge, part.overrides.merged) == expected


def test_a_worker_that_makes_the_config_itself_hands_the_override_on():
    worker = (
        "class TpModelWorker:\n"
        "    def __init__(self, server_args, is_draft_worker):\n"
        "        self.model_config = ModelConfig(model_override_args=server_args.json_model_override_args)\n"
    )
    extra = {"configs/model_config.py": "class ModelConfig:\n    pass\n", "managers/tp_worker.py": worker}
    part, files = derive(release(extra=extra))
    assert (part.overrides.target, part.overrides.drafter, part.overrides.merge) == (True, True, "replace")
    assert "managers/tp_worker.py" in files


def test_scanning_again_gives_the_same():
    assert derive(dflash_release()) == derive(dflash_release())


# What the interpreter makes of a reading -------------------------------------------------------------------------

READING = IdReading(
    keys=("a.ids", "ids"),
    switch="a.use",
    missing="formula",
    broken="error",
    error="ValueError",
    range_low=0,
    range_high="N-1",
    null_stops=("a.ids",),
    coerces=True,
    empty="error",
    requires=("a.rank", "rank"),
)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"a": {"ids": [1, 2]}, "ids": [3]}, ((1, 2), "a.ids", "")),
        ({"a": None, "ids": [3]}, ((3,), "ids", "")),
        ({"a": {"ids": ["4"]}}, ((4,), "a.ids", "")),
        ({"a": {"ids": []}}, (None, "a.ids", "ValueError")),
        ({"a": {"ids": [32]}}, (None, "a.ids", "ValueError")),
        ({"a": {"ids": "x"}}, (None, "a.ids", "ValueError")),
        ({"a": {"ids": None}, "ids": [3], "num_hidden_layers": 1}, ((16,), "formula", "")),
        ({"num_hidden_layers": 3}, ((1, 15, 29), "formula", "")),
        ({}, (None, "formula", "ValueError")),
    ],
)
def test_ids_are_read_as_the_reading_says(config, expected):
    assert read_ids(READING, config, n=32) == expected


def test_a_key_that_escapes_the_range_check_does_not_silence_the_others():
    reading = IdReading(
        keys=("own", "ids"), unchecked=("own",), checks_all=True, broken="error", range_low=0, range_high="N-1"
    )
    assert read_ids(reading, {"own": [40]}, n=32) == ((40,), "own", "")
    assert read_ids(reading, {"own": [40], "ids": [41]}, n=32) == (None, "own", "ValueError")


def test_a_formula_needs_four_layers_unless_the_drafter_has_one():
    assert read_ids(READING, {"num_hidden_layers": 2}, n=3)[2] == "ValueError"
    assert read_ids(READING, {"num_hidden_layers": 1}, n=3)[0] == (1,)


@pytest.mark.parametrize(("value", "off"), [(False, True), (None, True), (0, True), (True, False), ("no", False)])
def test_the_switch_turns_capture_off_by_any_value_that_python_calls_false(value, off):
    assert capture_switched_off(READING, {"a": {"use": value}}) is off
    assert not capture_switched_off(READING, {"a": {}})


def test_a_requirement_is_met_by_the_first_key_that_is_present():
    assert unmet_requirement(READING, {"rank": 4}) == ""
    assert unmet_requirement(READING, {"a": {"rank": 0}, "rank": 4}) == "a.rank"
    assert unmet_requirement(READING, {}) == "a.rank"
