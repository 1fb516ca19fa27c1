"""Decode lines as releases write them: the method that builds the message is taken from the wheel, and run.

What it is a method of is a stand-in with the figures of `SITUATIONS`; the wording, its order and its roundings are the
release's. So is the header before it, which the release's `configure_logger` sets.
"""

from __future__ import annotations

import ast
import builtins
import collections
import re
import sys
import types
import zipfile

METHODS = ("log_decode_stats", "report_decode_stats")
PLACES = re.compile(r"sglang/srt/(?:managers/|observability/)[\w/]+\.py")
COMMON = ("sglang/srt/utils/common.py", "sglang/srt/utils.py")
#: What is decoded when: whether it speculates, ranks of the header, running requests, tokens accepted (bonus
#: included) in how many verify steps, and the switches of the release.
SITUATIONS = {
    "plain": {"ranks": " TP0", "running": 3, "accepted": 281, "steps": 120},
    "two ranks": {"ranks": " DP1 TP4 EP4", "running": 12, "accepted": 1920, "steps": 480},
    "never accepted": {"ranks": "", "running": 1, "accepted": 40, "steps": 40},
    "numbered, decoding node": {"ranks": "", "running": 2, "accepted": 170, "steps": 80, "numbered": True},
    "ragged verify": {"ranks": "", "running": 2, "accepted": 170, "steps": 80, "capped": 240, "block": 200},
    "no speculation": {"ranks": " TP0", "running": 3, "accepted": 0, "steps": 0},
}


class StandIn:
    """Has every attribute: those given, else another one of these, which is a small number to who asks for one."""

    def __init__(self, **given):
        self.__dict__.update(given)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = StandIn()
        return self.__dict__[name]

    def __call__(self, *_arguments, **_keywords):
        return StandIn()

    def __len__(self):
        return 0

    def __bool__(self):
        return False

    def __iadd__(self, other):
        return other


def produced(wheel: str) -> list[dict]:
    """Every situation's line of a release, with the file and line of the method that wrote it."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if PLACES.fullmatch(name)]
        sources = {name: archive.read(name).decode() for name in sorted(names)}
        commons = [archive.read(name).decode() for name in COMMON if name in archive.namelist()]
    path, method = next(found for name, text in sources.items() if (found := _method(name, text)))
    header = _header(commons[0])
    return [
        {
            "situation": name,
            "file": path,
            "line": method.lineno,
            "text": header.format(asctime="2026-11-29 12:00:00", prefix=situation["ranks"])
            + _message(method, situation, path),
        }
        for name, situation in SITUATIONS.items()
    ]


def _method(path: str, text: str):
    if not any(f"def {name}(" in text for name in METHODS) or "Decode batch" not in text:
        return None
    nodes = ast.walk(ast.parse(text))
    found = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name in METHODS]
    return (path, found[0]) if found else None


def _header(text: str) -> str:
    """The format of the release's log: `{asctime}` and `{prefix}` stand for what is filled in."""
    node = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == "configure_logger")
    formats = [n.value for n in ast.walk(node) if isinstance(n, ast.Assign) and n.targets[0].id in ("format", "fmt")]
    made = eval(ast.unparse(formats[0]), {"maybe_ms": "", "prefix": "{prefix}"})  # noqa: S307 - a release's own format
    return made.replace("%(asctime)s", "{asctime}").replace("%(message)s", "")


