"""What a profile says of drafter classes, against the release's own statements executed on random configs.

Nothing of the scanner is used here: the statements that size `fc` are cut out of the constructor, and the loader
is run on its own, both on bare objects.
"""

from __future__ import annotations

import ast
import functools
import re
from types import SimpleNamespace

import pytest
from compared_releases import RELEASES
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from drafter_contracts.engines.capture import find, lookup
from drafter_contracts.engines.store import load_advisories, load_profile

pytestmark = [pytest.mark.conformance]
each_release = pytest.mark.parametrize("release", RELEASES)
quick = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
#: EAGLE-3 class to its file and the class that owns `fc`.
EAGLE3 = {
    "LlamaForCausalLMEagle3": ("models/llama_eagle3.py", "LlamaModel"),
    "Eagle3DeepseekV2ForCausalLM": ("models/kimi_k25_eagle3.py", "Eagle3MLAModel"),
}
FC_WORDS = (
    "hidden_size_in",
    "target_hidden_size",
    "num_aux",
    "num_fc_input",
    "eagle_config",
    "self.fc =",
    "norm_before_fc",
    "use_fc_norm",
)


@pytest.fixture(scope="module")
def profile_of():
    """A function from a release to its shipped profile (which `test_targets.py` scans again)."""
    return functools.cache(functools.partial(load_profile, "sglang"))


class Layer:
    """A linear layer or a norm: remembers its arguments."""

    def __init__(self, *args, bias=True, **kwargs):
        self.args, self.bias = args, bias


