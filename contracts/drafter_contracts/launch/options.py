"""Options as one release spells them, and a whole launch read back by that release's own reader."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.launch_rules import flag_dest
from drafter_contracts.errors import LaunchError
from drafter_contracts.launch.numbers import DESTS
from drafter_contracts.serving.adjust import with_target
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.parse import parse_arguments
from drafter_contracts.serving.read import OVERRIDES, read_serving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.launch.numbers import Numbers
    from drafter_contracts.serving.launch import ServingConfig, TargetFacts

ALGORITHM = "speculative_algorithm"
DRAFT_PATH = "speculative_draft_model_path"
#: What stands for the target where nobody names it: the option is required.
NO_NAME = "TARGET"


def spelled(profile: Profile, dest: str) -> str:
    """The option of a release that sets a dest, by its first long name; argparse's own spelling if there is none."""
    for flag in profile.launch.flags:
        if flag_dest(flag) == dest:
            return next((name for name in flag.names if name.startswith("--")), flag.names[0])
    return "--" + dest.replace("_", "-")


def speculative_flags(profile: Profile, algorithm: str, draft_path: str, numbers: Numbers) -> tuple[str, ...]:
    """The arguments of a drafter, in order.

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
    for name, dest in DESTS.items():
        value = getattr(numbers, name)
        if value is not None:
            flags += [spelled(profile, dest), str(value)]
    return tuple(flags)


def override_flags(profile: Profile, document: dict[str, object]) -> tuple[str, ...]:
    """The option with which a release takes overrides of the configs."""
    return spelled(profile, OVERRIDES), msgspec.json.encode(document).decode()


def check_extra(profile: Profile, extra: Sequence[str]) -> None:
    """Whether the caller's own options leave the drafter's to the plan.

    Raises:
        LaunchError: They state one of them, or hold the end of options.
    """
    given = parse_arguments(profile.launch.flags, extra).given
    planned = [dest for dest in (ALGORITHM, DRAFT_PATH, *DESTS.values()) if dest in given]
    if planned or "--" in extra:
        names = ", ".join(spelled(profile, dest) for dest in planned) or "--"
        raise LaunchError(
            "options that the answer itself is made of",
            where="extra options",
            expected="other options of the launch; the numbers have wishes of their own",
            actual=names,
        )


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
