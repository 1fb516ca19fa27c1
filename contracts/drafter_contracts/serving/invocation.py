"""Split a command line into what wraps the engine and what the engine itself sees."""

from __future__ import annotations

import os

from drafter_contracts.serving.launch import Invocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.serving.wrappers import Wrapper

LAUNCH_SERVER = "launch_server"
SERVE = "serve"
MODULE = "sglang.launch_server"
CLI_MODULES = ("sglang.cli.main", "sglang.cli")
CONSOLE = "sglang"

#: What ends options, and what stands for standard input.
END = "--"
STANDARD_INPUT = "-"
#: Wrappers inside wrappers that are followed before giving up.
_MAX_DEPTH = 32


def _base(token: str) -> str:
    return token.rpartition("/")[2]


def is_python(token: str) -> bool:
    """Whether a program name is a Python interpreter: python, python3.11, pypy3."""
    name = _base(token)
    for stem in ("python", "pypy"):
        if name.startswith(stem):
            return all(character in "0123456789.tdm" for character in name[len(stem) :])
    return False


def is_assignment(token: str) -> bool:
    """Whether a word is NAME=VALUE."""
    name, equals, _ = token.partition("=")
    return bool(equals) and name.isidentifier() and name.isascii()


class _Walk:
    """One walk from the first token to the engine's own arguments."""

    def __init__(self, argv: Sequence[str], *, isolated: bool) -> None:
        self.given = tuple(argv)
        self.isolated = isolated
        self.argv = list(argv)
        self.start = 0
        self.wrapper_end: int | None = None
        self.interpreter = ""
        self.interpreter_options: tuple[str, ...] = ()
        self.program = ""
        self.environment: dict[str, str] = {}
        self.image = ""
        self.cwd = ""
        self.python_environment = ""
        self.hint = ""
        self.hint_source = ""

    def found(self, entry: str, engine: int, arguments: int) -> Invocation:
        """The engine starts at token `engine`, its own arguments at `arguments`."""
        end = engine if self.wrapper_end is None else self.wrapper_end
        return Invocation(
            argv=self.given,
            wrapper=tuple(self.given[:end]),
            interpreter=self.interpreter,
            interpreter_options=self.interpreter_options,
            program=self.program,
            entry=entry,
            arguments=tuple(self.argv[arguments:]),
            environment=dict(self.environment),
            image=self.image,
            working_directory=self.cwd,
            python_environment=self.python_environment,
            release_hint=self.hint,
            release_hint_source=self.hint_source,
        )

    def nothing(self) -> Invocation:
        """No SGLang launch."""
        return Invocation(argv=self.given, environment=self.environment, image=self.image, working_directory=self.cwd)

    def assign(self, token: str) -> None:
        """Note a NAME=VALUE."""
        name, _, value = token.partition("=")
        self.environment[name] = value

    def note(self, meaning: str, value: str) -> None:
        """Note what a wrapper's option says."""
        if meaning == "env" and "=" in value:
            self.assign(value)
        elif meaning == "cwd":
            self.cwd = value
        elif meaning == "image":
            self.image = value
        elif meaning in ("conda", "prefix"):
            self.python_environment = f"{meaning}:{value}"
        elif meaning == "elsewhere":
            self.python_environment = "unknown"
        if meaning in ("image", "release") and not self.hint:
            from drafter_contracts.serving.release_hint import release_in  # a plain launch has no image

            self.hint = release_in(value)
            self.hint_source = value if self.hint else ""

    def run(self) -> Invocation:
        """Follow the wrappers."""
        index = 0
        for _ in range(_MAX_DEPTH):
            while index < len(self.argv) and is_assignment(self.argv[index]):
                self.assign(self.argv[index])
                index += 1
            if index >= len(self.argv):
                return self.nothing()
            answer = self.step(index)
            if isinstance(answer, Invocation):
                return answer
            index = answer
        return self.nothing()

    def step(self, index: int) -> Invocation | int:
        """One command: the engine, or the index where what it starts begins."""
        name = _base(self.argv[index])
        if is_python(name):
            return self.python(index)
        if name == CONSOLE:
            return self.console(index, index)
        from drafter_contracts.serving.wrappers import SHELLS, WRAPPERS  # a plain launch does not need the tables

        if name in SHELLS:
            return self.shell(index)
        for wrapper in WRAPPERS.get(name, ()):
            after = self.subcommand(wrapper, index + 1)
            if after is not None:
                return self.wrapped(wrapper, after)
        return self.nothing() if name in WRAPPERS else self.search(index)

    def console(self, index: int, engine: int) -> Invocation:
        """The `sglang` command (or its module) at `index`."""
        if self.argv[index + 1 : index + 2] == [SERVE]:
            self.program = self.argv[index] if _base(self.argv[index]) == CONSOLE else ""
            return self.found(SERVE, engine, index + 2)
        return self.nothing()

    def python(self, index: int) -> Invocation | int:
        """An interpreter and its options, then a module or a script."""
        from_here = self.argv[index]
        takes = ("-W", "-X", "--check-hash-based-pycs")
        at = index + 1
        while at < len(self.argv):
            token = self.argv[at]
            if token in takes:
                at += 2
                continue
            if not token.startswith("-") or token == STANDARD_INPUT:
                self.interpreter, self.interpreter_options = from_here, tuple(self.argv[index + 1 : at])
                return self.script(at, index)
            if token == END or token.startswith(("--", "-W", "-X")):
                at += 1
                continue
            cluster = token[1:]
            if "c" in cluster.partition("m")[0]:
                return self.nothing()
            if "m" in cluster:
                self.interpreter, self.interpreter_options = from_here, tuple(self.argv[index + 1 : at + 1])
                attached = cluster.partition("m")[2]
                module = attached or (self.argv[at + 1] if at + 1 < len(self.argv) else "")
                return self.module(module, at + 1 if attached else at + 2, index)
            at += 1
        return self.nothing()

    def module(self, module: str, after: int, engine: int) -> Invocation | int:
        """`-m MODULE`, its arguments at `after`."""
        if module == MODULE:
            return self.found(LAUNCH_SERVER, engine, after)
        if module in CLI_MODULES:
            return self.console(after - 1, engine)
        from drafter_contracts.serving.wrappers import MODULES

        wrapper = MODULES.get(module)
        return self.nothing() if wrapper is None else self.wrapped(wrapper, after)

    def script(self, at: int, engine: int) -> Invocation | int:
        """A script as the interpreter's argument."""
        name = _base(self.argv[at])
        if name == LAUNCH_SERVER + ".py":
            self.program = self.argv[at]
            return self.found(LAUNCH_SERVER, engine, at + 1)
        if name == CONSOLE:
            return self.console(at, engine)
        return self.nothing()

    def subcommand(self, wrapper: Wrapper, at: int) -> int | None:
        """Index after the wrapper's subcommand, or None if it is another one."""
        if not wrapper.subcommands:
            return at
        while at < len(self.argv) and self.argv[at].startswith("-"):
            at += 2 if self.argv[at] in wrapper.takes else 1
        return at + 1 if self.argv[at : at + 1] and self.argv[at] in wrapper.subcommands else None

    def wrapped(self, wrapper: Wrapper, at: int) -> Invocation | int:
        """Skip a wrapper's own options and positionals."""
        if wrapper.environment:
            self.python_environment = wrapper.environment
        positionals, entrypoint = wrapper.positionals, ""
        while at < len(self.argv):
            token = self.argv[at]
            if token == END:
                at += 1
                break
            if wrapper.assignments and is_assignment(token):
                self.assign(token)
                at += 1
                continue
            if not token.startswith("-") or token == STANDARD_INPUT:
                if not positionals:
                    break
                positionals -= 1
                at += 1
                continue
            module_at = self.module_option(wrapper, at)
            if module_at is not None:
                return self.module(self.argv[module_at], module_at + 1, at)
            at, name, value = self.option(wrapper, at)
            meaning = wrapper.sets.get(name, "")
            entrypoint = value if meaning == "entrypoint" else entrypoint
            self.note(meaning, value)
        at += positionals
        return self.started(wrapper, at, entrypoint)

    def module_option(self, wrapper: Wrapper, at: int) -> int | None:
        """Index of the module's name where the wrapper itself is told to run one (`torchrun -m`, `uv run -m`)."""
        token = self.argv[at]
        runs = wrapper.runs == "module or script" or wrapper.sets.get(token) == "module"
        return at + 1 if runs and token in ("-m", "--module") and at + 1 < len(self.argv) else None

    def option(self, wrapper: Wrapper, at: int) -> tuple[int, str, str]:
        """One option: index after it, its name, its value."""
        token = self.argv[at]
        if token in wrapper.takes:
            return at + 2, token, self.argv[at + 1] if at + 1 < len(self.argv) else ""
        if token in wrapper.takes_two:
            return at + 3, token, " ".join(self.argv[at + 1 : at + 3])
        name, equals, value = token.partition("=")
        if equals:
            return at + 1, name, value
        letters = "" if token.startswith("--") else token[1:]
        for position, letter in enumerate(letters):  # -itp 80:80 is -i -t -p 80:80
            if f"-{letter}" in wrapper.takes:
                value = letters[position + 1 :] or " ".join(self.argv[at + 1 : at + 2])
                return at + (1 if letters[position + 1 :] else 2), f"-{letter}", value
        return at + 1, token, ""

    def started(self, wrapper: Wrapper, at: int, entrypoint: str) -> Invocation | int:
        """What a wrapper starts, at index `at`."""
        if wrapper.runs in ("image, then command", "container, then command"):
            if at >= len(self.argv):
                return self.nothing()
            in_image = wrapper.runs.startswith("image")
            self.note("image", self.argv[at] if in_image else f"container {self.argv[at]}")
            at += 1
            if self.argv[at : at + 1] == ["--"]:
                at += 1
            if entrypoint:
                self.argv.insert(at, entrypoint)
                self.wrapper_end = at
            return at
        if wrapper.runs == "module or script" and at < len(self.argv) and self.argv[at].endswith(".py"):
            return self.script(at, at)
        return at

    def shell(self, index: int) -> Invocation:
        """`bash -c TEXT`: one level, the command of the text that starts the engine."""
        at, has_text = index + 1, False
        while at < len(self.argv) and self.argv[at][:1] in ("-", "+"):
            token = self.argv[at]
            cluster = "" if token.startswith("--") else token
            has_text = has_text or (token[0] == "-" and "c" in cluster)
            if token.startswith("--login") or "l" in cluster or "i" in cluster:
                self.python_environment = self.python_environment or "changed"
            at += 2 if cluster[-1:] in ("o", "O") or token in ("--rcfile", "--init-file") else 1
        if not has_text or at >= len(self.argv):
            return self.nothing()
        return self.inner(self.argv[at], at)

    def inner(self, text: str, wrapper_end: int) -> Invocation:
        """The one command of a shell text that starts the engine; none where that cannot be told."""
        from drafter_contracts.serving.shell import KEYWORDS, OpenWord, commands
        from drafter_contracts.serving.wrappers import ADDING, PRINTING, SHELLS

        self.wrapper_end = wrapper_end
        found: list[Invocation] = []
        alone = self.isolated or bool(self.image)
        for command in commands(text, self.environment if alone else {**os.environ, **self.environment}):
            words = command[next((i for i, word in enumerate(command) if word not in KEYWORDS), len(command)) :]
            name = _base(words[0]) if words else ""
            if not name or name in PRINTING:
                continue
            hidden = name in SHELLS or name in ADDING
            if hidden and any(CONSOLE in word for word in words):
                return self.nothing()
            answer = self.nothing() if hidden else self.inside(words).run()
            if answer.entry:
                found.append(answer)
            elif not found and not self.prepared(words):
                return self.nothing()
        if len(found) != 1 or any(isinstance(word, OpenWord) for word in found[0].arguments):
            return self.nothing()
        return found[0]

    def inside(self, words: Sequence[str]) -> _Walk:
        """A walk over one command of a shell text, from what is known so far; it leaves no trace in this one."""
        walk = _Walk(self.given, isolated=self.isolated)
        walk.__dict__.update(self.__dict__)
        walk.argv, walk.environment = list(words), dict(self.environment)
        return walk

    def prepared(self, words: Sequence[str]) -> bool:
        """Note what a command before the engine's changes; False if where the engine then starts cannot be told."""
        from drafter_contracts.serving.shell import OpenWord
        from drafter_contracts.serving.wrappers import CHANGING, INSTALLING

        setting = words[1:] if words[0] == "export" else words
        if all(is_assignment(word) for word in setting):
            for word in setting:
                self.assign(word)
        elif words[0] in ("cd", "pushd"):
            where = [word for word in words[1:] if word != END]
            if len(where) != 1 or isinstance(where[0], OpenWord) or where[0].startswith(("-", "~")):
                return False
            self.cwd = os.path.join(self.cwd, where[0])
        elif any(word in INSTALLING for word in words[1:5]):
            self.python_environment, self.hint, self.hint_source = "unknown", "", ""
        elif any(_base(word) in CHANGING for word in words[:3]):
            prefix = os.path.join(self.cwd, words[-1].removesuffix("/bin/activate"))
            told = len(words) == 2 and not self.isolated
            known = told and os.path.isfile(os.path.join(prefix, "pyvenv.cfg"))
            self.python_environment = f"prefix:{prefix}" if known else "changed"
        return True

    def search(self, index: int) -> Invocation:
        """A wrapper that is not in the tables: the engine's start anywhere behind it, if there is exactly one."""
        starts = [at for at in range(index, len(self.argv)) if self.is_start(at)]
        from drafter_contracts.serving.wrappers import ADDING

        before = self.argv[index : starts[0]] if starts else ()
        if len(starts) != 1 or any(_base(word) in ADDING for word in before):
            return self.nothing()
        at = starts[0]
        self.python_environment = "unknown"
        if self.argv[at] == MODULE or _base(self.argv[at]) == LAUNCH_SERVER + ".py":
            engine = next((i for i in range(at - 1, index - 1, -1) if is_python(self.argv[i])), at - 1)
            self.interpreter = self.argv[engine] if is_python(self.argv[engine]) else ""
            self.program = "" if self.argv[at] == MODULE else self.argv[at]
            return self.found(LAUNCH_SERVER, engine, at + 1)
        return self.console(at, at)

    def is_start(self, at: int) -> bool:
        """Whether the engine's own command is at `at`."""
        token = self.argv[at]
        if token == MODULE:
            return self.argv[at - 1].startswith("-") and self.argv[at - 1].endswith("m")
        if _base(token) == CONSOLE:
            return self.argv[at + 1 : at + 2] == [SERVE]
        return _base(token) == LAUNCH_SERVER + ".py"


def read_invocation(argv: Sequence[str], *, isolated: bool = False) -> Invocation:
    """Split a command line.

    Args:
        argv: The command as it would be executed, program first.
        isolated: The command is somebody else's: nothing of this process's variables and files has a part in it.

    Returns:
        What wraps the engine, the interpreter, the entry, and the arguments that the engine's own parser sees.
        `entry` is "" for a command that is no SGLang launch.
    """
    return _Walk(argv, isolated=isolated).run()
