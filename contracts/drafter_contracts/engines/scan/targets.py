"""Target classes: what each captures for each method, by experiment (`probes.targets`) and fit (`fit`)."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.profile import CaptureMethod
from drafter_contracts.engines.scan.fit import Study, fit, place
from drafter_contracts.engines.scan.sandbox import run_probe
from drafter_contracts.errors import ScanError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from drafter_contracts.engines.scan.tree import SourceTree


class Subject(msgspec.Struct, forbid_unknown_fields=True):
    """The probe's answer on one registered class."""

    file: str
    methods: dict[str, Study]


class Targets(msgspec.Struct, frozen=True):
    """The target part of a profile.

    Attributes:
        rules: Distinct rules, in the order in which they are first used.
        targets: Architecture to method to index into `rules`.
    """

    rules: tuple[CaptureMethod, ...]
    targets: dict[str, dict[str, int]]


def derive(
    tree: SourceTree, drafters: Iterable[str] = (), *, allow_unconfined: bool = False
) -> tuple[Targets, set[str]]:
    """Study every registered class of a release that can be a target.

    Args:
        tree: The release.
        drafters: Classes that are drafters. Some inherit a target's setter, which nothing ever calls on them: they
            are listed without any method.
        allow_unconfined: See `sandbox.run_probe`.

    Returns:
        The targets, and the files of which something was executed.

    Raises:
        ScanError: The scan failed, or a file of `models/` cannot tell which classes it registers.
    """
    answer = run_probe("targets", tree.sources(), {"drafters": sorted(drafters)}, allow_unconfined=allow_unconfined)
    try:
        subjects = msgspec.convert(answer["architectures"], dict[str, Subject])
        failed = msgspec.convert(answer["failed"], dict[str, str])
        files = msgspec.convert(answer["files"], list[str])
    except (KeyError, msgspec.ValidationError) as error:
        raise ScanError("the target probe's answer is malformed", where=tree.origin, actual=str(error)) from None
    if failed:
        file, reason = min(failed.items())
        raise ScanError("EntryClass cannot be resolved", where=f"{tree.origin}: {file}", actual=reason)
    return assemble(subjects), set(files)


def assemble(subjects: dict[str, Subject]) -> Targets:
    """Fit every study, equal ones once, and share equal rules."""
    fitted: dict[bytes, CaptureMethod] = {}
    index: dict[bytes, int] = {}
    rules: list[CaptureMethod] = []
    targets: dict[str, dict[str, int]] = {}
    for name in sorted(subjects):
        targets[name] = {}
        for method, study in sorted(subjects[name].methods.items()):
            seen = msgspec.json.encode(msgspec.structs.replace(study, setter={}, forward={}))
            if seen not in fitted:
                fitted[seen] = fit(study)
            rule = msgspec.structs.replace(fitted[seen], source=place(study.setter), forward=place(study.forward))
            key = msgspec.json.encode(rule)
            if key not in index:
                index[key] = len(rules)
                rules.append(rule)
            targets[name][method] = index[key]
    return Targets(tuple(rules), targets)
