"""Make a capture file of a target that SGLang 0.5.23 or later serves (docs/capture.md).

    python capture_with_sglang.py plan --target ./T --release 0.5.23        # which launches, and what each returns
    python capture_with_sglang.py add --target ./T --tokens ids.json -o T.safetensors --url http://127.0.0.1:30000

`add` asks the server that runs now what it was started with, has it prefill the tokens once, and adds what it returned
to the file. Which boundary an id stands for is what the release's own code does for this target's class, from the
shipped profile; a release or class that no profile knows is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.request

import msgspec
import torch

from drafter_contracts.engines.capture import capture_once
from drafter_contracts.engines.profile import CaptureMethod
from drafter_contracts.engines.store import load_profile
from drafter_contracts.errors import CaptureError, ContractsError
from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import FINAL_NORM, Tap
from drafter_contracts.values.captures import read_capture, write_capture
from drafter_contracts.values.records import Capture
from drafter_contracts.values.targets import embedding_and_head, target_digest
from drafter_contracts.values.targets.running import named
from drafter_contracts.values.targets.settings import Settings, read_settings

SECONDS = 3600
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
#: What every launch needs: whole prompts in one piece, and none of them remembered.
FLAGS = "--disable-radix-cache --chunked-prefill-size -1 --disable-cuda-graph"


def hook(settings: Settings, release: str, method: str) -> CaptureMethod:
    """What a release does with capture ids for this target's class."""
    architecture = settings.config.architectures[0]
    found = load_profile("sglang", release).capture_method(architecture, method.upper())
    if found is None or found.status != "fitted":
        raise CaptureError(f"sglang {release} has no known {method} capture for {architecture}")
    return found


def reachable(settings: Settings, release: str, method: str) -> dict[int, int]:
    """Boundary to the id that returns it, for every boundary that this release can return."""
    rule, ids = hook(settings, release, method), range(settings.layers)
    captures = {one: capture_once(rule, settings.layers, [one]) for one in ids}
    return {seen.taps[0].boundary: one for one, seen in captures.items() if len(seen.taps) == 1 and not seen.error}


def plan(settings: Settings, release: str, most: int) -> None:
    """Print the launches that give every state that can be had."""
    found = reachable(settings, release, "DFLASH")
    boundaries = sorted(found)
    for start in range(0, len(boundaries), most):
        part = boundaries[start : start + most]
        ids = " ".join(str(found[one]) for one in part)
        print(f"# boundaries {part[0]} to {part[-1]}")
        print(
            f"{FLAGS} --enable-return-aux-hidden-states --speculative-algorithm DFLASH "
            f"--return-aux-hidden-state-layer-ids {ids}"
        )
    print(f"# the final norm\n{FLAGS} --enable-return-hidden-states")
    lacking = [one for one in range(settings.layers + 1) if one not in found]
    print(f"# not returned: boundaries {lacking}; 0 is looked up in the target's own embedding")


