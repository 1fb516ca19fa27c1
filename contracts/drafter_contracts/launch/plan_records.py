"""What a plan is asked and what it answers."""

from __future__ import annotations

import msgspec

from drafter_contracts.rendering.records import UNCHANGED, WeightChange
from drafter_contracts.verdict import ALLOW, UNKNOWN, WARN, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Stands in the flags for the drafter's directory where the caller does not say one.
PATH_PLACEHOLDER = "{drafter}"
#: What is tried first where a drafter's config is not right for a release: its flags, or a render.
FLAGS, RENDER = PREFERENCES = ("flags", "render")


def placed(flags: Sequence[str], path: str, *, instead_of: str = PATH_PLACEHOLDER) -> tuple[str, ...]:
    """Flags with the drafter's directory where another text stands: alone, or as a value in a JSON object."""
    return tuple(_placed(flag, path, instead_of) for flag in flags)


def _placed(flag: str, path: str, instead_of: str) -> str:
    if flag == instead_of:
        return path
    if not flag.startswith("{") or not flag.endswith("}"):
        return flag
    try:
        document = msgspec.json.decode(flag, type=dict[str, object])
    except msgspec.MsgspecError:  # another's option, that only looks like one
        return flag
    found = {key: path if value == instead_of else value for key, value in document.items()}
    return flag if found == document else msgspec.json.encode(found).decode()


class Wishes(msgspec.Struct, frozen=True):
    """What the caller wants of a launch. None or empty: nothing, the drafter's recommendation counts.

    Attributes:
        steps: `--speculative-num-steps`.
        topk: `--speculative-eagle-topk`.
        draft_tokens: `--speculative-num-draft-tokens`, the root included.
        extra: More options of the launch, judged together with the flags. Numbers among them count like these; what
            contradicts the contract is refused.
        prefer: One of `PREFERENCES`.
    """

    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    extra: tuple[str, ...] = ()
    prefer: str = FLAGS


class Plan(msgspec.Struct, frozen=True):
    """A drafter's launch on one release: only with `resolved` may its flags be used.

    Attributes:
        engine: "sglang 0.5.23".
        verdict: What the check says of exactly these flags and this config.
        flags: Arguments for that release, in order, unquoted. Later than the caller's own: the last of repeated
            options counts. Empty where nothing can be said in flags.
        config: The drafter's config.json as this release must see it; None if its own is right.
        config_changes: What was changed in it, one sentence each with its reason.
        weights: What must be changed of the weights.
        missing: Options that this release insists on, and that neither caller nor drafter states.
        notices: What was taken on word, derived, or left to the release; one sentence each.
    """

    engine: str
    verdict: Verdict
    flags: tuple[str, ...] = ()
    config: dict[str, object] | None = None
    config_changes: tuple[str, ...] = ()
    weights: WeightChange = UNCHANGED
    missing: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def resolved(self) -> bool:
        """Whether the check lets these flags pass."""
        return self.verdict.decision in {ALLOW, WARN}

    @property
    def rendered(self) -> bool:
        """Whether the release must see other files than the drafter's own."""
        return self.config is not None or self.weights.any

    @property
    def open(self) -> bool:
        """Whether it is not known if the release serves the drafter."""
        return self.verdict.decision == UNKNOWN

    def why_not(self, name: str) -> tuple[str, str]:
        """Why there are no flags, in one sentence, and the one thing to do next.

        Args:
            name: The drafter, "kimi-eagle3@1.0.0".
        """
        first = self.verdict.findings[0] if self.verdict.findings else None
        told = first.message if first is not None else "nothing could be checked"
        word = "it is not known whether" if self.open else "there are no flags with which"
        hint = first.remedy if first is not None else ""
        if self.missing:
            hint = f"nothing recommends {', '.join(self.missing)}, and {self.engine} needs them: say which"
        return f"{word} {self.engine} serves {name}: {told}", hint
