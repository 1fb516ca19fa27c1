"""What drafter classes do with configs and weights: on small releases written here, shaped as SGLang's are."""

from __future__ import annotations

import pytest

from drafter_contracts.engines.scan.drafters import WELL_KNOWN, derive
from drafter_contracts.engines.scan.tree import SourceTree

LAYERS = """
import torch
from torch import nn

class RMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))

class QKVParallelLinear(nn.Module):
    def __init__(self, hidden_size, output_size, bias=True):
        super().__init__()

class ParallelLMHead(nn.Module):
    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()

class VocabParallelEmbedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim):
        super().__init__()
"""

EAGLE3 = """
import torch
from torch import nn
from sglang.srt.layers.all import ParallelLMHead, QKVParallelLinear, RMSNorm, VocabParallelEmbedding

class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.qkv_proj = QKVParallelLinear(2 * config.hidden_size, 3 * config.hidden_size, bias=False)

class Layer(nn.Module):
    def __init__(self, config, layer_id=0):
        super().__init__()
        self.self_attn = Attention(config)
        self.hidden_norm = RMSNorm(config.hidden_size)

class Inner(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size)
        width = getattr(config, "target_hidden_size", config.hidden_size)
        eagle_config = getattr(config, "eagle_config", None) or {{}}
        ids = eagle_config.get("eagle_aux_hidden_state_layer_ids")
        count = getattr(config, "num_aux_hidden_states", None) or (len(ids) if ids else {default})
        self.fc = nn.Linear(count * width, config.hidden_size, bias=getattr(config, "bias", False))
        self.input_norm = None
        if eagle_config.get("norm_before_fc", getattr(config, "norm_before_fc", False)):
            self.input_norm = RMSNorm(count * width)
        self.fc_norm = None
        if {fc_norm}:
            self.fc_norm = nn.ModuleList([RMSNorm(width) for _ in range(count)])
        self.midlayer = Layer(config)
        self.norm = RMSNorm(config.hidden_size)
        self.norm_output = getattr(config, "norm_output", False)

    def forward(self, input_ids, positions, forward_batch):
        embeds = self.embed_tokens(input_ids)
        hidden_states = forward_batch.spec_info.hidden_states
        if {condition}:
            hidden_states = self.fc(hidden_states)
        hidden_states, residual = self.midlayer(positions, embeds, hidden_states)
        logits, aux = self.norm(hidden_states, residual)
        return logits, [logits if self.norm_output else aux]

class {name}(nn.Module):
    def __init__(self, config, quant_config=None, prefix=""):
        super().__init__()
        self.config = config
        if config.num_hidden_layers != 1:
            raise ValueError("one layer only")
        self.model = Inner(config)
        self.load_lm_head_from_target = False
        if config.tie_word_embeddings:
            self.lm_head = self.model.embed_tokens
        else:
            size = config.draft_vocab_size
            if size is None:
                self.load_lm_head_from_target = True
                size = config.vocab_size
            self.lm_head = ParallelLMHead(size, config.hidden_size)
        self.hot_token_id = None

    def set_embed(self, embed):
        if getattr(self.config, "target_hidden_size", self.config.hidden_size) != self.config.hidden_size:
            return
        self.model.embed_tokens.weight = embed

    def set_embed_and_head(self, embed, head):
        self.model.embed_tokens.weight = embed
        self.lm_head.weight = head

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        for name, tensor in weights:
            if "d2t" in name:
                self.hot_token_id = {mapping}
                continue
            if name.startswith("confidence_head"):
                raise KeyError(name)
            name = name.replace("q_proj", "qkv_proj")
            for candidate in (name, "model." + name):
                if candidate in params:
                    params[candidate].weight_loader(params[candidate], tensor)

EntryClass = [{name}]
"""

WORKER = """
class EAGLEWorker:
    def __init__(self, target_worker):
        embed, head = target_worker.get_embed_and_head()
        if self.speculative_algorithm.is_eagle3():
            if hasattr(self.draft_model_runner.model, "load_lm_head_from_target") and (
                self.draft_model_runner.model.load_lm_head_from_target
            ):
                self.draft_model_runner.model.set_embed_and_head(embed, head)
            else:
                self.draft_model_runner.model.set_embed(embed)
            {map_needed}
        else:
            self.draft_model_runner.model.set_embed_and_head(embed, head)
"""

SPEC_INFO = """
from enum import IntEnum, auto

class SpeculativeAlgorithm(IntEnum):
    EAGLE = auto()
    EAGLE3 = auto()

    def is_eagle3(self):
        return self == SpeculativeAlgorithm.EAGLE3

    @classmethod
    def from_string(cls, name):
        return cls[name]
"""

