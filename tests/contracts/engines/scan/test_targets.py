"""Capture rules of small releases in SGLang's shape: what each does is what the fitted rule says."""

from __future__ import annotations

import pytest
from scan_toy import FINISH, LOOP, SETTER, model, release

from drafter_contracts.engines.capture import capture_once
from drafter_contracts.engines.profile import Guard, Region, Shift
from drafter_contracts.engines.scan.targets import derive

N = 20


def rule_of(text, name="ToyForCausalLM", method="EAGLE3", **more):
    captured, _ = derive(release(text, **more))
    return captured.rules[captured.targets[name][method]]


def taps(rule, ids, n=N):
    capture = capture_once(rule, n, ids)
    return [tap.boundary for tap in capture.taps] if not capture.error else capture.error


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


def test_a_packer_counts_what_it_was_given():
    loop = LOOP.replace(
        "aux_hidden_states = []", "aux_hidden_states = AuxHiddenStatePacker(len(self.layers_to_capture))"
    )
    finish = (
        "\n        hidden_states, _ = self.norm(hidden_states, residual)"
        "\n        if len(aux_hidden_states) == 0:\n            return hidden_states"
        "\n        return hidden_states, aux_hidden_states.finalize()\n"
    )
    rule = rule_of(model(loop=loop, finish=finish))
    assert rule.capture.short == "RuntimeError"
    assert taps(rule, [1, 4]) == [2, 5]
    assert taps(rule, [1, N - 1]) == "RuntimeError"
    assert taps(rule, [4, 4]) == "RuntimeError"
    assert taps(rule, [N + 3]) == "ValueError"


def test_the_output_of_the_last_norm_is_no_pair():
    """Without a captured state the model returns one tensor, which its caller takes apart: that raises at any batch."""
    rule = rule_of(model())
    assert rule.capture.none == "ValueError"
    assert taps(rule, []) == taps(rule, [N + 3]) == "ValueError"
    assert taps(rule, [1, N + 3]) == [2]
    silent = rule_of(model(finish=FINISH.replace("return hidden_states\n", "return hidden_states, []\n")))
    assert silent.capture.none == ""
    assert taps(silent, [N + 3]) == []


def test_a_layer_that_returns_its_residual_apart_is_captured_without_it():
    loop = LOOP.replace("hidden_states + residual", "hidden_states")
    rule = rule_of(model(loop=loop))
    assert rule.status == "fitted"
    assert rule.capture.state == "what layer b-1 contributed last, without the residual stream that it is added to"
    assert capture_once(rule, N, [3, 7]).foreign


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


SCALED = "            residual = 0.5 * residual\n"


def test_a_stream_that_is_changed_between_layers_is_what_the_next_layer_reads():
    rule = rule_of(model(loop=LOOP + SCALED))
    assert (rule.status, rule.capture.state) == ("fitted", "residual")
    assert taps(rule, [1, 4]) == [2, 5]


def test_a_part_of_a_stream_that_cannot_be_followed_is_opaque():
    rule = rule_of(model(loop=LOOP.replace("hidden_states + residual)", "hidden_states)") + SCALED))
    assert rule.status == "opaque"
    assert "cannot be followed through layer 0" in rule.reason


STREAMS = """
        x = self.input_layernorm(torch.ops.pre(hidden_states))
        x = self.self_attn(positions, x, forward_batch)
        return torch.ops.post(x, hidden_states), None
"""
HEAD = """
        hidden_states = self.norm(torch.ops.head(hidden_states))
        if len(aux_hidden_states) == 0:
            return hidden_states
        return hidden_states, aux_hidden_states
"""


@pytest.mark.parametrize(
    ("captured", "state"),
    [
        ("hidden_states.mean(dim=1)", "stream_mean"),
        ("(torch.ops.weights(hidden_states) * hidden_states).sum(dim=1)", "stream_mixture"),
        ("torch.ops.squash(hidden_states)", "what squash makes of the residual stream"),
        ("self.norm(hidden_states)", "the residual stream after a norm"),
    ],
)
def test_of_several_streams_it_is_said_what_is_captured(captured, state):
    rule = rule_of(model(layer=STREAMS, loop=LOOP.replace("hidden_states + residual", captured), finish=HEAD))
    assert (rule.status, rule.capture.state) == ("fitted", state)
    capture = capture_once(rule, N, [-1, 4])
    assert [tap.boundary for tap in capture.taps] == [0, 5]
    assert bool(capture.foreign) == (" " in state)


GATED = """
        x = self.self_attn(positions, residual, forward_batch)
        stream, next_input = torch.ops.fused(hidden_states, x)
        return stream, next_input
"""


@pytest.mark.parametrize(("captured", "what"), [("hidden_states", "residual"), ("residual", "foreign")])
def test_a_gated_stream_is_the_tensor_that_the_last_norm_reads(captured, what):
    loop = "        residual = self.norm(hidden_states)\n" + LOOP.replace("hidden_states + residual", captured)
    rule = rule_of(model(layer=GATED, loop=loop, finish=HEAD.replace("torch.ops.head(hidden_states)", "hidden_states")))
    if what == "residual":
        assert (rule.status, rule.capture.state) == ("fitted", "residual")
        assert taps(rule, [-1, 4]) == [0, 5]
    else:
        assert rule.capture.state == "a tensor that is not a sum of the residual stream's parts"


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


def test_the_order_of_the_config_can_be_the_order_of_capture():
    loop = LOOP + "        aux_hidden_states = [aux_hidden_states[sorted(self.layers_to_capture).index(b)]"
    loop += " for b in self.layers_to_capture] if len(set(self.layers_to_capture)) == len(aux_hidden_states) else []\n"
    rule = rule_of(model(loop=loop))
    assert rule.status == "opaque" or rule.capture.order == "given"


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


@pytest.mark.parametrize("broken", ["EntryClass = [Missing]\n", "EntryClass = 1 / 0\n"])
def test_an_entry_class_that_cannot_be_built_fails_the_scan(broken):
    from drafter_contracts.errors import ScanError

    with pytest.raises(ScanError, match="EntryClass cannot be resolved"):
        derive(release(model() + broken))


def test_what_only_the_sandbox_lacks_is_no_fault_of_the_release():
    rule = rule_of(model(setter="        layer_ids = eval('layer_ids')\n" + SETTER.lstrip("\n")))
    assert rule.status == "opaque"
    assert "name 'eval' is not defined" in rule.reason
