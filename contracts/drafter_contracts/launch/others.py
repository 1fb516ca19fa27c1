"""What the other shipped releases do with a drafter and target: read only if a remedy asks for it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.elsewhere import Elsewhere
    from drafter_contracts.situation import Situation


def others(s: Situation, engine: str, release: str) -> Elsewhere:
    """The other releases of an engine, for `Situation.elsewhere`.

    Args:
        s: Drafter, target and launch.
        engine: "sglang".
        release: The one that is left out.
    """
    from drafter_contracts.engines.elsewhere import Asked, Elsewhere
    from drafter_contracts.engines.store import elsewhere

    asked = Asked(
        s.target.architecture if s.target is not None else "",
        s.method,
        s.drafter.architectures if s.drafter is not None else (),
        algorithms=s.serving.speculation.known is False,
    )
    return Elsewhere(lambda: elsewhere(engine, release, asked))
