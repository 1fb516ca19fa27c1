"""How a block drafter's ids are read, spread and moved: on small releases written here."""

from __future__ import annotations

from scan_toy_runner import (
    DFLASH_READ,
    dflash_release,
)

from drafter_contracts.engines.capture import even_ids
from drafter_contracts.engines.scan.readings import derive, spread_is_even


def test_range_coercion_null_formula_shift_and_preferred_setter_are_found():
    part, files = derive(dflash_release())
    reading = part.readings["DFLASH"]
    assert reading.status == "fitted", reading.reason
    assert reading.keys == ("dflash_config.target_layer_ids", "target_layer_ids")
    assert reading.null_stops == ("dflash_config.target_layer_ids",)
    assert (reading.range_low, reading.range_high, reading.coerces) == (0, "N-1", True)
    assert (reading.missing, reading.empty, reading.error) == ("formula", "error", "ValueError")
    assert reading.hooks == ("set_dspark_layers_to_capture", "set_dflash_layers_to_capture")
    assert reading.no_hook == "ValueError"
    shift = reading.shifts[0]
    assert (shift.add, shift.target_model_type, shift.drafter_architectures) == (1, "oddity", ("ShiftedDraft",))
    assert part.graphs["DFLASH"].ids == "same"
    assert "speculative/dflash_utils.py" in files


def test_ids_that_are_moved_whatever_the_target_is_are_moved_for_every_target():
    read = DFLASH_READ.replace('self.model_config.hf_config.model_type == "oddity" and ', "")
    shifts = derive(dflash_release(read=read))[0].readings["DFLASH"].shifts
    assert [(s.add, s.target_model_type, s.drafter_architectures) for s in shifts] == [(1, "", ("ShiftedDraft",))]


def test_what_the_reading_code_imports_is_found_wherever_it_lies():
    read = DFLASH_READ.replace(
        "            parsed =", "            from sglang.srt.mem_cache.sizes import cell\n            parsed ="
    )
    assert derive(dflash_release(read=read))[0].readings["DFLASH"].status == "opaque"
    tree = dflash_release(read=read, **{"mem_cache/sizes.py": "def cell():\n    return 1\n"})
    assert derive(tree)[0].readings["DFLASH"].status == "fitted"


def test_a_spread_that_is_not_the_known_formula_is_opaque():
    part, _ = derive(dflash_release(margin=2))
    assert part.readings["DFLASH"].status == "opaque"
    assert "way of its own" in part.readings["DFLASH"].reason


def test_the_known_spread_is_recognised_with_its_refusals_and_any_other_is_not():
    def table(build):
        return [(n, layers, build(n, layers)) for n in range(1, 40) for layers in range(1, 6)]

    def right(n, layers):
        return list(even_ids(n, layers)) if layers == 1 or n >= 4 else "ValueError"

    assert spread_is_even(table(right))
    assert not spread_is_even(table(lambda n, layers: [0] * layers))
    assert not spread_is_even(table(lambda n, layers: list(even_ids(n, layers)) if n > 3 else []))
    assert not spread_is_even([])


def test_scanning_again_gives_the_same():
    assert derive(dflash_release()) == derive(dflash_release())