def _message(method: ast.FunctionDef, situation: dict, path: str) -> str:
    told: list[str] = []
    names = {node.id for node in ast.walk(method) if isinstance(node, ast.Name)}
    arguments = StandIn(
        decode_log_interval=40,
        speculative_num_steps=3,
        speculative_num_draft_tokens=4,
        disaggregation_decode_host_receive_threshold=1,
    )
    given = {
        "time": types.SimpleNamespace(time=lambda: 1002.0, perf_counter=lambda: 1002.0),
        "logger": types.SimpleNamespace(info=told.append),
        "RECORD_STEP_TIME": False,
        "ENABLE_METRICS_DEVICE_TIMER": False,
        "LOG_FORWARD_ITERS": bool(situation.get("numbered")),
        "DisaggregationMode": types.SimpleNamespace(DECODE="decode", PREFILL="prefill"),
        "defaultdict": collections.defaultdict,
        "get_spec": lambda: arguments,
        "get_disagg": lambda: arguments,
    }
    function = ast.parse(ast.unparse(method)).body[0]
    function.returns = None
    for argument in (*function.args.args, *function.args.kwonlyargs):
        argument.annotation = None
    space = {name: StandIn() for name in names if not hasattr(builtins, name)} | given
    exec(compile(ast.Module([function], []), path, "exec"), space)  # noqa: S102 - a release's own method
    modules = {"sglang": StandIn(), "sglang.srt": StandIn(), "sglang.srt.speculative": StandIn()}
    modules["sglang.srt.speculative.ragged_verify"] = types.SimpleNamespace(
        RaggedVerifyMode=types.SimpleNamespace(CAP_ACCEPT="cap"),
        read_ragged_verify_mode=lambda: "cap" if "block" in situation else "off",
    )
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        space[method.name](_scheduler(situation, arguments), *[True][: len(method.args.args) - 1])
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    assert len(told) == 1, told
    return told[0]


def _scheduler(situation: dict, arguments: StandIn) -> StandIn:
    """What the method is called on: the scheduler, or a reporter that holds it."""
    decoding = bool(situation.get("numbered"))
    pool = StandIn(get_decode_usage_msg_parts=lambda: ["#token: 2048", "token usage: 0.12"])
    queue = StandIn(num_tokens_pre_allocated=512, queue=[1], retracted_queue=[])
    taken = ("spec_num_total_accepted_tokens", "spec_num_accepted_tokens", "spec_num_accept_tokens")
    figures = dict.fromkeys(taken, situation["accepted"])
    figures |= dict.fromkeys(("spec_num_total_forward_ct", "spec_num_forward_ct"), situation["steps"])
    counted = ("cum_spec_accept_length", "cum_spec_accept_count", "spec_total_num_accepted_tokens")
    figures |= dict.fromkeys((*counted, "spec_total_num_accept_tokens", "spec_total_num_forward_ct"), 0)
    own = {
        "last_decode_stats_tic": 1000.0,
        "num_generated_tokens": 640,
        "max_total_num_tokens": 16384,
        "token_to_kv_pool_allocator": StandIn(available_size=lambda: 14000),
        "tree_cache": StandIn(evictable_size=lambda: 336),
        "_get_token_info": lambda: (2048, 0.125, 0, 0),
        "spec_algorithm": StandIn(is_none=lambda: not situation["steps"], is_dspark=lambda: False),
        "spec_num_correct_drafts": situation["accepted"] - situation["steps"],
        "spec_num_cap_tokens": situation.get("capped", 0),
        "spec_num_block_accept_tokens": situation.get("block", 0),
        "forward_ct": 4711,
        "forward_ct_decode": 40,
        "decode_log_interval": 40,
        "device": "cuda",
        "_graph_backend_label": "cuda graph",
        "waiting_queue": [0, 0],
        "running_batch": StandIn(reqs=[0] * situation["running"], forward_iter=4711),
        "disaggregation_mode": "decode" if decoding else "null",
        "disagg_decode_prealloc_queue": queue,
        "disagg_decode_transfer_queue": StandIn(queue=[1, 2]),
        "server_args": arguments,
        "pool_stats_observer": StandIn(get_pool_stats=lambda: pool),
        "get_pool_stats": lambda: pool,
        "_get_pool_stats": lambda: pool,
        "is_stats_logging_rank": True,
    }
    return StandIn(scheduler=StandIn(**own), **own, **figures)
