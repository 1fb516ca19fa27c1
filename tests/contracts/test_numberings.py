"""Every numbering of the table: round trips, refusals, sources, and what the field's worked examples give."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drafter_contracts import limits
from drafter_contracts.errors import LayoutError, ProfileError
from drafter_contracts.expressions import evaluate_expression
from drafter_contracts.layout import FINAL_NORM, RESIDUAL, STREAM_MEAN, Tap
from drafter_contracts.numberings import NUMBERINGS, numbering
from drafter_contracts.numberings.document import render

ROOT = Path(__file__).parents[2]
DEPTHS = st.integers(1, 128)
NAMES = st.sampled_from(sorted(NUMBERINGS))


def all_taps(n: int) -> list[Tap]:
    residual = [Tap(b) for b in range(n + 1)]
    means = [Tap(b, STREAM_MEAN) for b in (0, n // 2, n)]
    return [*residual, *means, Tap(n, FINAL_NORM)]


@pytest.mark.parametrize("name", NUMBERINGS)
def test_every_id_names_one_tap_and_every_nameable_tap_one_id_at_every_depth(name: str) -> None:
    entry = NUMBERINGS[name]
    aliases = {special.id for special in entry.specials if not special.writable}
    for n in range(1, 129):
        named = {}
        for layer_id in entry.valid_ids(n):
            tap = entry.to_tap(layer_id, n)
            assert 0 <= tap.boundary <= n
            if not any(evaluate_expression(alias, n) == layer_id for alias in aliases):
                assert entry.from_tap(tap, n) == layer_id
                named[tap] = layer_id
        for tap in all_taps(n):
            if tap in named:
                assert entry.to_tap(entry.from_tap(tap, n), n) == tap
            else:
                with pytest.raises(LayoutError):
                    entry.from_tap(tap, n)


@given(NAMES, DEPTHS, st.integers(-300, 300))
def test_ids_out_of_range_are_refused(name: str, n: int, layer_id: int) -> None:
    entry = NUMBERINGS[name]
    if layer_id in entry.valid_ids(n):
        assert 0 <= entry.to_tap(layer_id, n).boundary <= n
    else:
        with pytest.raises(LayoutError) as refused:
            entry.to_tap(layer_id, n)
        assert str(layer_id) in refused.value.diagnostics()


@given(NAMES, DEPTHS, st.integers(0, 130))
def test_not_knowing_the_depth_changes_no_ordinary_id(name: str, n: int, layer_id: int) -> None:
    entry = NUMBERINGS[name]
    special = {evaluate_expression(s.id, n) for s in entry.specials}
    if layer_id in entry.valid_ids(n) and layer_id not in special:
        assert entry.to_tap(layer_id, None) == entry.to_tap(layer_id, n)


@pytest.mark.parametrize("n", range(1, 129))
def test_index_n_of_hidden_states_is_the_final_norm_and_boundary_n_has_no_index(n: int) -> None:
    index = numbering("hf-hidden-states")
    assert index.to_tap(n, n) == Tap(n, FINAL_NORM)
    assert index.to_tap(n, n) != Tap(n)
    with pytest.raises(LayoutError, match="no id for boundary"):
        index.from_tap(Tap(n, RESIDUAL), n)
    assert numbering("hf-hook").from_tap(Tap(n), n) == n - 1


@pytest.mark.parametrize("name", NUMBERINGS)
def test_every_row_names_its_source_versions_and_key(name: str) -> None:
    entry = NUMBERINGS[name]
    assert entry.name == name
    assert "/" in entry.source
    assert any(mark in entry.source for mark in ("@", "PR #"))
    assert all((entry.producer, entry.versions, entry.key, entry.meaning))


# The worked examples of the field: ids as stored, depth, boundaries.
@pytest.mark.parametrize(
    ("name", "ids", "n", "boundaries"),
    [
        ("specforge", (1, 15, 28), 32, (2, 16, 29)),
        ("vllm", (2, 16, 29), 32, (2, 16, 29)),
        ("speculators-0.3", (2, 16, 29), 32, (3, 17, 30)),
        ("speculators", (2, 16, 29, 32), 32, (2, 16, 29, 32)),
        ("modelopt-vllm-dump", (1, 17, 32), 36, (1, 17, 32)),
        ("modelopt", (1, 17, 32), 36, (2, 18, 33)),
        ("modelopt-boundary", (24, 30, 36), 36, (24, 30, 36)),
        ("torchspec", (1, 29, 57), 61, (2, 30, 58)),
        ("torchspec-vllm-export", (2, 30, 58), 61, (2, 30, 58)),
        ("eagle-config", (-1, 2, 30), 61, (0, 3, 31)),
        ("dflash", (1, 13, 25, 33, 39), 40, (2, 14, 26, 34, 40)),
        ("dspark-v4", (40, 41, 42), 43, (41, 42, 43)),
        ("dspark-v41", (37, 38, 39), 40, (37, 38, 39)),
        ("vllm-dflash-0.20", (1, 9, 17), 36, (1, 9, 17)),
        ("vllm-dflash", (-1, 9, 17), 36, (0, 10, 18)),
        ("llama.cpp", (2, 18, 33), 36, (2, 18, 33)),
        ("mlx-vlm", (0, 1, 2), 36, (1, 1, 2)),
    ],
)
def test_worked_examples(name: str, ids: tuple[int, ...], n: int, boundaries: tuple[int, ...]) -> None:
    assert tuple(tap.boundary for tap in numbering(name).taps(ids, n)) == boundaries


@pytest.mark.parametrize(
    ("name", "n", "boundaries"),
    [
        ("eagle", 32, (2, 16, 29)),
        ("specforge", 61, (2, 30, 58)),
        ("specforge-2025-09", 61, (2, 31, 58)),
        ("speculators", 36, (2, 18, 33)),
        ("speculators-0.3", 61, (3, 31, 59)),
        ("speculators-research", 32, (3, 17, 30)),
        ("modelopt-vllm-dump", 61, (1, 29, 57)),
        ("angelslim", 61, (2, 30, 58)),
        ("angelslim-0.2", 61, (2, 31, 59)),  # counts 62 "layers": (62 // 2 - 1, 62 - 4) + 1
        ("tensorrt-llm", 61, (2, 30, 58)),
    ],
)
def test_defaults_of_producers(name: str, n: int, boundaries: tuple[int, ...]) -> None:
    assert tuple(tap.boundary for tap in numbering(name).default_taps(n)) == boundaries


def test_states_at_the_ends() -> None:
    assert numbering("tensorrt-llm").to_tap(-1, 61) == Tap(61, FINAL_NORM)
    assert numbering("tensorrt-llm").to_tap(60, 61) == Tap(61)
    assert numbering("angelslim").to_tap(60, 61) == Tap(61, FINAL_NORM)
    assert numbering("dspark-v4").to_tap(42, 43) == Tap(43, STREAM_MEAN)
    with pytest.raises(LayoutError, match="no id for boundary 0"):
        numbering("mlx-vlm").from_tap(Tap(0), 36)


@pytest.mark.parametrize("name", NUMBERINGS)
def test_a_default_either_exists_at_a_depth_or_is_refused(name: str) -> None:
    entry = NUMBERINGS[name]
    for n in range(1, 129):
        try:
            taps = entry.default_taps(n)
        except LayoutError:
            assert not entry.default or n < 10
        else:
            assert len(set(taps)) == len(entry.default)


def test_unknown_names_depths_and_expressions_are_refused() -> None:
    with pytest.raises(LayoutError, match="unknown numbering"):
        numbering("sglang-by-hand")
    for depth in (0, -3, limits.target_max_layers + 1):
        with pytest.raises(LayoutError, match="not a depth"):
            numbering("vllm").to_tap(2, depth)
    for text in ("", "M", "N//0", "N*2", "N//2-1-1", "__import__"):
        with pytest.raises(ProfileError):
            evaluate_expression(text, 32)


def test_the_documentation_is_made_from_the_table() -> None:
    page = (ROOT / "docs" / "numberings.md").read_text()
    assert page == render(), "run: python -m drafter_contracts.numberings.document > docs/numberings.md"
