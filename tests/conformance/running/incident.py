"""The incident replayed with trained models: layouts, launches by hand, and the table of what came."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import NamedTuple

import environments
import served

VALUES = os.path.join(environments.HERE, "..", "..", "values")
#: Lists that somebody may serve the drafter with: a name for the table, and the boundaries (none: the true ones).
LAYOUTS: dict[str, tuple[int, ...]] = {
    "as trained, rendered by the registry": (),
    "as the labels said: the embedding first": (0, 2, 5),
    "what the engine takes where nothing is said": (2, 4, 5),
    "every layer one lower": (1, 4, 6),
}
TRUE, LABELLED = list(LAYOUTS)[:2]
#: The same for the example's drafter of SmolLM2.
SMOLLM2: dict[str, tuple[int, ...]] = {
    "as trained": (),
    "the embedding first": (0, 2, 15),
    "every layer one lower": (1, 14, 26),
    "every layer one higher": (3, 16, 28),
}
DRAFTING = ["--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"]
DRAFTING += ["--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"]
HEADINGS = ("The drafter is fed", "boundaries", "first token accepted", "tokens per step, predicted", "by the engine")


class Models(NamedTuple):
    """A target and its drafter, and text that the target wrote.

    Attributes:
        target: Its directory.
        drafter: Its directory.
        boundaries: What it was trained on.
        texts: Tokens of each text.
        prompts: How many of each the target did not write.
        labels: What the dump's labels claim; empty for none.
    """

    target: str
    drafter: str
    boundaries: tuple[int, ...]
    texts: tuple[list[int], ...]
    prompts: tuple[int, ...]
    labels: tuple[int, ...] = ()

    @property
    def new(self) -> int:
        """Tokens that every text has after its prompt."""
        return min(len(text) - prompt for text, prompt in zip(self.texts, self.prompts, strict=True))


def _making() -> None:
    if VALUES not in sys.path:
        sys.path.insert(0, VALUES)


def small() -> Models:
    """The trained target and drafter of the tests of values."""
    _making()
    from making import trained

    made = trained.trained()
    prompts = (made.prompt,) * len(made.texts)
    return Models(made.target, made.drafter, made.boundaries, made.texts, prompts, made.labelled)


def example(folder: str) -> Models:
    """SmolLM2-135M and what `examples/train_eagle3_smollm2.py` left in a folder: its held-out texts."""
    _making()
    from making.smollm2 import smollm2

    with open(os.path.join(folder, "texts.json"), encoding="utf-8") as file:
        kept = json.load(file)
    count = kept["held out"]
    texts, prompts = tuple(kept["texts"][:count]), tuple(kept["prompts"][:count])
    return Models(smollm2(), os.path.join(folder, "drafter"), (2, 15, 27), texts, prompts)


def dump(models: Models, folder: str) -> str:
    """The recorded states of the texts, with the labels."""
    _making()
    from making import incident

    return incident.dump(folder, models.target, models.texts, models.prompts, models.boundaries, models.labels)


def with_ids(models: Models, boundaries: tuple[int, ...], folder: str) -> str:
    """The drafter with the ids of these boundaries in its config, or with none at all."""
    directory = os.path.join(folder, "-".join(map(str, boundaries)) or "no-ids")
    shutil.copytree(models.drafter, directory)
    path = os.path.join(directory, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    del config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    if boundaries:
        config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [boundary - 1 for boundary in boundaries]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    return directory


def by_hand(models: Models, boundaries: tuple[int, ...], folder: str) -> list[str]:
    """Flags of a launch of the drafter with other ids in its config, as somebody would type them."""
    return [*DRAFTING, "--speculative-draft-model-path", with_ids(models, boundaries, folder)]


def measured(models: Models, flags: list[str]) -> tuple[float, float]:
    """Tokens per step of the whole engine over all prompts, and the part of its tokens that is the text's."""
    prompts = [text[:prompt] for text, prompt in zip(models.texts, models.prompts, strict=True)]
    answer = served.served(models.target, flags, prompts, new=models.new)
    assert not answer.get("error"), answer
    steps = sum(models.new / length for length in answer["accepted"])
    pairs = zip(answer["tokens"], models.texts, models.prompts, strict=True)
    same = sum(a == b for spoken, text, prompt in pairs for a, b in zip(spoken, text[prompt:], strict=False))
    every = models.new * len(prompts)
    return every / steps, same / every


def table(kept: dict) -> str:
    """The table of a page, from what was kept."""
    rows = [HEADINGS, ("---",) * 2 + ("---:",) * 3]
    for one in sorted(kept.values(), key=lambda one: -one["engine"]):
        numbers = (f"{100 * one['first']:.1f} %", f"{one['predicted']:.2f}", f"{one['engine']:.2f}")
        rows.append((one["name"], ", ".join(map(str, one["boundaries"])), *numbers))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
