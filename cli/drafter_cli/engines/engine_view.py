"""An engine profile as text: how ids are read, what each target class captures, and the drafter classes."""

from __future__ import annotations

from drafter_cli.terminal import printable
from drafter_contracts.engines.profile import FITTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import CaptureMethod, Profile, Region


def render(profile: Profile, architecture: str = "") -> str:
    """The whole profile, or what concerns one target class."""
    lines = [f"{profile.name}  (derived from {len(profile.sources)} files of the release)"]
    lines += ["", "capture ids in the drafter's config:"]
    lines += [f"  {line}" for method in profile.readings for line in _reading_lines(profile, method)]
    lines += ["", "target classes:"]
    lines += _target_lines(profile, architecture)
    if not architecture:
        lines += ["", "drafter classes:"]
        width = max((len(name) for name in profile.drafters), default=0)
        for name, drafter in sorted(profile.drafters.items()):
            state = "" if drafter.status == FITTED else f"  {drafter.status}: {drafter.reason}"
            lines.append(f"  {name:<{width}}  {drafter.kind}{state}")
    return "\n".join(printable(line) for line in lines)


def target_document(profile: Profile, architecture: str) -> dict[str, object]:
    """What concerns one target class, for `--json`: method to its rule."""
    methods = profile.targets[architecture]
    return {
        "engine": profile.engine,
        "release": profile.release,
        "target": architecture,
        "methods": {method: profile.rules[index] for method, index in methods.items()},
    }


def _reading_lines(profile: Profile, method: str) -> list[str]:
    reading = profile.readings[method]
    keys = ", then ".join(reading.keys) if reading.keys else "no key: the config's ids are ignored"
    missing = {"default": "the target class's default", "formula": "spread evenly"}.get(reading.missing, reading.error)
    line = f"{method}: {keys}; without: {missing}"
    graphs = profile.graphs.get(method)
    if graphs is not None and graphs.ids != "same":
        return [
            line,
            f"{' ' * len(method)}  CUDA-graph replay captures the {graphs.ids} layers, whatever the config says",
        ]
    return [line]


def _target_lines(profile: Profile, architecture: str) -> list[str]:
    """Target classes grouped by what they do: many share one rule."""
    groups: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for name, methods in sorted(profile.targets.items()):
        shown = name not in profile.drafters if not architecture else name == architecture
        if shown:
            groups.setdefault(tuple(sorted(methods.items())), []).append(name)
    lines = []
    for rules, names in sorted(groups.items(), key=lambda item: item[1]):
        if not rules and not architecture:
            continue
        lines.append(f"  {', '.join(names)}")
        if architecture in profile.drafters:
            lines.append("    a drafter class of this release, not a target")
            continue
        lines += [f"    {method}: {describe_rule(profile.rules[index])}" for method, index in rules]
        if not rules:
            lines.append("    no capture hook: no drafter that reads aux hidden states can be served")
    hookless = sum(1 for name, methods in profile.targets.items() if not methods and name not in profile.drafters)
    if hookless and not architecture:
        lines.append(f"  and {hookless} classes without any capture hook")
    return lines


def describe_rule(rule: CaptureMethod) -> str:
    """One capture rule as a sentence, with the place in the release."""
    place = f"  [{rule.source.text()}]" if rule.source else ""
    if rule.status != FITTED:
        return f"{rule.status}: {rule.reason}{place}"
    parts = []
    for shift in rule.shifts:
        what = f"boundary = id {shift.add:+d}" if shift.add else "boundary = id"
        parts.append(what if shift.when == "always" else f"{what} if {shift.when}")
    default = f"default boundaries {', '.join(rule.default)}" if rule.default is not None else "ids are required"
    parts.append(default)
    parts += [f"{guard.error} if {guard.when}" for guard in rule.guards]
    capture = rule.capture
    regions = (("b<0", capture.negative), ("b=0", capture.zero), ("b=N", capture.last), ("b>N", capture.above))
    parts += [f"{name}: {_region(region)}" for name, region in regions if region.action != "capture"]
    parts.append(f"order {capture.order}")
    if capture.short:
        parts.append(f"{capture.short} if fewer states arrive than were asked for")
    if capture.state != "residual":
        parts.append(f"captures {capture.state}")
    return "; ".join(parts) + place


def _region(region: Region) -> str:
    return f"{region.error} ({region.phase})" if region.action == "error" else region.action
