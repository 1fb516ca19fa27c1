"""`drafters publish` with evidence by values, from a sample to the registry and back: the incident, replayed."""

from __future__ import annotations

import hashlib
import json
import os

import msgspec
import pytest
import torch
from making import formats

from drafter_cli import main
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK, EXIT_UNKNOWN, EXIT_USAGE
from drafter_contracts.checkpoint.skeleton import write_skeleton
from drafter_contracts.evidence.documents import EVALUATION, decode, weights_digest
from drafter_contracts.layout import Tap
from drafter_contracts.values import records
from drafter_contracts.values.targets import run_target

WIDTH = 64
CONFIG = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "vocab_size": 256,
    "draft_vocab_size": 256,
    "max_position_embeddings": 2048,
}
TENSORS = {
    "fc.weight": ("BF16", (WIDTH, 3 * WIDTH)),
    "midlayer.hidden_norm.weight": ("BF16", (WIDTH,)),
    "midlayer.self_attn.q_proj.weight": ("BF16", (WIDTH, 2 * WIDTH)),
    "midlayer.post_attention_layernorm.weight": ("BF16", (WIDTH,)),
    "norm.weight": ("BF16", (WIDTH,)),
    "lm_head.weight": ("BF16", (256, WIDTH)),
}
TRUE = (2, 3, 5)


@pytest.fixture(scope="module")
def captured(random_target):
    """The target's states on 40 tokens."""
    generator = torch.Generator().manual_seed(1)
    return run_target(random_target, torch.randint(0, 256, (40,), generator=generator), dtype="float32")


class Shop:
    """A registry in this process, a drafter, and samples of what it was trained on."""

    def __init__(self, folder, target, captured, capsys):
        self.folder, self.target, self.captured, self._capsys = str(folder), target, captured, capsys
        self.data = os.path.join(self.folder, "data")

    def drafter(self, ids=(), name="drafter"):
        stated = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(ids)}} if ids else {}
        directory = os.path.join(self.folder, name)
        write_skeleton(directory, CONFIG | stated, TENSORS)
        return directory

    def sample(self, boundaries=TRUE, name="data_0", change=lambda state: state):
        states = [self.captured.states[Tap(boundary)] for boundary in boundaries]
        states[1] = change(states[1])
        last = self.captured.states[Tap(6, "final_norm")]
        return formats.write(records.SPECFORGE_EAGLE3, self.folder, self.captured.tokens, states, last, name=name)

    def run(self, *arguments, data=""):
        self._capsys.readouterr()
        code = main.main([*map(str, arguments), "--data", data or self.data])
        return code, *self._capsys.readouterr()

    def publish(self, directory, *more, **keywords):
        named = ("--name", "tiny", "--version", "1.0", "--target", self.target)
        return self.run("publish", directory, *named, *more, **keywords)

    def identified(self, *more, name="identify.json", **sample):
        """A document of what a sample holds; its path."""
        path = os.path.join(self.folder, name)
        main.main(["identify", self.sample(**sample), "--target", self.target, "-o", path, *more])
        return path

    def manifest(self, data=""):
        code, out, err = self.run("show", "tiny@1.0", "--json", data=data)
        assert code == EXIT_OK, err
        return json.loads(out)["manifest"]


