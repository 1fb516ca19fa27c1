"""`drafters engine diff`: what an upgrade of the engine does to captures, flags and drafters."""

from __future__ import annotations

import os

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.engines.profile_argument import ENGINE, METHOD, between, check_class, layers, load
from drafter_cli.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNKNOWN, UsageError
from drafter_cli.gate_options import numbers
from drafter_cli.terminal import printable, write, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.compare import Change
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.upgrades.drafters import Fate, Target

COMMANDS = {
    "engine diff": Command(
        name="engine diff",
        summary="what an upgrade does to captures, flags and your drafters",
        description=(
            "Says in words what an upgrade from A to B changes: for everything, for one target class, or for the\n"
            "drafters that you serve. A and B are shipped releases or files written by `drafters engine scan`.\n"
            "Exit code 0; with --fail-on-change 3 if a capture moves or a drafter is served worse, 5 if that is not\n"
            "known."
        ),
        words=("A", "B"),
        options=(
            Option("--architecture", "only what concerns this target class", "CLASS"),
            Option(
                "--drafters", "what the upgrade does to these drafters (config.json is enough)", "DIR...", many=True
            ),
            Option("--ids", "with --architecture: what these ids of a drafter's config mean in between", "LIST"),
            Option("--layers", "decoder layers of the target", "N"),
            METHOD,
            Option("--fail-on-change", "exit with 3 if a capture moves, with 5 if that is not known"),
            JSON,
        ),
        examples=(
            ("drafters engine diff 0.5.12.post1 0.5.23 --drafters ./drafter", "does this upgrade move my capture?"),
            ("drafters engine diff 0.5.12.post1 0.5.23 --architecture KimiK25ForConditionalGeneration", "one class"),
            ("drafters engine diff 0.5.12.post1 0.5.23", "everything"),
        ),
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command's `run` is handed its declaration
    """Compare two releases."""
    before, after = load(parsed.word(0)), load(parsed.word(1))
    architecture = parsed.value("--architecture")
    if architecture:
        check_class((before, after), architecture)
    if parsed.has("--ids") and not architecture:
        raise UsageError("--ids needs --architecture", "ids mean layers of one target class")
    depth = layers("--layers", parsed.value("--layers"))
    fates = _fates(parsed, before, after, depth)
    changes = _changes(parsed, before, after)
    if parsed.has("--json"):
        write_json(_document(parsed, before, after, changes, fates))
    else:
        _print(parsed, before, after, changes, fates)
    return _exit_code(changes, fates) if parsed.has("--fail-on-change") else EXIT_OK


def _changes(parsed: Parsed, before: Profile, after: Profile) -> list[Change]:
    """What changes between the two releases, as far as it was asked for."""
    from drafter_contracts.engines.compare import advisory_changes, diff
    from drafter_contracts.engines.store import advisories_for, load_advisories

    architecture, method = parsed.value("--architecture"), parsed.value("--method")
    known = load_advisories(ENGINE)
    old, new = (advisories_for(known, profile.release) for profile in (before, after))
    changes = (*diff(before, after, architecture), *advisory_changes(old, new, architecture))
    return [change for change in changes if not method or change.method in ("", method)]


def _exit_code(changes: list[Change], fates: list[Fate]) -> int:
    """With drafters their fate decides; without, any target class that captured before."""
    if fates:
        if any(one.moved or one.worsened for one in fates):
            return EXIT_REFUSED
        return EXIT_UNKNOWN if any(one.undecided for one in fates) else EXIT_OK
    return EXIT_REFUSED if any(change.moves for change in changes) else EXIT_OK


# drafters -----------------------------------------------------------------------------------------------------------


def _fates(parsed: Parsed, before: Profile, after: Profile, depth: int | None) -> list[Fate]:
    if not parsed.has("--drafters"):
        return []
    from drafter_contracts.upgrades.drafters import Target

    asked = Target(
        parsed.value("--architecture"),
        depth,
        origin="--architecture" if parsed.has("--architecture") else "",
    )
    steps = between(before, after)
    return [_fate(directory, asked, before, after, steps) for directory in parsed.many("--drafters")]


def _fate(directory: str, asked: Target, before: Profile, after: Profile, steps: tuple[Profile, ...]) -> Fate:
    """One drafter's files, read as the gate reads them, and what becomes of them.

    Raises:
        UsageError: There is no such directory, nor such an id in the cache.
        CheckpointError: They cannot be read.
        ManifestError: There is a manifest that cannot be read.
    """
    from drafter_contracts.checkpoint.read import read_drafter
    from drafter_contracts.hub_cache import find
    from drafter_contracts.upgrades.drafters import fate, target_of

    found = find(directory, "")
    if found is None:
        raise UsageError(
            f"{directory} is neither a directory nor in this machine's Hub cache",
            "--drafters takes directories with a drafter's config.json, or Hub ids",
        )
    manifest = _manifest(found)
    facts = read_drafter(found, target_layers=asked.layers)
    target = target_of(facts, manifest, asked)
    return fate(before, after, facts, target=target, manifest=manifest, between=steps)


def _manifest(directory: str) -> Manifest | None:
    from drafter_contracts import limits, manifest
    from drafter_contracts.checkpoint.regular import read_capped

    path = os.path.join(directory, manifest.FILE_NAME)
    if not os.path.lexists(path):
        return None
    return manifest.decode(read_capped(path, limits.manifest_max_bytes), where=path)


# output -------------------------------------------------------------------------------------------------------------


def _histories(parsed: Parsed, before: Profile, after: Profile) -> list[str]:
    """What the ids of --ids mean from A to B, one sentence per method."""
    if not parsed.has("--ids"):
        return []
    from drafter_cli.engines.history_command import ids_histories
    from drafter_contracts.upgrades.sentence import sentence

    profiles = (before, *between(before, after), after)
    found = ids_histories(
        profiles,
        parsed.value("--architecture"),
        numbers("--ids", parsed.value("--ids")),
        layers("--layers", parsed.value("--layers")),
        parsed.value("--method"),
    )
    return [sentence(history) for history in found]


def _print(parsed: Parsed, before: Profile, after: Profile, changes: list[Change], fates: list[Fate]) -> None:
    write(f"{before.name} -> {after.name}")
    for told in _histories(parsed, before, after):
        write(f"  {printable(told)}")
    if fates:
        from drafter_cli.engines.upgrade_view import lines

        for one in fates:
            write("\n".join(("", *(printable(line) for line in lines(one, before, after)))))
        return
    write(f"  {len(changes) or 'no'} changes")
    for change in changes:
        write(f"  {printable(change.sentence())}")


def _document(
    parsed: Parsed, before: Profile, after: Profile, changes: list[Change], fates: list[Fate]
) -> dict[str, object]:
    document: dict[str, object] = {"from": before.name, "to": after.name}
    histories = _histories(parsed, before, after)
    if histories:
        document["ids"] = histories
    if fates:
        from drafter_cli.engines.upgrade_view import document as drafter_document

        return document | {"drafters": [drafter_document(one) for one in fates]}
    return document | {"changes": [_change(change) for change in changes]}


def _change(change: Change) -> dict[str, object]:
    return {
        "kind": change.kind,
        "method": change.method,
        "names": list(change.names),
        "text": change.text,
        "moves": change.moves,
    }
