"""How a command line of `drafters` is declared, read and explained.

A gate answers in a few interpreter starts, and argparse alone costs a third of one; besides, it takes `-1,2,30`
for an option. A command here is data: its options, its words, its examples.
"""

from __future__ import annotations

import msgspec

from drafter_cli.errors import UsageError


class Option(msgspec.Struct, frozen=True):
    """One option of a command.

    Attributes:
        name: As written, e.g. "--engine".
        help: What it does.
        metavar: Name of its value; "" for a switch.
        short: One-letter form, e.g. "-o", or "".
        choices: Accepted values, empty for any.
        many: Whether it takes every argument up to the next option, and adds up where it is repeated.
        inline: Name of the value that a switch may have after "=", as in `--locked=FILE`; "" if it has none.
    """

    name: str
    help: str
    metavar: str = ""
    short: str = ""
    choices: tuple[str, ...] = ()
    many: bool = False
    inline: str = ""

    @property
    def shown(self) -> str:
        """As it is written in a command's help: "-o, --output FILE", "--locked[=FILE]"."""
        names = f"{self.short}, {self.name}" if self.short else self.name
        return f"{names} {self.metavar}" if self.metavar else f"{names}[={self.inline}]" if self.inline else names


class Command(msgspec.Struct, frozen=True):
    """One command.

    Attributes:
        name: "check", "engine scan", ...
        summary: One line.
        description: What it does, for its help.
        words: Positional arguments as shown in the usage: "PATH", "[DRAFTER]" (optional), "[RELEASE...]" (any
            number, last).
        options: Its options; `--help` is understood by all.
        examples: (command line, what it does).
        launch: Whether `-- LAUNCH...` follows.
    """

    name: str
    summary: str
    description: str
    words: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    launch: bool = False


class Parsed(msgspec.Struct, frozen=True):
    """A command line as read.

    Attributes:
        values: Option name to its value; "" for a switch. Absent options are absent. The last of repeated ones wins.
        words: Positional arguments.
        launch: What follows `--`; None if there is no `--`.
        lists: Name of an option that takes many values to these.
    """

    values: dict[str, str]
    words: tuple[str, ...]
    launch: tuple[str, ...] | None
    lists: dict[str, tuple[str, ...]] = {}

    def value(self, name: str) -> str:
        """Value of an option, "" if it was not given."""
        return self.values.get(name, "")

    def many(self, name: str) -> tuple[str, ...]:
        """Values of an option that takes many, empty if it was not given."""
        return self.lists.get(name, ())

    def has(self, name: str) -> bool:
        """Whether an option was given."""
        return name in self.values

    def word(self, position: int) -> str:
        """A positional argument, "" if it was not given."""
        return self.words[position] if position < len(self.words) else ""


JSON = Option("--json", "print one JSON document instead of text")
HELP = Option("--help", "show this help", short="-h")


def wants_help(argv: list[str]) -> bool:
    """Whether `--help` or `-h` stands before the launch."""
    own = argv[: argv.index("--")] if "--" in argv else argv
    return "--help" in own or "-h" in own


def parse(command: Command, argv: list[str]) -> Parsed:
    """Read the arguments of a command.

    An option takes the next argument as its value whatever that looks like (`--output-ids -1,2,30`), or what
    follows `=`. The first `--` ends the command's own arguments.

    Raises:
        UsageError: An option or word that the command does not have, or one that it misses.
    """
    own, launch = _split_launch(command, argv)
    values: dict[str, str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    words: list[str] = []
    position = 0
    while position < len(own):
        argument = own[position]
        position += 1
        if not argument.startswith("-") or argument == "-":
            words.append(argument)
            continue
        name, equals, inline = argument.partition("=")
        option = _find(command, name)
        if not option.metavar:
            if equals and not (option.inline and inline):
                what = f"{name} needs a value after =" if option.inline else f"{name} takes no value"
                raise UsageError(what, f"write {name} alone")
            values[option.name] = inline
            continue
        if not equals and position == len(own):
            raise UsageError(f"{name} needs a value", f"{name} {option.metavar}")
        values[option.name] = _choice(option, inline if equals else own[position])
        position += 0 if equals else 1
        if option.many:
            more = _up_to_option(own[position:])
            position += len(more)
            lists[option.name] = (*lists.get(option.name, ()), values[option.name], *more)
    _check_words(command, words)
    return Parsed(values, tuple(words), launch, lists)


def _up_to_option(arguments: list[str]) -> list[str]:
    """The arguments before the first option."""
    end = next((at for at, argument in enumerate(arguments) if argument.startswith("-")), len(arguments))
    return arguments[:end]


def _split_launch(command: Command, argv: list[str]) -> tuple[list[str], tuple[str, ...] | None]:
    if "--" not in argv:
        if command.launch:
            _find_stray_launch(command, argv)
        return argv, None
    at = argv.index("--")
    if not command.launch:
        raise UsageError(f"{command.name} takes no launch command", "leave out -- and what follows it")
    return argv[:at], tuple(argv[at + 1 :])


def _find_stray_launch(command: Command, argv: list[str]) -> None:
    """A launch command without `--` before it is the likeliest mistake: name it."""
    takes_value = {name for option in command.options if option.metavar for name in (option.name, option.short)}
    for before, argument in zip(["", *argv], argv, strict=False):
        if before in takes_value and before:  # an engine's place may look like a program
            continue
        if argument.startswith("python") or argument.endswith(("/python", "/python3", "sglang", "launch_server")):
            launch = " ".join(argv[argv.index(argument) :])
            raise UsageError("a launch command goes after --", f"drafters ... -- {launch}")


def _find(command: Command, name: str) -> Option:
    for option in (*command.options, HELP):
        if name in (option.name, option.short) and name:
            return option
    from drafter_cli.nearest import nearest

    known = [option.name for option in (*command.options, HELP)]
    close = nearest(name, known)
    raise UsageError(
        f"{command.name} has no option {name}",
        f"did you mean {close}?" if close else f"see drafters {command.name} --help",
    )


def _choice(option: Option, value: str) -> str:
    if option.choices and value not in option.choices:
        raise UsageError(f"{option.name} is {value!r}", f"one of {', '.join(option.choices)}")
    return value


def _check_words(command: Command, words: list[str]) -> None:
    needed = [word for word in command.words if not word.startswith("[")]
    if len(words) < len(needed):
        raise UsageError(f"{command.name} needs {needed[len(words)]}", usage(command))
    if len(words) > len(command.words) and not any(word.endswith("...]") for word in command.words):
        raise UsageError(f"{command.name} does not know what {words[len(command.words)]!r} is", usage(command))


def usage(command: Command) -> str:
    """One line: how the command is written."""
    parts = ["drafters", command.name, *command.words]
    if command.options:
        parts.append("[options]")
    if command.launch:
        parts.append("-- LAUNCH...")
    return " ".join(parts)


def help_text(command: Command) -> str:
    """The command's help: usage, what it does, its options and examples."""
    lines = [f"usage: {usage(command)}", "", command.description, "", "options:"]
    for option in (*command.options, HELP):
        left = option.shown
        lines.append(f"  {left:<24} {option.help}" if len(left) <= 24 else f"  {left}\n  {'':<24} {option.help}")
    if command.examples:
        lines += ["", "examples:"]
        for line, what in command.examples:
            lines += [f"  # {what}", f"  {line}"]
    return "\n".join(lines)
