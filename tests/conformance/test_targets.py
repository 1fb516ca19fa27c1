"""Shipped capture rules against the real releases: rescanned, and against each setter's own body, run on its own.

The second test does not use the scanner: it cuts the setter's function out of the file by its line, runs it on a
bare object, and looks at which layers that object was asked to capture.
"""

from __future__ import annotations

import ast
import functools
import zipfile

import pytest
from compared_releases import RELEASES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drafter_contracts.engines import store
from drafter_contracts.engines.capture import capture_once, requested_boundaries
from drafter_contracts.engines.profile import FITTED, Guard
from drafter_contracts.engines.scan import encode, scan

pytestmark = pytest.mark.conformance


@pytest.mark.parametrize("release", RELEASES)
def test_scanning_again_gives_the_shipped_profile_byte_for_byte(wheel, release):
    assert encode(scan(wheel(release))) == store.document("sglang", release)


class Bag:
    """An object with any attribute, except methods that would do the work elsewhere."""

    def __getattr__(self, name):
        if name.startswith(("__", "set_")):
            raise AttributeError(name)
        child = Bag()
        self.__dict__[name] = child
        return child


def bare_model(n, inner):
    """What a setter needs of its model: a depth, a last pipeline stage, layers that can be flagged.

    `inner` are the setters of the class whose forward pass captures, for setters that hand on to it.
    """
    model = Bag()
    for name, function in inner.items():
        setattr(model.model, name, functools.partial(function, model.model))
    for config in (model.config, model.config.text_config, model.model.config, model.config.llm_config):
        config.num_hidden_layers = n
    model.pp_group.is_last_rank = model.model.pp_group.is_last_rank = True
    model.model.layers = [Bag() for _ in range(n)]
    model.model.start_layer, model.model.end_layer, model.start_layer, model.end_layer = 0, n, 0, n
    model.num_layers = model.model.num_layers = n
    return model


def asked_for(model):
    """Boundaries that a setter wrote down, or None if it wrote none where this test looks."""
    for holder in (model.model, model):
        for name, value in holder.__dict__.items():
            if name.endswith("layers_to_capture") and isinstance(value, (list, set, tuple)):
                return sorted(value)
    layers = model.__dict__["model"].__dict__["layers"]
    flagged = [i for i, layer in enumerate(layers) if layer.__dict__.get("_is_layer_to_capture") is True]
    return flagged or None


def function_of(node):
    """A function, compiled alone: no decorators, no annotations, no globals."""
    node.decorator_list, node.returns = [], None
    for argument in ast.walk(node):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    names = {}
    exec(compile(ast.Module([node], []), "setter", "exec"), names)  # noqa: S102 - the oracle is the release itself
    return names[node.name]


def setters_of(read, path, owner):
    """Setters of a class by name, its bases' included, wherever in the release those are."""
    tree = ast.parse(read(path))
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == owner:
            for base in (b.id for b in node.bases if isinstance(b, ast.Name)):
                homes = [
                    imported.module.removeprefix("sglang.srt.").replace(".", "/") + ".py"
                    for imported in ast.walk(tree)
                    if isinstance(imported, ast.ImportFrom)
                    and (imported.module or "").startswith("sglang.srt.models.")
                    and any(alias.name == base for alias in imported.names)
                ]
                found.update(setters_of(read, (homes or [path])[0], base))
            methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name.startswith("set_")]
            found.update({method.name: function_of(method) for method in methods})
    return found


class Setter:
    """The body of one setter, cut out of its file, and the setters of the class that captures."""

    def __init__(self, read, rule):
        tree = ast.parse(read(rule.source.file))
        nodes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno == rule.source.line]
        self.takes_ids = len(nodes[0].args.args) > 1
        self.call = function_of(nodes[0])
        self.inner = setters_of(read, rule.forward.file, rule.forward.function.partition(".")[0])

    def run(self, n, ids):
        """("asks", boundaries), ("raises", exception name), or None where this test cannot see what is asked."""
        model = bare_model(n, self.inner)
        try:
            self.call(model, list(ids)) if self.takes_ids else self.call(model)
        except (ValueError, IndexError) as error:
            return "raises", type(error).__name__
        except Exception:  # noqa: BLE001 - the bare object lacks something: this test does not see that setter
            return None
        found = asked_for(model)
        return None if found is None else ("asks", found)


def cut_out(path, profile):
    """(architecture, method, rule, setter) of every fitted rule."""
    with zipfile.ZipFile(path) as archive:
        read = functools.cache(lambda file: archive.read(f"sglang/srt/{file}").decode("utf-8-sig"))
        for architecture, methods in sorted(profile.targets.items()):
            for method, index in methods.items():
                rule = profile.rules[index]
                if rule.status == FITTED and rule.source is not None:
                    yield architecture, method, rule, Setter(read, rule)


def offset(rule, setter):
    """Difference between what is written down and the boundary: 0, or -1 where a layer captures its output."""
    plain = setter.run(30, [3, 7]) if setter.takes_ids else setter.run(30, [])
    if plain is None or plain[0] != "asks":
        return None
    wanted = requested_boundaries(rule, 30, [3, 7] if setter.takes_ids else None)
    gap = {found - boundary for found, boundary in zip(plain[1], sorted(wanted), strict=True)}
    return gap.pop() if len(gap) == 1 else None


IDS = st.integers(5, 96).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.one_of(
            st.lists(st.integers(0, n), min_size=1, max_size=5, unique=True).map(sorted),
            st.lists(st.sampled_from((-1, 0, 1, 2, n // 2, n - 2, n - 1, n, n + 1)), min_size=1, max_size=4),
        ),
    )
)


@pytest.mark.parametrize("release", RELEASES)
def test_the_profile_says_what_the_setter_does(wheel, release):
    profile = store.load_profile("sglang", release)
    subjects = [(a, m, r, s, offset(r, s)) for a, m, r, s in cut_out(wheel(release), profile)]
    visible = {(a, m) for a, m, _, _, gap in subjects if gap is not None}
    assert len(visible) >= len(subjects) * 0.6
    for must in ("LlamaForCausalLM", "DeepseekV3ForCausalLM", "GptOssForCausalLM", "Qwen3MoeForCausalLM"):
        if profile.capture_method(must, "EAGLE3") is not None:
            assert (must, "EAGLE3") in visible

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(IDS)
    def compare(drawn):
        n, ids = drawn
        for architecture, method, rule, setter, gap in subjects:
            if gap is None or not setter.takes_ids:
                continue
            seen = setter.run(n, ids)
            label = (architecture, method, n, ids)
            predicted = capture_once(rule, n, ids)
            if seen[0] == "raises":
                assert (predicted.error, predicted.phase) == (seen[1], "setter"), label
                continue
            wanted = requested_boundaries(rule, n, ids)
            assert not isinstance(wanted, Guard), label
            assert predicted.phase != "setter", label
            if rule.sticky:  # flags on layers: a set of layers, negative ones counted from the end
                wanted = {b + n if b < 0 else b for b in wanted}
                assert set(seen[1]) - {n} == {b + gap for b in wanted} - {n}, label
            else:
                assert sorted(set(seen[1])) == sorted({b + gap for b in wanted}), label

    compare()
