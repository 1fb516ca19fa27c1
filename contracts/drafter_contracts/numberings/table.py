"""The table of numberings. What the columns mean is in `numbering`; `docs/numberings.md` shows it."""

from __future__ import annotations

from drafter_contracts.numberings.readers import READERS
from drafter_contracts.numberings.trainers import TRAINERS

#: Name to numbering, in the order of the documentation.
NUMBERINGS = {row.name: row for row in (*READERS, *TRAINERS)}
