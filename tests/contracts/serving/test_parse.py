"""The option parser against argparse itself, built from the same table."""

import argparse
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drafter_contracts.engines.launch_rules import Flag, flag_dest
from drafter_contracts.engines.store import load_profile
from drafter_contracts.serving.parse import parse_arguments
from drafter_contracts.serving.values import CONVERTERS

ACTIONS = ("store_true", "store_false", "store_const", "append", "BooleanOptionalAction")


class RefusedError(Exception):
    pass


class Oracle(argparse.ArgumentParser):
    def error(self, message):
        raise RefusedError(message)


def oracle(flags):
    """argparse's parser for a flag table."""
    parser = Oracle(add_help=False)
    for flag in flags:
        kwargs = {"dest": flag_dest(flag), "default": flag.default}
        if flag.action == "BooleanOptionalAction":
            names = [name for name in flag.names if not name.startswith("--no-")]
            parser.add_argument(*names, action=argparse.BooleanOptionalAction, **kwargs)
            continue
        if flag.action in ("store_true", "store_false", "help"):
            parser.add_argument(*flag.names, action="store_true" if flag.action == "help" else flag.action, **kwargs)
            continue
        if flag.action == "store_const":
            parser.add_argument(*flag.names, action="store_const", const=flag.const, **kwargs)
            continue
        if flag.nargs:
            kwargs["nargs"] = int(flag.nargs) if flag.nargs.isdecimal() else flag.nargs
        if flag.nargs == "?":
            kwargs["const"] = flag.const
        kwargs["choices"] = flag.choices
        kwargs["type"] = json.loads if flag.type == "json" else CONVERTERS.get(flag.type, str)
        action = "append" if flag.action == "append" else "store"
        parser.add_argument(*flag.names, action=action, required=flag.required, **kwargs)
    return parser


def as_argparse(flags, argv):
    try:
        return vars(oracle(flags).parse_args(argv))
    except RefusedError:
        return None


def as_gate(flags, argv):
    read = parse_arguments(flags, argv)
    return None if read.problems else read.values


WORDS = ("alpha", "alpha-beta", "alphabet", "beta", "gamma", "gamma-x", "delta")
NAMES = st.lists(st.sampled_from([f"--{word}" for word in WORDS]), unique=True, min_size=1, max_size=5)


@st.composite
def tables(draw):
    flags = []
    names = draw(NAMES)
    while names:
        count = draw(st.integers(1, 2))
        own, names = tuple(names[:count]), names[count:]
        kind = draw(st.sampled_from(("store", "store", "store", *ACTIONS)))
        if kind == "BooleanOptionalAction":
            own = (*own, *(f"--no-{name[2:]}" for name in own))
        if kind == "store_const":
            flags.append(Flag(own, action=kind, const="fixed"))
            continue
        if kind not in ("store", "append"):
            flags.append(Flag(own, action=kind, default=draw(st.sampled_from((None, False, True)))))
            continue
        type_ = draw(st.sampled_from(("str", "int", "float", "json", "nullable_str", "human_int")))
        nargs = draw(st.sampled_from(("", "", "", "+", "*", "?", "2")))
        choices = draw(st.sampled_from((None, None, ("a", "b", 1, 2.5))))
        required = draw(st.booleans()) and kind == "store"
        const = 7 if nargs == "?" else None
        flags.append(Flag(own, "", kind, type_, nargs, choices, None, const, required))
    return flags


VALUES = st.sampled_from(
    ("a", "b", "1", "2.5", "-1", "-2.5", "-", "", "1k", "[1, 2]", '{"a": 1}', "{", "None", "x y", "-x y", "x=y", "nan")
)
TOKENS = st.one_of(
    st.sampled_from([f"--{word}" for word in WORDS] + ["--a", "--al", "--g", "--no-beta", "--unknown", "-q", "--"]),
    st.builds(lambda word, value: f"--{word}={value}", st.sampled_from([*WORDS, "a", "alph", "zeta"]), VALUES),
    VALUES,
)


def _odd(argv):
    """`--flag=--`, for which argparse 3.11 loses the value before it looks."""
    return any(token.endswith("=--") for token in argv)


@settings(max_examples=600)
@given(tables(), st.lists(TOKENS, max_size=7))
def test_same_verdict_and_values_as_argparse(flags, argv):
    assume(not _odd(argv))
    assert repr(as_gate(flags, argv)) == repr(as_argparse(flags, argv))


RELEASES = ("0.4.6.post5", "0.5.2", "0.5.9", "0.5.12.post1")


def real_flags(release):
    return [flag for flag in load_profile("sglang", release).launch.flags if flag.action != "version"]


@st.composite
def command_lines(draw, flags):
    argv = ["--model-path", "m"]
    for flag in draw(st.lists(st.sampled_from(flags), max_size=5)):
        name = draw(st.sampled_from(flag.names))
        name = name[: draw(st.integers(max(3, len(name) - 4), len(name)))]
        choices = [str(choice) for choice in flag.choices or ()]
        value = draw(st.sampled_from([*choices, "1", "0.5", "text", '{"a": [1]}', "-1"]))
        argv += draw(st.sampled_from(([name], [name, value], [f"{name}={value}"], [name, value, value])))
    return argv


