"""Renders end to end: published, resolved, pulled, guarded, and refused where they are not what they say."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil

import pytest

from drafter_cli.errors import EXIT_CONFLICT, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from drafter_contracts.checkpoint.header import read_header
from drafter_contracts.checkpoint.skeleton import write_skeleton

WIDTH, VOCABULARY = 64, 512
LAYERS = {
    "hidden_norm.weight": (WIDTH,),
    "input_layernorm.weight": (WIDTH,),
    "post_attention_layernorm.weight": (WIDTH,),
    "self_attn.q_proj.weight": (64, 2 * WIDTH),
    "self_attn.k_proj.weight": (64, 2 * WIDTH),
    "self_attn.v_proj.weight": (64, 2 * WIDTH),
    "self_attn.o_proj.weight": (WIDTH, 64),
    "mlp.gate_proj.weight": (128, WIDTH),
    "mlp.up_proj.weight": (128, WIDTH),
    "mlp.down_proj.weight": (WIDTH, 128),
}
TRANSFORMER = {
    "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": 128, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16, "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096, "rope_theta": 50000.0, "torch_dtype": "bfloat16",
}  # fmt: skip
SPECULATORS = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "speculators_version": "0.5.0",
    "speculators_config": {"algorithm": "eagle3"},
    "draft_vocab_size": VOCABULARY,
    "eagle_aux_hidden_state_layer_ids": [3, 31, 59],
    "transformer_layer_config": TRANSFORMER,
}
NUMBERS = ("--steps", "3", "--topk", "1", "--draft-tokens", "4")
NEWEST, OLDER = "sglang==0.5.23", "sglang==0.5.9"


class Studio:
    """A registry, and drafters whose weights are numbers that can be told apart."""

    def __init__(self, shop):
        self.shop, self.run, self.folder = shop, shop.run, shop.folder

    def drafter(self, config, layer="layers.0."):
        directory = os.path.join(self.folder, "drafter")
        tensors = {"fc.weight": (WIDTH, 3 * WIDTH), "norm.weight": (WIDTH,), "lm_head.weight": (VOCABULARY, WIDTH)}
        tensors |= {f"{layer}{name}": shape for name, shape in LAYERS.items()}
        write_skeleton(directory, config, {name: ("BF16", shape) for name, shape in tensors.items()})
        weights = os.path.join(directory, "model.safetensors")
        with open(weights, "r+b") as file:  # each column of fc in one byte, so that its block can be told
            start, end = self.span(weights, "fc.weight")
            file.seek(start)
            file.write(bytes(at // 2 % (3 * WIDTH) for at in range(end - start)))
        return directory

    def span(self, weights, name):
        """First byte of a tensor in its file, and the one after its last."""
        header = read_header(weights)
        with open(weights, "rb") as file:
            base = 8 + int.from_bytes(file.read(8), "little")
        found = dict(zip((one.name for one in header.tensors), header.spans, strict=True))[name]
        return base + found[0], base + found[1]

    def row(self, directory):
        """The first row of `fc`, one number for each column."""
        weights = os.path.join(directory, "model.safetensors")
        start, _ = self.span(weights, "fc.weight")
        with open(weights, "rb") as file:
            file.seek(start)
            return list(file.read(2 * 3 * WIDTH)[::2])

    def publish(self, config, ids="2,30,58", layer="layers.0.", version="1.0"):
        done = self.shop.publish(
            self.drafter(config, layer), "--output-ids", ids, *NUMBERS, "--alias", "prod", version=version
        )
        assert done.returncode == EXIT_OK, done.stdout + done.stderr

    def read(self, *arguments):
        done = self.run(*arguments)
        assert done.returncode == EXIT_OK, done.stdout + done.stderr
        return json.loads(done.stdout)

    def launch(self, flags):
        return ["python", "-m", "sglang.launch_server", "--model-path", self.shop.target, *flags]


@pytest.fixture
def studio(own_shop):
    return Studio(own_shop)


def content(directory):
    found = {}
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            found[name] = file.read()
    return found


def config_of(directory):
    return json.loads(content(directory)["config.json"])


@pytest.mark.parametrize(("engine", "layer"), [(NEWEST, "layers.0."), (OLDER, "midlayer.")])
def test_a_speculators_drafter_is_resolved_rendered_and_let_pass(studio, engine, layer):
    studio.publish(SPECULATORS)
    done = studio.run("resolve", "tiny@prod", "--engine", engine, "--target", studio.shop.target, "--prefer", "render")
    assert done.returncode == EXIT_OK, done.stderr
    assert "render: transformer_layer_config is laid flat" in done.stderr
    flags = shlex.split(done.stdout)
    assert "--json-model-override-args" not in flags
    directory = flags[3]
    config = config_of(directory)
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert "transformer_layer_config" not in config
    names = {one.name for one in read_header(os.path.join(directory, "model.safetensors")).tensors}
    assert f"{layer}mlp.up_proj.weight" in names
    for drafter in ((), ("tiny@prod",), ("tiny@1.0",)):
        checked = studio.run("check", *drafter, "--engine", engine, "--", *studio.launch(flags))
        assert checked.returncode == EXIT_OK, checked.stdout
    assert (
        studio.run(
            "check",
            "--engine",
            engine,
            "--",
            *studio.launch([*flags[:3], os.path.join(studio.folder, "drafter"), *flags[4:]]),
        ).returncode
        == EXIT_REFUSED
    )


def test_flags_are_preferred_where_they_can_say_it(studio):
    studio.publish(SPECULATORS)
    by_flag = studio.read("resolve", "tiny@prod", "--engine", NEWEST, "--json")
    by_file = studio.read("resolve", "tiny@prod", "--engine", NEWEST, "--prefer", "render", "--json")
    assert "--json-model-override-args" in by_flag["flags"]
    assert "--json-model-override-args" not in by_file["flags"]
    assert by_flag["render"]["digest"] != by_file["render"]["digest"]
    assert by_file["flags"][3] == by_file["render"]["directory"]
    assert by_file["weights"] == {}


def test_another_order_is_published_resolved_guarded_and_really_permuted(studio):
    studio.publish(
        {**TRANSFORMER, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": VOCABULARY}, "58,2,30"
    )
    told = studio.read("resolve", "tiny@prod", "--engine", NEWEST, "--target", studio.shop.target, "--json")
    assert told["weights"] == {"order": [1, 2, 0]}
    directory = told["render"]["directory"]
    stored = studio.row(os.path.join(studio.folder, "drafter"))
    blocks = [stored[at : at + WIDTH] for at in range(0, 3 * WIDTH, WIDTH)]
    assert len({tuple(block) for block in blocks}) == 3
    assert studio.row(directory) == [*blocks[1], *blocks[2], *blocks[0]]
    assert json.loads(content(directory)["drafters-manifest.json"])["layout"]["boundaries"] == [3, 31, 59]
    launch = studio.launch(told["flags"])
    for drafter in ((), ("tiny@prod",)):
        done = studio.run("guard", *drafter, "--engine", NEWEST, "--", *launch)
        assert done.returncode in (126, 127) or "the launch was not started" not in done.stderr, done.stderr
        assert done.stderr.startswith(("ALLOW", "WARN"))
        assert "LAYOUT_DIFFERS" not in done.stderr  # a render's ids are in its release's numbering
    plain = studio.run("pull", "tiny@prod").stdout.strip()
    unpermuted = [plain if flag == directory else flag for flag in told["flags"]]
    refused = studio.run("guard", "tiny@prod", "--engine", NEWEST, "--", *studio.launch(unpermuted))
    assert refused.returncode == EXIT_REFUSED


def test_pull_for_writes_the_same_directory_from_two_caches(studio):
    studio.publish(SPECULATORS)
    first, second = (os.path.join(studio.folder, name) for name in ("first", "second"))
    asked = ("--for", NEWEST, "--target", studio.shop.target)
    done = studio.run("pull", "tiny@prod", *asked, "-o", first)
    assert (done.returncode, done.stdout) == (EXIT_OK, first + "\n"), done.stderr
    assert "launch it with --speculative-algorithm EAGLE3" in done.stderr
    other = {"DRAFTERS_CACHE": os.path.join(studio.folder, "other-cache")}
    told = json.loads(studio.run("pull", "tiny@1.0", second, *asked, "--json", variables=other).stdout)
    assert content(first) == content(second)
    assert told["render"]["digest"] == "sha256:" + hashlib.sha256(content(first)["drafters-manifest.json"]).hexdigest()
    assert told["directory"] == told["flags"][3] == second
    assert any(change.startswith("architectures is set to") for change in told["changes"])
    assert (
        set(told["files"])
        == {"RENDER.md", "config.json", "model.safetensors"}
        == {*content(second)} - {"drafters-manifest.json"}
    )
    text = content(first)["RENDER.md"].decode()
    assert text.startswith("# Render of tiny@1.0 for sglang 0.5.23\n")
    assert "drafters pull tiny@1.0 --for sglang==0.5.23 --target TARGET -o DIR" in text
    assert studio.folder not in text
    for drafter in ((), ("tiny@prod",)):
        checked = studio.run("check", *drafter, "--engine", NEWEST, "--", *studio.launch(told["flags"]))
        assert checked.returncode == EXIT_OK, checked.stdout


def test_the_original_is_never_changed(studio):
    studio.publish(SPECULATORS)
    before = content(studio.run("pull", "tiny@1.0").stdout.strip())
    directory = studio.run("pull", "tiny@1.0", "--for", OLDER).stdout.strip()
    with open(os.path.join(directory, "config.json"), "ab") as file:
        file.write(b" ")
    assert content(studio.run("pull", "tiny@1.0").stdout.strip()) == before
    again = studio.run("pull", "tiny@1.0", "--for", OLDER).stdout.strip()
    assert again == directory
    assert not content(directory)["config.json"].endswith(b" "), "made again"


def test_what_is_right_as_it_is_is_the_version_itself(studio):
    config = {**TRANSFORMER, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": VOCABULARY}
    config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [3, 31, 59]}
    studio.publish(config)
    place = os.path.join(studio.folder, "place")
    done = studio.run("pull", "tiny@1.0", "--for", NEWEST, "-o", place)
    assert "is right for sglang 0.5.23 as it is: nothing was changed" in done.stderr
    assert content(place) == content(studio.run("pull", "tiny@1.0").stdout.strip())
    assert studio.read("pull", "tiny@1.0", "--for", NEWEST, "--json")["render"] is None


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_what_cannot_be_rendered_is_refused_and_nothing_is_written(studio, as_json):
    studio.publish({**SPECULATORS, "norm_before_residual": True})
    place = os.path.join(studio.folder, "place")
    done = studio.run("pull", "tiny@1.0", "--for", NEWEST, "-o", place, *as_json)
    assert done.returncode == EXIT_REFUSED
    assert "trained with the normed state as residual" in done.stdout + done.stderr
    assert (done.stdout == "") == (not as_json)
    assert not os.path.exists(place)
    assert studio.run("resolve", "tiny@1.0", "--engine", NEWEST).returncode == EXIT_REFUSED


def test_other_content_is_not_overwritten_and_options_go_together(studio):
    studio.publish(SPECULATORS)
    place = os.path.join(studio.folder, "place")
    os.mkdir(place)
    with open(os.path.join(place, "config.json"), "w", encoding="utf-8") as file:
        file.write("mine")
    assert studio.run("pull", "tiny@1.0", "--for", NEWEST, "-o", place).returncode == EXIT_CONFLICT
    assert content(place) == {"config.json": b"mine"}
    for arguments in (("a", "-o", "b"), ("--target", "t"), ("--prefer", "flags"), ("--for", NEWEST, "--files", "*")):
        assert studio.run("pull", "tiny@1.0", *arguments).returncode == EXIT_USAGE


def test_a_render_is_never_published(studio):
    studio.publish(SPECULATORS)
    place = os.path.join(studio.folder, "place")
    studio.run("pull", "tiny@1.0", "--for", NEWEST, "-o", place)
    named = ("--name", "tiny", "--version", "9", "--target", studio.shop.target)
    done = studio.run("publish", place, *named)
    assert done.returncode == EXIT_USAGE
    assert "is a render of tiny@1.0 (sha256:" in done.stderr
    os.remove(os.path.join(place, "drafters-manifest.json"))
    done = studio.run("publish", place, *named)
    assert done.returncode == EXIT_USAGE
    assert "Render of tiny@1.0 for sglang 0.5.23" in done.stderr
    assert studio.shop.versions() == ["tiny@1.0"]


class TestWhatOnlySaysThatItIsARender:
    """The gate's false allow: each of these must be refused, with the version named and without."""

    @pytest.fixture
    def told(self, studio):
        studio.publish(SPECULATORS)
        place = os.path.join(studio.folder, "place")
        told = studio.read("pull", "tiny@1.0", "--for", NEWEST, "-o", place, "--json")
        assert self.codes(studio, told, "tiny@1.0") == (EXIT_OK, [])
        return told

    def codes(self, studio, told, *drafter):
        done = studio.run("check", *drafter, "--engine", NEWEST, "--json", "--", *studio.launch(told["flags"]))
        found = json.loads(done.stdout)["findings"]
        return done.returncode, [one["code"] for one in found if one["severity"] == "refuse"]

    def edit(self, told, name, change):
        path = os.path.join(told["directory"], name)
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        change(document)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)

    def test_ids_that_were_changed_by_hand(self, studio, told):
        self.edit(
            told, "config.json", lambda one: one["eagle_config"].update(eagle_aux_hidden_state_layer_ids=[2, 30, 58])
        )
        for drafter in ((), ("tiny@1.0",)):
            assert self.codes(studio, told, *drafter) == (EXIT_REFUSED, ["CAPTURE_LAYERS"])

    def test_a_layout_that_was_changed_with_the_ids(self, studio, told):
        ids = {"eagle_aux_hidden_state_layer_ids": [2, 30, 58]}
        self.edit(told, "config.json", lambda one: one["eagle_config"].update(ids))
        layout = {"boundaries": [2, 30, 58], "output_ids": [1, 29, 57]}
        self.edit(told, "drafters-manifest.json", lambda one: one["layout"].update(layout))
        assert "DRAFT_OTHER" in self.codes(studio, told, "tiny@1.0")[1]

    def test_a_render_of_another_version(self, studio, told):
        self.edit(told, "drafters-manifest.json", lambda one: one["render"].update(of="sha256:" + "0" * 64))
        assert "DRAFT_OTHER" in self.codes(studio, told, "tiny@1.0")[1]
        studio.publish({**SPECULATORS, "initializer_range": 0.5}, version="2.0")
        assert "DRAFT_OTHER" in self.codes(studio, told, "tiny@2.0")[1]

    def test_other_tensors(self, studio, told):
        weights = os.path.join(told["directory"], "model.safetensors")
        with open(weights, "rb") as file:
            data = file.read().replace(b'"norm.weight"', b'"morn.weight"', 1)
        with open(weights, "wb") as file:
            file.write(data)
        assert "DRAFT_OTHER" in self.codes(studio, told, "tiny@1.0")[1]

    @pytest.mark.parametrize("engine", [NEWEST, OLDER])
    def test_weights_in_the_order_of_the_version(self, studio, engine):
        """Names, shapes and header are the same in every order: only numbers tell, and the drafter would be useless."""
        config = {**SPECULATORS, "eagle_aux_hidden_state_layer_ids": [59, 3, 31]}
        studio.publish(config, ids="58,2,30")
        place = os.path.join(studio.folder, "place")
        told = studio.read("pull", "tiny@1.0", "--for", engine, "-o", place, "--json")
        check = ("check", "tiny@1.0", "--engine", engine, "--json", "--", *studio.launch(told["flags"]))
        assert studio.run(*check).returncode == EXIT_OK
        weights = os.path.join(place, "model.safetensors")
        start, end = studio.span(weights, "fc.weight")
        version = os.path.join(studio.folder, "drafter", "model.safetensors")
        theirs, _ = studio.span(version, "fc.weight")
        with open(version, "rb") as file:
            file.seek(theirs)
            data = file.read(end - start)
        with open(weights, "r+b") as file:
            file.seek(start)
            file.write(data)
        done = studio.run(*check)
        assert done.returncode == EXIT_REFUSED
        (finding,) = [one for one in json.loads(done.stdout)["findings"] if one["code"] == "DRAFT_OTHER"]
        assert "does not hold the version's weights in the order" in finding["message"]


