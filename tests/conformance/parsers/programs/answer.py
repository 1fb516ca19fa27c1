"""Answer questions with one release's own argument parser; a program, run in that release's environment.

Reads one JSON document per line from standard input, writes one per line to standard output:

* {"ask": "options"}: the options as argparse has them;
* {"ask": "parse", "entry": "launch_server" or "serve", "argv": [...]}: what the release's own way from a command line
  to `ServerArgs.from_cli_args` makes of it;
* {"ask": "resolve", "argv": [...]}: what the release's `ServerArgs` say of speculation once they are resolved, each in
  a process of its own (forked: importing is paid for once).

Nothing of the release is changed but that its parser is made once (by its own code), that a parsed namespace is handed
back instead of being resolved, and that `sglang serve` starts no server and takes every model for a language model.
"""

import argparse
import importlib
import json
import logging
import os
import sys
import traceback
import types

from canonical import plain

SPECULATIVE = (
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
    "speculative_draft_model_path",
)


def converter(kind):
    """Name of an option's converter."""
    return "" if kind is None else getattr(kind, "__name__", type(kind).__name__)


def option(action):
    """What a generator of command lines needs to know of an option."""
    choices = None if action.choices is None else [plain(choice) for choice in action.choices]
    return {
        "names": list(action.option_strings),
        "dest": action.dest,
        "class": type(action).__name__,
        "nargs": action.nargs,
        "type": converter(action.type),
        "choices": choices,
        "required": action.required,
        "const": plain(action.const),
    }


class Stopped(Exception):  # noqa: N818 - no error
    """A server would start now."""


def outcome(function):
    """What a function returns, or how the release stops."""
    try:
        return function()
    except SystemExit as leaving:
        return {"exit": leaving.code if isinstance(leaving.code, int) else 1}
    except Exception as error:  # noqa: BLE001 - whatever the release raises is the answer
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = "/".join(frame.filename.split("/")[-3:])
        return {"error": type(error).__name__, "text": str(error)[:300], "at": f"{place}:{frame.lineno}"}


class Release:
    """The release that is on the path."""

    def __init__(self):
        self.module = importlib.import_module("sglang.srt.server_args")
        self.cls = self.module.ServerArgs
        self.parser = argparse.ArgumentParser(prog="sglang")
        self.cls.add_cli_args(self.parser)
        self.making = types.SimpleNamespace(
            **{**vars(argparse), "ArgumentParser": lambda *_args, **_kwargs: self.parser}
        )
        self.warm = False

    def options(self):
        """The option table."""
        return {"options": [option(action) for action in self.parser._actions]}

    def parse(self, entry, argv):
        """The parsed namespace: values by dest; "stopped" where the release stops after it has parsed."""
        parsed = []

        def parse_args(argv):
            parsed.append(argparse.ArgumentParser.parse_args(self.parser, argv))
            return parsed[-1]

        replaced = {
            (self.module, "argparse"): self.making,
            (self.cls, "add_cli_args"): staticmethod(lambda _parser: None),
            (self.cls, "from_cli_args"): classmethod(lambda _cls, namespace: namespace),
        }
        self.parser.parse_args = parse_args
        with Replaced(replaced):
            run = self.serve if entry == "serve" else self.module.prepare_server_args
            answer = outcome(lambda: run(list(argv)) and {})
        if not parsed:
            return answer
        values = {name: plain(value) for name, value in vars(parsed[-1]).items() if not name.startswith("_")}
        return {"values": values, **({"stopped": answer} if answer else {})}

    def serve(self, argv):
        """What `sglang serve` would start its server with."""
        seen = []

        def run_server(namespace):
            seen.append(namespace)
            raise Stopped

        server = types.ModuleType("sglang.launch_server")
        server.run_server = run_server
        sys.modules["sglang.launch_server"] = server
        sys.modules.setdefault("sglang.cli.generate", types.SimpleNamespace(generate=None))
        command = importlib.import_module("sglang.cli.main")
        handler = importlib.import_module("sglang.cli.serve")
        given, sys.argv = sys.argv, ["sglang", "serve", *argv]
        replaced = {
            (handler, "kill_process_tree"): lambda *_args, **_kwargs: None,
            (handler, "get_is_diffusion_model"): lambda *_args, **_kwargs: False,  # would ask the Hub
        }
        try:
            with Replaced(replaced):
                command.main()
        except Stopped:
            return seen[0]
        finally:
            sys.argv = given
        raise SystemExit(0)  # it printed help and left

    def resolve(self, argv, variables):
        """What the resolved arguments say of speculation."""
        if not self.warm:
            self.warm = True
            environment = dict(os.environ)
            outcome(lambda: self.resolved(argv))
            os.environ.clear()
            os.environ.update(environment)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.environ.update(variables)
            answer = outcome(lambda: self.resolved(argv))
            with os.fdopen(writing, "w") as file:
                json.dump(answer, file)
                file.flush()
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as file:
            text = file.read()
        os.waitpid(child, 0)
        return json.loads(text) if text else {"error": "Died", "text": "", "at": ""}

    def resolved(self, argv):
        """In this process."""
        arguments = self.module.prepare_server_args(list(argv))
        get = lambda name: getattr(arguments, name, None)  # noqa: E731 - the other branch replaces it
        if hasattr(arguments, "resolve_once"):
            arguments.resolve_once()
            get = arguments.resolved_dict().get
        if hasattr(arguments, "check_server_args"):
            arguments.check_server_args()
        return {"values": {name: plain(get(name)) for name in (*SPECULATIVE, "attention_backend", "page_size")}}


class Replaced:
    """Attributes with other values while it lasts."""

    def __init__(self, values):
        self.values = values

    def __enter__(self):
        self.old = {(holder, name): vars(holder)[name] for holder, name in self.values}
        for (holder, name), value in self.values.items():
            setattr(holder, name, value)

    def __exit__(self, *_):
        for (holder, name), value in self.old.items():
            setattr(holder, name, value)


def main():
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the release prints goes where errors go
    release = Release()
    logging.disable(logging.CRITICAL)
    for line in sys.stdin:
        question = json.loads(line)
        if question["ask"] == "options":
            answer = release.options()
        elif question["ask"] == "parse":
            answer = release.parse(question["entry"], question["argv"])
        else:
            answer = release.resolve(question["argv"], question.get("variables", {}))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
