"""The profile of an engine as it lies here: an installation, a checkout, an unpacked release, or a wheel.

It may be a release as published, a fork of one, or a nightly. Where the files that a known profile was derived from are
the same here, that profile holds here too. Otherwise these very files are scanned, once.
"""

from __future__ import annotations

import os

import msgspec

from drafter_contracts.engines.local import kept, known
from drafter_contracts.engines.local.contents import DirectoryContents, WheelContents
from drafter_contracts.engines.local.folder import lock, profiles_folder
from drafter_contracts.errors import ScanError, UnknownReleaseError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from drafter_contracts.engines.profile import Profile

    Contents = DirectoryContents | WheelContents

ENGINE = "sglang"
ENGINE_OPTION = f"--engine {ENGINE}"
#: What an engine without a readable version is called: no release, and no advisory's range holds it.
UNVERSIONED = "0+unknown"
#: Where a profile comes from that neither ships nor was added: from the very files.
DERIVED = "derived"
_NAMED_FILES = 3


class Differences(msgspec.Struct, frozen=True):
    """Files that decide and are not as in the release.

    Attributes:
        changed: Other contents.
        missing: Not there.
        added: Model files that register classes, and that the release does not have.
    """

    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.missing or self.added)

    @property
    def files(self) -> tuple[str, ...]:
        """All of them, the most telling first."""
        return (*sorted(self.added), *sorted(self.changed), *sorted(self.missing))

    def describe(self, release: str) -> str:
        """In words: "2 files differ from the 0.5.9 release: models/deepseek_v2.py, models/mine.py (new)"."""
        notes = dict.fromkeys(self.missing, " (missing)") | dict.fromkeys(self.added, " (new)")
        files = self.files
        named = ", ".join(f"{file}{notes.get(file, '')}" for file in files[:_NAMED_FILES])
        more = f" and {len(files) - _NAMED_FILES} more" if len(files) > _NAMED_FILES else ""
        verb = "file differs" if len(files) == 1 else "files differ"
        return f"{len(files)} {verb} from the {release} release: {named}{more}"


class Found(msgspec.Struct, frozen=True):
    """What is known of an engine that lies here.

    Attributes:
        profile: What it does; None if that cannot be told.
        source: "shipped", "added" or "derived"; "" without a profile.
        told: Where the profile comes from, one phrase.
        problem: Why there is no profile, one clause.
        remedy: What would give one.
    """

    profile: Profile | None
    source: str = ""
    told: str = ""
    problem: str = ""
    remedy: str = ""


def differences(profile: Profile, contents: Contents) -> Differences:
    """Compare what a profile was derived from with the files here.

    Files that the profile was not derived from do not count, except for model files that register classes.

    Raises:
        ScanError: A file cannot be read.
    """
    refuse_shadows(contents, profile.sources)
    here = contents.digests(profile.sources)
    models = contents.model_files()
    return Differences(
        changed=tuple(name for name, digest in here.items() if digest != profile.sources[name]),
        missing=tuple(name for name in profile.sources if name not in here),
        added=tuple(name for name, registers in models.items() if registers and name not in profile.sources),
    )


def refuse_shadows(contents: Contents, files: Iterable[str]) -> None:
    """Refuse to tell what is imported where a package or a compiled module stands in front of a file.

    Raises:
        ScanError: There is one.
    """
    shadows = contents.shadows(files)
    if shadows:
        raise ScanError(
            "something else is imported in place of a file that decides",
            where=contents.root,
            expected="no package or compiled module of the same name beside it",
            actual=", ".join(shadows[:_NAMED_FILES]),
        )


def profile_of_package(
    package: str, release: str, *, may_scan: bool = True, tell: Callable[[str], None] | None = None
) -> Found:
    """The profile of an engine in a directory.

    Args:
        package: The directory `sglang` that holds `srt`.
        release: Its version as its metadata says, or "".
        may_scan: Whether to derive a profile where none fits.
        tell: Is told, before a scan, that and why it takes a while, and whatever went wrong beside it.
    """
    contents = DirectoryContents(os.path.join(os.path.realpath(package), "srt"), profiles_folder())
    return _Search(package, release or UNVERSIONED, contents, tell or (lambda _: None)).found(may_scan=may_scan)


