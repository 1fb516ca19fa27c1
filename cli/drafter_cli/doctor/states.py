"""The states that the engine feeds, held against the drafter's fingerprint, where this engine can return them."""

from __future__ import annotations

import importlib.util

from drafter_contracts.acceptance.causes import PROVED, STATES, Cause, Open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.doctor.checking import Contract
    from drafter_contracts.acceptance.records import EngineState

_FLAG = "--enable-return-aux-hidden-states"
_TIMEOUT = 120.0


def compare(state: EngineState, contract: Contract, url: str, name: str) -> Cause | Open | str:
    """States against fingerprint.

    Args:
        state: What the engine says of itself.
        contract: The drafter's record.
        url: The engine.
        name: What to call the drafter in the next command.

    Returns:
        The cause, what is open, or what was found right.

    Raises:
        UnreachableError: It stopped to answer.
        DegenerateSampleError: States that are not finite.
    """
    manifest = contract.manifest
    if manifest is None or manifest.state_fingerprint is None:
        return Open(
            what=STATES,
            why="the drafter's record has no fingerprint of states",
            settle="drafters fingerprint DRAFTER_DIR --target PATH, then publish it as another version",
        )
    arguments = state.arguments
    returns = arguments.get("aux_hidden_state_capture") or arguments.get("return_hidden_states_mode") == "full"
    if state.engine != "sglang" or not (returns or arguments.get("enable_return_hidden_states")):
        return Open(
            what=STATES,
            why="this engine was not started so that it returns them",
            settle=f"start a canary with {_FLAG} (from SGLang 0.5.23); drafters verify {name} --url URL says the ids",
        )
    if importlib.util.find_spec("torch") is None:
        return Open(
            what=STATES,
            why="torch is not installed here",
            settle="pip install 'drafter-registry[values]', then try again",
        )
    from drafter_cli.values import verified

    found = verified.engine(name, manifest.state_fingerprint, manifest, url, _TIMEOUT, None)
    if found.found == "same":
        return f"the states of {len(found.taps)} taps by their numbers (drafters verify)"
    if found.found == "unknown":
        return Open(what=STATES, why=found.reason, settle=found.settle or f"drafters verify {name} --url {url}")
    return Cause(
        code="STATES_DIFFER",
        message=f"the engine feeds other states than the drafter was fingerprinted with: {found.reason}",
        confidence=PROVED,
        evidence=tuple(
            f"{one.tap.label()}: {one.found}, error {one.error:.2g} (same up to {one.tolerance:.2g})"
            for one in found.taps
        ),
        next=f"drafters verify {name} --url {url}; then drafters resolve {name} for the flags that feed the right ones",
        catalogue=("R01", "R24", "R27"),
    )
