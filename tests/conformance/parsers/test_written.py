"""Values written as arguments, read back by each release's own parser: they are the same values."""

from __future__ import annotations

import random

import pytest
from canonical import plain

from drafter_contracts.engines.launch_rules import flag_dest
from drafter_contracts.serving.arguments_of import arguments_of

pytestmark = [pytest.mark.conformance, pytest.mark.running]

COUNT = 150
#: Help, the file of arguments, the model that is always given, and texts that the release takes apart by its own code.
LEFT = ("help", "version", "config", "model_path", "lora_paths", "kv_canary_real_data")
TEXTS = ("a", "a b", "-x", "--tp-size", "", "None", '{"a": [1, null]}', "ü\n", "1")
OBJECTS = ({"a": {"b": [1, 2.5, None, True]}}, {}, [1, "x"], "text", 3)
KINDS = {
    "int": (0, 1, -1, 7, 4096),
    "human_int": (0, 1, 4096),
    "float": (0.5, 1.0, -2.5, 1e-7),
    "json": OBJECTS,
    "strict_json": OBJECTS,
}


def value(flag, chance):
    """A value that a caller in Python may give."""
    if flag.action in ("store_true", "store_false", "BooleanOptionalAction"):
        return chance.random() < 0.5
    kinds = flag.choices or KINDS.get(flag.type, TEXTS)
    if flag.nargs in ("+", "*"):
        return [chance.choice(kinds) for _ in range(chance.randrange(4))]
    return chance.choice(kinds)


def test_every_value_that_is_written_is_read_by_the_release_as_it_was(release, ask, profile_of):
    chance = random.Random(release)  # noqa: S311 - the same values every time
    flags = profile_of(release).launch.flags
    usable = [flag for flag in flags if "?" not in flag.type and flag_dest(flag) not in LEFT]
    usable = [flag for flag in usable if flag.action == "BooleanOptionalAction" or flag.action.islower()]
    seen = 0
    for _ in range(COUNT):
        values = {flag_dest(flag): value(flag, chance) for flag in chance.sample(usable, 12)} | {"model_path": "/m"}
        written = arguments_of(flags, values)
        answer = ask(release, ask="parse", entry="launch_server", argv=list(written.argv))
        assert "values" in answer, (written.argv, answer)
        for name in values.keys() - written.unknown.keys() - written.unwritable.keys():
            assert answer["values"][name] == plain(values[name]), (name, values[name], written.argv)
            seen += 1
    assert seen > COUNT * 8, "most of them can be written"
