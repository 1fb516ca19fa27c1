"""Launch rules derived from a small made-up release: options, adjustments, config file, serve, CUDA graphs."""

import textwrap

import pytest

from drafter_contracts.engines.launch_rules import BlockRule, Triple, flag_dest
from drafter_contracts.engines.scan.launch import derive
from drafter_contracts.engines.scan.tree import open_tree
from drafter_contracts.errors import ScanError

SERVER_ARGS = """
import argparse
import dataclasses
import json
from typing import List, Optional

from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.hf import get_config
from sglang.srt.odd import odd
from sglang.jit_kernel.modes import Modes

BACKENDS = ["triton", "flashinfer", "torch_native", "paged", "alone", "absent"]


class Gone(argparse.Action):
    def __init__(self, option_strings, dest, nargs=0, **kwargs):
        super().__init__(option_strings, dest, nargs=nargs, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        raise ValueError(self.help)


class DeprecatedNothing(argparse.Action):
    def __init__(self, option_strings, dest, nargs=0, **kwargs):
        super().__init__(option_strings, dest, nargs=nargs, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        print("deprecated")


def short_int(text):
    return int(text)


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    revision: Optional[str] = None
    device: Optional[str] = None
    page_size: int = 1
    pp_size: int = 1
    attention_backend: Optional[str] = None
    disable_cuda_graph: bool = False
    disable_overlap_schedule: bool = False
    speculative_algorithm: Optional[str] = None
    speculative_draft_model_path: Optional[str] = None
    speculative_num_steps: Optional[int] = None
    speculative_eagle_topk: Optional[int] = None
    speculative_num_draft_tokens: Optional[int] = None
    speculative_block_block_size: Optional[int] = None
    settings: Optional[dict] = None
    old: bool = False

    def __post_init__(self):
        if self.attention_backend == "torch_native":
            self.disable_cuda_graph = True
        if self.attention_backend == "paged":
            self.page_size = 32
        if self.attention_backend == "alone":
            assert self.speculative_algorithm is None
        if self.attention_backend == "absent":
            raise RuntimeError("not on this machine")
        self._handle_speculative_decoding()

    def _handle_speculative_decoding(self):
        if self.speculative_algorithm == "NEXTN":
            self.speculative_algorithm = "EAGLE"
        if self.speculative_algorithm == "BLOCK":
            if self.pp_size != 1:
                raise ValueError("no pipeline")
            self.speculative_num_steps = 1
            self.speculative_eagle_topk = 1
            size = self.speculative_block_block_size
            if size is not None:
                if self.speculative_num_draft_tokens not in (None, size + 1):
                    raise ValueError("sizes differ")
                self.speculative_num_draft_tokens = size + 1
            if self.speculative_num_draft_tokens is None:
                config = get_config(self.speculative_draft_model_path)
                self.speculative_num_draft_tokens = getattr(config, "block_size", 12) + 1
        if self.speculative_algorithm == "ODD":
            self.speculative_num_draft_tokens = (self.speculative_num_steps or 0) * 3 + 1
        if self.speculative_algorithm in ("EAGLE", "EAGLE3"):
            arch = ModelConfig.from_server_args(self).hf_config.architectures[0]
            if arch in ["OwnDraftForCausalLM"] and self.speculative_draft_model_path is None:
                self.speculative_draft_model_path = self.model_path
            if self.speculative_num_steps is None:
                assert self.speculative_eagle_topk is None and self.speculative_num_draft_tokens is None
                if arch == "LlamaForCausalLM":
                    self.speculative_num_steps, self.speculative_eagle_topk, self.speculative_num_draft_tokens = 5, 4, 8
                else:
                    self.speculative_num_steps, self.speculative_eagle_topk, self.speculative_num_draft_tokens = 3, 1, 4
            if self.speculative_eagle_topk == 1:
                self.speculative_num_draft_tokens = self.speculative_num_steps + 1
            if self.speculative_eagle_topk > 1 and self.page_size > 1 and self.attention_backend != "flashinfer":
                raise ValueError("paged")

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--revision", type=str, default=None)
        parser.add_argument("--device", type=str)
        parser.add_argument("--page-size", type=int, default=1)
        parser.add_argument("--pipeline-parallel-size", "--pp-size", dest="pp_size", type=short_int, default=1)
        parser.add_argument("--attention-backend", choices=BACKENDS)
        parser.add_argument("--disable-cuda-graph", action="store_true")
        parser.add_argument("--speculative-algorithm", choices=["EAGLE", "EAGLE3", "NEXTN", "BLOCK", "ODD"])
        parser.add_argument("--speculative-draft-model-path")
        parser.add_argument("--speculative-num-steps", type=int)
        parser.add_argument("--speculative-eagle-topk", type=int)
        parser.add_argument("--speculative-num-draft-tokens", type=int)
        parser.add_argument("--speculative-block-block-size", type=int)
        parser.add_argument("--settings", type=json.loads)
        parser.add_argument("--hashed", choices=[mode.name for mode in Modes])
        parser.add_argument("--odd", type=odd, dest="old")
        parser.add_argument("--gone", action=Gone, help="--gone was removed.")
        parser.add_argument("--nothing", action=DeprecatedNothing, help="--nothing does nothing.")

    @classmethod
    def from_cli_args(cls, args):
        attrs = [attr.name for attr in dataclasses.fields(cls)]
        return cls(**{attr: getattr(args, attr) for attr in attrs if hasattr(args, attr)})

    def check_server_args(self):
        pass


def prepare_server_args(argv):
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return ServerArgs.from_cli_args(parser.parse_args(argv))
"""
FILES = {
    "version.py": '__version__ = "9.9.9"\n',
    "srt/__init__.py": "",
    "srt/server_args.py": SERVER_ARGS,
    "srt/odd.py": 'def odd(text):\n    if text != "yes":\n        raise ValueError(text)\n    return object()\n',
    "srt/hf.py": "def get_config(path):\n    raise OSError(path)\n",
    "srt/configs/model_config.py": "class ModelConfig:\n    pass\n",
    "srt/speculative/spec_info.py": textwrap.dedent(
        """
        from enum import Enum, auto

        class SpeculativeAlgorithm(Enum):
            EAGLE = auto()
            EAGLE3 = auto()
            BLOCK = auto()
            ODD = auto()

            @classmethod
            def from_string(cls, name):
                return cls[name]
        """
    ),
    "cli/serve.py": textwrap.dedent(
        """
        def serve(args, extra_argv):
            if extra_argv and not extra_argv[0].startswith("-"):
                extra_argv = ["--model-path", *extra_argv]
            from sglang.srt.server_args import prepare_server_args

            prepare_server_args(extra_argv)
        """
    ),
}