def ask(url: str, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
    """One JSON answer of the server."""
    data = None if body is None else json.dumps(body).encode()
    if not url.startswith(("http://", "https://")):
        raise CaptureError("not the address of a server", where=url, expected="http://HOST:PORT")
    kind = {"Content-Type": "application/json"}
    request = urllib.request.Request(url.rstrip("/") + path, data=data, headers=kind)  # noqa: S310 - see above
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
        return json.load(answer)


def prefill(url: str, tokens: list[int]) -> tuple[list[list[float]], torch.Tensor]:
    """The states of every token, as text exact to the bit, and the target's first choice after each."""
    answer = ask(
        url,
        "/generate",
        {
            "input_ids": tokens,
            "sampling_params": {"max_new_tokens": 1, "temperature": 0},
            "return_hidden_states": True,
            "return_logprob": True,
            "logprob_start_len": 0,
            "top_logprobs_num": 1,
        },
    )
    meta = answer["meta_info"]
    states = meta["hidden_states"][0]
    if len(states) != len(tokens):  # a prompt in pieces, or one that was remembered
        raise CaptureError(
            "the server did not compute the whole prompt at once", expected=FLAGS, actual=str(len(states))
        )
    choices = [top[0][1] for top in meta["input_top_logprobs"][1:]] + [meta["output_top_logprobs"][0][0][1]]
    return states, torch.tensor(choices)


def returned(settings: Settings, info: dict[str, object], states: torch.Tensor) -> dict[Tap, torch.Tensor]:
    """What the columns of the returned states are, by how the server was started."""
    method, layers, width = info.get("aux_hidden_state_capture"), settings.layers, settings.hidden_size
    if not method:
        return {Tap(layers, FINAL_NORM): states}
    seen = capture_once(hook(settings, info["version"], method), layers, info["return_aux_hidden_state_layer_ids"])
    if seen.error or seen.foreign or states.shape[1] != width * len(seen.taps):
        actual = seen.error or seen.foreign or f"{states.shape[1]} columns"
        raise CaptureError("not what the profile says", expected=f"{len(seen.taps)} states of {width}", actual=actual)
    return dict(zip(seen.taps, states.split(width, dim=1), strict=True))


def checked(states: dict[Tap, torch.Tensor], choices: torch.Tensor, target: str) -> None:
    """Some classes return the state before the final norm: what the head makes of it says which one it is."""
    final = [state for tap, state in states.items() if tap.state == FINAL_NORM]
    for state in final:
        head = embedding_and_head(target)[1].float()
        same = (torch.nn.functional.linear(state.float(), head).argmax(dim=1) == choices).float().mean()
        if same < 0.9:
            raise CaptureError(f"the head makes the server's tokens of {same:.0%} of these states: no final norm")


def add(arguments: argparse.Namespace, settings: Settings) -> None:
    """Prefill the tokens and put the states into the file."""
    info = ask(arguments.url, "/get_server_info")
    with open(arguments.tokens, encoding="utf-8") as file:
        tokens = json.load(file)
    rows, choices = prefill(arguments.url, tokens)
    dtype = info["dtype"] if info["dtype"] in DTYPES else str(settings.config.dtype).removeprefix("torch.")
    states = returned(settings, info, torch.tensor(rows, dtype=DTYPES[dtype]))
    checked(states, choices, arguments.target)
    kept = torch.tensor(tokens)
    if not settings.embedding_factor:
        states[Tap(0)] = embedding_and_head(arguments.target)[0][kept].to(DTYPES[dtype])
    name, revision = named(arguments.target)
    record = ReferenceRecord(
        kind="capture",
        model=name,
        revision=revision,
        sha256=target_digest(arguments.target),
        layers=settings.layers,
        hidden_size=settings.hidden_size,
        vocab_size=settings.vocab_size,
        dtype=dtype,
        made_with=f"sglang {info['version']}",
    )
    if os.path.exists(arguments.output):
        before = read_capture(arguments.output)
        if msgspec.structs.replace(before.record, sha256=record.sha256) != record or before.tokens.tolist() != tokens:
            raise CaptureError("the file is of another target, release, dtype or text", where=arguments.output)
        states = {**before.states, **states}
    capture = Capture(record=record, tokens=kept, states=states, choices=choices)
    write_capture(arguments.output, capture, tool="capture_with_sglang.py")
    missing = ", ".join(tap.label() for tap in capture.missing())
    print(f"{arguments.output}: {len(states)} states of {len(tokens)} tokens; missing: {missing or 'nothing'}")


def main() -> int:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("plan", "add"))
    parser.add_argument("--target", required=True, help="the target's directory")
    parser.add_argument("--release", default="0.5.23", help="plan: of SGLang")
    parser.add_argument("--most", type=int, default=16, help="plan: most states of one launch")
    parser.add_argument("--url", default="http://127.0.0.1:30000", help="add: the server")
    parser.add_argument("--tokens", help="add: a JSON list of token ids")
    parser.add_argument("-o", "--output", help="add: the capture file; states are added to one that is there")
    arguments = parser.parse_args()
    if arguments.verb == "add" and not (arguments.tokens and arguments.output):
        parser.error("add needs --tokens and -o")
    try:
        settings = read_settings(arguments.target)
        if arguments.verb == "plan":
            plan(settings, arguments.release, arguments.most)
        else:
            add(arguments, settings)
    except ContractsError as error:
        print(error.diagnostics(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
