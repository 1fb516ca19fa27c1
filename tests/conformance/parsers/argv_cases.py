"""Random command lines of one release, from its real options and from those that its profile knows: the same each time.

About half of them hold no mistake on purpose; the others hold one or two.
"""

from __future__ import annotations

import json
import random

WORDS = (
    "auto",
    "m",
    "a b",
    "",
    "None",
    "x=y",
    "0",
    "7",
    "-5",
    "- x",
    "/a/b",
    "é",
    "true",
    "a,b",
    "'q'",
    "-.5",
    "=",
    "-",
)
INTEGERS = ("0", "1", "7", "-5", "+4", "1_000", " 7 ", "007", "123456789012345678901234567890", "١")
NOT_INTEGERS = ("abc", "1.5", "", "1e3", "1k", "0x10", "-", "- 1", "None", "-5x")
FLOATS = ("0.5", "1", "-0.25", "1e3", "inf", "nan", "-.5", ".5", "1_0.5", " 2.5 ", "-1e3", "-5")
NOT_FLOATS = ("abc", "", "0.5x", "1,5", "None", "0x1p3")
HUMAN = ("1k", "25.6k", "1Ki", "2M", "3Gi", "0.001k", "1T", "4096", "1.5G", "0.1k")
NOT_HUMAN = ("1.5Ki", "1K", "k", "1kk", "1.5", ".5k", "1.k", "k1", "-1k", "1 k", "1_0k", "1e3k")
DOCUMENTS = (
    '{"a": 1}',
    "{}",
    "[1, 2]",
    '{"a": {"b": [true, null, 1.5]}}',
    "null",
    '{"a": "é"}',
    "1",
    "NaN",
    '{"a":1e400}',
)
NOT_DOCUMENTS = ("{'a': 1}", "{", "abc", "", "[1,]", '{"a": 1} x', "-Infinit")
GRAPHS = ('{"decode": {"backend": "disabled"}}', '{"prefill": {"bs": [1, 2]}}', '{"decode": {"backend": "full"}}')
STRAY = ("stray", "-5", "--", "", "a b", "-", "-1.5", "--=", "---", "-=x", "=")


def value_of(chance: random.Random, option: dict, *, wrong: bool) -> str:
    """A text for one value of an option."""
    choices = option["choices"]
    if choices:
        return wrong_choice(chance, choices) if wrong else str(chance.choice(choices))
    kind = option["type"]
    right, bad = {
        "int": (INTEGERS, NOT_INTEGERS),
        "float": (FLOATS, NOT_FLOATS),
        "human_readable_int": (INTEGERS + HUMAN, NOT_INTEGERS[1:4] + NOT_HUMAN),
        "loads": (DOCUMENTS, NOT_DOCUMENTS),
        "json_dict_type": (DOCUMENTS, NOT_DOCUMENTS),
        "parse_cuda_graph_config_arg": (GRAPHS, NOT_DOCUMENTS),
    }.get(kind, (WORDS, ("-x", "--y", "-5x", "--", "-1_0")))
    if "json" in kind.lower() and kind != "json_dict_type":
        right, bad = DOCUMENTS, NOT_DOCUMENTS
    return chance.choice(bad if wrong else right)


def wrong_choice(chance: random.Random, choices: list) -> str:
    """A text that looks like a choice and (mostly) is none."""
    some = str(chance.choice(choices))
    return chance.choice((some.swapcase(), some + "x", some[:-1], " " + some, "", "nonsense", some.replace("_", "-")))


def takes(chance: random.Random, option: dict, *, wrong: bool) -> int:
    """How many values to give."""
    nargs = option["nargs"]
    if nargs == "+":
        return 0 if wrong else chance.randint(1, 3)
    if nargs == "*":
        return chance.randint(0, 3)
    if nargs == "?":
        return chance.randint(0, 2 if wrong else 1)
    if nargs is None:
        return chance.choice((0, 2)) if wrong else 1
    return int(nargs) + (chance.choice((0, 1)) if wrong else 0)


