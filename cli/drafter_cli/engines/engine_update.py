"""`drafters engine update`: profiles of releases that are not shipped, derived and kept on this machine."""

from __future__ import annotations

import os

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.gate_options import release as read_release
from drafter_cli.terminal import printable, write, write_json

ENGINE = "sglang"

COMMANDS = {
    "engine update": Command(
        name="engine update",
        summary="add the profile of a release that is not shipped",
        description=(
            "Fetches the wheel of a release with your pip, or takes it from a path, derives its profile as\n"
            "`drafters engine scan` does, and keeps that where check, guard and the other commands find it.\n"
            "Nothing is installed.\n"
            "Without RELEASE: every stable release that is newer than the newest one known."
        ),
        words=("[RELEASE]",),
        options=(
            Option("--from", "a wheel or an unpacked release, instead of the package index", "PATH"),
            JSON,
        ),
        examples=(
            ("drafters engine update", "what has come out since"),
            ("drafters engine update 0.5.24", "this release"),
            ("drafters engine update --from sglang-0.5.24-py3-none-any.whl", "without the package index"),
        ),
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Add what is asked for, and say what was added."""
    _folder()
    asked = read_release(parsed.word(0)) if parsed.word(0) else ""
    if parsed.has("--from"):
        added = [_from_path(parsed.value("--from"), asked)]
        _report(added, parsed, nothing="")
    elif asked:
        where = _where(asked)
        added = [] if where else [_from_index(asked)]
        _report(added, parsed, nothing=f"{ENGINE}=={asked} is {where} already")
    else:
        _update_all(parsed)
    return EXIT_OK


def _update_all(parsed: Parsed) -> None:
    from drafter_cli.engines.package_index import stable_releases
    from drafter_contracts.engines.store import releases
    from drafter_contracts.engines.versions import version_key

    newest = releases(ENGINE)[-1]
    newer = [one for one in stable_releases() if version_key(one) > version_key(newest)]
    added = [_from_index(one) for one in newer if not _where(one)]
    known = newer[-1] if newer else newest
    _report(added, parsed, nothing=f"the newest stable release, {ENGINE}=={known}, is {_where(known)} already")


def _where(release: str) -> str:
    """Where a release is known: "shipped", "added", or ""."""
    from drafter_contracts.engines.local import known
    from drafter_contracts.errors import UnknownReleaseError

    try:
        return known.load(ENGINE, release).source
    except UnknownReleaseError:
        return ""


def _from_index(release: str) -> dict[str, str]:
    import tempfile

    from drafter_cli.engines.package_index import download

    _tell(f"fetching the wheel of {ENGINE} {release}")
    with tempfile.TemporaryDirectory() as folder:
        wheel = download(release, folder)
        return _add(wheel, release, os.path.basename(wheel))


def _from_path(path: str, release: str) -> dict[str, str]:
    """Add a release that lies at a path.

    Raises:
        UsageError: Nothing is there, or a release that is shipped.
    """
    if not os.path.exists(path):
        raise UsageError(f"{path} does not exist", "give a wheel or an unpacked release")
    return _add(path, release, os.path.abspath(path))


def _add(path: str, release: str, origin: str) -> dict[str, str]:
    """Derive and keep a profile.

    Raises:
        UsageError: Another release than asked for, a shipped one, or no folder that can be written.
        ScanError: It cannot be scanned.
    """
    from drafter_contracts.engines.local import installation, kept
    from drafter_contracts.engines.scan.tree import open_tree
    from drafter_contracts.engines.store import releases

    there = open_tree(path).release
    if release and there != release:
        raise UsageError(f"{path} is {ENGINE} {there}, not {release}", f"drafters engine update {there} --from {path}")
    if there in releases(ENGINE):
        hint = f"ask about what lies there with --engine {path}"
        raise UsageError(f"{ENGINE} {there} is shipped, and a shipped profile is not replaced", hint)
    _tell(f"scanning {origin}, which may take some minutes")
    profile = installation.derive(path, there)
    problem = kept.write_added(_folder(), profile, origin)
    if problem:
        raise UsageError(f"the profile cannot be kept: {problem}", "DRAFTERS_CACHE names another directory for it")
    return {"engine": ENGINE, "release": there, "from": origin}


def _folder() -> str:
    """Where profiles are kept.

    Raises:
        UsageError: Nowhere.
    """
    from drafter_contracts.engines.local.folder import profiles_folder

    folder = profiles_folder()
    if not folder:
        raise UsageError("there is no directory to keep profiles in", "name one in DRAFTERS_CACHE")
    return folder


def _tell(text: str) -> None:
    write(f"drafters: {printable(text)}", to_stderr=True)


def _report(added: list[dict[str, str]], parsed: Parsed, *, nothing: str) -> None:
    if parsed.has("--json"):
        write_json({"added": added, "folder": _folder()})
        return
    lines = [f"added {ENGINE}=={one['release']}, from {printable(one['from'])}" for one in added]
    write("\n".join(lines) if lines else nothing)
