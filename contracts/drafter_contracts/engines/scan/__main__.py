"""Derive shipped profiles again: `python -m drafter_contracts.engines.scan DIRECTORY RELEASE_OR_WHEEL...`.

Writes DIRECTORY/<release>.json for each. `drafters engine scan` does the same for one release.
"""

from __future__ import annotations

import os
import sys

from drafter_contracts.engines.scan import encode, scan
from drafter_contracts.errors import ScanError


def main(arguments: list[str]) -> int:
    """Scan every release that is named; 2 for wrong use, 1 if one fails."""
    if len(arguments) < 2 or not os.path.isdir(arguments[0]):
        sys.stderr.write("usage: python -m drafter_contracts.engines.scan DIRECTORY RELEASE_OR_WHEEL...\n")
        return 2
    for path in arguments[1:]:
        try:
            profile = scan(path)
        except ScanError as error:
            sys.stderr.write(f"{path}: {error.diagnostics()}\n")
            return 1
        target = os.path.join(arguments[0], f"{os.path.basename(profile.release)}.json")
        with open(target + ".part", "wb") as file:
            file.write(encode(profile))
        os.replace(target + ".part", target)
        sys.stdout.write(f"{target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
