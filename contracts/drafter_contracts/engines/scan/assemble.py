"""Put the parts of a profile together: targets, readings, drafters, launch, and the hashes of the files used."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.profile import SCHEMA, Profile
from drafter_contracts.engines.scan import buffers, drafters, inherited, launch, readings, targets
from drafter_contracts.engines.scan.encoding import encode
from drafter_contracts.errors import ContractsError, ScanError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from drafter_contracts.engines.profile import IdReading
    from drafter_contracts.engines.scan.tree import SourceTree

    Part = TypeVar("Part")

ENGINE = "sglang"
_DIGITS = 16


def assemble(tree: SourceTree, *, allow_unconfined: bool = False) -> Profile:
    """Run every part of the scan on a release.

    Args:
        tree: The release.
        allow_unconfined: See `sandbox.run_probe`.

    Raises:
        ScanError: A part failed.
    """
    drafting, used = _part(drafters.derive, tree, allow_unconfined=allow_unconfined)
    captured, files = _part(targets.derive, tree, drafting.drafters, allow_unconfined=allow_unconfined)
    used |= files
    read, files = _part(readings.derive, tree, allow_unconfined=allow_unconfined)
    used |= files
    launched, files = _part(launch.derive, tree, allow_unconfined=allow_unconfined)
    used |= files
    widths, files = _part(buffers.derive, tree, allow_unconfined=allow_unconfined)
    used |= files
    passed_on, files = _part(inherited.derive, tree, allow_unconfined=allow_unconfined)
    used |= files
    rules = msgspec.structs.replace(
        launched,
        overrides=read.overrides,
        **{name: getattr(passed_on, name) for name in passed_on.__struct_fields__},
    )
    profile = Profile(
        schema=SCHEMA,
        engine=ENGINE,
        release=tree.release,
        sources={file: tree.sha256(file)[:_DIGITS] for file in sorted(used) if file in tree},
        readings=read.readings,
        graphs=read.graphs,
        rules=captured.rules,
        targets=with_fallback_hooks(captured.targets, read.readings),
        drafters=drafting.drafters,
        buffers=widths,
        rewrites=drafting.rewrites,
        launch=rules,
    )
    try:
        encode(profile)
    except (ContractsError, msgspec.MsgspecError, ValueError, OverflowError, TypeError) as error:
        raise ScanError(
            "no profile can hold what the scan found", where=tree.origin, actual=str(error)[:2000]
        ) from error
    return profile


def _part(
    derive: Callable[..., tuple[Part, set[str]]], tree: SourceTree, *more: object, allow_unconfined: bool
) -> tuple[Part, set[str]]:
    """One part of the scan.

    What a child answers is the word of code that somebody else chose. Whatever shape it has, it can make the scan fail
    and no more.

    Raises:
        ScanError: The part failed, or what the child says cannot be read as an answer.
    """
    try:
        return derive(tree, *more, allow_unconfined=allow_unconfined)
    except ScanError:
        raise
    except Exception as error:
        raise ScanError(
            "the scan's answer cannot be read",
            where=f"{tree.origin}: {derive.__module__.rpartition('.')[2]}",
            actual=f"{type(error).__name__}: {error}"[:2000],
        ) from error


def with_fallback_hooks(found: dict[str, dict[str, int]], reading: dict[str, IdReading]) -> dict[str, dict[str, int]]:
    """Give a method the rule of another method's setter where the release falls back to that setter.

    A class without a setter of its own for a method captures through the next of the release's preferred setters
    (`IdReading.hooks`): DSPARK through DFLASH's.
    """
    result = {name: dict(methods) for name, methods in found.items()}
    for method, hooks in ((method, entry.hooks) for method, entry in reading.items()):
        for methods in result.values():
            for hook in hooks:
                owner = next((m for m, setter in SETTER_NAMES.items() if setter == hook), "")
                if method not in methods and owner in methods:
                    methods[method] = methods[owner]
    return {name: dict(sorted(methods.items())) for name, methods in result.items()}


#: Method to the name of its own setter (the same table as the probe's, which runs without this module).
SETTER_NAMES = {
    "EAGLE3": "set_eagle3_layers_to_capture",
    "DFLASH": "set_dflash_layers_to_capture",
    "DSPARK": "set_dspark_layers_to_capture",
}
