"""`drafters verify`: does a running engine, or a recording, hold the states that a drafter was fingerprinted with?"""

from __future__ import annotations

import os

import msgspec

from drafter_cli.client.registry_option import OPTIONS as REGISTRY
from drafter_cli.client.registry_option import of_registry
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNKNOWN, UsageError
from drafter_cli.terminal import printable, write, write_json
from drafter_cli.values.need import require_tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.values.verification import Verification
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.manifest_values import FingerprintRecord

#: Seconds without a byte from the engine.
_TIMEOUT = 120

COMMANDS = {
    "verify": Command(
        name="verify",
        summary="does a running engine feed the states that a drafter was fingerprinted with?",
        description=(
            "Holds states against the fingerprint in a drafter's manifest (drafters fingerprint): those of a running\n"
            "SGLang for the fingerprint's tokens, or those of a recording of these tokens. Says of each layer\n"
            "whether it is the same, and which other one it resembles if it is not. Exits with 0 for the same, with 3\n"
            "for not the same, with 5 where it cannot be told. REFERENCE is a stored version, a drafter's directory,\n"
            "or a fingerprint's file. The engine's key, if it has one, goes into DRAFTERS_ENGINE_KEY."
        ),
        words=("REFERENCE", "[CAPTURE]"),
        options=(
            Option("--url", "the running engine", "URL"),
            Option("--timeout", f"seconds to wait for it; default: {_TIMEOUT}", "SECONDS"),
            Option("--tolerance", "relative error up to which a state is the same; default: by dtypes and depth", "X"),
            JSON,
            *REGISTRY,
        ),
        examples=(
            ("drafters verify kimi-eagle3@prod --url http://localhost:30000", "a canary"),
            ("drafters verify ./kimi-eagle3 probe.safetensors", "a recording of the probe, of vLLM's extraction"),
        ),
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Compare; see the description."""
    require_tensors()
    if parsed.has("--url") == bool(parsed.word(1)):
        raise UsageError(
            "--url and CAPTURE are two sources" if parsed.has("--url") else "nothing to compare",
            "give --url http://HOST:PORT, or a recording of the probe's tokens",
        )
    most = _tolerance(parsed)
    fingerprint, manifest = _fingerprint(parsed)
    if fingerprint is None:
        return _no_fingerprint(parsed)
    from drafter_cli.values import verified

    if parsed.has("--url"):
        found = verified.engine(parsed.word(0), fingerprint, manifest, parsed.value("--url"), _timeout(parsed), most)
    else:
        found = verified.recording(parsed.word(0), fingerprint, parsed.word(1), most)
    return _tell(parsed, found)


def _tell(parsed: Parsed, found: Verification) -> int:
    from drafter_cli.values.verification import lines

    if parsed.has("--json"):
        write_json(found)
    else:
        for line in lines(found):
            write(printable(line))
    return {"same": EXIT_OK, "not the same": EXIT_REFUSED, "unknown": EXIT_UNKNOWN}[found.found]


def _fingerprint(parsed: Parsed) -> tuple[FingerprintRecord | None, Manifest | None]:
    """The fingerprint, and the manifest that holds it.

    Raises:
        UsageError: No such file, directory or version.
        ManifestError: A manifest or fingerprint that is not right.
        RegistryError, UnreachableError: The registry.
    """
    from drafter_contracts.manifest import read_manifest

    word = parsed.word(0)
    if os.path.isdir(word):
        manifest = read_manifest(word)
        return (None if manifest is None else manifest.state_fingerprint), manifest
    if os.path.isfile(word):
        return _of_file(word)
    from contextlib import closing

    from drafter_cli.catalogue.pull_command import read_manifest as stored_manifest
    from drafter_cli.client.connect import connect
    from drafter_registry import names

    with closing(connect(of_registry(parsed))) as backend:
        stored, _ = stored_manifest(backend, names.read_reference(word))
    return stored.state_fingerprint, stored


def _of_file(path: str) -> tuple[FingerprintRecord | None, Manifest | None]:
    from drafter_contracts import limits
    from drafter_contracts.checkpoint.regular import read_capped
    from drafter_contracts.errors import ManifestError
    from drafter_contracts.fingerprint_check import check_fingerprint
    from drafter_contracts.manifest import decode
    from drafter_contracts.manifest_values import FingerprintRecord

    data = read_capped(path, limits.manifest_max_bytes)
    try:
        record = msgspec.json.decode(data, type=FingerprintRecord)
    except msgspec.MsgspecError as error:
        if b"drafters.manifest.v1" in data:
            manifest = decode(data, where=path)
            return manifest.state_fingerprint, manifest
        raise ManifestError("neither a fingerprint nor a manifest", where=path, actual=str(error)) from None
    check_fingerprint(record)
    return record, None


def _no_fingerprint(parsed: Parsed) -> int:
    word = parsed.word(0)
    message, hint = "its manifest has no fingerprint of states", "drafters fingerprint DRAFTER_DIR --target PATH"
    if parsed.has("--json"):
        error = {"code": "UNDECIDED", "message": message, "where": word, "expected": "", "actual": "", "hint": hint}
        write_json({"error": error, "exit_code": EXIT_UNKNOWN})
    else:
        write(f"{word}: {message}", to_stderr=True)
        write(f"  next: {hint}, then publish it as another version", to_stderr=True)
    return EXIT_UNKNOWN


def _tolerance(parsed: Parsed) -> float | None:
    return _positive(parsed, "--tolerance") if parsed.has("--tolerance") else None


def _timeout(parsed: Parsed) -> float:
    return _positive(parsed, "--timeout") if parsed.has("--timeout") else _TIMEOUT


def _positive(parsed: Parsed, name: str) -> float:
    text = parsed.value(name)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise UsageError(f"{name} is {text!r}", "write a number above 0")
    return value
