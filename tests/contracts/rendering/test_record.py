"""The manifest and the notes of a render: what it is of, and that nothing else passes for one."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from drafter_contracts.errors import LayoutError
from drafter_contracts.manifest import FileRecord, LayoutRecord, RenderRecord, decode, digest
from drafter_contracts.manifest import canonical as bytes_of
from drafter_contracts.rendering.notes import is_notes, notes
from drafter_contracts.rendering.record import Wanted, no_render_of, rendered_manifest
from drafter_contracts.rendering.records import WeightChange

ORDER = WeightChange((1, 2, 0))
FED = "boundaries 3, 11, 19 (outputs of layers 2, 10, 18)"


def record(path, data=b"x"):
    return FileRecord(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())


@pytest.fixture
def version(small):
    layout = LayoutRecord(boundaries=(19, 3, 11), output_ids=(18, 2, 10), widths=(256,) * 3)
    return small.manifest(layout=layout, files=(record("config.json"), record("model.safetensors")))


@pytest.fixture
def render(version):
    wanted = Wanted("sglang 0.5.23", {"a": 1}, ORDER, ("a is set to 1: because",))
    files = (record("model.safetensors", b"other"), record("config.json", b"new"), record("RENDER.md"))
    return rendered_manifest(version, wanted, files)


def test_a_render_s_manifest_has_its_own_files_its_own_order_and_says_what_it_is_of(version, render):
    assert render.layout.boundaries == (3, 11, 19)
    assert render.layout.output_ids == (2, 10, 18)
    assert [file.path for file in render.files] == ["RENDER.md", "config.json", "model.safetensors"]
    assert render.render == RenderRecord(
        of=digest(version), engine="sglang 0.5.23", order=(1, 2, 0), changes=("a is set to 1: because",)
    )
    assert decode(bytes_of(render)) == render
    assert msgspec.structs.replace(render, layout=version.layout, files=version.files, render=None) == version


def test_an_order_of_another_number_of_taps_is_none(version):
    with pytest.raises(LayoutError):
        rendered_manifest(version, Wanted("sglang 0.5.23", None, WeightChange((1, 0))), ())


def test_a_render_is_one_of_its_version_under_other_names_of_its_tensors(small, version, render):
    own, other = small.facts(small.flat), small.facts(small.flat, small.tensors("midlayer.", top="model."))
    assert no_render_of(render, other, version, own) == ""
    assert no_render_of(render, own, version, other) == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"layout": LayoutRecord(boundaries=(19, 3, 11), output_ids=(18, 2, 10), widths=(256,) * 3)},
            "another contract",
        ),
        ({"layout": LayoutRecord(boundaries=(4, 12, 20), widths=(256,) * 3)}, "another contract"),
        ({"method": "DFLASH"}, "another contract"),
        ({"version": "2"}, "another contract"),
        ({"render": RenderRecord(of="sha256:" + "0" * 64, engine="sglang 0.5.23")}, "another version"),
        ({"render": None}, "another version"),
    ],
)
def test_what_says_something_else_is_no_render(small, version, render, change, why):
    facts = small.facts(small.flat)
    assert why in no_render_of(msgspec.structs.replace(render, **change), facts, version, facts)


@pytest.mark.parametrize("order", [(0, 1), (0, 0, 1), (0, 1, 3)])
def test_an_order_that_is_none_is_told(small, version, render, order):
    facts = small.facts(small.flat)
    said = msgspec.structs.replace(render, render=msgspec.structs.replace(render.render, order=order))
    assert "an order that is none" in no_render_of(said, facts, version, facts)


def test_other_tensors_are_no_render(small, version, render):
    own = small.facts(small.flat)
    for other in (small.tensors(head=False), small.tensors(taps=4), small.tensors(more={"fc.bias": (256,)})):
        assert "tensors" in no_render_of(render, small.facts(small.flat, other), version, own)


def test_notes_say_of_what_for_which_engine_what_and_why(version, render):
    wanted = Wanted("sglang 0.5.23", {"a": 1}, ORDER, ("a is set to 1:\nbecause",))
    text = notes(version, wanted, render.files)
    assert is_notes(text)
    assert not is_notes("# Rendering\n")
    assert text.startswith("# Render of d@1 for sglang 0.5.23\n")
    for line in (
        f"- version: d@1, `{digest(version)}`",
        "- target: meta/L (LlamaForCausalLM, 24 layers)",
        "- trained on: boundaries 19, 3, 11 (outputs of layers 18, 2, 10)",
        f"- concatenated here as: {FED}; the blocks of `fc` are in this order",
        "- a is set to 1: because",
        "drafters pull d@1 --for sglang==0.5.23 --target TARGET -o DIR",
    ):
        assert line in text.splitlines()
    assert f"changed, was `sha256:{record('config.json').sha256}`" in text
    assert notes(version, wanted, tuple(reversed(render.files))) == text
