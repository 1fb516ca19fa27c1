"""Targets and drafters for the tests of values: random ones made in a second, trained ones made once and kept."""

from __future__ import annotations

import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)

os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The tests run in as many processes as there are cores."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def random_target(tmp_path_factory):
    """Directory of a random Llama: 6 layers, width 64, 256 tokens."""
    from making.targets import random_llama

    return random_llama(str(tmp_path_factory.mktemp("target")))


@pytest.fixture(scope="session")
def trained():
    """A trained target and an EAGLE-3 drafter trained on its own text (`making.trained.Trained`), from a cache."""
    from making.trained import trained

    return trained()
