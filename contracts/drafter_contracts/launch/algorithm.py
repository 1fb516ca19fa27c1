"""The release's own name for a drafter's method."""

from __future__ import annotations

from drafter_contracts.checkpoint.facts import UNKNOWN_METHOD
from drafter_contracts.rules.draft_class import SERVES
from drafter_contracts.verdict import REFUSE, UNKNOWN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.manifest import Manifest


def method_of(manifest: Manifest, facts: DrafterFacts) -> str:
    """The drafter's method: the manifest's word, else what its files say."""
    return manifest.method if manifest.method not in {"", UNKNOWN_METHOD} else facts.method


def algorithm_for(profile: Profile, method: str) -> tuple[str, bool]:
    """The value of --speculative-algorithm for a method, and whether the release knows it; "" if no engine does.

    An algorithm named for the method comes first ("EAGLE", "NEXTN"), then one that serves it among others.
    """
    fitting = sorted((name for name, kinds in SERVES.items() if method in kinds), key=lambda name: name != method)
    known = profile.launch.speculative.algorithms
    for name in fitting:
        if name in known:
            return name, True
    return (fitting[0], False) if fitting else ("", False)


def no_algorithm(profile: Profile, method: str, name: str, evidence: str) -> Finding:
    """Why there is nothing to launch a drafter as."""
    told = method not in {"", UNKNOWN_METHOD}
    return Finding(
        "METHOD_MISMATCH",
        REFUSE if told else UNKNOWN,
        f"{profile.name} has no speculative algorithm that serves a drafter for {method}, which {name} is"
        if told
        else f"it cannot be told what kind of drafter {name} is, and so not what {profile.name} would launch it as",
        expected=f"a drafter for one of {', '.join(SERVES)}",
        actual=method or "not known",
        source=evidence,
        remedy="Serve it with an engine that has this method." if told else "Publish it with its method stated.",
    )
