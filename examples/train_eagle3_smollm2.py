"""Train an EAGLE-3 head for SmolLM2-135M on a CPU, as far as some minutes go.

Usage: train_eagle3_smollm2.py TARGET FOLDER [SECONDS]. TARGET is what `smollm2.py` writes. The target answers short
questions greedily (FOLDER/texts.json, kept for the next run), the head is trained on these answers with the target's
states at the boundaries 2, 15 and 27, and FOLDER/drafter gets it with the output ids 1, 14 and 26. FOLDER/result.json
says how long it took and how often the head is right on answers that it has not seen.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import time

import eagle3_training
import torch
import transformers

BOUNDARIES, INTERMEDIATE, VOCABULARY = (2, 15, 27), 1536, 2048
#: Texts, of them not trained on, tokens of each.
TEXTS, HELD_OUT, LENGTH = 176, 16, 160
SECONDS, STEPS, BATCH = 540.0, 220, 4
QUESTIONS = (
    "Explain {} in simple words.",
    "Write a short story about {}.",
    "What are three facts about {}?",
    "Why is {} important?",
    "Write an email to a friend about {}.",
    "How would you teach a class about {}?",
)
TOPICS = """
the ocean, photosynthesis, a lost dog, the printing press, gravity, a rainy day, the moon, bread, a small town,
electric cars, bees, chess, volcanoes, the Roman Empire, sleep, a birthday party, rivers, algebra, music, winter,
a library, recycling, the human heart, trains, a garden, coffee, football, computers, mountains, friendship
"""


def questions() -> list[str]:
    """In an order that is the same every time."""
    topics = [topic.strip() for topic in TOPICS.split(",")]
    found = [question.format(topic) for question, topic in itertools.product(QUESTIONS, topics)]
    random.Random(0).shuffle(found)  # noqa: S311 - the same every time is the point
    return found[:TEXTS]


@torch.no_grad()
def answers(target: str, model: transformers.PreTrainedModel, batch: int = 44) -> tuple[list[list[int]], list[int]]:
    """Texts of LENGTH tokens, question and greedy answer, and how many tokens of each are the question."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(target, padding_side="left")
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
        )
        for question in questions()
    ]
    texts, lengths = [], []
    for start in range(0, len(prompts), batch):
        given = tokenizer(prompts[start : start + batch], return_tensors="pt", padding=True)
        made = model.generate(**given, max_new_tokens=LENGTH - 24, do_sample=False, eos_token_id=None, pad_token_id=2)
        for row, mask in zip(made, given["attention_mask"], strict=True):
            lengths.append(int(mask.sum()))
            texts.append(row[len(mask) - lengths[-1] :][:LENGTH].tolist())
    return texts, lengths


@torch.no_grad()
def read_text(
    model: transformers.PreTrainedModel, tokens: torch.Tensor, boundaries: tuple[int, ...]
) -> eagle3_training.Text:
    """Texts with the target's states: boundary b is what enters layer b."""
    found = []
    for piece in tokens.split(4):
        states = model.model(piece, output_hidden_states=True, use_cache=False).hidden_states
        found.append((torch.cat([states[b] for b in boundaries], -1).half(), states[-1].half()))
    states, finals = (torch.cat(parts) for parts in zip(*found, strict=True))
    return eagle3_training.Text(tokens, states, finals)


def main() -> None:
    """Text, states, training, result."""
    target, folder = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else SECONDS
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    times = {}
    began, kept = time.process_time(), os.path.join(folder, "texts.json")
    if not os.path.exists(kept):
        texts, lengths = answers(target, model)
        with open(kept, "w", encoding="utf-8") as file:
            json.dump({"held out": HELD_OUT, "texts": texts, "prompts": lengths}, file)
    times["text"], began = time.process_time() - began, time.process_time()
    with open(kept, encoding="utf-8") as file:
        tokens = torch.tensor(json.load(file)["texts"])
    text = read_text(model, tokens[HELD_OUT:], BOUNDARIES)
    times["states"], began = time.process_time() - began, time.process_time()
    vocabulary = torch.bincount(tokens[HELD_OUT:].flatten(), minlength=model.config.vocab_size)
    vocabulary = vocabulary.topk(VOCABULARY).indices.sort().values
    config = eagle3_training.config_for(model.config.to_dict(), vocabulary=VOCABULARY, intermediate=INTERMEDIATE)
    embedding = model.get_input_embeddings().weight.data
    head = eagle3_training.Head(config, len(BOUNDARIES), embedding, vocabulary)
    losses = eagle3_training.train(head, text, embedding, steps=STEPS, batch=BATCH, rate=5e-3, seconds=seconds)
    times["training"] = time.process_time() - began
    eagle3_training.save(head, os.path.join(folder, "drafter"), [boundary - 1 for boundary in BOUNDARIES])
    result = {"cpu seconds": times, "steps": len(losses), "losses": losses[::10]}
    for shift in (0, 1, -1):
        layout = tuple(boundary + shift for boundary in BOUNDARIES)
        unseen = read_text(model, tokens[:HELD_OUT], layout)
        unseen = eagle3_training.Text(unseen.tokens, unseen.states.float(), unseen.finals.float())
        result[str(list(layout))] = eagle3_training.acceptance(head, unseen, embedding)
    with open(os.path.join(folder, "result.json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