MODEL_CONFIG = """
GROUP = ["TargetB", "TargetC"]

class ModelConfig:
    def __init__(self, model_path, is_draft_model=False):
        self.hf_config = load(model_path)
        if is_draft_model and self.hf_config.architectures[0] == "TargetA":
            self.hf_config.num_experts = self.hf_config.mtp_num_experts
            self.hf_config.architectures[0] = "TargetANextN"
        if is_draft_model and self.hf_config.architectures[0] in GROUP:
            self.hf_config.architectures[0] = "OtherNextN"
"""


def release(extra: dict[str, str] | None = None, *, map_needed: str = "pass", **options: str) -> SourceTree:
    """A release with one EAGLE-3 class."""
    settings = {
        "name": "ToyForCausalLMEagle3",
        "default": "3",
        "condition": "hidden_states.shape[-1] != embeds.shape[-1]",
        "fc_norm": 'getattr(config, "fc_norm", False)',
        "mapping": "tensor + torch.arange(tensor.shape[0])",
        **options,
    }
    files = {
        "layers/all.py": LAYERS,
        "models/toy_eagle3.py": EAGLE3.format(**settings),
        "speculative/eagle_worker.py": WORKER.format(map_needed=map_needed),
        "speculative/spec_info.py": SPEC_INFO,
        "configs/model_config.py": MODEL_CONFIG,
        **(extra or {}),
    }
    return SourceTree("here", "9.9.9", {path: text.encode() for path, text in files.items()})


def toy(**options):
    return derive(release(**options))[0].drafters["ToyForCausalLMEagle3"]


def test_width_and_number_of_taps_are_fitted_with_their_precedence():
    found, files = derive(release())
    drafter = found.drafters["ToyForCausalLMEagle3"]
    assert (drafter.kind, drafter.status, drafter.reason) == ("EAGLE3", "fitted", "")
    assert drafter.taps == ("num_aux_hidden_states", "len(eagle_config.eagle_aux_hidden_state_layer_ids)", "3")
    assert drafter.width == ("target_hidden_size", "hidden_size")
    assert drafter.bias == "bias"
    assert (drafter.source.file, drafter.source.function) == ("models/toy_eagle3.py", "Inner.__init__")
    assert {"models/toy_eagle3.py", "layers/all.py"} <= files | {"layers/all.py"}
    assert {"num_aux_hidden_states", "eagle_config.norm_before_fc", "norm_output"} <= set(drafter.keys)


def test_the_literal_number_of_taps_is_the_release_s_own():
    assert toy(default="5").taps[-1] == "5"


def test_norms_and_the_recycled_state_are_found_by_what_they_change():
    drafter = toy()
    assert drafter.norm_before_fc == ("eagle_config.norm_before_fc", "norm_before_fc")
    assert drafter.fc_norm == ("fc_norm",)
    assert drafter.norm_output == ("norm_output",)


@pytest.mark.parametrize(
    ("fc_norm", "keys", "either"),
    [
        (
            'getattr(config, "fc_norm", None) or getattr(config, "use_aux_norm", False)',
            ("fc_norm", "use_aux_norm"),
            True,
        ),
        ('getattr(config, "use_aux_norm", getattr(config, "fc_norm", False))', ("use_aux_norm", "fc_norm"), False),
    ],
)
def test_of_two_keys_either_will_do_or_the_first_that_is_present_decides(fc_norm, keys, either):
    drafter = toy(fc_norm=fc_norm)
    assert drafter.fc_norm == keys
    assert drafter.either == (("fc_norm",) if either else ())
    assert drafter.norm_before_fc == ("eagle_config.norm_before_fc", "norm_before_fc")


@pytest.mark.parametrize(
    ("condition", "skips"), [("hidden_states.shape[-1] != embeds.shape[-1]", True), ("True", False)]
)
def test_whether_fc_is_skipped_is_told_by_running_the_forward_pass(condition, skips):
    assert toy(condition=condition).skips_fc is skips


def test_a_class_whose_fc_never_runs_is_opaque():
    drafter = toy(condition="False")
    assert drafter.status == "opaque"
    assert "model.fc is not called" in drafter.reason


def test_one_layer_only_is_recorded():
    assert toy().max_layers == 1


