"""Capture rules of small releases in SGLang's shape: what ids mean to each is what the fitted rule says."""

from __future__ import annotations

from scan_toy import LOOP, SETTER, model, release
from scan_toy_rules import N, rule_of, taps

from drafter_contracts.engines.profile import Guard, Region, Shift
from drafter_contracts.engines.scan.targets import derive


def test_ids_are_outputs_of_layers():
    rule = rule_of(model())
    assert rule.status == "fitted"
    assert rule.default == ("2", "N//2", "N-3")
    assert rule.shifts == (Shift(1),)
    assert (rule.source.file, rule.source.function) == (
        "models/toy.py",
        "ToyForCausalLM.set_eagle3_layers_to_capture",
    )
    assert rule.forward.function == "ToyModel.forward"
    assert rule.last_rank_only
    assert not rule.sticky
    assert taps(rule, None) == [2, 10, 17]
    assert taps(rule, [9, 1, 1]) == [2, 10]
    assert taps(rule, [1, N - 1]) == [2]
    assert taps(rule, [-1, 3]) == "TypeError"  # the embedding output plus a residual that is None


def test_one_is_added_only_if_the_first_id_is_one():
    conditional = SETTER.replace("[val + 1 for", "[val + (1 if layer_ids and layer_ids[0] == 1 else 0) for")
    rule = rule_of(model(setter=conditional))
    assert rule.shifts == (Shift(1, "first==1"), Shift(0))
    assert taps(rule, [2, 10, 17]) == [2, 10, 17]
    assert taps(rule, [1, 10, 17]) == [2, 11, 18]


def test_ids_are_boundaries_if_the_largest_is_the_depth():
    conditional = SETTER.replace(
        "self.model.layers_to_capture = [val + 1 for val in layer_ids]",
        "top = layer_ids and max(layer_ids) == self.config.num_hidden_layers\n"
        "            self.model.layers_to_capture = [val + (not top) for val in layer_ids]",
    )
    last = LOOP + (
        "        if len(self.layers) in self.layers_to_capture:\n"
        "            aux_hidden_states.append(hidden_states + residual)\n"
    )
    rule = rule_of(model(setter=conditional, loop=last))
    assert rule.shifts == (Shift(0, "max==N"), Shift(1))
    assert taps(rule, [4, 8, N]) == [4, 8, N]
    assert taps(rule, [4, N - 1]) == [5, N]


FLAGS = """
        self.capture_aux_hidden_states = True
        if layer_ids is None:
            n = self.config.num_hidden_layers
            layer_ids = [1, n // 2 - 1, n - 4]
        for val in layer_ids:
            self.model.layers[val + 1]._is_layer_to_capture = True
"""


def test_flags_on_layers_are_never_cleared():
    loop = LOOP.replace("if i in self.layers_to_capture:", "if getattr(self.layers[i], '_is_layer_to_capture', False):")
    loop = loop.replace("hidden_states + residual", "hidden_states if residual is None else hidden_states + residual")
    rule = rule_of(model(setter=FLAGS, loop=loop))
    assert rule.sticky
    assert not rule.last_rank_only
    assert rule.capture.last == Region("error", "IndexError", "setter")
    assert rule.capture.negative == Region("wrap")
    assert taps(rule, [-1]) == [0]
    assert taps(rule, [-3, 4]) == [5, N - 2]
    assert taps(rule, [3, N - 1]) == "IndexError"


def test_a_setter_may_refuse():
    refusing = SETTER.replace(
        "        if layer_ids is None:",
        "        n = self.config.num_hidden_layers\n"
        "        if layer_ids is not None and (sorted(set(layer_ids)) != list(layer_ids)):\n"
        "            raise ValueError('ascending and distinct, please')\n"
        "        if layer_ids and not 0 <= layer_ids[0] <= layer_ids[-1] < n - 1:\n"
        "            raise ValueError('out of range')\n"
        "        if layer_ids is None:",
    )
    rule = rule_of(model(setter=refusing))
    assert set(rule.guards) == {
        Guard("duplicate", "ValueError"),
        Guard("unsorted", "ValueError"),
        Guard("id<0", "ValueError"),
        Guard("id>=N", "ValueError"),
        Guard("id==N-1", "ValueError"),
    }
    assert taps(rule, [3, 5]) == [4, 6]
    assert taps(rule, [5, 3]) == "ValueError"


REQUIRED = """
def _set(self, layer_ids):
    if layer_ids is None:
        raise ValueError("explicit ids")
    self.capture_aux_hidden_states = True
    self.model.layers_to_capture = [i + 1 for i in layer_ids]

ToyForCausalLM.set_dflash_layers_to_capture = _set
"""


def test_ids_may_be_required_and_a_setter_may_be_patched_in():
    rule = rule_of(model(extra=REQUIRED), method="DFLASH")
    assert rule.default is None
    assert taps(rule, None) == "ValueError"
    assert taps(rule, [4]) == [5]


def test_a_setter_without_ids_has_its_default_only():
    setter = "\n        self.capture_aux_hidden_states = True\n        self.model.layers_to_capture = [2, 5]\n"
    rule = rule_of(model(setter=setter).replace("(self, layer_ids=None)", "(self)"))
    assert (rule.status, rule.default, rule.shifts) == ("fitted", ("2", "5"), ())


WRAPPER = """
class ToyVLForConditionalGeneration(nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.config = config
        self.visual = ToyTower(config.vision_config)
        self.language_model = ToyForCausalLM(config.text_config)
    def forward(self, input_ids, positions, forward_batch, get_embedding=False):
        embeds = self.language_model.model.embed_tokens(input_ids)
        return self.language_model(input_ids, positions, forward_batch, embeds)
    def set_eagle3_layers_to_capture(self, layer_ids=None):
        self.language_model.set_eagle3_layers_to_capture(layer_ids)

class ToyTower(nn.Module):
    def __init__(self, config):
        self.heads = 64 // config.heads

EntryClass = [ToyForCausalLM, ToyVLForConditionalGeneration]
"""


def test_a_wrapper_reads_the_depth_of_its_text_part():
    rule = rule_of(model(extra=WRAPPER), name="ToyVLForConditionalGeneration")
    assert rule.status == "fitted"
    assert rule.depth == "text_config.num_hidden_layers"
    assert taps(rule, [1, 4]) == [2, 5]


def test_classes_without_a_hook_are_registered_all_the_same():
    extra = "\nclass Plain(nn.Module):\n    pass\n\nEntryClass = [ToyForCausalLM, Plain]\n"
    captured, files = derive(release(model(extra=extra)))
    assert captured.targets["Plain"] == {}
    assert set(captured.targets["ToyForCausalLM"]) == {"EAGLE3"}
    assert "models/toy.py" in files
    assert "distributed/parallel_state.py" not in files  # its process groups are replaced, not executed


def test_a_drafter_class_that_inherits_a_setter_is_no_target():
    extra = "\nclass ToyNextN(ToyForCausalLM):\n    pass\n\nEntryClass = [ToyForCausalLM, ToyNextN]\n"
    captured, _ = derive(release(model(extra=extra)), ["ToyNextN"])
    assert captured.targets["ToyNextN"] == {}
    assert set(captured.targets["ToyForCausalLM"]) == {"EAGLE3"}
