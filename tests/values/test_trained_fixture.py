"""The trained target and drafter that other tests use are what those tests take them to be."""

import json
import os


def test_no_list_of_layers_is_a_default_or_the_labelled_one(trained):
    from making.trained import DEFAULT

    assert len({trained.boundaries, trained.labelled, DEFAULT}) == 3
    with open(os.path.join(trained.drafter, "config.json"), encoding="utf-8") as file:
        ids = json.load(file)["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
    assert tuple(i + 1 for i in ids) == trained.boundaries


def test_the_target_writes_its_own_text(trained):
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(trained.target).eval()
    tokens = torch.tensor(trained.texts)
    with torch.no_grad():
        choices = model(tokens).logits.argmax(-1)
    written = choices[:, trained.prompt - 1 : -1] == tokens[:, trained.prompt :]
    assert written.float().mean() > 0.99  # a near tie may fall otherwise in another batch
