"""Make a launch effective: speculation and CUDA graphs as the release would have them for this target and drafter."""

from __future__ import annotations

import msgspec

from drafter_contracts.serving.conditions import holds
from drafter_contracts.serving.launch import ServingConfig, Speculation, TargetFacts
from drafter_contracts.serving.speculation import Request, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.launch_rules import GraphSwitch
    from drafter_contracts.engines.profile import Profile


def _speculation(
    serving: ServingConfig,
    profile: Profile,
    architecture: str,
    draft_architecture: str,
    draft_config: dict[str, object] | None,
) -> Speculation:
    stated = serving.speculation
    if not stated.stated_algorithm:
        return stated
    resolved = resolve(
        profile.launch.speculative,
        Request(
            algorithm=stated.stated_algorithm,
            triple=stated.stated,
            draft_path=stated.stated_draft_path,
            draft_revision=stated.draft_revision,
            target_path=serving.target_path,
            target_revision=serving.target_revision,
            architecture=architecture,
            draft_architecture=draft_architecture,
            draft_config=draft_config,
            values=serving.arguments.values,
        ),
    )
    unknowable = resolved.failure or resolved.unknown
    return msgspec.structs.replace(
        stated,
        algorithm=resolved.algorithm,
        known=resolved.known,
        draft_path=resolved.draft_path,
        draft_revision=resolved.draft_revision,
        effective=(None, None, None) if unknowable else resolved.triple,
        adjustments=tuple(resolved.adjustments),
        failure=resolved.failure,
        failure_source=resolved.failure_source,
        unknown=resolved.unknown,
    )


def graph_switch(serving: ServingConfig, profile: Profile) -> tuple[GraphSwitch | None, tuple[str, ...]]:
    """What decides whether CUDA graphs are on, None where nothing does, and the dests of the options it looks at."""
    for switch in profile.launch.graphs:
        if holds(switch.when, serving.arguments.values):
            return switch, tuple(test.split("=")[0].split(".")[0].strip() for test in switch.when.split(" & "))
    return None, ()


def cuda_graphs(serving: ServingConfig, profile: Profile) -> tuple[bool, str]:
    """Whether CUDA graphs stay on for decode and verify steps, and which option decides that ("" for none)."""
    switch, dests = graph_switch(serving, profile)
    if switch is None:
        return True, ""
    shown = [serving.arguments.spelled.get(dest, "--" + dest.replace("_", "-")) for dest in dests]
    why = f"{' and '.join(shown)} ({switch.when})"
    return switch.on, f"{why} at {switch.source}" if switch.source else why


def with_target(
    serving: ServingConfig,
    profile: Profile,
    *,
    target: TargetFacts | None,
    draft_architecture: str = "",
    draft_config: dict[str, object] | None = None,
) -> ServingConfig:
    """A launch with everything that the release changes silently.

    Args:
        serving: From `read.read_serving`.
        profile: The release.
        target: The target's facts, or None if its config cannot be read; what depends on it is then `unknown`.
        draft_architecture: Class of the drafter, if known.
        draft_config: The drafter's config as the engine sees it, if it can be read.

    Returns:
        `speculation` with algorithm, draft path, triple and adjustments (or `failure`, or `unknown`), and
        `cuda_graphs` with the option that decides.
    """
    architecture = target.architecture if target is not None else ""
    speculation = _speculation(serving, profile, architecture, draft_architecture, draft_config)
    on, reason = cuda_graphs(serving, profile)
    return msgspec.structs.replace(serving, speculation=speculation, cuda_graphs=on, graphs_reason=reason)
