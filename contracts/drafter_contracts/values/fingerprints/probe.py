"""The probe: the token ids on which states are compared, from the size of the vocabulary alone."""

from __future__ import annotations

from drafter_contracts.errors import CaptureError

#: Tokens of the probe.
TOKENS = 16


def probe(vocab_size: int) -> tuple[int, ...]:
    """The probe of a vocabulary: the middles of 16 equal parts of its middle half.

    Special tokens stand at either end of a vocabulary, and an embedding's padding at its end, so that ids of the
    middle half are ordinary text for every tokenizer. `id[i] = V // 4 + (2 i + 1) * (V // 2) // 32`.

    Args:
        vocab_size: V, rows of the target's embedding.

    Raises:
        CaptureError: No vocabulary.
    """
    if vocab_size < 1:
        raise CaptureError("a probe needs a vocabulary", expected="1 or more tokens", actual=str(vocab_size))
    half = vocab_size // 2
    return tuple(vocab_size // 4 + (2 * i + 1) * half // (2 * TOKENS) for i in range(TOKENS))
