"""The width of an engine's buffers, derived from small releases that are written here."""

from __future__ import annotations

import pytest

from drafter_contracts.engines.scan.buffers import derive
from drafter_contracts.engines.scan.tree import SourceTree

OLD = """
class EagleDraftExtendInput:
    @classmethod
    def hidden_size_for(cls, worker):
        config = worker.target_worker.model_runner.model_config.hf_config
        taps = getattr(config, "num_aux_hidden_states", None)
        if taps is None:
            nested = getattr(config, "eagle_config", None) or {}
            ids = nested.get("eagle_aux_hidden_state_layer_ids")
            taps = len(ids) if ids else 3
        return taps * worker.target_worker.model_runner.model_config.hidden_size
"""
NEW = """
def get_draft_input_from_target_hidden_dim(model_runner):
    config = model_runner.model_config.hf_config
    ids = getattr(config, "eagle_aux_hidden_state_layer_ids", None)
    taps = len(ids) if ids else getattr(config, "num_aux_hidden_states", 3)
    return taps * model_runner.model_config.hidden_size
"""
ODD = """
def get_draft_input_from_target_hidden_dim(model_runner):
    config = model_runner.model_config.hf_config
    return (getattr(config, "num_aux_hidden_states", 3) + len(getattr(config, "eagle_config", {}))) * 1000
"""
NESTED = "len(eagle_config.eagle_aux_hidden_state_layer_ids)"
TOP = "len(eagle_aux_hidden_state_layer_ids)"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("speculative/eagle_info.py", OLD, ("target", ("num_aux_hidden_states", NESTED, "3"))),
        ("speculative/eagle_utils.py", NEW, ("drafter", (TOP, "num_aux_hidden_states", "3"))),
        ("speculative/eagle_utils.py", ODD, None),
        ("speculative/other.py", OLD, None),
    ],
)
def test_the_precedence_that_reproduces_every_run_is_found_or_nothing_is_said(path, text, expected):
    found, files = derive(SourceTree("here", "9.9.9", {path: text.encode()}))
    if expected is None:
        assert found == {}
        return
    assert (found["EAGLE3"].of, found["EAGLE3"].taps) == expected
    assert found["EAGLE3"].source.file == path
    assert files == {path}