def test_what_says_that_it_is_a_render_is_held_against_the_version_even_where_that_would_pass(studio):
    """The version itself is right for the release: only that the launch loads something else speaks against it."""
    config = {**TRANSFORMER, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": VOCABULARY}
    studio.publish({**config, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [3, 31, 59]}})
    place = os.path.join(studio.folder, "place")
    told = studio.read("pull", "tiny@1.0", "--for", NEWEST, "-o", place, "--json")
    manifest = json.loads(content(place)["drafters-manifest.json"])
    manifest["render"] = {"of": told["digest"], "engine": "sglang 0.5.23"}
    for boundaries, code in (([3, 31, 59], EXIT_OK), ([2, 30, 58], EXIT_REFUSED)):
        manifest["layout"]["boundaries"] = boundaries
        if "output_ids" in manifest["layout"]:
            manifest["layout"]["output_ids"] = [one - 1 for one in boundaries]
        ids = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": boundaries}}
        for name, document in (("config.json", config | ids), ("drafters-manifest.json", manifest)):
            with open(os.path.join(place, name), "w", encoding="utf-8") as file:
                json.dump(document, file)
        done = studio.run("check", "tiny@1.0", "--engine", NEWEST, "--json", "--", *studio.launch(told["flags"]))
        found = json.loads(done.stdout)["findings"]
        refused = [one["code"] for one in found if one["severity"] == "refuse"]
        assert (done.returncode, refused) == (code, [] if code == EXIT_OK else ["DRAFT_OTHER"])
        plain = studio.run("check", "--engine", NEWEST, "--", *studio.launch(told["flags"]))
        assert plain.returncode == EXIT_OK, "its own word alone is believed, as that of any manifest"


def test_offline_a_render_is_made_of_what_was_pulled(studio):
    studio.publish(SPECULATORS)
    online = studio.read("resolve", "tiny@1.0", "--engine", NEWEST, "--prefer", "render", "--json")
    shutil.rmtree(os.path.join(studio.shop.cache, "renders"))
    offline = studio.read("resolve", "tiny@1.0", "--engine", NEWEST, "--prefer", "render", "--offline", "--json")
    assert offline["render"] == online["render"]
    unsaid = studio.run("resolve", "tiny@1.0", "--engine", NEWEST, "--no-pull")
    assert (unsaid.returncode, unsaid.stdout) == (EXIT_REFUSED, "")
