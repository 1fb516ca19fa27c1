"""The residual stream of a traced forward pass, and which boundary a captured value is.

The stream at boundary b is what layer b reads: the sum that its first norm is given, or (where the first norm comes
after the layer's own contribution) the sum of what it was called with. The stream must hang together: every layer
adds contributions of its own and keeps what was there, or hands on a new tensor that the next layer reads whole.
Otherwise the pass was not understood, and nothing is said about captures.
"""

from __future__ import annotations

from drafter_contracts.engines.scan.probes.symbolic import OUTSIDE, Atoms, Buffer, Trace, atoms_of

#: Text for a capture that is only what the layer before the boundary contributed last.
CONTRIBUTION_ONLY = "what layer b-1 contributed last, without the residual stream that it is added to"
#: Text for a capture that could not be traced back to the stream.
UNRELATED = "a tensor that is not a sum of the residual stream's parts"


def boundaries(trace: Trace, n: int) -> list[Atoms]:
    """Atoms of the residual stream at boundaries 0 to n."""
    states = []
    for b in range(n):
        read = trace.read.get(b)
        entry = trace.entries.get(b, {})
        own = read is None or any(tag >= b for tag, _ in read)
        states.append(entry if own or read is None else read)
    last = trace.final if trace.final is not None else trace.outputs.get(n - 1, {})
    return [*states, last]


def complaint(trace: Trace, n: int) -> str:
    """Why the pass was not understood; "" if it was."""
    if trace.calls != n:
        return f"its forward pass runs {trace.calls} decoder layers where the config says {n}"
    states = boundaries(trace, n)
    if not states[0]:
        return "what enters its first layer is not a tensor of the forward pass"
    for b in range(n):
        before, behind = states[b], states[b + 1]
        added = {atom: count for atom, count in behind.items() if before.get(atom) != count}
        kept = all(atom in behind for atom in before)
        fresh = bool(added) and all(tag == b for tag, _ in added)
        reads = trace.read.get(b + 1) if b + 1 < n else trace.final
        renewed = fresh and behind == trace.outputs.get(b) == reads
        if not (kept and fresh) and not renewed:
            return f"the residual stream cannot be followed through layer {b}"
    return ""


def delivered(trace: Trace) -> list[object]:
    """What reached the logits processor, in order."""
    found = trace.delivered
    if isinstance(found, Buffer):
        return list(found.parts())
    return list(found) if isinstance(found, (list, tuple)) else []


def taps(trace: Trace, n: int) -> list[list[object]]:
    """What was delivered, in order: [boundary, ""] or [boundary, description of what it is instead]."""
    states = boundaries(trace, n)
    return [_place(value, states) for value in delivered(trace)]


def _place(value: object, states: list[Atoms]) -> list[object]:
    atoms = atoms_of(value) or {}
    for b, state in enumerate(states):
        if atoms == state:
            return [b, ""]
    tags = {tag for tag, _ in atoms}
    b = max(tags, default=OUTSIDE) + 1
    alone = bool(tags) and tags == {b - 1} and b > 0 and all(atom in states[min(b, len(states) - 1)] for atom in atoms)
    return [b, CONTRIBUTION_ONLY if alone else UNRELATED]
