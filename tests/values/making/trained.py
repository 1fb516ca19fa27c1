"""A trained target and a trained EAGLE-3 drafter: made once, kept in a cache, the same for the same seed and machine.

The drafter's taps are those of the incident in small: trained on the outputs of the layers 1, 4 and 6, which a label
shifted by the embedding calls boundaries 0, 2 and 5. None of the lists is what an engine takes by default for 8 layers.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import shutil
import sys
import tempfile
import types
from typing import NamedTuple

import torch
import transformers

from . import byte_target

HERE = os.path.dirname(os.path.abspath(__file__))
TRAINING = os.path.join(HERE, "..", "..", "..", "examples", "eagle3_training.py")
#: What the drafter reads, what its data's labels claim, and what engines take where nothing is said.
BOUNDARIES, LABELLED, DEFAULT = (2, 5, 7), (0, 2, 5), (2, 4, 5)
#: Own texts of the target: a piece of source text and what it makes of it.
PROMPT, LENGTH = 24, byte_target.LENGTH
TRAINED_ON, HELD_OUT = 192, 8
DRAFT_VOCABULARY, STEPS, BATCH = 96, 250, 8


class Trained(NamedTuple):
    """Where they lie, and text.

    Attributes:
        target: Directory of the target: Llama, 8 layers, width 128, tokens are bytes.
        drafter: Directory of the drafter, its config.json with the right output ids for SGLang.
        boundaries: What it was trained on, in concatenation order.
        labelled: What the labels of the incident's sample claim instead.
        text: The first of `texts`.
        texts: Held-out text that the target wrote itself, greedily, from `prompt` tokens of source text on.
        prompt: Tokens of each text that the target did not write.
        source: Source text, unseen by the drafter as such.
        layers: Decoder layers of the target.
        hidden_size: Its width.
    """

    target: str
    drafter: str
    boundaries: tuple[int, ...]
    labelled: tuple[int, ...]
    text: list[int]
    texts: tuple[list[int], ...]
    prompt: int
    source: list[int]
    layers: int = byte_target.LAYERS
    hidden_size: int = byte_target.WIDTH


def trained() -> Trained:
    """From the cache, or trained now by the first process that asks: about a minute and a half of one core."""
    place = os.path.join(cache(), key())
    if not os.path.isdir(place):
        os.makedirs(cache(), exist_ok=True)
        with open(os.path.join(cache(), f".{key()}.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.isdir(place):
                _make(place)
    with open(os.path.join(place, "texts.json"), encoding="utf-8") as file:
        texts = tuple(json.load(file)["texts"])
    return Trained(
        target=os.path.join(place, "target"),
        drafter=os.path.join(place, "drafter"),
        boundaries=BOUNDARIES,
        labelled=LABELLED,
        text=texts[0],
        texts=texts,
        prompt=PROMPT,
        source=byte_target.source()[-LENGTH:].tolist(),
    )


def cache() -> str:
    """Folder of the cache."""
    return os.environ.get("DRAFTERS_TRAINED_CACHE") or os.path.expanduser("~/.cache/drafter-registry/trained")


def key() -> str:
    """Digest of everything that the result depends on but the machine."""
    digest = hashlib.sha256()
    for path in (TRAINING, byte_target.__file__, __file__):
        with open(path, "rb") as file:
            digest.update(file.read())
    versions = (platform.python_version(), torch.__version__, transformers.__version__)
    digest.update(" ".join(map(str, versions)).encode())
    return digest.hexdigest()[:16]


def training() -> types.ModuleType:
    """The example's module: the tests' drafter is trained by the code that the example shows."""
    name = "eagle3_training"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TRAINING)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _make(place: str) -> None:
    """Train both in a folder beside, and rename it when it is whole."""
    work = tempfile.mkdtemp(prefix=".making-", dir=cache())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in one order
    try:
        with torch.random.fork_rng():
            text = byte_target.source()
            model = byte_target.trained_target(text)
            byte_target.save_target(model, os.path.join(work, "target"))
            texts = own_texts(model, text)
            _train_drafter(model, texts[HELD_OUT:], os.path.join(work, "drafter"))
        with open(os.path.join(work, "texts.json"), "w", encoding="utf-8") as file:
            json.dump({"texts": texts[:HELD_OUT].tolist()}, file)
        os.rename(work, place)
    finally:
        torch.set_num_threads(threads)
        shutil.rmtree(work, ignore_errors=True)


@torch.no_grad()
def own_texts(model: transformers.LlamaForCausalLM, text: torch.Tensor) -> torch.Tensor:
    """What the target writes greedily after pieces of source text, [texts, LENGTH]."""
    prompts = byte_target.passages(text, HELD_OUT + TRAINED_ON, PROMPT, seed=3)
    written: torch.Tensor = model.generate(  # type: ignore[operator]
        prompts,
        attention_mask=torch.ones_like(prompts),
        max_new_tokens=LENGTH - PROMPT,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=byte_target.PADDING,
    )
    return written


@torch.no_grad()
def read_text(model: transformers.LlamaForCausalLM, tokens: torch.Tensor, boundaries: tuple[int, ...]) -> tuple:
    """A text with the target's states: boundary b is what enters layer b."""
    found = []
    for piece in tokens.split(32):
        states = model.model(piece, output_hidden_states=True, use_cache=False).hidden_states
        found.append((torch.cat([states[boundary] for boundary in boundaries], -1), states[-1]))
    states, finals = (torch.cat(parts) for parts in zip(*found, strict=True))
    return training().Text(tokens, states, finals)


def _train_drafter(model: transformers.LlamaForCausalLM, tokens: torch.Tensor, folder: str) -> None:
    code = training()
    text = read_text(model, tokens, BOUNDARIES)
    counts = torch.bincount(tokens.flatten(), minlength=byte_target.VOCABULARY)
    vocabulary = counts.topk(DRAFT_VOCABULARY).indices.sort().values
    config = code.config_for(model.config.to_dict(), vocabulary=DRAFT_VOCABULARY, intermediate=256)
    torch.manual_seed(0)
    head = code.Head(config, len(BOUNDARIES), model.get_input_embeddings().weight.data, vocabulary)
    code.train(head, text, model.lm_head.weight.data, steps=STEPS, batch=BATCH)
    code.save(head, folder, [boundary - 1 for boundary in BOUNDARIES])
