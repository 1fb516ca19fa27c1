"""Import a release's own option code from its wheel and answer questions with it; a program, run by the tests.

Independent of the scanner: the release's files are imported by Python's own machinery, msgspec is the real one, and
what the release imports besides a few of its own files is `unittest.mock`. Reads {"wheel", "cases"} from standard
input, writes {"flags", "answers"}.
"""

import argparse
import dataclasses
import importlib.abc
import importlib.machinery
import json
import sys
import types
from unittest.mock import MagicMock

OWN = (
    "sglang.srt.server_args",
    "sglang.srt.arg_groups",
    "sglang.srt.environ",
    "sglang.srt.speculative.spec_info",
    "sglang.srt.speculative.spec_registry",
    "sglang.srt.reasoning_parser",
    "sglang.srt.parser",
    "sglang.srt.function_call.parser_names",
    "sglang.srt.model_executor.cuda_graph_config",
)
REAL = ("msgspec",)


class FakeModule(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Fakes for every module that is neither the release's option code nor the standard library's."""

    def __init__(self, wheel):
        self.wheel = wheel

    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root in sys.stdlib_module_names or root in REAL:
            return None
        if name in OWN or any(name.startswith(f"{own}.") for own in OWN):
            places = [f"{self.wheel}/{'/'.join(name.split('.')[:-1])}"]
            found = importlib.machinery.PathFinder.find_spec(name, places)
            if found is not None:
                return found
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return FakeModule(spec.name)

    def exec_module(self, module):
        module.__path__ = [f"{self.wheel}/{module.__name__.replace('.', '/')}"]


def behaviour(kind):
    return kind.__name__ if kind in (int, float, str) else "str" if kind is None else "other"


def listed(parser):
    rows = []
    for action in parser._actions:
        choices = action.choices
        # A listing that a fake gave is empty, whatever the release puts before it.
        real = choices is None or bool({str(choice) for choice in choices} - {"auto"})
        known = real and all(not isinstance(choice, MagicMock) for choice in choices or ())
        default = action.default
        plain = isinstance(default, (type(None), bool, int, float, str)) and default is not argparse.SUPPRESS
        rows.append(
            {
                "names": list(action.option_strings),
                "dest": action.dest,
                "type": behaviour(action.type),
                "nargs": "" if action.nargs in (None, 0) else str(action.nargs),
                "required": action.required,
                "action": type(action).__name__,
                "choices": sorted(map(str, choices)) if known and choices is not None else None,
                "choices known": known,
                "default": default if plain else None,
                "default known": plain,
            }
        )
    return rows


class Config:
    def __init__(self, **values):
        self.__dict__.update(values)


def field_values(cls, given):
    fields = getattr(cls, "__struct_fields__", None)
    if fields is None:
        return {f.name: f.default for f in dataclasses.fields(cls) if f.default is not dataclasses.MISSING} | given
    defaults = dict(zip(reversed(fields), reversed(cls.__struct_defaults__), strict=False))
    plain = (type(None), bool, int, float, str)
    return {name: value for name, value in defaults.items() if isinstance(value, plain)} | given


def prepare(module, case):
    """Answer the release's questions about target and drafter as the case says."""
    target, draft = Config(architectures=[case["architecture"]]), Config(**case["draft"])

    def get_config(path, *_args, **_kwargs):
        return target if path == "target" else draft

    for name in ("sglang.srt.hf_transformers_utils", "sglang.srt.utils.hf_transformers_utils"):
        importlib.import_module(name).get_config = get_config
    for holder in [m for n, m in list(sys.modules.items()) if n.startswith("sglang.") and m is not None]:
        own = vars(holder)
        for name in ("get_config",):
            if name in own:
                own[name] = get_config
        if "model_config_of" in own:
            own["model_config_of"] = lambda _args: Config(hf_config=target)
        for name in ("is_hip", "is_sm100_supported", "check_gguf_file", "is_remote_url", "attn_dp_enabled_of"):
            if name in own:
                own[name] = lambda *_args: False
        if "get_platform" in own:
            own["get_platform"] = lambda: Config(is_hip=False, is_xpu=False, is_sm100=False)
        if "current_platform" in own:
            own["current_platform"] = Config(is_out_of_tree=lambda: False)
        for name in ("get_device_memory_capacity", "get_gpu_memory_capacity"):
            if name in own:
                own[name] = lambda *_args: 80 * 1024
    cls = module.ServerArgs
    cls.get_hf_config = lambda _self: target
    cls.get_model_config = lambda _self: Config(hf_config=target)
    cls.model_specific_adjustments = lambda _self: None
    model_config = importlib.import_module("sglang.srt.configs.model_config").ModelConfig
    model_config.from_server_args.return_value.is_multimodal = False
    utils = importlib.import_module("sglang.srt.speculative.dflash_utils")
    utils.parse_dflash_draft_config = lambda *, draft_hf_config: Config(
        resolve_block_size=lambda default=None: getattr(draft_hf_config, "block_size", default)
    )


NAMES = ("speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")


def answer(module, case):
    prepare(module, case)
    cls = module.ServerArgs
    try:
        if hasattr(cls, "_handle_speculative_decoding"):
            record = object.__new__(cls)
            record.__dict__.update(field_values(cls, case["values"]))
            record._handle_speculative_decoding()
        elif "sglang.srt.arg_groups.speculative_hook" in sys.modules:
            hook = sys.modules["sglang.srt.arg_groups.speculative_hook"]
            if hasattr(cls, "__struct_fields__"):
                record = cls(**case["values"])
            else:
                record = object.__new__(cls)
                record.__dict__.update(field_values(cls, case["values"]))
            hook.handle_speculative_decoding(record)
            views = sys.modules["sglang.srt.arg_groups.overrides"]
            record = getattr(views, "resolving_view", lambda r: r)(record)
        else:
            record = cls(**case["values"])
    except Exception as error:  # noqa: BLE001 - what the release raises is the answer
        return {"error": type(error).__name__, "text": str(error)[:200]}
    return {name: getattr(record, name) for name in NAMES}


def main():
    request = json.load(sys.stdin)
    sys.meta_path.insert(0, Finder(request["wheel"]))
    module = importlib.import_module("sglang.srt.server_args")
    try:
        hook = importlib.machinery.PathFinder.find_spec(
            "sglang.srt.arg_groups.speculative_hook", [f"{request['wheel']}/sglang/srt/arg_groups"]
        )
        if hook is not None:
            importlib.import_module("sglang.srt.arg_groups.speculative_hook")
    except ModuleNotFoundError:
        pass
    parser = argparse.ArgumentParser()
    module.ServerArgs.add_cli_args(parser)
    answers = [answer(module, case) for case in request["cases"]]
    json.dump({"flags": listed(parser), "answers": answers}, sys.stdout)


if __name__ == "__main__":
    main()
