"""Whether a stored manifest is what would be recorded today, but for what is read off the same files only today."""

from __future__ import annotations

import msgspec

from drafter_contracts.manifest import Manifest
from drafter_contracts.recording.build import Recorded

#: Reasons in words: another release of this program may put the same reason in other words.
_WORDS = frozenset({"layout.evidence"})


def recorded_before(stored: Manifest, recorded: Recorded) -> bool:
    """Whether publishing `recorded` would say nothing that `stored` does not, or that can be read off the files.

    A release of this program that reads more off a drafter records more. Publishing the same files with the same words
    is still the same publication: the version that is stored stays as it is.

    Args:
        stored: The manifest of the version that is there.
        recorded: What was recorded of the files now.

    Returns:
        True if every field that the stored one records is the same today, and every other field of today's was read,
        not stated by anybody.
    """
    if recorded.manifest is None:
        return False
    before, after = _leaves(stored), _leaves(recorded.manifest)
    read = {line.fact for line in recorded.read}
    same = all(after.get(field) == value for field, value in before.items())
    return same and all(field in before or field in read for field in after)


def _leaves(manifest: Manifest) -> dict[str, object]:
    """Dotted field to value; lists, and objects that are one value (RoPE scaling), are values."""
    found: dict[str, object] = {}
    for part, value in msgspec.to_builtins(manifest).items():
        if not isinstance(value, dict):
            found[part] = value
            continue
        found.update({f"{part}.{field}": inner for field, inner in value.items()})
    return {field: value for field, value in found.items() if field not in _WORDS}
