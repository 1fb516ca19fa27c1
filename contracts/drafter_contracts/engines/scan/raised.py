"""Where an exception came from in the release's own files."""

from __future__ import annotations

import ast

from drafter_contracts.engines.scan.module import LazyNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


def raised_at(error: BaseException) -> dict[str, object]:
    """The innermost statement of the release in a traceback: {"file", "function", "line"}; {} if there is none.

    The line is the statement's first: of a statement over several lines, each CPython reports another one.
    """
    found: dict[str, object] = {}
    trace = error.__traceback__
    while trace is not None:
        names = trace.tb_frame.f_globals
        if isinstance(names, LazyNamespace):
            found = {
                "file": names.module._path,  # noqa: SLF001 - underscored for the release, not for us
                "function": trace.tb_frame.f_code.co_qualname,
                "line": _statement_line(names, trace),
            }
        trace = trace.tb_next
    return found


def _statement_line(names: LazyNamespace, trace: TracebackType) -> int:
    line, first = trace.tb_lineno, 0
    for node in ast.walk(names.module._index.tree):  # noqa: SLF001 - underscored for the release, not for us
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            first = max(first, node.lineno)
    return first or line
