"""Capture rules of small releases in SGLang's shape: which state of a layer is captured, and how many are."""

from __future__ import annotations

import pytest
from scan_toy import FINISH, LOOP, model
from scan_toy_rules import N, rule_of, taps

from drafter_contracts.engines.capture import capture_once


def test_a_packer_counts_what_it_was_given():
    loop = LOOP.replace(
        "aux_hidden_states = []", "aux_hidden_states = AuxHiddenStatePacker(len(self.layers_to_capture))"
    )
    finish = (
        "\n        hidden_states, _ = self.norm(hidden_states, residual)"
        "\n        if len(aux_hidden_states) == 0:\n            return hidden_states"
        "\n        return hidden_states, aux_hidden_states.finalize()\n"
    )
    rule = rule_of(model(loop=loop, finish=finish))
    assert rule.capture.short == "RuntimeError"
    assert taps(rule, [1, 4]) == [2, 5]
    assert taps(rule, [1, N - 1]) == "RuntimeError"
    assert taps(rule, [4, 4]) == "RuntimeError"
    assert taps(rule, [N + 3]) == "ValueError"


def test_the_output_of_the_last_norm_is_no_pair():
    """Without a captured state the model returns one tensor, which its caller takes apart: that raises at any batch."""
    rule = rule_of(model())
    assert rule.capture.none == "ValueError"
    assert taps(rule, []) == taps(rule, [N + 3]) == "ValueError"
    assert taps(rule, [1, N + 3]) == [2]
    silent = rule_of(model(finish=FINISH.replace("return hidden_states\n", "return hidden_states, []\n")))
    assert silent.capture.none == ""
    assert taps(silent, [N + 3]) == []


def test_a_layer_that_returns_its_residual_apart_is_captured_without_it():
    loop = LOOP.replace("hidden_states + residual", "hidden_states")
    rule = rule_of(model(loop=loop))
    assert rule.status == "fitted"
    assert rule.capture.state == "what layer b-1 contributed last, without the residual stream that it is added to"
    assert capture_once(rule, N, [3, 7]).foreign


SCALED = "            residual = 0.5 * residual\n"


def test_a_stream_that_is_changed_between_layers_is_what_the_next_layer_reads():
    rule = rule_of(model(loop=LOOP + SCALED))
    assert (rule.status, rule.capture.state) == ("fitted", "residual")
    assert taps(rule, [1, 4]) == [2, 5]


def test_a_part_of_a_stream_that_cannot_be_followed_is_opaque():
    rule = rule_of(model(loop=LOOP.replace("hidden_states + residual)", "hidden_states)") + SCALED))
    assert rule.status == "opaque"
    assert "cannot be followed through layer 0" in rule.reason


STREAMS = """
        x = self.input_layernorm(torch.ops.pre(hidden_states))
        x = self.self_attn(positions, x, forward_batch)
        return torch.ops.post(x, hidden_states), None
"""
HEAD = """
        hidden_states = self.norm(torch.ops.head(hidden_states))
        if len(aux_hidden_states) == 0:
            return hidden_states
        return hidden_states, aux_hidden_states
"""


@pytest.mark.parametrize(
    ("captured", "state"),
    [
        ("hidden_states.mean(dim=1)", "stream_mean"),
        ("(torch.ops.weights(hidden_states) * hidden_states).sum(dim=1)", "stream_mixture"),
        ("torch.ops.squash(hidden_states)", "what squash makes of the residual stream"),
        ("self.norm(hidden_states)", "the residual stream after a norm"),
    ],
)
def test_of_several_streams_it_is_said_what_is_captured(captured, state):
    rule = rule_of(model(layer=STREAMS, loop=LOOP.replace("hidden_states + residual", captured), finish=HEAD))
    assert (rule.status, rule.capture.state) == ("fitted", state)
    capture = capture_once(rule, N, [-1, 4])
    assert [tap.boundary for tap in capture.taps] == [0, 5]
    assert bool(capture.foreign) == (" " in state)


GATED = """
        x = self.self_attn(positions, residual, forward_batch)
        stream, next_input = torch.ops.fused(hidden_states, x)
        return stream, next_input
"""


@pytest.mark.parametrize(("captured", "what"), [("hidden_states", "residual"), ("residual", "foreign")])
def test_a_gated_stream_is_the_tensor_that_the_last_norm_reads(captured, what):
    loop = "        residual = self.norm(hidden_states)\n" + LOOP.replace("hidden_states + residual", captured)
    rule = rule_of(model(layer=GATED, loop=loop, finish=HEAD.replace("torch.ops.head(hidden_states)", "hidden_states")))
    if what == "residual":
        assert (rule.status, rule.capture.state) == ("fitted", "residual")
        assert taps(rule, [-1, 4]) == [0, 5]
    else:
        assert rule.capture.state == "a tensor that is not a sum of the residual stream's parts"


def test_the_order_of_the_config_can_be_the_order_of_capture():
    loop = LOOP + "        aux_hidden_states = [aux_hidden_states[sorted(self.layers_to_capture).index(b)]"
    loop += " for b in self.layers_to_capture] if len(set(self.layers_to_capture)) == len(aux_hidden_states) else []\n"
    rule = rule_of(model(loop=loop))
    assert rule.status == "opaque" or rule.capture.order == "given"
