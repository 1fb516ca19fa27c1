"""How ids are read and what graph replay captures: on small releases written here."""

from __future__ import annotations

import pytest
from scan_toy_runner import (
    AFTER,
    BEFORE,
    NESTED,
    READ,
    RESET,
    RUNNER,
    release,
)

from drafter_contracts.engines.scan.readings import derive

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
