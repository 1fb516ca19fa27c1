"""Parameters of a list in pages."""

from __future__ import annotations

from drafter_registry import limits
from drafter_registry.api.endpoint import Parameter
from drafter_registry.errors import Fault, InvalidError

PARAMETERS = (
    Parameter(name="cursor", text="`next` of the page before."),
    Parameter(
        name="limit",
        text="Most entries of the page.",
        schema={"type": "integer", "minimum": 1, "maximum": limits.page_max_items},
    ),
)


def size(query: dict[str, str]) -> int:
    """Most entries of the page that a query asks for.

    Raises:
        InvalidError: No number of them.
    """
    text = query.get("limit", str(limits.page_items))
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= limits.page_max_items:
        return int(text)
    fault = Fault(pointer="limit", message="no page size", expected=f"1 to {limits.page_max_items}", actual=text[:80])
    raise InvalidError("the query cannot be read", faults=(fault,))