def release(folder, **changes):
    for name, text in {**FILES, **{k.replace("__", "/") + ".py": v for k, v in changes.items()}}.items():
        file = folder / "sglang" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return open_tree(str(folder))


@pytest.fixture(scope="module")
def derived(tmp_path_factory):
    return derive(release(tmp_path_factory.mktemp("release")))


@pytest.fixture(scope="module")
def rules(derived):
    return derived[0]


def test_the_option_table(rules):
    table = {flag_dest(flag): flag for flag in rules.flags}
    assert table["model_path"].names == ("--model-path", "--model")
    assert table["model_path"].required
    assert (table["pp_size"].type, table["pp_size"].default, table["pp_size"].dest) == ("int", 1, "pp_size")
    assert table["settings"].type == "json"
    assert table["old"].type == "?odd"
    assert table["attention_backend"].choices == ("triton", "flashinfer", "torch_native", "paged", "alone", "absent")
    assert (table["gone"].action, table["nothing"].action) == ("refuse", "ignore")
    assert table["nothing"].deprecated == "--nothing does nothing."
    assert table["help"].action == "help"
    assert table["hashed"].choices is None, "values listed outside the scanned files are not judged"


def test_the_files_it_came_from(derived):
    assert {"server_args.py", "odd.py", "speculative/spec_info.py"} <= derived[1]


def test_the_chain(rules):
    found = rules.speculative
    assert found.algorithms == ("EAGLE", "EAGLE3", "NEXTN", "BLOCK", "ODD")
    assert (found.open, found.upper, found.aliases) == (False, False, {"NEXTN": "EAGLE"})
    assert found.chain == ("EAGLE", "EAGLE3")
    assert found.auto == {"*": Triple(3, 1, 4), "LlamaForCausalLM": Triple(5, 4, 8)}
    assert found.topk1_tokens == "S+1"
    assert found.bundled == ("OwnDraftForCausalLM",)
    assert found.partial == {
        "topk": "AssertionError",
        "draft_tokens": "AssertionError",
        "topk+draft_tokens": "AssertionError",
        "steps": "TypeError",
        "steps+draft_tokens": "TypeError",
    }


def test_pages(rules):
    assert rules.speculative.topk_needs == ("flashinfer",)
    assert rules.speculative.page_sizes == {"attention_backend==paged": 32}


def test_forced_values_and_block_sizes(rules):
    assert rules.speculative.fixed["BLOCK"] == {"steps": "1", "topk": "1"}
    assert rules.speculative.blocks["BLOCK"] == BlockRule(
        flag="speculative_block_block_size", keys=("block_size",), default=12, add=1, clash="ValueError"
    )


def test_refusals(rules):
    conditions = {(condition, error) for condition, error, _ in rules.speculative.limits}
    assert ("algorithm==BLOCK & pp_size>1", "ValueError") in conditions


def test_a_backend_that_is_refused_under_speculation_alone_is_a_limit_for_every_algorithm(rules):
    found = [row[:2] for row in rules.speculative.limits if "attention_backend==" in row[0]]
    assert found == [("algorithm in BLOCK|EAGLE|EAGLE3|ODD & attention_backend==alone", "AssertionError")]


def test_what_fits_no_rule_is_named(rules):
    assert set(rules.speculative.unfitted) == {"ODD"}
    assert "the release gives" in rules.speculative.unfitted["ODD"]


def test_graphs_serve_and_files(rules):
    assert [(switch.when, switch.on) for switch in rules.graphs] == [
        ("attention_backend==torch_native", False),
        ("disable_cuda_graph", False),
    ]
    assert rules.serve.positional
    assert not rules.serve.model_type
    assert rules.entries == ("launch_server", "serve")
    assert rules.config_file is None
    assert rules.plugins == ""


def test_a_serve_command_that_insists_on_a_literal_model_option(tmp_path, rules):
    assert rules.serve.needs == ()
    strict = """
        def serve(args, extra_argv):
            if not {"--model-path", "--model"} & set(extra_argv):
                raise Exception("--model-path is required")
            from sglang.srt.server_args import prepare_server_args

            prepare_server_args(extra_argv)
    """
    found, _ = derive(release(tmp_path, cli__serve=textwrap.dedent(strict)))
    assert found.serve.needs == ("--model-path", "--model")


def test_a_release_whose_options_cannot_be_listed(tmp_path):
    broken = SERVER_ARGS.replace('parser.add_argument("--settings", type=json.loads)', 'raise RuntimeError("no")')
    with pytest.raises(ScanError, match="cannot be listed"):
        derive(release(tmp_path, srt__server_args=broken))
