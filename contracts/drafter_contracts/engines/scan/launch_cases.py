"""The option sets that a release's resolution is tried on."""

from __future__ import annotations

import re

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from drafter_contracts.engines.launch_rules import Flag

Value = int | None
Triple = tuple[Value, Value, Value]

TARGET = "target"
DRAFT = "draft"
REVISION = "target-revision"
PLAIN_DRAFT: dict[str, object] = {"architectures": ["LlamaForCausalLMEagle3"]}
#: An architecture that no release knows.
OTHER = "NoSuchModelForCausalLM"

STEPS: tuple[Value, ...] = (None, 1, 3)
TOPKS: tuple[Value, ...] = (None, 1, 4)
TOKENS: tuple[Value, ...] = (None, 4, 16)

#: Where a drafter's config could state its block size.
BLOCK_KEYS = (
    "block_size",
    "dflash_config.block_size",
    "dspark_config.block_size",
    "dspark_block_size",
    "text_config.block_size",
)

_ARCHITECTURE = re.compile(r'"([A-Z][A-Za-z0-9_]*For[A-Z][A-Za-z0-9]*)"')
_NAME = re.compile(r'"([A-Z][A-Z0-9_]{2,24})"')


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    """One option set on one target with one drafter.

    Attributes:
        values: dest to value, over the parser's defaults.
        architecture: The target's.
        draft: The drafter's config; None where it cannot be read.
        mode: "handler" or "whole" (`probes.launch_resolve`).
        check: Run the release's final check too.
        env: Environment variables.
        machine: "hopper" or "blackwell".
    """

    values: dict[str, object]
    architecture: str = "LlamaForCausalLM"
    draft: dict[str, object] | None = None
    mode: str = "handler"
    check: bool = False
    env: dict[str, str] = {}
    machine: str = "hopper"


