"""Command lines, read by the gate and by each release's own parser."""

from __future__ import annotations

import collections
import os

import pytest
from argv_cases import Generator, config_text, with_config
from comparison import EQUAL, NOT_JUDGED, REFUSED, difference, reading

from drafter_contracts.engines.launch_rules import flag_dest

pytestmark = [pytest.mark.conformance, pytest.mark.running]

COUNT = 510


def options_known(profile, options):
    """The real options, and those that only the profile knows, in the same form."""
    names = {name for option in options for name in option["names"]}
    more = [
        {"names": list(flag.names), "dest": flag_dest(flag), "nargs": None, "type": flag.type, "choices": None}
        for flag in profile.launch.flags
        if not names.intersection(flag.names)
    ]
    return [*options, *more]


def command_lines(release, profile, options, folder):
    """(kind, entry, argv, directory) of `COUNT` command lines, a third each where the release has all ways."""
    generator = Generator(release, options_known(profile, options))
    kinds = ["plain"]
    if profile.launch.config_file is not None:
        kinds.append("config")
    if profile.launch.serve is not None:
        kinds.append("serve")
    for number in range(COUNT):
        kind = kinds[number % len(kinds)]
        if kind == "config":
            path = f"{number}.yaml"
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(config_text(generator))
            argv = generator.tokens(mistakes=generator.chance.random() < 0.15)
            # The release's process runs elsewhere: it is told the whole path.
            yield kind, "launch_server", with_config(generator, argv, os.path.join(folder, path), folder + "/no.yaml")
        elif kind == "serve":
            yield kind, "serve", generator.served()
        else:
            yield kind, "launch_server", generator.plain()


def test_every_command_line_is_read_as_the_release_reads_it(release, ask, profile_of, on_file, tmp_path):
    profile = profile_of(release)
    options = ask(release, ask="options")["options"]
    counted = collections.Counter()
    different = []
    for kind, entry, argv in command_lines(release, profile, options, str(tmp_path)):
        answer = ask(release, ask="parse", entry=entry, argv=argv)
        result = difference(profile, reading(profile, entry, argv), answer)
        if result in {EQUAL, REFUSED, NOT_JUDGED}:
            counted[f"{kind}, {result}"] += 1
        else:
            different.append((argv, result))
    assert not different, different[:5]
    assert counted.total() == COUNT
    # As many are accepted as refused, roughly: neither side of the reading is left untried.
    accepted = sum(count for name, count in counted.items() if name.endswith(EQUAL))
    assert COUNT * 0.25 < accepted < COUNT * 0.8
    on_file(release, "command lines", dict(counted))


def test_every_option_of_the_real_parser_is_in_the_table(release, ask, profile_of):
    options = ask(release, ask="options")["options"]
    flags = profile_of(release).launch.flags
    assert [list(flag.names) for flag in flags] == [option["names"] for option in options]
    assert [flag_dest(flag) for flag in flags] == [option["dest"] for option in options]
