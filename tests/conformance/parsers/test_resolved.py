"""Speculation as each release's resolved arguments have it, and as the gate predicts it."""

from __future__ import annotations

import collections
import os

import pytest
from comparison import ELSEWHERE, EQUAL, REFUSED, UNKNOWN, prediction, resolved_difference, without_speculation
from speculation_cases import Launches, numbers, write_configs

pytestmark = [pytest.mark.conformance, pytest.mark.running]


def test_no_prediction_is_wrong(release, ask, profile_of, on_file, tmp_path):
    write_configs(str(tmp_path))
    profile = profile_of(release)
    counted, unknown = collections.Counter(), collections.Counter()
    different = []
    for argv in Launches(profile, str(tmp_path)).all():
        theirs = ask(release, ask="resolve", argv=argv)
        plainly = without_speculation(argv)
        result = resolved_difference(
            profile,
            *prediction(profile, argv),
            theirs,
            lambda plainly=plainly: ask(release, ask="resolve", argv=plainly),
        )
        if result.startswith(UNKNOWN):
            counted[UNKNOWN] += 1
            unknown[result.removeprefix(f"{UNKNOWN}: ").replace(os.fspath(tmp_path), "FOLDER")] += 1
        elif result in {EQUAL, REFUSED, ELSEWHERE}:
            counted[result] += 1
        else:
            different.append((argv, result))
    assert not different, (len(different), different[:5])
    assert counted[EQUAL] >= 75
    assert counted[EQUAL] + counted[REFUSED] >= 100
    on_file(release, "resolved", {**counted, "why unknown": dict(unknown)})


@pytest.mark.xfail(reason="a scan tries the pages that backends force on a target without latent attention only")
def test_what_a_backend_forces_on_latent_attention(ask, profile_of, tmp_path):
    # 0.5.9 `server_args.py`: with `--prefill-attention-backend fa4` pages hold 128, "and not self.use_mla_backend()".
    write_configs(str(tmp_path))
    profile = profile_of("0.5.9")
    argv = ["--model-path", str(tmp_path / "deepseek_v3"), "--device", "cuda", "--attention-backend", "triton"]
    argv += ["--prefill-attention-backend", "fa4", "--speculative-algorithm", "EAGLE", *numbers("2", "2", "4")]
    theirs = ask("0.5.9", ask="resolve", argv=argv)
    assert resolved_difference(profile, *prediction(profile, argv), theirs, dict) == EQUAL
