"""What a release does with a launch command: its own parser, adjusters and mergers, run and recorded."""

from __future__ import annotations

from functools import partial

from drafter_contracts.engines.scan.probes import launch_config, launch_flags, launch_resolve
from drafter_contracts.engines.scan.probes.launch_setup import outcome, prepare, quieten, unseal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.scan.lazy import LazyRelease

TASKS = {
    "flags": launch_flags.explore,
    "config": launch_config.explore,
    "serve": launch_config.explore_serve,
    "plugins": launch_config.explore_plugins,
    "algorithms": launch_resolve.algorithms,
    "handler": launch_resolve.handler_place,
}


def probe(release: LazyRelease, payload: dict[str, object]) -> dict[str, object]:
    """Run the tasks named in `payload["tasks"]`.

    Returns:
        Task to ["value", its answer] or ["error", exception's name, its text]. With `payload["cases"]`, "cases" is
        one answer per case (`launch_resolve`).
    """
    quieten()
    prepare(release)
    unseal(release)
    wanted = payload["tasks"]
    answers: dict[str, object] = {}
    for name, task in TASKS.items():
        if name in wanted:  # type: ignore[operator]
            answers[name] = outcome(partial(task, release))
    if cases := payload.get("cases"):
        answers["cases"] = launch_resolve.explore(release, cases)  # type: ignore[arg-type]
    return answers
