"""The options of a launch against those of a lock, as a real release reads them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from drafter_contracts import check
from drafter_contracts.engines.store import load_profile
from drafter_contracts.launch import options
from drafter_contracts.locking.document import (
    Lock,
    LockedDrafter,
    LockedEngine,
    LockedTarget,
    LockedVerdict,
    Question,
)
from drafter_contracts.locking.options import option_drift
from drafter_contracts.serving.launch import Adjustment, TargetFacts
from drafter_contracts.verdict import REFUSE

ZERO = "0" * 64
PROFILE = load_profile("sglang", "0.5.9")
TARGET = TargetFacts("T", architecture="LlamaForCausalLM", model_type="llama", num_layers=32, hidden_size=64)
OVERRIDES = '{"eagle_config":{"eagle_aux_hidden_state_layer_ids":[3,31,59]}}'
FLAGS = (
    "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "{drafter}", "--speculative-num-steps", "3",
    "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4", "--json-model-override-args", OVERRIDES,
)  # fmt: skip


def lock(flags=FLAGS, own=()):
    return Lock(
        schema="drafters.lock.v1",
        tool="drafter-registry 1.0",
        asked=Question(reference="tiny@prod"),
        drafter=LockedDrafter(
            name="tiny", version="1.0", digest=f"sha256:{ZERO}", fingerprint=f"sha256:{ZERO}", files={"c": ZERO}
        ),
        engine=LockedEngine(name="sglang", release="0.5.9", known_by="published", digest=f"sha256:{ZERO}"),
        target=LockedTarget(name="T"),
        flags=tuple(flags),
        options=tuple(own),
        verdict=LockedVerdict(decision="allow"),
    )


def launched(arguments):
    serving = options.read_launch(PROFILE, arguments, "/models/T")
    return check.assemble(serving=options.effective(serving, PROFILE, TARGET, None), profile=PROFILE, target=TARGET)


def differences(arguments, of=None):
    return [(one.expected, one.actual) for one in option_drift(of or lock(), launched(arguments))]


def with_value(flags, name, value):
    at = flags.index(name) + 1
    return (*flags[:at], value, *flags[at + 1 :])


def without(flags, name):
    at = flags.index(name)
    return (*flags[:at], *flags[at + 2 :])


@pytest.mark.parametrize(
    "arguments",
    [
        FLAGS,
        with_value(FLAGS, "--speculative-draft-model-path", "/another/place"),
        ("--page-size", "64", "--log-level", "debug", *FLAGS),
        ("--speculative-num-steps", "9", *FLAGS),
        with_value(FLAGS, "--json-model-override-args", OVERRIDES.replace(",", ", ")),
        tuple(f"{name}={value}" for name, value in zip(FLAGS[::2], FLAGS[1::2], strict=True)),
    ],
)
def test_what_has_the_locked_effect_is_no_drift(arguments):
    assert differences(arguments) == []


@pytest.mark.parametrize("name", FLAGS[::2])
def test_every_locked_flag_must_be_there(name):
    (expected, actual), *more = differences(without(FLAGS, name))
    assert expected.startswith(name)
    assert actual.startswith(f"{name} is not given")
    assert not more


@pytest.mark.parametrize(
    ("more", "actual"),
    [
        (("--speculative-token-map", "/map.pt"), "--speculative-token-map /map.pt"),
        (("--speculative-num-steps", "5"), "--speculative-num-steps 5"),
        (("--json-model-override-args", "{}"), "--json-model-override-args {}"),
    ],
)
def test_an_option_of_speculation_that_comes_later_or_besides_is_drift(more, actual):
    assert [found for _, found in differences((*FLAGS, *more))] == [actual]


def test_own_options_that_were_locked_must_be_in_effect():
    locked = lock(own=("--page-size", "64", "--disable-cuda-graph"))
    assert differences(("--page-size", "64", "--disable-cuda-graph", *FLAGS), locked) == []
    assert differences(FLAGS, locked) == [
        ("--page-size 64", differences(FLAGS, locked)[0][1]),
        ("--disable-cuda-graph", "--disable-cuda-graph is not given"),
    ]


def test_what_the_release_makes_of_equal_options_is_compared_with_its_reason():
    s = launched(FLAGS)
    why = Adjustment("eagle_topk", "1", "2", "another option wants two branches")
    changed = replace(s.serving.speculation, effective=(3, 2, 4), adjustments=(why,))
    (finding,) = option_drift(lock(), replace(s, serving=replace(s.serving, speculation=changed)))
    assert finding.severity == REFUSE
    assert finding.expected == "speculation in effect: EAGLE3 with steps 3, topk 1, draft tokens 4"
    assert finding.actual.endswith("topk 2, draft tokens 4: another option wants two branches")
