"""The engine that a launch would run: found, and its profile taken from where it is known best."""

from __future__ import annotations

import os

import msgspec

from drafter_contracts.errors import UnknownReleaseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.gate_options import Request
    from drafter_contracts.engines.local.installation import Found
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.engines.vllm.profile import VllmProfile
    from drafter_contracts.serving.launch import InstalledEngine, Invocation

ENGINE = "sglang"


class Engine(msgspec.Struct, frozen=True):
    """The engine release that a launch would run.

    Attributes:
        release: Version, "" if it cannot be told.
        taken_from: Option or installation that said so, or why nothing does.
        profile: What that engine does; None if it is not known.
        guess: The name that the release was guessed from, or "" if it is a fact.
        profiled: Where the profile comes from.
        problem: Why there is no profile, or "".
        remedy: What would give one, or "".
        engine: Its name. Only `resolve` knows another than the one whose launches are guarded.
        vllm: What that engine does, for a release of vLLM.
    """

    release: str
    taken_from: str
    profile: Profile | None
    guess: str = ""
    profiled: str = ""
    problem: str = ""
    remedy: str = ""
    engine: str = ENGINE
    vllm: VllmProfile | None = None

    @property
    def name(self) -> str:
        """For messages: "sglang 0.5.9"."""
        return f"{self.engine} {self.release}" if self.release else f"{self.engine} (release unknown)"

    @property
    def known(self) -> bool:
        """Whether anything is known of it."""
        return self.profile is not None or self.vllm is not None


def read_engine(request: Request, invocation: Invocation) -> Engine:
    """The engine that this launch would run, and its profile.

    Raises:
        UsageError: `--engine` names a path at which there is no engine.
        ProfileError: `--engine` names a file that is no profile.
    """
    if request.engine_path:
        return engine_at_path(
            request.engine_path, called=request.engine_called, may_scan=request.may_scan, quiet=request.quiet
        )
    if request.engine:
        return _by_release(request.engine, "option --engine", "")
    from drafter_contracts.serving.installed import find_engine

    installed = find_engine(invocation)
    if installed is not None:
        return _installed(installed, _place(installed), may_scan=request.may_scan, quiet=request.quiet)
    if invocation.release_hint:
        name = invocation.release_hint_source
        return _by_release(invocation.release_hint, f"a guess from its name: {name}", name)
    where = invocation.image or invocation.interpreter or "the launch's interpreter"
    why = f"no {ENGINE} installation found for {where}; say --engine {ENGINE}==VERSION"
    return Engine("", why, None)


def engine_at_path(path: str, *, called: str = "", may_scan: bool = True, quiet: bool = False) -> Engine:
    """The engine that somebody names by its place.

    Args:
        path: An environment, a directory of packages, a checkout, the package itself, a wheel, or a profile's file.
        called: How to say where it was named; "" for the option.
        may_scan: Whether to derive a profile where none fits.
        quiet: Say nothing on standard error.

    Raises:
        UsageError: There is none.
        ProfileError: The file is no profile.
    """
    from drafter_cli.errors import UsageError

    taken_from = called or f"option --engine {path}"
    if not os.path.exists(path):
        raise UsageError(f"{path} does not exist", "name an environment, a source tree, a wheel, or a profile's file")
    if path.endswith(".json"):
        from drafter_cli.engines.profile_argument import load

        profile = load(path)
        return Engine(profile.release, taken_from, profile, profiled=f"the file {path}")
    if os.path.isfile(path):
        from drafter_contracts.engines.local.installation import profile_of_wheel

        found, release = profile_of_wheel(path, may_scan=may_scan, tell=_teller(quiet=quiet)), ""
    else:
        from drafter_contracts.serving.installed import engine_at

        installed = engine_at(path)
        if installed is None:
            raise UsageError(
                f"no {ENGINE} in {path}", "name an environment, a source tree, a wheel, or a profile's file"
            )
        return _installed(installed, taken_from, may_scan=may_scan, quiet=quiet)
    return _found(found, release, taken_from)


def _place(installed: InstalledEngine) -> str:
    found_by = f" ({installed.found_by})" if installed.found_by else ""
    version = "" if installed.release else ", without a readable version"
    return f"installed in {installed.location}{found_by}{version}"


def _installed(installed: InstalledEngine, taken_from: str, *, may_scan: bool, quiet: bool) -> Engine:
    """The engine of an installation: its files are what counts, not what its metadata says."""
    if not installed.package:
        named = f"{ENGINE}=={installed.release}" if installed.release else f"{ENGINE}==VERSION"
        return Engine(
            installed.release,
            taken_from,
            None,
            problem=f"{installed.location} says that it is installed, and its files are not found",
            remedy=f"Say --engine PATH with the directory of its source, or --engine {named} if it is as published.",
        )
    from drafter_contracts.engines.local.installation import profile_of_package

    tell = _teller(quiet=quiet)
    found = profile_of_package(installed.package, installed.release, may_scan=may_scan, tell=tell)
    return _found(found, installed.release, taken_from)


def _found(found: Found, release: str, taken_from: str) -> Engine:
    release = found.profile.release if found.profile is not None else release
    return Engine(release, taken_from, found.profile, "", found.told, found.problem, found.remedy)


def _by_release(release: str, taken_from: str, guess: str) -> Engine:
    """The engine as published: the shipped profile, or the one added here."""
    from drafter_contracts.engines.local import known

    try:
        found = known.load(ENGINE, release)
    except UnknownReleaseError:
        why = "no profile of that release is shipped or was added here"
        return Engine(release, taken_from, None, guess, problem=why, remedy=known.advice(release))
    return Engine(release, taken_from, found.profile, guess, profiled=f"{found.source} for {release}, as published")


def _teller(*, quiet: bool):  # type: ignore[no-untyped-def]  # noqa: ANN202
    from drafter_cli.terminal import printable, write

    return None if quiet else lambda text: write(f"drafters: {printable(text)}", to_stderr=True)
