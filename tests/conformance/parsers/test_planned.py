"""Every set of flags that `resolve` would print for 200 generated manifests is taken by the releases' own parsers."""

from __future__ import annotations

import collections

import pytest
from comparison import ELSEWHERE, EQUAL, REFUSED, without_speculation
from generated import COUNT, generate
from planned import LACKING, RELEASES, RENDERED, RESOLVED, counted, parsed, resolved, short

pytestmark = [pytest.mark.conformance, pytest.mark.running]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The drafters, in a folder of their own."""
    return generate(str(tmp_path_factory.mktemp("generated")))


@pytest.mark.parametrize("release", RELEASES)
def test_printed_flags_are_read_and_resolved_as_the_plan_says(release, ask, on_file, generated):
    kept, launches = counted(release, generated)
    results = {"parsed": collections.Counter(), "in force": collections.Counter()}
    wrong = []
    for one in launches:
        read = parsed(release, one, ask(release, ask="parse", entry="launch_server", argv=one.argv))
        plain = without_speculation(one.argv)
        force = resolved(
            release,
            one,
            ask(release, ask="resolve", argv=one.argv),
            lambda plain=plain: ask(release, ask="resolve", argv=plain),
        )
        results["parsed"][short(read)] += 1
        results["in force"][short(force)] += 1
        if read != EQUAL or short(force) not in {EQUAL, ELSEWHERE}:
            wrong.append((one.case.number, read, force, one.argv))
    assert not wrong, (len(wrong), wrong[:5])
    assert results["parsed"][EQUAL] == len(launches)
    assert REFUSED not in results["in force"], "a plan that resolved is refused by the release"
    able = COUNT - kept["plans"][LACKING]
    assert kept["plans"][RESOLVED] + kept["plans"][RENDERED] >= 0.6 * able, kept
    assert results["in force"][EQUAL] >= 0.6 * len(launches)
    on_file(release, "planned", kept | {name: dict(found) for name, found in results.items()})
