"""Derive an engine profile from a release's own source, executing nothing of it outside the sandbox.

`scan` runs the probes and assembles the profile, `encode` writes it so that scanning again gives the same bytes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile


def scan(path_or_wheel: str, *, allow_unconfined: bool = False) -> Profile:
    """Scan a release.

    Args:
        path_or_wheel: A directory holding `sglang/`, the `sglang` directory, or a wheel. Nothing is installed.
        allow_unconfined: Scan even where the platform cannot lock the child in: only for a release that is trusted.

    Raises:
        ScanError: It is no release, or the scan failed.
    """
    from drafter_contracts.engines.scan.assemble import assemble
    from drafter_contracts.engines.scan.tree import open_tree

    return assemble(open_tree(path_or_wheel), allow_unconfined=allow_unconfined)


def encode(profile: Profile) -> bytes:
    """A profile as a canonical JSON document: sorted keys, defaults left out, one entry per line at the top."""
    import msgspec

    builtins = msgspec.to_builtins(profile)
    lines = []
    for key in builtins:
        value = builtins[key]
        nested = isinstance(value, (dict, list)) and bool(value)
        lines.append(f'"{key}":{_nested(value) if nested else _compact(value)}')
    return ("{" + ",\n".join(lines) + "}\n").encode()


def _compact(value: object) -> str:
    import msgspec

    return msgspec.json.encode(value, order="deterministic").decode()


def _nested(value: object) -> str:
    """A mapping or list with one line per entry, so that profiles compare line by line."""
    if isinstance(value, dict):
        entries = [f"{_compact(key)}:{_compact(value[key])}" for key in sorted(value)]
        return "{\n" + ",\n".join(entries) + "}"
    if isinstance(value, list):
        return "[\n" + ",\n".join(_compact(entry) for entry in value) + "]"
    return _compact(value)
