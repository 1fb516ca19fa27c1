"""The operator's own options of a launch: they count before what is recommended, and after what the contract needs."""

from __future__ import annotations

import msgspec

from drafter_contracts.errors import LaunchError
from drafter_contracts.launch import numbers, options
from drafter_contracts.launch.plan_records import Wishes
from drafter_contracts.serving.launch import ServingConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile


class Operator(msgspec.Struct, frozen=True):
    """What the operator states.

    Attributes:
        wishes: The wishes, with the numbers that the options state.
        serving: A launch of the options alone, as the release reads it.
    """

    wishes: Wishes
    serving: ServingConfig

    @property
    def extra(self) -> tuple[str, ...]:
        """The options, as written."""
        return self.wishes.extra

    @property
    def overrides(self) -> dict[str, object]:
        """Their overrides of the configs."""
        return self.serving.overrides

    def given(self, dest: str) -> bool:
        """Whether an option states this."""
        return dest in self.serving.arguments.given

    def states(self, dest: str) -> bool:
        """Whether an option or a wish states this."""
        wished = next((name for name, number in numbers.DESTS.items() if number == dest), "")
        return self.given(dest) or (bool(wished) and getattr(self.wishes, wished) is not None)

    def value(self, dest: str) -> str:
        """The value of an option, as text."""
        return str(self.serving.value(dest))

    def spelled(self, dest: str) -> str:
        """The option, as written."""
        return self.serving.arguments.spelled.get(dest, "")


def read(profile: Profile, wishes: Wishes, target: str) -> Operator:
    """What the operator states, as a release reads it.

    Args:
        profile: The release.
        wishes: The operator's wishes.
        target: What the launch calls the target.

    Raises:
        LaunchError: The options hold the end of options, or a number that is no number or not the wished one.
    """
    if "--" in wishes.extra:
        raise LaunchError(
            "the end of options among options", where="extra options", expected="options of the launch", actual="--"
        )
    serving = options.read_launch(profile, wishes.extra, target)
    return Operator(numbers.with_options(wishes, serving.arguments), serving)
