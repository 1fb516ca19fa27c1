"""Where an exception came from in the release's own files."""

from __future__ import annotations

from drafter_contracts.engines.scan.module import LazyNamespace

TYPE_CHECKING = False


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
                "line": names.module._index.statement_line(trace.tb_lineno),  # noqa: SLF001 - as above
            }
        trace = trace.tb_next
    return found