@pytest.mark.parametrize("release", RELEASES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_same_as_argparse_on_a_release_table(release, data):
    known = [flag for flag in real_flags(release) if flag.action in ("store", *ACTIONS) and flag.type[0] not in "?j"]
    known = [flag for flag in known if flag.type != "strict_json"]
    argv = data.draw(command_lines(known))
    assert repr(as_gate(known, argv)) == repr(as_argparse(known, argv))


TABLE = (
    Flag(("--model-path", "--model"), required=True),
    Flag(("--tensor-parallel-size", "--tp-size"), dest="tp_size", type="int", default=1),
    Flag(("--speculative-algorithm",), choices=("EAGLE", "EAGLE3")),
    Flag(("--speculative-num-steps",), type="int"),
    Flag(("--cuda-graph-max-bs-decode",), type="int"),
    Flag(("--cuda-graph-max-bs-prefill",), type="int"),
    Flag(("--lora-paths",), nargs="*"),
    Flag(("--old",), action="ignore", nargs="0", deprecated="Use --new."),
    Flag(("--gone",), action="refuse", nargs="0", deprecated="Removed."),
    Flag(("--help", "-h"), action="help"),
)


def problems(*argv):
    return [(p.kind, p.flag, p.value, p.nearest) for p in parse_arguments(TABLE, argv).problems]


def test_aliases_abbreviations_and_repeats():
    read = parse_arguments(TABLE, ["--model", "m", "--tp", "2", "--tp-size=4", "--speculative-algo", "EAGLE3"])
    assert read.problems == ()
    assert read.values["tp_size"] == 4
    assert read.values["speculative_algorithm"] == "EAGLE3"
    assert read.spelled["speculative_algorithm"] == "--speculative-algo"
    assert read.given == {
        "model_path": "command line",
        "tp_size": "command line",
        "speculative_algorithm": "command line",
    }


def test_every_problem_is_collected():
    found = problems("--tpp-size", "8", "--speculative-algorithm", "EAGLE4", "--speculative-num-steps", "x", "stray")
    assert found == [
        ("unknown_flag", "--tpp-size", "8", "--tp-size"),
        ("bad_choice", "--speculative-algorithm", "EAGLE4", "EAGLE"),
        ("bad_value", "--speculative-num-steps", "x", ""),
        ("unexpected_value", "", "stray", ""),
        ("required", "--model-path", "", ""),
    ]


def test_an_ambiguous_abbreviation_names_its_candidates():
    (problem,) = parse_arguments(TABLE, ["--model", "m", "--cuda-graph-max-bs", "8"]).problems
    assert problem.kind == "ambiguous"
    assert problem.expected == "one of --cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill"


def test_underscores_are_pointed_at_dashes():
    assert problems("--model_path", "m")[0] == ("unknown_flag", "--model_path", "m", "--model-path")


def test_deprecated_and_removed_flags():
    read = parse_arguments(TABLE, ["--model", "m", "--old"])
    assert (read.problems, read.deprecated, "old" in read.values) == ((), {"old": "Use --new."}, True)
    (problem,) = parse_arguments(TABLE, ["--model", "m", "--gone"]).problems
    assert (problem.flag, problem.expected) == ("--gone", "Removed.")


def test_help_needs_nothing_else():
    assert problems("-h") == []


def test_lists_take_until_the_next_option():
    assert parse_arguments(TABLE, ["--model", "m", "--lora-paths", "a", "b=c", "--tp", "2"]).values["lora_paths"] == [
        "a",
        "b=c",
    ]
    assert parse_arguments(TABLE, ["--model", "m", "--lora-paths"]).values["lora_paths"] == []


def test_origins_are_kept():
    read = parse_arguments(TABLE, ["--tp", "2", "--model", "m"], ["f.yaml", "f.yaml", "command line", "command line"])
    assert read.given == {"tp_size": "f.yaml", "model_path": "command line"}


@given(st.lists(st.text(max_size=10), max_size=8))
def test_any_arguments_give_an_answer(argv):
    parse_arguments(TABLE, argv)


def test_a_constant_with_choices_takes_one_of_them():
    """`--monokernel-backend amd` of 0.5.23: a valued flag that became a switch."""
    flags = (Flag(("--old",), dest="new", action="store_const", choices=("amd",), const=True, default=False),)
    read = parse_arguments(flags, ["--old", "amd"])
    assert (read.values, read.problems) == ({"new": True}, ())
    assert [problem.kind for problem in parse_arguments(flags, ["--old"]).problems] == ["missing_value"]
    assert [problem.kind for problem in parse_arguments(flags, ["--old=x"]).problems] == ["bad_choice"]


def test_names_that_were_meant_are_looked_for_a_few_times_only():
    """A launch of a hundred thousand words must not cost minutes."""
    nearest = [problem[3] for problem in problems(*["--tpp-size=8"] * 50) if problem[0] == "unknown_flag"]
    assert nearest == ["--tp-size"] * 20 + [""] * 30
