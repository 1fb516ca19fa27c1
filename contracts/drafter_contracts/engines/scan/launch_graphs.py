"""Fit when CUDA graphs are off for decode: which options turn them off, which turn them on again, and which wins."""

from __future__ import annotations

from drafter_contracts.engines.launch_rules import GraphSwitch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.launch_fit import Answers

Toggles = dict[str, dict[str, object]]


def offs(toggles: Toggles, answers: Answers) -> list[str]:
    """Conditions that turn graphs off."""
    usual = answers["graph",].get("decode_graphs")
    return [c for c in toggles if usual is True and answers["graph", c].get("decode_graphs") is False]


def pairs(toggles: Toggles, answers: Answers) -> list[tuple[str, str]]:
    """Pairs worth trying: an off switch with an option about graphs that leaves them on."""
    off = offs(toggles, answers)
    on = [c for c in toggles if "cuda_graph" in c and answers["graph", c].get("decode_graphs") is True]
    return [(one, other) for one in off for other in on]


def fit(toggles: Toggles, answers: Answers, tried: Answers) -> tuple[GraphSwitch, ...]:
    """Switches in order of precedence: what turns graphs on again comes before what it overrules.

    Args:
        toggles: Conditions with the options they stand for.
        answers: Each toggle alone.
        tried: Pairs of toggles.
    """
    off = offs(toggles, answers)
    beaten: dict[str, list[str]] = {condition: [] for condition in off}
    for key, answer in tried.items():
        if key[0] == "graphs" and answer.get("decode_graphs") is True:
            beaten[str(key[1])].append(str(key[2]))
    switches: list[GraphSwitch] = []
    placed: set[str] = set()
    for condition in sorted(off, key=lambda c: (len(beaten[c]), off.index(c))):
        for winner in beaten[condition]:
            if winner not in placed:
                placed.add(winner)
                switches.append(GraphSwitch(winner, on=True))
        switches.append(GraphSwitch(condition))
    return tuple(switches)
