"""The residual stream of a traced forward pass, and which boundary a captured value is.

The stream at boundary b is what layer b reads: the sum that its first norm is given, or (where the first norm comes
after the layer's own contribution) the sum of what it was called with. The stream must hang together: every layer
adds contributions of its own and keeps what was there, or hands on a new tensor that the next layer reads whole.

Networks whose stream is no such sum are told apart in two further ways. A tensor that every layer is called with and
returns, that is the embedding before the first layer and what the last norm reads behind the last one, is the stream
however a layer renews it. And where only kernels know how the stream goes on (several streams, a bank of earlier
ones), a value that is made between two layers from all that the layer before hands on, and from nothing newer, is a
state of that boundary; what made it says which: what the next layer's norm reads, a mean, a weighted sum, or no state
of the stream at all.

Otherwise the pass was not understood, and nothing is said about captures.
"""

from __future__ import annotations

from drafter_contracts.engines.scan.probes.symbolic import NORM, OUTSIDE, Atoms, Buffer, Trace, atoms_of

#: Text for a capture that is only what the layer before the boundary contributed last.
CONTRIBUTION_ONLY = "what layer b-1 contributed last, without the residual stream that it is added to"
#: Text for a capture that could not be traced back to the stream.
UNRELATED = "a tensor that is not a sum of the residual stream's parts"
#: State of a mean over several streams, and of another mixture of them (names of `drafter_contracts.layout`).
MEAN, MIXTURE = "stream_mean", "stream_mixture"
#: Text for a capture that something else was done to.
MADE = "what {} makes of the residual stream"
#: Text for a capture that a norm was applied to.
NORMED = "the residual stream after a norm"


class Reading:
    """What a traced pass says.

    Args:
        trace: The pass.
        n: How many layers it must have run.

    Attributes:
        complaint: Why it was not understood; "" if it was.
    """

    def __init__(self, trace: Trace, n: int) -> None:
        self._trace = trace
        self._summed = True
        self._states = _boundaries(trace, n)
        self._unfollowed = _unfollowed(trace, n, self._states) if trace.calls == n else ""
        self.complaint = self._unfollowed
        if trace.calls != n:
            self.complaint = f"its forward pass runs {trace.calls} decoder layers where the config says {n}"
        elif self._unfollowed:
            carried = _carried(trace, n)
            self._states = carried or self._states
            self._summed = bool(carried)
            self.complaint = "" if carried or all(_handed_on(trace, b) for b in range(n)) else self._unfollowed

    def taps(self) -> list[list[object]] | None:
        """What was delivered, in order: [boundary, ""] or [boundary, description of what it is instead].

        None where a value cannot be told; `complaint` says why then.
        """
        found = [self._place(value) for value in delivered(self._trace)]
        if all(place is not None for place in found):
            return found  # type: ignore[return-value]
        self.complaint = self._unfollowed
        return None

    def _place(self, value: object) -> list[object] | None:
        atoms = atoms_of(value) or {}
        made = None if self._summed else _made_at(self._trace, atoms)
        if self._summed or made is not None:
            for b, state in enumerate(self._states):
                if atoms == state:
                    return [b, ""]
        return _part(atoms, self._states) if self._summed else made


def _boundaries(trace: Trace, n: int) -> list[Atoms]:
    """Atoms of the residual stream at boundaries 0 to n."""
    states = []
    for b in range(n):
        read = trace.read.get(b)
        entry = trace.entries.get(b, {})
        own = read is None or any(tag >= b for tag, _ in read)
        states.append(entry if own or read is None else read)
    last = trace.final if trace.final is not None else trace.outputs.get(n - 1, {})
    return [*states, last]


def _unfollowed(trace: Trace, n: int, states: list[Atoms]) -> str:
    """Why the stream is no sum that every layer adds to; "" if it is."""
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


def _carried(trace: Trace, n: int) -> list[Atoms]:
    """States of the one tensor that goes from layer to layer and is read by the last norm; empty if there is none."""
    for slot, first in enumerate(trace.handed.get(0, ())):
        for part in range(len(trace.returned.get(0, ()))):
            chain = [trace.returned[b][part : part + 1] for b in range(n)]
            entries = [trace.handed[b][slot : slot + 1] for b in range(n)]
            linked = all(chain[b] == entries[b + 1] for b in range(n - 1)) and chain[-1] == [trace.final]
            renewed = all(one and all(tag == b for tag, _ in one[0]) for b, one in enumerate(chain))
            outside = bool(first) and all(tag == OUTSIDE for tag, _ in first)
            if linked and renewed and outside:
                return [first, *(one[0] for one in chain)]
    return []


def _handed_on(trace: Trace, b: int) -> set[tuple[int, int]]:
    """Atoms of a layer that something behind the layer is made from."""
    end = trace.ended[b]
    used = (sums for serial, (_, sums) in trace.made.items() if serial > end)
    return {atom for sums in used for one in sums for atom in one if atom[0] == b}


def _made_at(trace: Trace, atoms: Atoms) -> list[object] | None:
    """[boundary, state] of a sum that is made outside all layers from all that the layer before hands on."""
    origin = _origin(trace, atoms, through_norms=True)
    newest = max((tag for tag, _ in origin), default=OUTSIDE)
    wanted = set(trace.entries[0]) if newest == OUTSIDE else _handed_on(trace, newest)
    if not wanted or not wanted <= origin:
        return None
    if not wanted <= _origin(trace, atoms, through_norms=False):
        return [newest + 1, NORMED]
    makers = {trace.made[serial][0] for _, serial in atoms if serial in trace.made}
    how = makers.pop().rpartition(".")[2].removesuffix("()") if len(makers) == 1 else ""
    if "mean" in how:
        return [newest + 1, MEAN]
    return [newest + 1, MIXTURE if how == "sum" else MADE.format(how or "several functions")]


def _origin(trace: Trace, atoms: Atoms, *, through_norms: bool) -> set[tuple[int, int]]:
    """The atoms that a sum comes from, back to those of layers."""
    found: set[tuple[int, int]] = set()
    waiting = list(atoms)
    while waiting:
        atom = waiting.pop()
        if atom not in found:
            found.add(atom)
            name, sums = trace.made.get(atom[1], ("", [])) if atom[0] == OUTSIDE else ("", [])
            if through_norms or name != NORM:
                waiting += [source for one in sums for source in one]
    return found


def delivered(trace: Trace) -> list[object]:
    """What reached the logits processor, in order."""
    found = trace.delivered
    if isinstance(found, Buffer):
        return list(found.parts())
    return list(found) if isinstance(found, (list, tuple)) else []


def _part(atoms: Atoms, states: list[Atoms]) -> list[object]:
    """[boundary, description] of a sum that is no state of the stream."""
    tags = {tag for tag, _ in atoms}
    b = max(tags, default=OUTSIDE) + 1
    alone = bool(tags) and tags == {b - 1} and b > 0 and all(atom in states[min(b, len(states) - 1)] for atom in atoms)
    return [b, CONTRIBUTION_ONLY if alone else UNRELATED]
