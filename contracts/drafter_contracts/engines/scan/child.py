"""What runs in the scanning child: read a request, lock the process, run one probe, write one answer.

The request and the answer are each one JSON document on the standard streams. The answer is preceded by a line that
the release is not given, so that what it writes to the stream by accident is not taken for the answer. Code that means
harm runs in this process and can find the line; what it then says is its word about itself, and read as such.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys

from drafter_contracts.engines.scan import confine, lazy

_RECURSION = 6000


def _preload(probe: str) -> object:
    """Import all that may be needed: after the lock nothing can be opened."""
    for name in (*lazy.REAL_MODULES, "traceback", "linecache", "encodings.idna", "encodings.ascii", "copyreg", "dis"):
        importlib.import_module(name)
    return importlib.import_module(probe).probe


def _answer(probe: object, sources: dict[str, str], package: str, payload: dict[str, object]) -> dict[str, object]:
    release = lazy.LazyRelease(sources, package)
    result = probe(release, payload)  # type: ignore[operator]
    return {"result": result, "files": sorted(release.used), "problems": release.problems[:100]}


def main() -> None:
    """Serve one request and leave."""
    write, leave = os.write, os._exit
    request = json.loads(sys.stdin.buffer.read())
    seal = request["seal"]
    probe = _preload(request["probe"])
    sys.setrecursionlimit(_RECURSION)
    sys.dont_write_bytecode = True
    gc.set_threshold(200_000, 50, 100)  # syntax trees are no cycles, and looking for some takes most of the parsing
    missing = confine.lock(memory=request["memory"], seconds=request["seconds"])
    if missing and not request["allow_unconfined"]:
        document: dict[str, object] = {"unconfined": missing}
    else:
        try:
            document = _answer(probe, request["sources"], request["package"], request["payload"])
        except MemoryError:
            document = {"error": "out of memory"}
        except Exception as error:  # noqa: BLE001 - whatever the probe did not foresee is the answer
            document = {"error": f"{type(error).__name__}: {error}"[:2000], "trace": _trace(error)}
        except BaseException as error:  # noqa: BLE001 - a release that calls exit() ends the scan, not the child
            document = {"error": f"{type(error).__name__}"}
    data = memoryview(f"{seal}\n{json.dumps(document, sort_keys=True)}".encode())
    while data:
        data = data[write(1, data) :]
    leave(0)


def _trace(error: BaseException) -> list[str]:
    """The innermost places of an exception, without reading any file."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return places[-12:]