def constructor_of(tree, path, owner):
    """The statements of a constructor that have to do with `fc`, and the functions of the file, compiled together."""
    module = ast.parse(tree.read(path))
    cls = next(node for node in module.body if isinstance(node, ast.ClassDef) and node.name == owner)
    init = next(node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    body = [node for node in init.body if any(word in ast.unparse(node) for word in FC_WORDS)]
    function = ast.parse("def build(self, config, quant_config=None, prefix=''):\n    pass").body[0]
    function.body = body
    helpers = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    future = ast.parse("from __future__ import annotations").body
    nn = SimpleNamespace(Linear=Layer, ModuleList=list, Module=object)
    names = {"torch": SimpleNamespace(nn=nn), "nn": nn, "RMSNorm": Layer, "add_prefix": lambda *_: ""}
    names |= {"ColumnParallelLinear": Layer, "ReplicatedLinear": Layer}
    exec(compile(ast.Module([*future, *helpers, function], []), path, "exec"), names)  # noqa: S102 - the release itself
    return names["build"]


build_of = functools.cache(constructor_of)

ids = st.lists(st.integers(0, 60), min_size=1, max_size=7)
configs = st.fixed_dictionaries(
    {"hidden_size": st.sampled_from((64, 96)), "rms_norm_eps": st.just(1e-6)},
    optional={
        "target_hidden_size": st.sampled_from((64, 128)),
        "num_aux_hidden_states": st.integers(1, 7),
        "eagle_aux_hidden_state_layer_ids": ids,
        "eagle_config": st.fixed_dictionaries(
            {}, optional={"eagle_aux_hidden_state_layer_ids": ids, "norm_before_fc": st.booleans()}
        ),
        "bias": st.booleans(),
        "norm_before_fc": st.booleans(),
        "fc_norm": st.booleans(),
    },
)


def value_of(word, config):
    """What a profile's source of a number gives for a config, or None."""
    if word.isdigit():
        return int(word)
    if word.startswith("len("):
        found = lookup(config, word[4:-1])
        return len(found) if isinstance(found, list) and found else None
    found = lookup(config, word)
    return found if isinstance(found, int) else None


def first(words, config):
    return next(value for word in words if (value := value_of(word, config)) is not None)


def on(keys, config):
    """Whether the first of the keys that is present is true."""
    found = [find(config, key) for key in keys]
    return next((bool(value) for present, value in found if present), False)


@each_release
@pytest.mark.parametrize("architecture", EAGLE3)
@given(config=configs)
@quick
def test_fc_is_built_as_wide_and_with_the_norms_that_the_profile_says(
    tree_of, profile_of, release, architecture, config
):
    path, owner = EAGLE3[architecture]
    if path not in tree_of(release).files():
        assert architecture not in profile_of(release).drafters
        return
    drafter = profile_of(release).drafters[architecture]
    assert drafter.status == "fitted"
    model = SimpleNamespace()
    build_of(tree_of(release), path, owner)(model, SimpleNamespace(**config))
    taps, width = first(drafter.taps, config), first(drafter.width, config)
    assert model.fc.args[:2] == (taps * width, config["hidden_size"])
    assert model.fc.bias == {"yes": True, "no": False}.get(drafter.bias, config.get(drafter.bias, False))
    norm = getattr(model, "input_norm", None)
    assert (norm is not None) == on(drafter.norm_before_fc, config)
    if norm is not None:
        assert norm.args[0] == taps * width
    chunks = getattr(model, "fc_norm", None)
    assert ([n.args[0] for n in chunks] if chunks else None) == (
        [width] * taps if on(drafter.fc_norm, config) else None
    )


def loader_of(tree, path, owner):
    """`load_weights` of a class on its own: name to whether it reaches a parameter, an attribute or nothing."""
    module = ast.parse(tree.read(path))
    cls = next(node for node in module.body if isinstance(node, ast.ClassDef) and node.name == owner)
    load = next(node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "load_weights")
    load.returns = None
    for argument in load.args.args:
        argument.annotation = None
    names = {
        "re": re,
        "torch": SimpleNamespace(arange=lambda n: n),
        "default_weight_loader": None,
        "logger": SimpleNamespace(warning=lambda *_: None),
    }
    exec(compile(ast.Module([load], []), path, "exec"), names)  # noqa: S102 - the release itself

    def fate(parameters, name):
        reached = []
        held = SimpleNamespace(weight_loader=lambda *_: reached.append(1))
        model = SimpleNamespace(
            named_parameters=lambda: [(p, held) for p in parameters], hot_token_id=None, post_load_weights=lambda: None
        )

        class Tensor:
            shape = (4,)

            def __add__(self, other):
                return self

        names["load_weights"](model, [(name, Tensor())])
        return bool(reached) or model.hot_token_id is not None

    return fate


LAYER = ("hidden_norm.weight", "self_attn.qkv_proj.weight", "mlp.down_proj.weight", "mlp.gate_up_proj.weight")


def parameters_of(drafter):
    """Parameters that a Llama-style class has, by its own layer names."""
    layer = "midlayer" if drafter.max_layers == 1 else "layers.0"
    names = [f"model.{layer}.{name}" for name in LAYER]
    names += ["model.fc.weight", "model.norm.weight", "model.embed_tokens.weight", "lm_head.weight"]
    names += ["model.input_norm.weight"] if drafter.norm_before_fc else []
    names += [f"model.fc_norm.{i}.weight" for i in range(3)] if drafter.fc_norm else []
    return names


@each_release
@pytest.mark.parametrize(
    "name",
    [
        "fc.weight", "input_norm.weight", "fc_norm.0.weight", "aux_norm_low.weight", "norm.weight", "lm_head.weight",
        "d2t", "t2d", "mask_hidden", "midlayer.hidden_norm.weight", "midlayer.self_attn.q_proj.weight",
        "layers.0.hidden_norm.weight", "layers.0.self_attn.q_proj.weight", "layers.1.mlp.down_proj.weight",
    ],
)  # fmt: skip
def test_the_loader_takes_the_tensors_that_the_profile_lists_and_no_others(tree_of, profile_of, release, name):
    path = EAGLE3["LlamaForCausalLMEagle3"][0]
    drafter = profile_of(release).drafters["LlamaForCausalLMEagle3"]

    def listed(words):
        return any(name == word or name.startswith(word + ".") for word in words)

    if "super()" in ast.unparse(ast.parse(tree_of(release).read(path))).partition("def load_weights")[2]:
        assert listed(drafter.loads) or listed(drafter.ignores) or listed(drafter.refuses)
        return
    fate = loader_of(tree_of(release), path, "LlamaForCausalLMEagle3")
    parameters = parameters_of(drafter)
    if name.startswith("layers.1") and drafter.max_layers == 0:
        parameters += [f"model.layers.1.{one}" for one in LAYER]
    assert fate(parameters, name) == listed(drafter.loads)
    assert fate(parameters, name) != listed(drafter.ignores)


@each_release
@given(ids=st.lists(st.integers(0, 40), min_size=1, max_size=6), depth=st.integers(1, 8), bound=st.integers(1, 60))
@quick
def test_a_block_drafter_is_refused_for_ids_beyond_the_number_that_the_profile_names(
    tree_of, profile_of, release, ids, depth, bound
):
    path = "models/dflash.py"
    if path not in tree_of(release).files():
        assert not any(d.kind in ("DFLASH", "DSPARK") for d in profile_of(release).drafters.values())
        return
    drafter = profile_of(release).drafters["DFlashDraftModel"]
    assume(depth != bound)
    text = tree_of(release).read(path).partition("draft_config = ")[2].partition("num_context_features = len")[0]
    own_depth = "max(draft_config.target_layer_ids)" not in text
    assert ("num_hidden_layers" in drafter.ids_below) == own_depth
    config = {"num_hidden_layers": depth, "num_target_layers": bound, "target_layer_ids": ids}
    assert first([k for k in drafter.ids_below if k != "num_hidden_layers"], config) == bound
    assert first(drafter.taps, config) == len(ids)


PLACE = re.compile(r"([\w/]+\.py):(\d+)")
VERSION = re.compile(r"\b(0\.\d+\.\d+(?:\.post\d+)?)\b")


@pytest.mark.parametrize("advisory", load_advisories("sglang"), ids=lambda one: one.id)
def test_every_place_that_an_advisory_names_is_there(tree_of, advisory):
    seen = 0
    for text in (advisory.source, advisory.evidence):
        version = ""
        for part in re.split(r"(0\.\d+\.\d+(?:\.post\d+)?)", text):
            if VERSION.fullmatch(part):
                version = part
                continue
            for path, line in PLACE.findall(part):
                lines = tree_of(version).read(path).splitlines()
                assert lines[int(line) - 1].strip(), f"{version} {path}:{line} is blank"
                seen += 1
    assert seen