def test_tensors_are_loaded_dropped_or_refused_as_the_loader_does():
    drafter = toy()
    assert {"fc.weight", "model.fc.weight", "d2t", "lm_head.weight", "norm.weight"} <= set(drafter.loads)
    assert {"input_norm.weight", "fc_norm.0.weight", "midlayer.self_attn.q_proj.weight"} <= set(drafter.loads)
    assert {"layers.0", "layers.1", "t2d", "aux_norm_low.weight"} <= set(drafter.ignores)
    assert set(drafter.refuses) == {"confidence_head.proj.bias", "confidence_head.proj.weight"}
    assert not set(drafter.loads) & set(drafter.ignores)


def test_every_well_known_name_has_exactly_one_fate():
    drafter = toy()
    names = [name for group in WELL_KNOWN for name in group]
    assert len(set(names)) == len(names)
    for name in names:
        fates = [
            what
            for what in ("loads", "ignores", "refuses")
            if any(name == word or name.startswith(word + ".") for word in getattr(drafter, what))
        ]
        assert len(fates) == 1, (name, fates)


def test_embeddings_and_head_are_whose_the_worker_makes_them():
    drafter = toy()
    assert drafter.embed == "target unless target_hidden_size differs"
    assert drafter.lm_head == {
        "own": "own",
        "tied": "embed",
        "draft_vocab_null": "target",
        "draft_vocab_missing": "error",
    }
    assert (drafter.vocab_map, drafter.vocab_encoding) == ("d2t", "offset")


def test_a_map_that_is_taken_as_it_is_is_absolute():
    assert toy(mapping="tensor").vocab_encoding == "absolute"


def test_a_worker_that_cannot_do_without_the_map_is_recorded():
    needed = "self.hot = self.draft_model_runner.model.hot_token_id.to(embed.device)"
    assert toy(map_needed=needed).lm_head["unmapped"] == "error"


def test_a_class_that_cannot_be_built_is_opaque_and_says_why():
    broken = "class BrokenEagle3:\n    def __init__(self, **_):\n        raise ValueError('not here')\n"
    found, _ = derive(release({"models/broken_eagle3.py": broken + "EntryClass = BrokenEagle3\n"}))
    assert found.drafters["BrokenEagle3"].status == "opaque"
    assert "not here" in found.drafters["BrokenEagle3"].reason
    assert found.drafters["ToyForCausalLMEagle3"].status == "fitted"


def test_a_class_of_another_name_for_the_same_code_is_recorded_under_both():
    alias = "from sglang.srt.models.toy_eagle3 import ToyForCausalLMEagle3\n"
    alias += "class OtherEagle3(ToyForCausalLMEagle3):\n    pass\nEntryClass = [OtherEagle3]\n"
    found, _ = derive(release({"models/other_eagle3.py": alias}))
    assert found.drafters["OtherEagle3"] == found.drafters["ToyForCausalLMEagle3"]


BLOCK = """
from torch import nn

class DFlashDraftModel(nn.Module):
    def __init__(self, config, quant_config=None):
        super().__init__()
        nested = getattr(config, "dflash_config", None) or {}
        ids = nested.get("target_layer_ids", getattr(config, "target_layer_ids", None))
        bound = getattr(config, "num_target_layers", config.num_hidden_layers)
        if ids and max(ids) >= bound:
            raise ValueError("out of range")
        self.count = len(ids) if ids else config.num_hidden_layers
        self.fc = nn.Linear(self.count * config.hidden_size, config.hidden_size, bias=False)

    def project_target_hidden(self, states):
        if states.shape[-1] != self.fc.in_features:
            raise ValueError("width")
        return self.fc(states)

    def load_weights(self, weights):
        params = dict(self.named_parameters())
        for name, tensor in weights:
            if name in params:
                params[name].weight_loader(params[name], tensor)

EntryClass = DFlashDraftModel
"""


def test_a_block_drafter_takes_ids_only_below_a_number_and_has_the_target_s_vocabulary():
    found, _ = derive(release({"models/dflash.py": BLOCK}))
    drafter = found.drafters["DFlashDraftModel"]
    assert (drafter.kind, drafter.status) == ("DFLASH", "fitted")
    assert drafter.taps == ("len(dflash_config.target_layer_ids)", "len(target_layer_ids)", "num_hidden_layers")
    assert drafter.ids_below == ("num_target_layers", "num_hidden_layers")
    assert drafter.width == ("hidden_size",)
    assert not drafter.skips_fc
    assert drafter.embed == "target"
    assert set(drafter.lm_head.values()) == {"target"}
    assert drafter.loads == ("fc.weight",)


