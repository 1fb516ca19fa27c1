"""Targets of small releases in SGLang's shape that cannot capture, and those that only look so."""

from __future__ import annotations

import pytest
from scan_toy import FINISH, SETTER, model, release
from scan_toy_rules import rule_of

from drafter_contracts.engines.scan.targets import derive


def test_a_hook_that_the_forward_pass_ignores_is_broken():
    setter = SETTER.replace("self.model.layers_to_capture", "self.layers_to_capture")
    rule = rule_of(model(setter=setter))
    assert rule.status == "broken"
    assert "every list of ids fails: ValueError: too many values to unpack" in rule.reason
    silent = rule_of(
        model(setter=setter, finish=FINISH.replace("return hidden_states\n", "return hidden_states, []\n"))
    )
    assert silent.status == "broken"
    assert "nothing is captured" in silent.reason


def test_a_hook_whose_inner_method_is_missing_is_broken():
    rule = rule_of(model(setter="        self.model.set_eagle3_layers_to_capture(layer_ids)\n"))
    assert rule.status == "broken"
    assert "'ToyModel' object has no attribute 'set_eagle3_layers_to_capture'" in rule.reason
    assert "models/toy.py:" in rule.reason


def test_a_rule_beyond_the_language_is_opaque():
    rule = rule_of(model(setter=SETTER.replace("val + 1 for", "2 * val for")))
    assert rule.status == "opaque"
    assert "ids [" in rule.reason


def test_a_class_that_calls_its_layer_with_what_it_does_not_take_is_broken():
    rule = rule_of(
        model().replace("ToyDecoderLayer(config, layer_id=i)", "ToyDecoderLayer(config, layer_id=i, first=0)")
    )
    assert rule.status == "broken"
    assert "__init__() got an unexpected keyword argument 'first' @ models/toy.py:" in rule.reason


TIED = (
    model()
    .replace("self.capture_aux_hidden_states = False", "self.capture_aux_hidden_states = @VALUE@")
    .replace("        aux_hidden_states = None\n", "        aux_hidden_states = None if self.tied else None\n")
)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("False\n        self.tied = False", "fitted"),
        ("False", "broken"),
        ("False\n        if config.is_tied:\n            self.tied = True", "opaque"),
    ],
)
def test_a_class_that_reads_what_no_constructor_gives_it_is_broken(given, status):
    rule = rule_of(TIED.replace("@VALUE@", given))
    assert rule.status == status
    assert ("object has no attribute 'tied' @ models/toy.py:" in rule.reason) == (status != "fitted")


def test_a_class_that_goes_past_the_constructor_which_gives_it_an_attribute_is_broken():
    other = (
        "\nclass Other(ToyForCausalLM):\n    def __init__(self, config, quant_config=None):\n"
        "        nn.Module.__init__(self)\n        self.pp_group = get_pp_group()\n        self.config = config\n"
        "        self.model = ToyModel(config)\n        self.lm_head = ParallelLMHead(4, 4)\n"
        "        self.logits_processor = LogitsProcessor(config)\n        self.capture_aux_hidden_states = False\n"
        "\nEntryClass = [ToyForCausalLM, Other]\n"
    )
    text = TIED.replace("@VALUE@", "False\n        self.tied = False") + other
    assert rule_of(text).status == "fitted"
    assert rule_of(text, name="Other").status == "broken"


RUNNER = """
from sglang.srt.managers.schedule_batch import global_server_args_dict
from sglang.srt.layers.moe.utils import Kind
class ModelRunner:
    def __init__(self, server_args):
        global_server_args_dict.update({"kind": Kind(server_args.kind), "page_size": server_args.page_size})
"""


def test_settings_that_start_up_puts_in_place_of_an_option_are_there():
    text = model().replace("self.mlp = ToyMLP()", "self.mlp = ToyMLP()\n        assert table['kind'].is_standard()")
    rule = rule_of(
        "from sglang.srt.managers.schedule_batch import global_server_args_dict as table\n"
        + text.split("annotations\n", 1)[1],
        **{
            "model_executor/model_runner.py": RUNNER,
            "managers/schedule_batch.py": "global_server_args_dict = {'kind': None, 'page_size': 1}\n",
            "layers/moe/utils.py": "class Kind:\n    def __init__(self, text):\n        self.text = text\n"
            "    def is_standard(self):\n        return self.text is None\n",
        },
    )
    assert rule.status == "fitted"


TEXT_ONLY = """
from torch import nn
from sglang.srt.models import toy
class Text(nn.Module):
    forward = toy.ToyForCausalLM.forward
    set_eagle3_layers_to_capture = toy.ToyForCausalLM.set_eagle3_layers_to_capture
    def __init__(self, config, quant_config=None):
        super().__init__()
        self.pp_group, self.config, self.lm_head = toy.get_pp_group(), config, toy.ParallelLMHead(4, 4)
        self.model, self.logits_processor = toy.ToyModel(config), toy.LogitsProcessor(config)
        self.capture_aux_hidden_states = False
EntryClass = Text
"""


def test_a_model_type_is_looked_for_in_the_files_that_a_class_takes_its_layers_from():
    mlp = "self.mlp = ToyMLP() if config.model_type == 'toy_text' else {}['mlp']"
    text = model().replace("self.mlp = ToyMLP()", mlp)
    assert rule_of(text, name="Text", **{"models/toy_text.py": TEXT_ONLY}).status == "fitted"


def test_a_class_that_hands_on_what_it_is_asked_for_may_have_a_hook():
    extra = (
        "\nclass Outer(nn.Module):\n"
        "    def __init__(self, config):\n        self.inner = PARTS[config.version](config)\n"
        "    def __getattr__(self, name):\n        return getattr(self.inner, name)\n\nEntryClass = Outer\n"
    )
    rule = rule_of(model(extra=extra), name="Outer")
    assert rule.status == "opaque"
    assert "__getattr__" in rule.reason
    assert rule.source.function == "Outer.__getattr__"


def test_a_class_that_ends_in_a_pooler_is_broken():
    text = model().replace("self.logits_processor = LogitsProcessor(config)", "self.pooler = torch.nn.Linear(4, 4)")
    rule = rule_of(text.replace("self.logits_processor(input_ids, ", "self.pooler("))
    assert rule.status == "broken"
    assert "no logits processor" in rule.reason


def test_a_class_that_looks_for_a_file_finds_none():
    search = "    try:\n            open('modules.json')\n        except FileNotFoundError:\n            pass\n        "
    rule = rule_of(model().replace("self.lm_head =", search.lstrip() + "self.lm_head =", 1))
    assert rule.status == "fitted"


@pytest.mark.parametrize("broken", ["EntryClass = [Missing]\n", "EntryClass = 1 / 0\n"])
def test_an_entry_class_that_cannot_be_built_fails_the_scan(broken):
    from drafter_contracts.errors import ScanError

    with pytest.raises(ScanError, match="EntryClass cannot be resolved"):
        derive(release(model() + broken))


def test_what_only_the_sandbox_lacks_is_no_fault_of_the_release():
    rule = rule_of(model(setter="        layer_ids = eval('layer_ids')\n" + SETTER.lstrip("\n")))
    assert rule.status == "opaque"
    assert "name 'eval' is not defined" in rule.reason
