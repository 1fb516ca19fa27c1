"""What a profile says of a launch, against the release's own option code imported from its wheel."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys

import pytest
from compared_releases import RELEASES

from drafter_contracts.engines.launch_rules import flag_dest
from drafter_contracts.engines.store import load_profile
from drafter_contracts.serving.speculation import Request, resolve

pytestmark = [pytest.mark.conformance]
each_release = pytest.mark.parametrize("release", RELEASES)

ORACLE = os.path.join(os.path.dirname(__file__), "launch_oracle.py")
BASE = {
    "model_path": "target",
    "attention_backend": "triton",
    "page_size": 1,
    "device": "cuda",
}
ARCHITECTURES = (
    "LlamaForCausalLM",
    "DeepseekV3ForCausalLM",
    "GptOssForCausalLM",
    "Grok1ForCausalLM",
    "Glm4MoeForCausalLM",
    "Qwen3ForCausalLM",
    "KimiK25ForConditionalGeneration",
)
DESTS = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")


def random_cases(release, count=400):
    """Option sets that the fit did not see: other numbers, other combinations."""
    rules = load_profile("sglang", release).launch
    known = {flag_dest(flag): flag for flag in rules.flags}
    chance = random.Random(release)  # noqa: S311 - the same cases every time
    names = [name for name in rules.speculative.algorithms if name not in ("FROZEN_KV_MTP", "UNO", "DSPARK")]
    cases = []
    for _ in range(count):
        values = {
            **BASE,
            "speculative_algorithm": chance.choice(names),
            "speculative_draft_model_path": chance.choice((None, "draft", "draft")),
        }
        for dest in DESTS:
            values[dest] = chance.choice((None, 1, 1, 2, 4, 7, 16))
        if chance.random() < 0.3:
            values["page_size"] = chance.choice((16, 64))
            values["attention_backend"] = chance.choice(("triton", "flashinfer", "fa3"))
        if "speculative_dflash_block_size" in known and chance.random() < 0.3:
            values["speculative_dflash_block_size"] = chance.choice((4, 7, 16))
        draft = {
            "architectures": ["SomeDraft"],
            **({"block_size": chance.choice((5, 9))} if chance.random() < 0.5 else {}),
        }
        cases.append({"architecture": chance.choice(ARCHITECTURES), "draft": draft, "values": values})
    return cases


@pytest.fixture(scope="session")
def oracle(wheel):
    """A function from a release to (cases, the release's own options and answers)."""

    @functools.cache
    def run(release):
        cases = random_cases(release)
        request = json.dumps({"wheel": wheel(release), "cases": cases})
        done = subprocess.run([sys.executable, ORACLE], input=request, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return cases, json.loads(done.stdout)

    return run


ACTIONS = {
    "_StoreAction": "store",
    "_StoreTrueAction": "store_true",
    "_HelpAction": "help",
    "BooleanOptionalAction": "BooleanOptionalAction",
    "DeprecatedStoreTrueAction": "store_true",
    "DeprecatedStoreConstAction": "store_const",
    "DeprecatedAliasStoreAction": "store",
}


@each_release
def test_the_option_table_is_the_releases_own(release, oracle):
    registered = oracle(release)[1]["flags"]
    flags = load_profile("sglang", release).launch.flags
    assert [list(flag.names) for flag in flags] == [row["names"] for row in registered]
    for flag, row in zip(flags, registered, strict=True):
        where = f"{release} {flag.names[0]}"
        assert (flag_dest(flag), flag.required) == (row["dest"], row["required"]), where
        assert flag.action == ACTIONS.get(row["action"], flag.action), where
        if flag.nargs != "0":
            assert flag.nargs == row["nargs"], where
        if row["type"] != "other":
            assert flag.type == row["type"], where
        if row["choices known"]:
            assert (flag.choices is None) == (row["choices"] is None), where
            assert sorted(map(str, flag.choices or ())) == (row["choices"] or []), where
        if row["default known"] and flag.action != "help":
            assert flag.default == row["default"] or row["default"] is None, where


def request_of(case, defaults):
    values = case["values"]
    return Request(
        algorithm=values["speculative_algorithm"],
        triple=tuple(values[dest] for dest in DESTS),
        draft_path=values["speculative_draft_model_path"] or "",
        target_path="target",
        architecture=case["architecture"],
        draft_architecture="SomeDraft",
        draft_config=case["draft"],
        values={**defaults, **values},
    )


@each_release
def test_adjustments_are_the_releases_own(release, oracle):
    profile = load_profile("sglang", release)
    defaults = {flag_dest(flag): flag.default for flag in profile.launch.flags}
    compared = 0
    for case, answer in zip(*[oracle(release)[0], oracle(release)[1]["answers"]], strict=True):
        resolved = resolve(profile.launch.speculative, request_of(case, defaults))
        if resolved.unknown:
            continue
        compared += 1
        if "error" in answer:
            assert resolved.failure == answer["error"], (case, answer)
            continue
        assert not resolved.failure, (case, answer)
        seen = (answer["speculative_algorithm"], *(answer[dest] for dest in DESTS))
        assert (resolved.algorithm, *resolved.triple) == seen, case
    assert compared > 300


@each_release
def test_nothing_of_the_launch_is_left_unknown(release):
    launch = load_profile("sglang", release).launch
    assert launch.unknown == {}
    assert set(launch.speculative.unfitted) <= {"UNO", "architecture IQuestQ1ForCausalLM"}
