"""Expressions over a target's depth N, as data files write them: "N//2-1", "N-3", "2"."""

from __future__ import annotations

from drafter_contracts.errors import ProfileError


def evaluate_expression(expression: str, n: int) -> int:
    """Value of an expression over the target's depth `n`.

    The language: a base (`N`, `N//k`, `(N+1)//k` or an integer), then at most one `+k` or `-k`.

    Args:
        expression: E.g. "N//2-1".
        n: Decoder layers of the target.

    Raises:
        ProfileError: The expression is not one of the language.
    """
    text = expression.replace(" ", "")
    if text.startswith("(N+1)//"):
        text, n = f"N{text[5:]}", n + 1
    base, sign, rest = text, 1, "0"
    for position in range(1, len(text)):
        if text[position] in "+-":
            base, rest = text[:position], text[position + 1 :]
            sign = 1 if text[position] == "+" else -1
            break
    try:
        if base == "N":
            value = n
        elif base.startswith("N//"):
            value = n // int(base[3:])
        else:
            value = int(base)
        return value + sign * int(rest)
    except (ValueError, ZeroDivisionError):
        raise ProfileError(
            "not an expression over the depth N", expected="N, N//k or k, then +k or -k", actual=expression
        ) from None
