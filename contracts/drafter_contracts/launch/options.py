"""Options as one release spells them, and a whole launch read back by that release's own reader."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import flag_dest
from drafter_contracts.errors import LaunchError
from drafter_contracts.launch.numbers import DESTS
from drafter_contracts.serving.adjust import with_target
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.read import OVERRIDES, read_serving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.launch.numbers import Numbers
    from drafter_contracts.manifest_records import Provenance
    from drafter_contracts.serving.launch import ServingConfig, TargetFacts

ALGORITHM = "speculative_algorithm"
DRAFT_PATH = "speculative_draft_model_path"
REVISION = "speculative_draft_model_revision"
TARGET = "model_path"
_HUB = "hf://"
#: What stands for the target where nobody names it: the option is required.
NO_NAME = "TARGET"


def spelled(profile: Profile, dest: str) -> str:
    """The option of a release that sets a dest, by its first long name; argparse's own spelling if there is none."""
    for flag in profile.launch.flags:
        if flag_dest(flag) == dest:
            return next((name for name in flag.names if name.startswith("--")), flag.names[0])
    return "--" + dest.replace("_", "-")


def knows(profile: Profile, dest: str) -> bool:
    """Whether a release has an option that sets a dest."""
    return any(flag_dest(flag) == dest for flag in profile.launch.flags)


def speculative_flags(
    profile: Profile, algorithm: str, draft_path: str, numbers: Numbers, revision: str = ""
) -> tuple[str, ...]:
    """The arguments of a drafter, in order.

    Args:
        profile: The release.
        algorithm: Its name for the drafter's method.
        draft_path: Where the files will lie for the engine.
        numbers: Steps, branches and draft tokens.
        revision: Commit to load, for a path that is a repository of the Hub.

    Raises:
        LaunchError: The path would be read as an option.
    """
    if draft_path.startswith("-"):
        raise LaunchError(
            "the release would read this path as an option",
            where="draft path",
            expected="a path that does not begin with -",
            actual=draft_path,
        )
    flags = [spelled(profile, ALGORITHM), algorithm, spelled(profile, DRAFT_PATH), draft_path]
    if revision:
        flags += [spelled(profile, REVISION), revision]
    for name, dest in DESTS.items():
        value = getattr(numbers, name)
        if value is not None:
            flags += [spelled(profile, dest), str(value)]
    return tuple(flags)


def draft_revision(profile: Profile, provenance: Provenance, draft_path: str) -> tuple[str, str]:
    """The commit to load a drafter at, and a notice where the release cannot be told; both may be "".

    Only of a path that is the Hub's repository the files were taken from: a directory has no revisions, and which
    commit of another repository holds the files is not recorded.

    Args:
        profile: The release.
        provenance: Where the drafter's files come from.
        draft_path: Where the engine is to find them.
    """
    if not provenance.revision or provenance.source != f"{_HUB}{draft_path}":
        return "", ""
    if knows(profile, REVISION):
        return provenance.revision, ""
    return "", (
        f"{profile.name} has no option for the revision of a drafter: it loads {draft_path} at the target's --revision,"
        f" else as it is on the Hub then; the files recorded are those of {provenance.revision}"
    )


def override_flags(profile: Profile, document: dict[str, object]) -> tuple[str, ...]:
    """The option with which a release takes overrides of the configs."""
    return spelled(profile, OVERRIDES), msgspec.json.encode(document).decode()


def split(profile: Profile, arguments: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Arguments by the dest that each option sets, in order; of repeated options the last."""
    dests = {name: flag_dest(flag) for flag in profile.launch.flags for name in flag.names}
    found: dict[str, tuple[str, ...]] = {}
    dest = ""
    for word in arguments:
        if word.startswith("--"):
            dest = dests.get(word, word)
            found[dest] = (word,)
        else:
            found[dest] = (*found[dest], word)
    return found


def joined(profile: Profile, arguments: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Arguments with more of them: an option that is there takes its new value, where it stands."""
    together = {**split(profile, arguments), **split(profile, more)}
    return tuple(word for words in together.values() for word in words)


def read_launch(profile: Profile, arguments: Sequence[str], target: str) -> ServingConfig:
    """A launch of a target with these arguments, as the release reads it."""
    model = f"{spelled(profile, 'model_path')}={target or NO_NAME}"
    argv = ("python", "-m", "sglang.launch_server", model, *arguments)
    return read_serving(read_invocation(argv, isolated=True), profile)


def effective(
    serving: ServingConfig, profile: Profile, target: TargetFacts | None, drafter: DrafterFacts | None
) -> ServingConfig:
    """A launch with what the release changes silently for this target and drafter."""
    return with_target(
        serving,
        profile,
        target=target,
        draft_architecture=drafter.architectures[0] if drafter is not None and drafter.architectures else "",
        draft_config=drafter.config if drafter is not None else None,
    )
