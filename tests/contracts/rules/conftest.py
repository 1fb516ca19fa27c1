"""A launch that is right in every respect, to be spoilt in one respect per test."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from drafter_contracts import check
from drafter_contracts.checkpoint.facts import (
    DrafterFacts,
    DraftVocabulary,
    FcFacts,
    LayoutReading,
    TensorFact,
)
from drafter_contracts.engines.elsewhere import Asked, answer
from drafter_contracts.engines.launch_rules import Flag, LaunchRules, Overrides, Source, SpeculativeRules
from drafter_contracts.engines.profile import (
    CaptureMethod,
    Drafter,
    GraphReplay,
    IdReading,
    Profile,
    Shift,
)
from drafter_contracts.engines.scan import encode
from drafter_contracts.layout import layout_from_boundaries
from drafter_contracts.serving.launch import Arguments, Invocation, ServingConfig, Speculation, TargetFacts
from drafter_contracts.situation import StatedLayout

KEY = "eagle_config.eagle_aux_hidden_state_layer_ids"
N = 32
H = 4096


class Scene:
    """The parts of one launch; `verdict()` assembles and checks them."""

    def __init__(self):
        self.served = ""
        self.rule = CaptureMethod(
            "fitted",
            source=Source("models/llama.py", "LlamaForCausalLM.set_eagle3_layers_to_capture", 10),
            default=("2", "N//2", "N-3"),
            shifts=(Shift(1),),
        )
        self.reading = IdReading(keys=(KEY,), source=Source("model_runner.py", "init", 5))
        self.graphs = GraphReplay()
        self.draft_class = Drafter(
            "EAGLE3",
            source=Source("models/llama_eagle3.py", "LlamaModel.__init__", 100),
            taps=("num_aux_hidden_states", f"len({KEY})", "3"),
            width=("target_hidden_size", "hidden_size"),
            bias="bias",
            norm_before_fc=("eagle_config.norm_before_fc", "norm_before_fc"),
            fc_norm=("fc_norm",),
            norm_output=("norm_output",),
            skips_fc=True,
            keys=("hidden_size", "num_hidden_layers", "vocab_size"),
            ignores=("t2d",),
            embed="target unless target_hidden_size differs",
            lm_head={"tied": "embed", "draft_vocab_null": "target", "own": "own"},
            vocab_map="d2t",
        )
        self.launch = LaunchRules(
            speculative=SpeculativeRules(
                algorithms=("EAGLE", "EAGLE3", "STANDALONE", "DFLASH"), bundled=("DeepseekV3ForCausalLM",)
            ),
            overrides=Overrides(drafter=True),
            draft_quantization="inherits",
            draft_context="error,override",
            quantization_files=("modelopt_fp4",),
        )
        self.config = {
            "architectures": ["LlamaForCausalLMEagle3"],
            "hidden_size": H,
            "num_hidden_layers": 1,
            "vocab_size": 128256,
            "draft_vocab_size": 32000,
            "tie_word_embeddings": False,
            "max_position_embeddings": 131072,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 16, 28], "use_aux_hidden_state": True},
        }
        tensors = (
            TensorFact("d2t", "I64", (32000,)),
            TensorFact("fc.weight", "BF16", (H, 3 * H)),
            TensorFact("lm_head.weight", "BF16", (32000, H)),
            TensorFact("midlayer.mlp.up_proj.weight", "BF16", (4 * H, H)),
            TensorFact("t2d", "BOOL", (128256,)),
        )
        self.facts = DrafterFacts(
            "/models/head",
            "EAGLE3",
            ("fc.weight has three times the width",),
            architectures=("LlamaForCausalLMEagle3",),
            tensors=tensors,
            weights="safetensors",
            layout=LayoutReading(
                "producer rule",
                layout_from_boundaries([3, 17, 29], width=H),
                (2, 16, 28),
                KEY,
                "output",
                "specforge",
            ),
            fc=FcFacts("fc.weight", H, 3 * H, tap_width=H, taps=3),
            vocabulary=DraftVocabulary(32000, 128256, reduced=True, d2t=32000, t2d=128256, encoding="offset"),
            has_lm_head=True,
            has_embedding=False,
            hidden_size=H,
            real_layers=1,
            config_layers=1,
            max_position_embeddings=131072,
            dtype="BF16",
        )
        self.target = TargetFacts(
            "/models/target",
            "/models/target/config.json",
            "LlamaForCausalLM",
            "llama",
            "llama",
            num_layers=N,
            hidden_size=H,
            vocab_size=128256,
            max_position_embeddings=131072,
            config={"num_hidden_layers": N},
        )
        self.speculation = Speculation(
            "EAGLE3",
            "EAGLE3",
            draft_path="/models/head",
            stated_draft_path="/models/head",
            stated=(3, 1, 4),
            effective=(3, 1, 4),
        )
        self.values = {"dtype": "auto"}
        self.arguments = Arguments()
        self.given = {}
        self.environment = {}
        self.overrides = {}
        self.graphs_on = True
        self.boundaries = (3, 17, 29)
        self.manifest = None
        self.advisories = ()
        self.others = ()
        self.targets = None
        self.drafters = None
        self.buffers = {}
        self.rewrites = {}
        self.flags = ("--speculative-draft-model-quantization", "--speculative-draft-attention-backend")

    def edit(self, part, **changes):
        """Replace fields of one part."""
        setattr(self, part, replace(getattr(self, part), **changes))
        return self

    def profile(self, release="9.9.9"):
        launch = replace(self.launch, flags=tuple(Flag((name,)) for name in self.flags))
        method = {"DFLASH": "DFLASH", "DSPARK": "DSPARK"}.get(self.speculation.algorithm, "EAGLE3")
        rules = (self.rule,) if self.rule is not None else ()
        targets = self.targets
        if targets is None:
            targets = {"LlamaForCausalLM": {method: 0} if rules else {}, "OtherForCausalLM": {}}
        drafters = self.drafters
        if drafters is None:
            drafters = {"LlamaForCausalLMEagle3": self.draft_class} if self.draft_class is not None else {}
        return Profile(
            "drafters.engine-profile.v1",
            "sglang",
            release,
            readings={method: self.reading},
            graphs={method: self.graphs},
            rules=rules,
            targets=targets,
            drafters=drafters,
            buffers=self.buffers,
            rewrites=self.rewrites,
            launch=launch,
        )

    def elsewhere(self):
        asked = Asked(
            self.target.architecture if self.target is not None else "",
            check.METHODS.get(self.speculation.algorithm, ""),
            self.facts.architectures if self.facts is not None else (),
            algorithms=self.speculation.known is False,
        )
        return tuple(answer(encode(profile), asked, profile.name) for profile in self.others)

    def situation(self):
        serving = ServingConfig(
            Invocation(("python", "-m", "sglang.launch_server"), entry="launch_server", environment=self.environment),
            replace(self.arguments, values={**self.values}, given=self.given),
            self.speculation,
            self.overrides,
            "/models/target",
            cuda_graphs=self.graphs_on,
        )
        stated = None
        if self.boundaries is not None:
            layout = layout_from_boundaries(self.boundaries, width=H)
            stated = StatedLayout(layout, "option", "--boundaries")
        facts = replace(self.facts, config=self.config) if self.facts is not None else None
        return check.assemble(
            serving=serving,
            profile=self.profile(),
            drafter=facts,
            drafter_name="head",
            drafter_served=self.served,
            target=self.target,
            manifest=self.manifest,
            stated_option=stated,
            advisories=self.advisories,
            elsewhere=self.elsewhere(),
        )

    def verdict(self):
        return check.run(self.situation())

    def finding(self, code):
        """The one finding with this code."""
        found = [finding for finding in self.verdict().findings if finding.code == code]
        assert len(found) == 1, [f"{f.code}: {f.message}" for f in self.verdict().findings]
        return found[0]

    def codes(self):
        """Code to severity of everything that was found."""
        return {finding.code: finding.severity for finding in self.verdict().findings}


@pytest.fixture
def scene():
    return Scene()
