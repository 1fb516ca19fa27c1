"""A numbering: how an id becomes a tap, and how a tap becomes an id."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from drafter_contracts import limits
from drafter_contracts.errors import LayoutError
from drafter_contracts.expressions import evaluate_expression
from drafter_contracts.layout import RESIDUAL, Tap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Concatenation follows the list as written.
LISTED = "listed"
#: Whatever the list says, concatenation is in ascending layer order and duplicates collapse.
ASCENDING = "ascending"


class Special(msgspec.Struct, frozen=True):
    """An id that does not follow the numbering's shift.

    Attributes:
        id: The id, an expression over N.
        boundary: The boundary it really means, an expression over N.
        state: The state taken there, one of `layout.STATES`.
        writable: Whether this id is the way to ask for that tap (false for ids that merely alias another).
        why: One clause for a person.
    """

    id: str
    boundary: str
    state: str = RESIDUAL
    writable: bool = True
    why: str = ""


class Numbering(msgspec.Struct, frozen=True):
    """One way of numbering captured states.

    Attributes:
        name: Stable name, e.g. "speculators".
        producer: Who numbers like this.
        versions: Their versions, as text.
        key: Where the ids are written.
        shift: boundary = id + shift.
        low: Lowest ordinary id, an expression over N.
        high: Highest ordinary id, an expression over N.
        meaning: What an id means, one clause.
        source: Public repository, path and commit (or pull request) that says so.
        state: The state that an ordinary id names.
        specials: Ids beside the rule.
        default: The ids used when none are given, expressions over N; empty: no default.
        order: `LISTED` or `ASCENDING`.
        note: What else to know.
    """

    name: str
    producer: str
    versions: str
    key: str
    shift: int
    low: str
    high: str
    meaning: str
    source: str
    state: str = RESIDUAL
    specials: tuple[Special, ...] = ()
    default: tuple[str, ...] = ()
    order: str = LISTED
    note: str = ""

    def to_tap(self, layer_id: int, n: int | None) -> Tap:
        """The tap that an id of this numbering names.

        Args:
            layer_id: The id as written.
            n: Decoder layers of the target. None: not known; then only what does not depend on it is decided
                and checked.

        Raises:
            LayoutError: The numbering has no such id on a target of n layers.
        """
        for special in self.specials:
            if n is None and "N" in special.id + special.boundary:
                continue
            if evaluate_expression(special.id, n or 0) == layer_id:
                return Tap(evaluate_expression(special.boundary, n or 0), special.state)
        self._check_range(layer_id, n)
        return Tap(layer_id + self.shift, self.state)

    def from_tap(self, tap: Tap, n: int) -> int:
        """The id by which this numbering names a tap.

        Raises:
            LayoutError: The numbering cannot name this tap on a target of n layers.
        """
        _check_depth(n)
        for special in self.specials:
            if special.writable and Tap(evaluate_expression(special.boundary, n), special.state) == tap:
                return evaluate_expression(special.id, n)
        layer_id = tap.boundary - self.shift
        hidden = any(evaluate_expression(special.id, n) == layer_id for special in self.specials)
        if tap.state != self.state or hidden:
            raise LayoutError(f"the numbering {self.name} has no id for {tap.label()} of a {n}-layer target")
        self._check_range(layer_id, n, tap)
        return layer_id

    def taps(self, layer_ids: Iterable[int], n: int | None) -> tuple[Tap, ...]:
        """`to_tap` for each id, in the order given."""
        return tuple(self.to_tap(layer_id, n) for layer_id in layer_ids)

    def ids(self, taps: Iterable[Tap], n: int) -> tuple[int, ...]:
        """`from_tap` for each tap, in the order given."""
        return tuple(self.from_tap(tap, n) for tap in taps)

    def default_ids(self, n: int) -> tuple[int, ...]:
        """The ids that the producer uses on a target of n layers when none are given.

        Raises:
            LayoutError: It has no default, or its formula gives ids that do not exist or repeat at this depth.
        """
        if not self.default:
            raise LayoutError(f"the numbering {self.name} has no default")
        layer_ids = tuple(evaluate_expression(expression, n) for expression in self.default)
        if any(a >= b for a, b in pairwise(layer_ids)):
            raise LayoutError(
                f"the default of {self.name} needs a deeper target", expected="ascending ids", actual=str(layer_ids)
            )
        self.taps(layer_ids, n)
        return layer_ids

    def default_taps(self, n: int) -> tuple[Tap, ...]:
        """The taps of `default_ids`; raises as that does."""
        return self.taps(self.default_ids(n), n)

    def valid_ids(self, n: int) -> tuple[int, ...]:
        """Every id that exists on a target of n layers, ascending."""
        _check_depth(n)
        ordinary = range(evaluate_expression(self.low, n), evaluate_expression(self.high, n) + 1)
        return tuple(sorted({*ordinary, *(evaluate_expression(special.id, n) for special in self.specials)}))

    def _check_range(self, layer_id: int, n: int | None, tap: Tap | None = None) -> None:
        if n is not None:
            _check_depth(n)
        low = evaluate_expression(self.low, n or 0) if n is not None or "N" not in self.low else 0
        high = evaluate_expression(self.high, n) if n is not None else limits.target_max_layers
        if not low <= layer_id <= high:
            raise LayoutError(
                f"the numbering {self.name} has no id {layer_id}" + (f" ({tap.label()})" if tap else ""),
                expected=f"{low} to {high}" + (f" on a {n}-layer target" if n is not None else ""),
                actual=str(layer_id),
            )


def _check_depth(n: int) -> None:
    if not 1 <= n <= limits.target_max_layers:
        raise LayoutError("not a depth of a target", expected=f"1 to {limits.target_max_layers} layers", actual=str(n))
