"""Plans that were made before: a repeated question costs the look-up of its version and no more.

What is kept follows from immutable things alone: a version's bytes, a release as shipped, and the question. Who may
ask, where aliases point and what is yanked is never part of it. A plan with other rules is made by another process.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import msgspec

from drafter_contracts.launch.plan_records import Plan, Wishes
from drafter_contracts.manifest import Manifest

#: Most plans kept, and the largest of them, bytes of JSON: together at most 64 MB.
ENTRIES = 1024
ENTRY_MAX_BYTES = 64 * 1024


class Key(msgspec.Struct, frozen=True):
    """A question about a version.

    Attributes:
        digest: Of its manifest.
        release: "" for the contract alone.
        target: Name of the target.
        target_config: Digests of the config and of the tokenizer that were sent, or "".
        wishes: Numbers and further options.
        draft_path: Where the drafter's files will lie for the engine, or "".
    """

    digest: str
    release: str
    target: str
    target_config: str
    wishes: Wishes
    draft_path: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What follows: the manifest, and the plan (None without a release)."""

    manifest: Manifest
    plan: Plan | None


class PlanCache:
    """The last answers.

    Args:
        entries: Most that are kept.
    """

    def __init__(self, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._answers: OrderedDict[Key, Answer] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: Key) -> Answer | None:
        """An answer, if it is kept."""
        with self._lock:
            answer = self._answers.get(key)
            if answer is not None:
                self._answers.move_to_end(key)
            return answer

    def put(self, key: Key, answer: Answer) -> None:
        """Keep an answer, if it is not too large."""
        try:
            size = len(msgspec.json.encode((key, answer)))
        except UnicodeEncodeError:  # half of a surrogate pair in a request: rare enough to be answered anew
            return
        if size > ENTRY_MAX_BYTES:
            return
        with self._lock:
            self._answers[key] = answer
            while len(self._answers) > self._entries:
                self._answers.popitem(last=False)