def spelled(chance: random.Random, name: str, mistakes: bool) -> str:
    """An option's name as somebody might write it."""
    shape = chance.random()
    if shape < 0.12 and name.startswith("--"):
        return name[: chance.randint(max(3, len(name) - 6), len(name))]
    if shape < 0.25 and name.startswith("--") and mistakes:
        return name[: chance.randint(3, len(name))]
    if shape < 0.4 and mistakes:
        return chance.choice(
            (
                name.replace("-", "_").replace("__", "--", 1),
                name + "x",
                name[1:],
                name.upper(),
                name[:-1] + "?",
                "-" + name,
            )
        )
    return name


class Generator:
    """Command lines of one release.

    Args:
        release: Seeds the choices.
        options: The real parser's, and others in the same form.
    """

    def __init__(self, release: str, options: list[dict]) -> None:
        self.chance = random.Random(f"command lines of {release}")  # noqa: S311 - the same every time
        self.options = [option for option in options if option["names"] and option["names"][0] != "-h"]
        for option in self.options:  # sets have no order of their own
            option["choices"] = sorted(option["choices"], key=str) if option["choices"] else None
        model = next(option for option in options if option["dest"] == "model_path")
        self.model = [name for name in model["names"] if name.startswith("-")]

    def occurrence(self, option: dict, *, mistakes: bool) -> list[str]:
        """One option with its values, as tokens."""
        chance = self.chance
        wrong = mistakes and chance.random() < 0.5
        name = spelled(chance, chance.choice(option["names"]), mistakes)
        count = takes(chance, option, wrong=wrong and chance.random() < 0.4)
        texts = [value_of(chance, option, wrong=wrong and chance.random() < 0.7) for _ in range(count)]
        if chance.random() < 0.2 and (texts or mistakes):
            first = texts[0] if texts else chance.choice(("", "x", "true"))
            if first == "--":  # releases of CPython differ: argparse drops it or keeps it
                first = "-"
            return [f"{name}={first}", *texts[1:]]
        return [name, *texts]

    def tokens(self, *, mistakes: bool, model: bool = True) -> list[str]:
        """A whole command line without a config file."""
        chance = self.chance
        chosen = [chance.choice(self.options) for _ in range(chance.choice((0, 1, 2, 3, 5, 8)))]
        if chosen and chance.random() < 0.4:
            chosen.append(chance.choice(chosen))
        parts = [self.occurrence(option, mistakes=False) for option in chosen]
        if model and not (mistakes and chance.random() < 0.1):
            parts.append(self.required())
        for _ in range(chance.choice((1, 1, 2)) if mistakes else 0):
            parts.append(self.occurrence(chance.choice(self.options), mistakes=True))
            if chance.random() < 0.25:
                parts.append([chance.choice(STRAY)])
            if chance.random() < 0.05:
                parts.append([chance.choice(("-h", "--help", "--he"))])
        chance.shuffle(parts)
        return [token for part in parts for token in part]

    def required(self) -> list[str]:
        """The model."""
        name, model = self.chance.choice(self.model), self.chance.choice(("m", "org/name", "/a/b"))
        return [f"{name}={model}"] if self.chance.random() < 0.2 else [name, model]

    def plain(self) -> list[str]:
        """A command line without a config file, with mistakes or without."""
        return self.tokens(mistakes=self.chance.random() < 0.5)

    def served(self) -> list[str]:
        """What follows `sglang serve`."""
        named = self.chance.random() < 0.8
        argv = self.tokens(mistakes=self.chance.random() < 0.3, model=named)
        if not named:
            argv.insert(0 if self.chance.random() < 0.8 else len(argv), "m")
        if self.chance.random() < 0.3:
            kind = self.chance.choice(("llm", "auto", "llm", "diffusion", "LLM"))
            place = self.chance.randint(0, len(argv))
            argv[place:place] = self.chance.choice((["--model-type", kind], [f"--model-type={kind}"]))
        return argv


