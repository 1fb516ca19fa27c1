"""Derive how wide a release makes its own buffers for captured states."""

from __future__ import annotations

from itertools import permutations

from drafter_contracts.engines.launch_rules import Source
from drafter_contracts.engines.profile import TapBuffers
from drafter_contracts.engines.scan.sandbox import run_probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.tree import SourceTree

PROBE = "buffers"
SOURCES = ("",)
#: The keys in the order of the probe's numbers.
KEYS = (
    "num_aux_hidden_states",
    "len(eagle_config.eagle_aux_hidden_state_layer_ids)",
    "len(eagle_aux_hidden_state_layer_ids)",
)


def derive(tree: SourceTree, *, allow_unconfined: bool = False) -> tuple[dict[str, TapBuffers], set[str]]:
    """Method to the width of the engine's buffers, and the files that were executed.

    Empty where no function of the release computes it, or none of the possible precedences reproduces every run.

    Args:
        tree: The release.
        allow_unconfined: See `sandbox.run_probe`.

    Raises:
        ScanError: The probe could not be run.
    """
    answer = run_probe(PROBE, tree.sources(SOURCES), {}, allow_unconfined=allow_unconfined)
    place, runs, files = answer["place"], answer["runs"], answer["files"]
    if not isinstance(place, dict) or not place or not isinstance(runs, list) or not isinstance(files, list):
        return {}, set()
    source = Source(str(place["file"]), str(place["function"]), int(place["line"]))
    for of, start in (("target", 0), ("drafter", 3)):
        for count in range(len(KEYS) + 1):
            for order in permutations(range(len(KEYS)), count):
                fallback = {row[6] for row in runs if not any(row[start + i] for i in order)}
                if (
                    len(fallback) == 1
                    and min(fallback) > 0
                    and all(_taps(row[start:], order, *fallback) == row[6] for row in runs)
                ):
                    taps = (*(KEYS[i] for i in order), str(*fallback))
                    return {"EAGLE3": TapBuffers(of, taps, source)}, {str(file) for file in files}
    return {}, {str(file) for file in files}


def _taps(numbers: list[int], order: tuple[int, ...], fallback: int) -> int:
    return next((numbers[i] for i in order if numbers[i]), fallback)