@pytest.fixture
def shop(tmp_path, random_target, captured, capsys, monkeypatch):
    for name in ("DRAFTERS_URL", "DRAFTERS_TOKEN", "DRAFTERS_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return Shop(tmp_path, random_target, captured, capsys)


def test_a_sample_settles_what_no_file_says_and_the_evidence_goes_with_the_drafter(shop, tmp_path):
    directory = shop.drafter()
    assert shop.publish(directory)[0] == EXIT_UNKNOWN
    code, _, err = shop.publish(directory, "--sample", shop.sample())
    assert code == EXIT_OK, err
    assert "recorded #0 = boundary 2 (output of layer 1)" in err
    assert "told by values:" in err
    layout = shop.manifest()["layout"]
    assert (layout["boundaries"], layout["known_by"]) == ([2, 3, 5], "identified by values")
    kept = layout["identified"]
    assert [tap["boundary"] for tap in kept["taps"]] == [2, 3, 5]
    assert all(tap["error"] < 1e-3 < tap["next_error"] for tap in kept["taps"])
    assert (kept["tokens"], kept["sample_format"]) == (40, "specforge eagle3")
    with open(os.path.join(shop.folder, "data_0.ckpt"), "rb") as file:
        assert kept["sample_sha256"] == hashlib.sha256(file.read()).hexdigest()
    assert "document_sha256" not in kept, "the document was written nowhere"
    _, out, _ = shop.run("show", "tiny@1.0")
    assert "boundary 5 (output of layer 4): error" in out
    assert shop.publish(directory, "--sample", shop.sample())[0] == EXIT_OK, "the same content again"

    pulled, other = str(tmp_path / "pulled"), str(tmp_path / "other")
    assert shop.run("pull", "tiny@1.0", pulled)[0] == EXIT_OK
    code, _, err = shop.run("publish", pulled, "--alias", "prod", data=other)
    assert code == EXIT_OK, err
    assert shop.manifest(other) == shop.manifest()


def test_the_wrong_layout_is_refused_and_the_right_one_accepted(shop):
    """The incident: what is written beside the drafter is one thing, what it was trained on another."""
    wrong, right = shop.drafter((-1, 1, 2), "wrong"), shop.drafter((1, 2, 4), "right")
    sample = shop.sample()
    for given in ((wrong,), (right, "--boundaries", "0,2,3")):
        code, out, err = shop.publish(*given, "--sample", sample)
        assert code == EXIT_INTEGRITY
        for text in (
            "boundaries 0, 2, 3 (embedding output, outputs of layers 1, 2)",
            "boundaries 2, 3, 5",
            "data_0.ckpt",
        ):
            assert text in err
    code, out, _ = shop.publish(wrong, "--sample", sample, "--json")
    assert code == EXIT_INTEGRITY
    claim = json.loads(out)["obstacles"][0]
    assert (claim["expected"][:18], claim["actual"][:18]) == ("boundaries 2, 3, 5", "boundaries 0, 2, 3")
    assert shop.run("list")[1].count("tiny") == 0, "nothing was published"
    assert shop.publish(right, "--sample", sample)[0] == EXIT_OK
    assert shop.manifest()["layout"]["stated"]["values"] == [1, 2, 4]


def test_a_document_is_as_good_as_the_sample_and_is_named_by_its_digest(shop):
    document = shop.identified()
    code, out, _ = shop.publish(shop.drafter(), "--evidence", document, "--dry-run", "--json")
    assert code == EXIT_OK
    told = json.loads(out)
    assert {line["fact"] for line in told["told_by_values"]} == {"layout.boundaries", "layout.identified"}
    with open(document, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    assert told["manifest"]["layout"]["identified"]["document_sha256"] == digest
    code, _, err = shop.publish(shop.drafter((0, 1, 2)), "--evidence", document)
    assert code == EXIT_INTEGRITY
    assert "identify.json identified boundaries 2, 3, 5" in err


@pytest.mark.parametrize("stated", [(), (1, 2, 4)])
@pytest.mark.parametrize("how", ["shifted", "scaled", "noise"])
def test_what_was_not_identified_is_no_evidence(shop, stated, how):
    changes = {
        "shifted": lambda state: torch.roll(state, -1, 0),
        "scaled": lambda state: state * 2,
        "noise": lambda state: torch.randn(state.shape, generator=torch.Generator().manual_seed(1)),
    }
    document = shop.identified(change=changes[how])
    code, _, err = shop.publish(shop.drafter(stated), "--evidence", document)
    assert code == EXIT_UNKNOWN
    assert "identify.json identifies no layout: recorded #1" in err
    assert "settled by: --evidence that identifies every state" in err


def test_a_document_of_another_target_or_of_nothing_is_refused(shop, tmp_path):
    document = shop.identified()
    with open(document, "rb") as file:
        found = decode(file.read(), where="")
    other = msgspec.structs.replace(found, reference=msgspec.structs.replace(found.reference, layers=7))
    path = tmp_path / "other.json"
    path.write_bytes(msgspec.json.encode(other))
    code, _, err = shop.publish(shop.drafter(), "--evidence", path)
    assert code == EXIT_INTEGRITY
    assert "another target: its layers is 7, and the manifest's is 6" in err
    path.write_text("{}")
    for wrong in (path, tmp_path / "nowhere.json"):
        code, _, err = shop.publish(shop.drafter(), "--evidence", wrong)
        assert code == EXIT_INTEGRITY
        assert str(wrong) in err


def evaluation(directory, reference, *lengths, verdict="stated", **more):
    """What `drafters evaluate` would write of the drafter in that directory."""
    with open(os.path.join(directory, "model.safetensors"), "rb") as file:
        digest = weights_digest({"model.safetensors": hashlib.sha256(file.read()).hexdigest()})
    layouts = ((2, 3, 5), (1, 3, 5), (2, 3, 4))
    scores = [
        {
            "name": f"layout {number}",
            "boundaries": layout,
            "steps": [0.5, 0.5, 0.5],
            "length": length,
            "behind": length - lengths[0],
        }
        for number, (layout, length) in enumerate(zip(layouts, lengths, strict=False))
    ]
    sample = {"name": "s", "sha256": "1" * 64, "format": "modelopt", "tokens": 9, "compared": 9, "dtype": "float32"}
    told = {
        "schema": EVALUATION,
        "tool": "drafters/1",
        "created": "2026-01-01T00:00:00Z",
        "drafter": "tiny",
        "weights_sha256": digest,
        "method": "EAGLE3",
        "samples": [sample],
        "reference": msgspec.to_builtins(reference),
        "rows": 100,
        "scores": scores,
        "verdict": verdict,
        "reason": "too few rows",
    }
    path = os.path.join(directory, "..", "evaluation.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(told | more, file)
    return path


def test_an_evaluation_is_kept_with_the_drafter_or_refuses_it(shop):
    directory, reference = shop.drafter((1, 2, 4)), shop.captured.record
    kept = evaluation(directory, reference, 2.5, 1.5)
    code, out, _ = shop.publish(directory, "--evidence", shop.identified(), kept, "--dry-run")
    assert code == EXIT_OK
    layout = json.loads(out)["layout"]
    assert (layout["evaluated"]["stated"]["length"], layout["evaluated"]["next_best"]["length"]) == (2.5, 1.5)
    assert layout["known_by"] == "identified by values"
    code, _, err = shop.publish(directory, "--evidence", evaluation(directory, reference, 1.5, 2.5, verdict="other"))
    assert code == EXIT_INTEGRITY
    assert "boundaries 1, 3, 5 (outputs of layers 0, 2, 4) (2.50 tokens per step)" in err
    other = evaluation(directory, reference, 2.5, weights_sha256="0" * 64)
    code, _, err = shop.publish(directory, "--evidence", other)
    assert code == EXIT_INTEGRITY
    assert "evaluated other weights" in err
    code, out, err = shop.publish(
        directory, "--evidence", evaluation(directory, reference, 2.5, verdict="unknown"), "--dry-run", "--json"
    )
    assert code == EXIT_OK
    assert "too few rows" in err
    assert "evaluated" not in json.loads(out)["manifest"]["layout"]
    assert "too few rows" in json.loads(out)["notes"][0]


def test_a_sample_needs_a_target_that_runs(shop):
    named = ("--name", "tiny", "--version", "1.0")
    code, _, err = shop.run("publish", shop.drafter(), *named, "--sample", shop.sample())
    assert code == EXIT_USAGE
    assert "--target" in err
    code, _, err = shop.run("publish", shop.drafter(), *named, "--sample", shop.sample(), "--target", "org/elsewhere")
    assert code == EXIT_USAGE
    assert "org/elsewhere" in err