#: YAML scalars and collections, as text.
SCALARS = (
    *("1", "-5", "1.5", "1e3", "1.0e+3", "010", "0x1F", "0b11", "1_000", "12:30:45", ".inf", "-.inf", ".nan", "+7"),
    *("true", "false", "True", "FALSE", "yes", "no", "on", "off", "y", "null", "~", "", "Null", "None", '""', "''"),
    *("abc", "'a b'", '"1"', "'true'", "2024-01-02", "2024-01-02 03:04:05", "!!str 5", "!!int '7'", '"\\u00e9"'),
    *(
        "[]",
        "[1, 2]",
        "[a, 'b c', null]",
        "[true, 1.5]",
        "[[1, 2], [3]]",
        "{}",
        "{a: 1}",
        "{a: [true, null], b: 'it''s'}",
    ),
    *(
        "{1: 2, x: 1.5}",
        "{d: 2024-01-02}",
        "|\n  two\n  lines",
        ">-\n  fold\n  ed",
        "-x",
        "'--tp-size'",
        "'-5'",
        "&a x",
    ),
)
BROKEN = (
    "[1, 2]\n",
    "- a\n- b\n",
    "just text\n",
    "a: [1\n",
    "a: b: c\n",
    "",
    "# nothing\n",
    "---\n",
    "a: 1\n---\nb: 2\n",
    "\ta: 1\n",
    "5\n",
)


def key_of(chance: random.Random, option: dict, *, mistakes: bool) -> str:
    """A key of a config file for an option."""
    names = [name[2:] for name in option["names"] if name.startswith("--")]
    key = chance.choice(names)
    shape = chance.random()
    if shape < (0.3 if mistakes else 0.05):
        return key.replace("-", "_")
    if shape < 0.34:
        return key[: chance.randint(max(1, len(key) - 3), len(key))]
    if shape < 0.45 and mistakes:
        return chance.choice((key + "x", f"'{key}'", key.upper(), "1", "null", "true", "''", "no", f"--{key}"))
    return key


def config_text(generator: Generator) -> str:
    """A config file; about half of them hold no mistake on purpose."""
    chance = generator.chance
    if chance.random() < 0.08:
        return chance.choice(BROKEN)
    mistakes = chance.random() < 0.3
    lines = []
    for _ in range(chance.choice((1, 2, 3))):
        option = chance.choice(generator.options)
        value = chance.choice(SCALARS) if mistakes and chance.random() < 0.6 else written(chance, option)
        lines.append(f"{key_of(chance, option, mistakes=mistakes)}: {value}")
    if chance.random() < 0.3:
        lines.append("model-path: from-file")
    chance.shuffle(lines)
    return "\n".join(lines) + "\n"


def written(chance: random.Random, option: dict) -> str:
    """A value in a config file that the option takes."""
    if option["nargs"] == 0:
        return chance.choice(("true", "true", "false", "yes"))
    if option["type"] in ("int", "float") and not option["choices"] and chance.random() < 0.5:
        return chance.choice(("7", "-5", "1_000", "010"))
    if option["nargs"] is None and not option["choices"] and not option["type"] and chance.random() < 0.3:
        return chance.choice(SCALARS)
    texts = [value_of(chance, option, wrong=False) for _ in range(takes(chance, option, wrong=False))]
    quoted = [text if chance.random() < 0.5 and text.isalnum() else json.dumps(text) for text in texts]
    if len(quoted) == 1 and (option["nargs"] is None or chance.random() < 0.3):
        return quoted[0]
    return f"[{', '.join(quoted)}]"


def with_config(generator: Generator, argv: list[str], path: str, other: str) -> list[str]:
    """A command line that names a config file.

    Args:
        generator: Of the release.
        argv: The rest of the command line.
        path: The file.
        other: A file that is not there, or has another suffix.
    """
    chance = generator.chance
    place = chance.randint(0, len(argv))
    shape = chance.random()
    if shape < 0.88:
        tokens = ["--config", path]
    elif shape < 0.94:
        tokens = [f"--config={path}"]
    else:
        tokens = chance.choice(
            (
                ["--conf", path],
                ["--config", other],
                ["--config", path, "--config", path],
                ["--config"],
                ["--config", path, f"--config={other}"],
            )
        )
    return [*argv[:place], *tokens, *argv[place:]]
