"""Configs that a fit is tried on: the same ones at every scan."""

from __future__ import annotations

import random

from drafter_contracts.engines.scan.probes.readings import put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def configs(keys: Sequence[str], model_types: Sequence[str], count: int) -> Iterator[dict[str, object]]:
    """Configs in which ids stand at some of these keys, null or an empty list at others, and objects without the key.

    Args:
        keys: Dotted keys of lists.
        model_types: Values of `model_type` that make a difference.
        count: How many.
    """
    dice = random.Random(20)  # noqa: S311 - experiments, the same at every scan
    parents = sorted({key.rpartition(".")[0] for key in keys} - {""})
    for _ in range(count):
        config: dict[str, object] = {}
        for parent in parents:
            if dice.random() < 0.4:
                config = put(config, f"{parent}.other", 1) if dice.random() < 0.7 else put(config, parent, {})
        for key in keys:
            kind = dice.choice(("absent", "absent", "ids", "ids", "null", "empty"))
            value = {"ids": dice.sample(range(64), dice.randrange(1, 6)), "null": None, "empty": []}.get(kind)
            if kind != "absent":
                config = put(config, key, value)
        if model_types and dice.random() < 0.3:
            config["model_type"] = dice.choice(model_types)
        yield config
