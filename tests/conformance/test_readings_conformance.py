"""What a profile says of reading ids, against the release's own statements executed on random configs."""

from __future__ import annotations

import ast
import functools
import numbers
import re
import typing
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from compared_releases import RELEASES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drafter_contracts.engines.capture import capture_switched_off, even_ids, read_ids
from drafter_contracts.engines.store import load_profile

KEY = "eagle_aux_hidden_state_layer_ids"
quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

layer_ids = st.lists(st.integers(-3, 70), max_size=6)
odd = st.one_of(st.none(), st.text(max_size=3), st.integers(-2, 3), st.booleans())


pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("release", RELEASES)]


@pytest.fixture(scope="module")
def profile_of():
    """A function from a release to its shipped profile (which `test_targets.py` scans again)."""
    return functools.cache(functools.partial(load_profile, "sglang"))


@functools.cache
def reader_of(tree) -> ast.Try | None:
    """The one `try` of the model runner that mentions the key."""
    for path in tree.files():
        if not path.startswith("model_executor/") or KEY not in tree.read(path):
            continue
        for node in ast.walk(ast.parse(tree.read(path))):
            if isinstance(node, ast.Try) and any(
                isinstance(n, ast.Constant) and n.value == KEY for n in ast.walk(node)
            ):
                return node
    return None


def run_reader(node: ast.Try, config: dict) -> SimpleNamespace:
    """Execute that statement with a drafter's config; what it sets, on itself or as locals, is the answer."""
    result = SimpleNamespace(eagle_use_aux_hidden_state=True)
    names = {
        "self": result,
        "config": result,
        "draft_model_config": SimpleNamespace(hf_config=SimpleNamespace(**config)),
    }
    exec(compile(ast.Module([node], []), "release", "exec"), names)  # noqa: S102 - the release under test
    ids = names.get(KEY, getattr(result, KEY, None))
    return SimpleNamespace(on=bool(result.eagle_use_aux_hidden_state), ids=ids)


nested = st.fixed_dictionaries(
    {}, optional={KEY: st.one_of(layer_ids, st.none()), "use_aux_hidden_state": odd, "other": st.just(1)}
)
eagle_configs = st.fixed_dictionaries({}, optional={"eagle_config": st.one_of(nested, odd), KEY: layer_ids})


@given(config=eagle_configs, n=st.integers(4, 61))
@quick
def test_eagle3_ids_are_those_that_the_release_s_own_statement_finds(tree_of, profile_of, release, config, n):
    reading = profile_of(release).readings["EAGLE3"]
    assert reading.status == "fitted"
    node = reader_of(tree_of(release))
    if node is None:
        assert reading.keys == ()
        assert read_ids(reading, config, n=n) == (None, "", "")
        return
    seen = run_reader(node, config)
    assert capture_switched_off(reading, config) == (not seen.on)
    ids, _, error = read_ids(reading, config, n=n)
    assert error == ""
    assert (None if ids is None else list(ids)) == seen.ids


@functools.cache
def dflash_of(tree) -> dict[str, object] | None:
    """The functions and classes of dflash_utils.py that read a config, compiled on their own."""
    path = "speculative/dflash_utils.py"
    if path not in tree.files():
        return None
    wanted = ("cfg", "config", "parse", "build_target_layer_ids", "DFlashDraftConfig")
    body = [
        node
        for node in ast.parse(tree.read(path)).body
        if (isinstance(node, (ast.FunctionDef, ast.ClassDef)) and any(word in node.name for word in wanted))
        or (isinstance(node, ast.Assign) and "MASK_TOKEN" in ast.unparse(node))
    ]
    names: dict[str, object] = {
        **vars(typing),
        "dataclass": dataclass,
        "Integral": numbers.Integral,
        "__name__": "typing",
    }
    future = ast.parse("from __future__ import annotations").body
    exec(compile(ast.Module(future + body, []), "release", "exec"), names)  # noqa: S102 - the release under test
    return names


dflash_configs = st.fixed_dictionaries(
    {"num_hidden_layers": st.integers(1, 6)},
    optional={
        "dflash_config": st.one_of(
            st.fixed_dictionaries(
                {}, optional={"target_layer_ids": st.one_of(layer_ids, odd), "block_size": st.just(4)}
            ),
            st.none(),
        ),
        "target_layer_ids": st.one_of(layer_ids, odd),
    },
)


@given(config=dflash_configs, n=st.integers(1, 61))
@quick
def test_dflash_ids_are_those_that_the_release_s_own_parser_resolves(tree_of, profile_of, release, config, n):
    names = dflash_of(tree_of(release))
    if names is None:
        assert "DFLASH" not in profile_of(release).readings
        return
    reading = profile_of(release).readings["DFLASH"]
    assert reading.status == "fitted"
    try:
        parsed = names["parse_dflash_draft_config"](draft_hf_config=SimpleNamespace(**config))
        wanted = parsed.resolve_target_layer_ids(target_num_layers=n, draft_num_layers=parsed.require_num_layers())
    except (ValueError, TypeError):
        wanted = "refused"
    ids, _, error = read_ids(reading, config, n=n)
    assert ("refused" if error else None if ids is None else list(ids)) == wanted


@given(n=st.integers(1, 128), layers=st.integers(1, 8))
@quick
def test_the_even_spread_is_the_release_s_own(tree_of, release, n, layers):
    names = dflash_of(tree_of(release))
    if names is None:
        return
    if layers > 1 and n < 4:
        with pytest.raises(ValueError, match="num_target_layers"):
            names["build_target_layer_ids"](n, layers)
        return
    assert names["build_target_layer_ids"](n, layers) == list(even_ids(n, layers))


def test_replay_is_the_default_exactly_where_the_graph_runner_resets_and_ids_are_set_too_late(
    tree_of, profile_of, release
):
    tree = tree_of(release)
    runners = [p for p in tree.files() if p.startswith("model_executor/") and "graph_runner" in p]
    resets = any(re.search(r"set_eagle3_layers_to_capture\(\)", tree.read(path)) for path in runners)
    reads = reader_of(tree) is not None
    assert profile_of(release).graphs["EAGLE3"].ids == ("default" if resets and reads else "same")


def test_overrides_reach_target_and_drafter_and_replace_whole_values(tree_of, profile_of, release):
    overrides = profile_of(release).launch.overrides
    assert (overrides.target, overrides.drafter, overrides.merge) == (True, True, "replace")
    text = tree_of(release).read(overrides.source.file).splitlines()
    assert "model_override_args" in text[overrides.source.line - 1]
    below = "\n".join(text[overrides.source.line - 1 :][:12])
    assert ("text_config" in overrides.merged) == ("isinstance(current, PretrainedConfig)" in below)