def names_in(texts: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Architectures and upper-case names (candidates for algorithms) that occur as texts in source."""
    architectures: set[str] = set()
    names: set[str] = set()
    for text in texts:
        architectures.update(_ARCHITECTURE.findall(text))
        names.update(_NAME.findall(text))
    return tuple(sorted(architectures)), tuple(sorted(names))


def nested(dotted: str, value: object) -> dict[str, object]:
    """A mapping with `value` at a dotted key."""
    head, _, rest = dotted.partition(".")
    return {head: nested(rest, value) if rest else value}


class Cases:
    """A growing list of cases, each under a key; answers come back under the same keys.

    Args:
        known: Dests that the release has.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self.known = frozenset(known)
        self.cases: dict[tuple[object, ...], Case] = {}

    def add(self, key: tuple[object, ...], changes: dict[str, object], **about: object) -> None:
        """Add a case, if the release has every option that it sets."""
        if set(changes) <= self.known:
            base: dict[str, object] = {
                "model_path": TARGET,
                "revision": REVISION,
                "speculative_draft_model_path": DRAFT,
                "attention_backend": "triton",
                "page_size": 1,
                "device": "cuda",
            }
            values = {name: value for name, value in {**base, **changes}.items() if name in self.known}
            about.setdefault("draft", PLAIN_DRAFT)
            self.cases[key] = Case(values, **about)  # type: ignore[arg-type]

    def spec(
        self, key: tuple[object, ...], algorithm: str, triple: Triple, changes: dict[str, object], **about: object
    ) -> None:
        """Add a case with speculation."""
        named = zip(
            ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"), triple, strict=True
        )
        self.add(key, {"speculative_algorithm": algorithm, **dict(named), **changes}, **about)


def triples() -> list[Triple]:
    """The grid of steps, topk and draft tokens."""
    return [(steps, topk, tokens) for steps in STEPS for topk in TOPKS for tokens in TOKENS]


def add_algorithms(cases: Cases, candidates: Sequence[str]) -> None:
    """Which names are algorithms, and what each does to the grid."""
    for name in candidates:
        for triple in triples():
            cases.spec(("grid", name, triple), name, triple, {})
            paged = {"page_size": 64, "attention_backend": "flashinfer"}
            cases.spec(("paged", name, triple), name, triple, paged)
    cases.spec(("lower",), "eagle3", (3, 4, 16), {})


def add_architectures(cases: Cases, candidates: Sequence[str], architectures: Sequence[str]) -> None:
    """What depends on the target's and on the drafter's class."""
    nothing: Triple = (None, None, None)
    for architecture in (*architectures, OTHER):
        for name in candidates:
            cases.spec(("auto", name, architecture), name, nothing, {}, architecture=architecture)
        for revision in (None, "given"):
            changes = {"speculative_draft_model_path": None, "speculative_draft_model_revision": revision}
            key = ("bundled", architecture, revision)
            kept: dict[str, object] = {name: value for name, value in changes.items() if name in cases.known}
            cases.spec(key, "EAGLE", (3, 4, 16), kept, architecture=architecture)
        for name in candidates:
            draft = {"architectures": [architecture]}
            cases.spec(("promoted", name, architecture), name, (3, 4, 16), {}, draft=draft)


MACHINES = ("hopper", "blackwell")
BACKENDS = ("attention_backend", "decode_attention_backend", "prefill_attention_backend")


def add_backends(cases: Cases, flags: dict[str, Flag]) -> None:
    """Topk, page size and attention backends, on two kinds of machine."""
    for dest in BACKENDS:
        flag = flags.get(dest)
        for backend in (flag.choices if flag is not None else None) or ():
            for machine in MACHINES:
                for topk, page in ((1, 1), (4, 1), (1, 64), (4, 64)):
                    key = ("backend", dest, backend, machine, topk, page)
                    values: dict[str, object] = {dest: backend, "page_size": page}
                    cases.spec(key, "EAGLE3", (3, topk, 16), values, mode="whole", machine=machine)


def add_paged(cases: Cases, candidates: Sequence[str], flags: dict[str, Flag]) -> None:
    """Backends with pages, for every algorithm."""
    flag = flags.get("attention_backend")
    for name in candidates:
        for backend in (flag.choices if flag is not None else None) or ():
            for page in (1, 64):
                values: dict[str, object] = {"attention_backend": backend, "page_size": page}
                cases.spec(("pages", name, backend, page), name, (3, 4, 16), values, mode="whole")


def add_numbers(cases: Cases, candidates: Sequence[str], flags: dict[str, Flag]) -> None:
    """Which other integer options move the three numbers, and where a block size comes from."""
    for name in candidates:
        for dest, flag in flags.items():
            if dest.startswith(f"speculative_{name.lower()}_") and flag.type in ("int", "human_int"):
                for value in (5, 7):
                    for triple in ((None, None, None), (3, 4, 16)):
                        cases.spec(("number", name, dest, value, triple), name, triple, {dest: value})
        _add_blocks(cases, name)


def _add_blocks(cases: Cases, name: str) -> None:
    nothing: Triple = (None, None, None)
    cases.spec(("block", name, "none"), name, nothing, {}, draft={})
    for key in BLOCK_KEYS:
        for size in (8, 11):
            cases.spec(("block", name, key, size), name, nothing, {}, draft=nested(key, size))
        for tokens in (8, 9, 5):
            cases.spec(("block tokens", name, key, tokens), name, (None, None, tokens), {}, draft=nested(key, 8))
        for other in BLOCK_KEYS:
            if other != key:
                draft = {**nested(key, 8), **nested(other, 11)}
                if key.partition(".")[0] != other.partition(".")[0]:
                    cases.spec(("block pair", name, key, other), name, nothing, {}, draft=draft)
    for dest in sorted(cases.known):
        if not dest.startswith("speculative_") or not dest.endswith("block_size"):
            continue
        for given in (None, 8, 9, 5):
            changes: dict[str, object] = {dest: 8}
            triple = (None, None, given)
            cases.spec(("block flag", name, dest, given), name, triple, changes)
            cases.spec(("block flag config", name, dest, given), name, triple, changes, draft={"block_size": 11})


#: Option sets that a release may refuse under speculation, by the condition that says so.
TOGGLES: dict[str, dict[str, object]] = {
    "pp_size>1": {"pp_size": 2},
    "pipeline_parallel_size>1": {"pipeline_parallel_size": 2},
    "enable_dp_attention": {"enable_dp_attention": True, "dp_size": 2, "tp_size": 2},
    "enable_dp_attention ": {
        "enable_dp_attention": True,
        "data_parallel_size": 2,
        "tensor_parallel_size": 2,
    },
    "attn_dp_size>1": {"attn_dp_size": 2, "tp_size": 2},
    "dp_size>1": {"dp_size": 2},
    "enable_lora": {"enable_lora": True, "max_lora_rank": 8, "lora_target_modules": ["q_proj"]},
    "lora_paths": {"lora_paths": ["a=b"]},
    "lora_paths ": {"lora_paths": ["a=b"], "disable_radix_cache": True},
    "device==cpu": {"device": "cpu"},
    "device==npu": {"device": "npu"},
    "device==xpu": {"device": "xpu"},
    "speculative_draft_model_path==null": {"speculative_draft_model_path": None},
    "disaggregation_mode==prefill": {"disaggregation_mode": "prefill"},
    "disaggregation_mode==decode": {"disaggregation_mode": "decode"},
    "dllm_algorithm": {"dllm_algorithm": "LowConfidence"},
}


def backend_toggles(flags: dict[str, Flag]) -> dict[str, dict[str, object]]:
    """Every attention backend: some are refused under speculation, whatever topk and page size are."""
    flag = flags.get("attention_backend")
    choices = (flag.choices if flag is not None else None) or ()
    return {f"attention_backend=={choice}": {"attention_backend": choice} for choice in choices}


def for_all(condition: str) -> bool:
    """Whether an option set is tried with every algorithm, not with one of them."""
    return condition in TOGGLES or condition.startswith("attention_backend==")


def add_limits(cases: Cases, candidates: Sequence[str], flags: dict[str, Flag]) -> None:
    """What is refused under speculation and not without: each toggle with and without it."""
    toggles = dict(TOGGLES)
    for dest, flag in flags.items():
        if flag.action == "store_true" and not flag.default and dest not in toggles:
            toggles[dest] = {dest: True}
    toggles |= backend_toggles(flags)
    for condition, changes in toggles.items():
        cases.add(("limit", "", condition), changes, mode="whole", check=True)
        for name in candidates:
            if name == "EAGLE3" or for_all(condition):
                cases.spec(
                    ("limit", name, condition), name, (3, 1, 4), changes, mode="whole", check=True, draft=PLAIN_DRAFT
                )
    cases.add(("limit", "", ""), {}, mode="whole", check=True)
    for name in candidates:
        cases.spec(("limit", name, ""), name, (3, 1, 4), {}, mode="whole", check=True)


def add_overlap(cases: Cases) -> None:
    """The overlap scheduler under speculation."""
    for variable in ("", "SGLANG_ENABLE_SPEC_V2"):
        for topk in (1, 4):
            env = {variable: "1"} if variable else {}
            cases.spec(("overlap", variable, topk), "EAGLE3", (3, topk, 16), {}, env=env)


def graph_toggles(flags: dict[str, Flag]) -> dict[str, dict[str, object]]:
    """Option sets that may turn CUDA graphs on or off for decode, by condition."""
    found: dict[str, dict[str, object]] = {}
    for dest, flag in flags.items():
        if flag.action == "store_true" and not flag.default:
            found[dest] = {dest: True}
        graphs = "cuda_graph" in dest
        if flag.choices and flag.nargs == "" and (graphs or dest in ("attention_backend", "disaggregation_mode")):
            for choice in flag.choices:
                if choice != flag.default:
                    found[f"{dest}=={choice}"] = {dest: choice}
        elif flag.choices and flag.nargs == "" and dest in ("moe_a2a_backend", "deepep_mode", "device"):
            found.update({f"{dest}=={choice}": {dest: choice} for choice in flag.choices if choice != flag.default})
    if "cuda_graph_config" in flags:
        decode = flags.get("cuda_graph_backend_decode")
        for backend in (decode.choices if decode is not None else None) or ("disabled", "full"):
            condition = f"cuda_graph_config.decode.backend=={backend}"
            found[condition] = {"cuda_graph_config": {"decode": {"backend": backend}}}
    if "enable_deepep_moe" in flags and "deepep_mode" in flags:
        found["enable_deepep_moe & deepep_mode==normal"] = {"enable_deepep_moe": True, "deepep_mode": "normal"}
    if "moe_a2a_backend" in flags and "deepep_mode" in flags:
        found["moe_a2a_backend==deepep & deepep_mode==normal"] = {"moe_a2a_backend": "deepep", "deepep_mode": "normal"}
    return found


def add_graphs(cases: Cases, toggles: dict[str, dict[str, object]]) -> None:
    """Each toggle alone."""
    cases.spec(("graph",), "EAGLE3", (3, 1, 4), {}, mode="whole")
    for condition, changes in toggles.items():
        cases.spec(("graph", condition), "EAGLE3", (3, 1, 4), changes, mode="whole")


def add_graph_pairs(cases: Cases, toggles: dict[str, dict[str, object]], wanted: Iterable[tuple[str, str]]) -> None:
    """Two toggles that set different options, together."""
    for one, other in wanted:
        if not set(toggles[one]) & set(toggles[other]):
            cases.spec(("graphs", one, other), "EAGLE3", (3, 1, 4), {**toggles[one], **toggles[other]}, mode="whole")