MTP = """
import torch
from torch import nn
from sglang.srt.layers.all import ParallelLMHead, RMSNorm, VocabParallelEmbedding

class Step(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.eh_proj = nn.Linear(2 * size, size)

class Inner(nn.Module):
    def __init__(self, config):
        super().__init__()
        {check}
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, {size})
        {layer}

    def forward(self, input_ids, positions, forward_batch):
        {forward}

class ToyForCausalLMMTP(nn.Module):
    def __init__(self, config, quant_config=None):
        super().__init__()
        self.model = Inner({part})
        self.lm_head = {head}

    def set_embed_and_head(self, embed, head):
        {share}

EntryClass = ToyForCausalLMMTP
"""
MTP_DEFAULTS = {
    "check": "",
    "size": "config.hidden_size",
    "layer": "self.eh_proj = nn.Linear(2 * {size}, {size}, bias=False)",
    "forward": "return self.eh_proj(forward_batch.spec_info.hidden_states)",
    "part": "config",
    "head": "ParallelLMHead(config.vocab_size, config.hidden_size)",
    "share": "self.model.embed_tokens.weight, self.lm_head.weight = embed, head",
}


def mtp(**options: str):
    made = {**MTP_DEFAULTS, **options}
    made["layer"] = made["layer"].format(size=made["size"])
    return derive(release({"models/toy_mtp.py": MTP.format(**made)}))[0].drafters["ToyForCausalLMMTP"]


@pytest.mark.parametrize(
    ("options", "taps", "width"),
    [
        ({}, "2", "hidden_size"),
        ({"layer": "self.of_any_name = nn.Linear(2 * {size}, {size}, bias=False)"}, "2", "hidden_size"),
        ({"layer": "self.h_proj, self.e_proj = (nn.Linear({size}, {size}) for _ in range(2))"}, "1", "hidden_size"),
        ({"part": "config.text_config", "head": "ParallelLMHead(1, 64)"}, "2", "text_config.hidden_size"),
        ({"size": "config.backbone_hidden_size"}, "2", "backbone_hidden_size"),
        ({"layer": "self.layers = nn.ModuleDict({{'0': Step({size})}})"}, "2", "hidden_size"),
        ({"check": "assert config.get_mtp_config().hidden_size == config.hidden_size"}, "2", "hidden_size"),
    ],
)  # fmt: skip
def test_the_width_of_a_target_s_own_mtp_layers_is_found_wherever_it_lies(options, taps, width):
    drafter = mtp(**options)
    assert (drafter.kind, drafter.status, drafter.reason) == ("NEXTN", "fitted", "")
    assert (drafter.taps, drafter.width) == ((taps,), (width,))


@pytest.mark.parametrize(
    "check",
    [
        "assert list(config.layer_types) == ['sliding_attention']",
        "assert config.model_type == 'bailing_hybrid'",
        "assert all(char in '*E' for char in config.mtp_hybrid_override_pattern)",
        "assert config.dflash_config['lilicorr_num_layers'] == 1",
    ],
)
def test_a_class_that_only_some_configs_build_is_built_with_one_of_them(check):
    assert mtp(check=check).status == "fitted"


def test_a_table_that_is_kept_beside_and_a_head_that_stays_are_told_apart():
    drafter = mtp(head="nn.Linear(config.hidden_size, config.vocab_size)", share="self.target_table = embed")
    assert drafter.embed == "target"
    assert drafter.lm_head["own"] == "own"


def test_a_class_whose_model_never_looks_at_the_target_s_states_is_broken():
    drafter = mtp(layer="self.norm = RMSNorm({size})", forward="return self.norm(self.embed_tokens(input_ids))")
    assert drafter.status == "broken"
    assert "Inner, has no layer for the target's states" in drafter.reason
    assert (drafter.source.file, drafter.source.function) == ("models/toy_mtp.py", "ToyForCausalLMMTP.__init__")


def test_a_class_that_looks_at_them_without_a_known_layer_is_opaque_not_broken():
    drafter = mtp(
        layer="self.norm = RMSNorm({size})", forward="return self.norm(forward_batch.spec_info.hidden_states)"
    )
    assert drafter.status == "opaque"


def test_a_release_without_one_of_the_algorithms_is_scanned_all_the_same():
    spec_info = SPEC_INFO.replace("return cls[name]", "raise ValueError(name)")
    found, _ = derive(release({"speculative/spec_info.py": spec_info}))
    assert found.drafters["ToyForCausalLMEagle3"].status == "fitted"


def test_a_target_s_own_checkpoint_becomes_another_class_in_draft_mode():
    found, _ = derive(release())
    assert found.rewrites == {"TargetA": "TargetANextN", "TargetB": "OtherNextN", "TargetC": "OtherNextN"}


def test_scanning_again_gives_the_same():
    assert derive(release()) == derive(release())
