"""The closest known word to one that is not known: for "did you mean"."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def distance(left: str, right: str) -> int:
    """Edits (insert, delete, replace, swap neighbours) that turn one word into the other."""
    two_back: list[int] = []
    one_back = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            cost = min(one_back[j] + 1, row[j - 1] + 1, one_back[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, two_back[j - 2] + 1)
            row.append(cost)
        two_back, one_back = one_back, row
    return one_back[-1]


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that `word` most likely means, or "" if none is near.

    A word that starts with the given text is near at any length; otherwise a third of the letters may differ.
    """
    candidates = tuple(known)
    starts = [candidate for candidate in candidates if len(word) > 1 and candidate.startswith(word)]
    if starts:
        return min(starts, key=len)
    best = min(candidates, key=lambda candidate: distance(word.lower(), candidate.lower()), default="")
    return best if best and distance(word.lower(), best.lower()) <= max(1, len(word) // 3) else ""
