"""What block drafters and a target's own MTP layers do with configs and weights: on small releases written here."""

from __future__ import annotations

import pytest
from scan_toy_drafters import release

from drafter_contracts.engines.scan.drafters import derive

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
