"""Codes of what a locked start may find, and what each means: for `drafters explain` and docs/lock.md."""

from __future__ import annotations

FILES = "LOCK_FILES"
ENGINE = "LOCK_ENGINE"
TARGET = "LOCK_TARGET"
OPTION = "LOCK_OPTION"
VERDICT = "LOCK_VERDICT"
TOOL = "LOCK_TOOL"

#: Code to (what is compared, what goes wrong without it).
CODES: dict[str, tuple[str, str]] = {
    FILES: (
        "the drafter's files are those that were locked, and no other lies beside them that an engine reads",
        "another training of the same shape, or a config edited in place, loads without a word and was never judged",
    ),
    ENGINE: (
        "the engine is the locked release as published, or has the very files that were locked",
        "an upgrade of the engine's environment can change what the same flags capture",
    ),
    TARGET: (
        "the target's config.json and tokenizer are those that were locked",
        "a target replaced under the same path has other layers, or other tokens, than the drafter was judged with",
    ),
    OPTION: (
        "every locked option is in effect in the launch, and no other option of speculation is",
        "a flag lost on the way (an empty variable) leaves an engine that starts, and does not speculate as locked",
    ),
    VERDICT: (
        "every rule, asked again now, says nothing worse than when the launch was locked",
        "what this machine or newer rules know of the launch was not known to whoever reviewed the lock",
    ),
    TOOL: (
        "the lock was written by this version of drafters",
        "rules change between versions: what one let pass another may refuse (the launch is judged again in any case)",
    ),
}
