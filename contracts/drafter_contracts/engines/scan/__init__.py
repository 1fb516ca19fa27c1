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
    """A profile as a canonical JSON document (see `encoding`)."""
    from drafter_contracts.engines.scan.encoding import encode as encode_profile

    return encode_profile(profile)