def profile_of_wheel(path: str, *, may_scan: bool = True, tell: Callable[[str], None] | None = None) -> Found:
    """The profile of an engine in a wheel; arguments as of `profile_of_package`."""
    from drafter_contracts.engines.scan.tree import open_tree

    try:
        tree = open_tree(path)
    except ScanError as error:
        return _without(error, path, "VERSION")
    search = _Search(path, tree.release, WheelContents(tree), tell or (lambda _: None))
    return search.found(may_scan=may_scan)


def derive(path: str, release: str) -> Profile:
    """Scan what lies at a path.

    Raises:
        ScanError: It cannot be scanned.
    """
    from drafter_contracts.engines.scan.assemble import assemble
    from drafter_contracts.engines.scan.tree import open_tree

    return assemble(open_tree(path, release=release))


class _Search:
    """One look for the profile of an engine.

    Args:
        place: What is looked at: the package's directory, or a wheel.
        release: Its version.
        contents: Its files.
        tell: See `profile_of_package`.
    """

    def __init__(self, place: str, release: str, contents: Contents, tell: Callable[[str], None]) -> None:
        self._place = place
        self._release = release
        self._contents = contents
        self._tell = tell
        self._cache = profiles_folder()
        self._why = ""
        self._near = "VERSION"  # the release that this nearly is

    def found(self, *, may_scan: bool) -> Found:
        """The profile, or why there is none."""
        try:
            return self._as_released() or self._of_these_files(may_scan=may_scan)
        except ScanError as error:
            return _without(error, self._place, self._near)

    def _as_released(self) -> Found | None:
        """The known profile of this release, if it holds here."""
        try:
            reference = known.load(ENGINE, self._release)
        except UnknownReleaseError:
            unread = self._release == UNVERSIONED
            self._why = "its version cannot be read" if unread else f"no profile of {self._release} is shipped"
            return None
        self._near = self._release
        differing = differences(reference.profile, self._contents)
        if differing:
            self._why = differing.describe(self._release)
            return None
        self._contents.remember()
        count = len(reference.profile.sources)
        told = f"{reference.source} for {self._release}, and the {count} files that it was derived from are the same"
        return Found(reference.profile, reference.source, f"{told} in {self._place}")

    def _of_these_files(self, *, may_scan: bool) -> Found:
        files = self._contents.everything()
        refuse_shadows(self._contents, files)
        self._contents.remember()
        if not files:
            raise ScanError("no source files of an engine", where=self._contents.root)
        key = kept.key_of(self._release, files)
        found = self._kept(key)
        if found is not None:
            return found
        if not may_scan:
            return Found(
                None,
                problem=f"{self._why} ({self._place}), and it was not to be scanned",
                remedy=f"Leave out --no-scan, or say {ENGINE_OPTION}=={self._near} if it captures as that does.",
            )
        with lock(kept.lock_path(self._cache, key)):
            return self._kept(key) or self._scanned(key, files)

    def _kept(self, key: str) -> Found | None:
        """The profile that was derived from these very files before."""
        profile = kept.read_installed(self._cache, key)
        return None if profile is None else Found(profile, DERIVED, self._told(", kept from an earlier scan"))

    def _scanned(self, key: str, files: dict[str, str]) -> Found:
        self._tell(f"{self._why}: scanning {self._place}, which may take some minutes; the result is kept")
        profile = derive(self._place, self._release)
        if self._read_again() != files:
            raise ScanError("changed while it was scanned", where=self._place)
        problem = "no folder to keep it in"
        if self._cache:
            problem = kept.write_installed(self._cache, key, profile, self._place)
        if problem:
            self._tell(f"the profile could not be kept, so that the next start scans again: {problem}")
        return Found(profile, DERIVED, self._told(""))

    def _read_again(self) -> dict[str, str]:
        if isinstance(self._contents, WheelContents):
            from drafter_contracts.engines.scan.tree import open_tree

            return WheelContents(open_tree(self._place)).everything()
        return DirectoryContents(self._contents.root, self._cache).everything()

    def _told(self, when: str) -> str:
        return f"derived from the files in {self._place} ({self._why}){when}"


def _without(error: ScanError, place: str, near: str) -> Found:
    """No profile, because of an error."""
    return Found(
        None,
        problem=f"the engine in {place} cannot be profiled: {error.diagnostics()}",
        remedy=(
            f"Say {ENGINE_OPTION}=={near} if it captures as that release does, or derive its profile elsewhere "
            "with `drafters engine scan` and give that: --engine FILE.json."
        ),
    )
