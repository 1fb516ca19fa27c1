"""A history of ids as one sentence: what they mean where, and since when."""

from __future__ import annotations

from drafter_contracts.engines import words
from drafter_contracts.upgrades.answer import CAPTURES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.upgrades.history import History, Line


def sentence(history: History) -> str:
    """The sentence: "KimiK25ForConditionalGeneration, EAGLE3: ids [2, 30, 58] mean boundaries 3, 31, 59 in ...".

    Args:
        history: What `history.ids_history` returns.
    """
    plain = [line for line in history.lines if _plain(line)]
    split = [line for line in history.lines if line.status == CAPTURES and not _plain(line)]
    ids = ", ".join(map(str, history.ids or ()))
    head = f"{history.architecture}, {history.method}: ids [{ids}]"
    parts = [f"{head} have no one meaning in any of these releases"]
    if plain:
        parts = [f"{head} mean boundaries {_meanings(plain)} ({_files(plain)})"]
    parts += [_replayed(line, history) for line in split]
    parts += [_otherwise(line) for line in history.lines if line.status != CAPTURES]
    return "; ".join(parts)


def _plain(line: Line) -> bool:
    """One answer, for eager execution and CUDA graphs alike, by the ids, and all of it arrives."""
    seen = line.answer
    if seen is None or seen.effect is None or not seen.boundaries or seen.replays_otherwise:
        return False
    return not seen.effect.defaulted and not seen.effect.eager.dropped


def _meanings(lines: list[Line]) -> str:
    """Boundaries with the releases in which the ids mean them: "3, 31, 59 in 0.5.11 and 2, 30, 58 from 0.5.13 on"."""
    ranges: dict[str, list[str]] = {}
    for line in lines:
        if line.answer is not None:
            ranges.setdefault(line.answer.boundaries, []).append(line.span.phrase())
    return " and ".join(f"{boundaries} {', '.join(phrases)}" for boundaries, phrases in ranges.items())


def _replayed(line: Line, history: History) -> str:
    """A range in which eager execution and CUDA graphs differ, no ids are read, or states are lost."""
    seen, when = line.answer, line.span.phrase()
    if seen is None or seen.effect is None or not seen.replays_otherwise:
        return f"{when} {line.text}"
    effect = seen.effect
    if effect.replay is None:
        return f"{when} it cannot be told what CUDA graphs replay"
    first = next((other for other in history.lines if other.status == CAPTURES), None)
    if line == first and line.span.following:
        when = f"before {line.span.following}"
    bare = "" if effect.eager.dropped else seen.boundaries
    eager = bare or words.capture_words(effect.eager)
    taps = words.boundary_list(effect.replay) or words.capture_words(effect.replay)
    return f"{when} CUDA graphs replayed the default taps ({taps}; eager execution {eager})"


def _otherwise(line: Line) -> str:
    """A range in which nothing is captured; at the old end it reads "before 0.5.10"."""
    text = line.text
    if line.answer is not None and line.answer.effect is None:
        text = text.partition(": ")[0]
    span = line.span
    return f"{text} before {span.following}" if span.oldest and span.following else f"{text} {span.phrase()}"


def _files(lines: list[Line]) -> str:
    files = [place.file for line in lines if line.answer is not None for place in line.answer.places]
    return ", ".join(dict.fromkeys(files))
