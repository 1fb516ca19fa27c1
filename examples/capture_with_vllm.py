"""Make a capture file from what vLLM's hidden-state extraction wrote (docs/capture.md).

    python capture_with_vllm.py STATES.safetensors --target ./T --ids 0 1 2 3 -o T.safetensors --release 0.33.0

STATES holds `hidden_states` [T, k, H] and `token_ids` [T]; --ids are the extraction's layer ids in ascending order, as
the file has them. vLLM's id i is boundary i: the state after i layers, before any norm.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise

from drafter_contracts.errors import CaptureError, ContractsError
from drafter_contracts.evidence.documents import ReferenceRecord
from drafter_contracts.layout import Tap
from drafter_contracts.values.captures import write_capture
from drafter_contracts.values.mapped import MappedFile
from drafter_contracts.values.records import Capture
from drafter_contracts.values.targets import target_digest
from drafter_contracts.values.targets.running import named
from drafter_contracts.values.targets.settings import read_settings


def capture_of(arguments: argparse.Namespace) -> Capture:
    """What the file holds, held against the target's config."""
    settings = read_settings(arguments.target)
    file = MappedFile(arguments.states)
    states, tokens = file.tensor("hidden_states"), file.tensor("token_ids").long()
    ids, right = arguments.ids, (len(tokens), len(arguments.ids), settings.hidden_size)
    if any(a >= b for a, b in pairwise(ids)) or not 0 <= ids[0] <= ids[-1] <= settings.layers:
        expected = f"0 to {settings.layers}, ascending"
        raise CaptureError("not the ids of an extraction", where="--ids", expected=expected, actual=str(ids))
    if tuple(states.shape) != right:
        where, actual = f"{arguments.states}: hidden_states", str(list(states.shape))
        raise CaptureError("not the states of these ids", where=where, expected=str(list(right)), actual=actual)
    name, revision = named(arguments.target)
    record = ReferenceRecord(
        kind="capture",
        model=name,
        revision=revision,
        sha256=target_digest(arguments.target),
        layers=settings.layers,
        hidden_size=settings.hidden_size,
        vocab_size=settings.vocab_size,
        dtype=str(states.dtype).removeprefix("torch."),
        made_with=f"vllm {arguments.release}",
    )
    taken = {Tap(boundary): states[:, place] for place, boundary in enumerate(ids)}
    return Capture(record=record, tokens=tokens, states=taken)


def main() -> int:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("states", help="the file that the connector wrote")
    parser.add_argument("--target", required=True, help="the target's directory")
    parser.add_argument("--ids", required=True, type=int, nargs="+", help="eagle_aux_hidden_state_layer_ids, ascending")
    parser.add_argument("--release", required=True, help="of vLLM")
    parser.add_argument("-o", "--output", required=True, help="the capture file; one that is there is replaced")
    arguments = parser.parse_args()
    try:
        capture = capture_of(arguments)
        write_capture(arguments.output, capture, tool="capture_with_vllm.py")
    except ContractsError as error:
        print(error.diagnostics(), file=sys.stderr)
        return 1
    missing = ", ".join(tap.label() for tap in capture.missing())
    print(f"{arguments.output}: {len(capture.states)} states of {len(capture.tokens)} tokens; missing: {missing}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
