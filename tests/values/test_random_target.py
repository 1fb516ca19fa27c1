"""The random target that other tests use."""

import json
import os


def test_it_is_a_llama_of_six_layers(random_target):
    with open(os.path.join(random_target, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    assert (config["model_type"], config["num_hidden_layers"], config["hidden_size"]) == ("llama", 6, 64)
