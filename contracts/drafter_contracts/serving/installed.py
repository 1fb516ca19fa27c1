"""Find the engine release that a launch would start, without running anything.

Follows what the interpreter itself would do: PATH, virtual environments (`pyvenv.cfg`), the working directory
(`python -m` puts it first), PYTHONPATH, site-packages, and path files of editable installs.
"""

from __future__ import annotations

import os

from drafter_contracts.serving.invocation import CONSOLE, LAUNCH_SERVER, SERVE
from drafter_contracts.serving.launch import InstalledEngine, Invocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ENGINE = "sglang"
_HEAD_MAX_BYTES = 64 * 1024
#: Environment variables that the launch inherits unless its wrapper sets them.
_WANTED = (
    "PATH",
    "PYTHONPATH",
    "HOME",
    "VIRTUAL_ENV",
    "CONDA_EXE",
    "PYTHONNOUSERSITE",
    "PYTHONSAFEPATH",
    "UV_PROJECT_ENVIRONMENT",
)


def _head(file: str) -> str:
    """The beginning of a text file, or ""."""
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read(_HEAD_MAX_BYTES)
    except (OSError, ValueError):
        return ""


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except (OSError, ValueError):
        return []


def which(name: str, variables: Mapping[str, str], directory: str) -> str:
    """The file that a program name starts, or ""."""
    if "/" in name:
        full = os.path.join(directory, name)
        return full if os.path.isfile(full) else ""
    for folder in variables.get("PATH", os.defpath).split(os.pathsep):
        if "$" in folder or "`" in folder:
            return ""  # not expanded: the program may be there
        full = os.path.join(directory, folder, name)
        if os.path.isfile(full) and os.access(full, os.X_OK):
            return full
    return ""


def _shebang(script: str) -> str:
    """The interpreter of a console script, or ""."""
    lines = _head(script).splitlines()[:3]
    if not lines or not lines[0].startswith("#!"):
        return ""
    words = lines[0][2:].split()
    if words and os.path.basename(words[0]) == "sh":  # the form for long paths: '''exec' /path/python "$0" "$@"
        words = lines[1].replace("'''exec'", "").split() if len(lines) > 1 else []
    if words and os.path.basename(words[0]) == "env":
        return words[1] if len(words) > 1 else ""
    return words[0].strip('"') if words else ""


def _is_script(file: str) -> bool:
    try:
        with open(file, "rb") as opened:
            return opened.read(2) == b"#!"
    except OSError:
        return True


class _Prefix:
    """Where an interpreter keeps its packages.

    Attributes:
        directories: site-packages and dist-packages, in order.
        isolated: A virtual environment without the system's packages.
    """

    def __init__(self, interpreter: str) -> None:
        self.directories: list[str] = []
        self.isolated = False
        folder = os.path.dirname(interpreter)
        for home in (os.path.dirname(folder), folder):
            settings = _head(os.path.join(home, "pyvenv.cfg"))
            if settings:
                pairs = dict(line.lower().split("=", 1) for line in settings.splitlines() if "=" in line)
                shared = {key.strip(): value.strip() for key, value in pairs.items()}
                self.isolated = shared.get("include-system-site-packages") != "true"
                self.add(home, interpreter)
                if self.isolated:
                    return
                break
        real = os.path.realpath(interpreter)
        self.add(os.path.dirname(os.path.dirname(real)), real)

    def add(self, prefix: str, interpreter: str) -> None:
        """The package directories below one prefix."""
        exact = _minor(os.path.basename(os.path.realpath(interpreter))) or _minor(os.path.basename(interpreter))
        for library in ("lib", "lib64"):
            base = os.path.join(prefix, library)
            for name in _names(base):
                if name.startswith("python3.") and (not exact or name == exact):
                    self.directories += [os.path.join(base, name, "site-packages")]
                    self.directories += [os.path.join(base, name, "dist-packages")]
        if prefix == "/usr":
            self.add("/usr/local", interpreter)
            self.directories.append("/usr/lib/python3/dist-packages")


def _minor(name: str) -> str:
    """The "python3.11" that a program's name says, or ""."""
    return name if name.startswith("python3.") and name[8:].isdecimal() else ""


def _package(directory: str, found_by: str) -> InstalledEngine | None:
    """The engine as a source directory `directory/sglang`."""
    package = os.path.join(directory, ENGINE)
    if not os.path.isfile(os.path.join(package, "__init__.py")) and not os.path.isdir(os.path.join(package, "srt")):
        return None
    for name in ("_version.py", "version.py"):
        for line in _head(os.path.join(package, name)).splitlines():
            key, equals, value = line.partition("=")
            quoted = value.rpartition("=")[2].strip()
            if equals and key.strip().split(":")[0] in ("__version__", "version") and quoted[:1] in ("'", '"'):
                return InstalledEngine(ENGINE, quoted.strip("'\""), package, found_by, package)
    return InstalledEngine(ENGINE, "", package, found_by, package)


def _distribution(directory: str, found_by: str) -> InstalledEngine | None:
    """The engine as an installed distribution in a site directory; without a release where two are said to be there."""
    found: dict[str, str] = {}
    for name in _names(directory):
        if name.startswith(f"{ENGINE}-") and name.endswith((".dist-info", ".egg-info")):
            file = "METADATA" if name.endswith(".dist-info") else "PKG-INFO"
            for line in _head(os.path.join(directory, name, file)).splitlines():
                key, colon, value = line.partition(":")
                if colon and key.lower() == "version":
                    found[value.strip()] = os.path.join(directory, name)
                    break
    if len(found) > 1:
        return InstalledEngine(ENGINE, "", directory, f"{found_by}, which name several: {', '.join(sorted(found))}")
    return next((InstalledEngine(ENGINE, release, path, found_by) for release, path in found.items()), None)


def _linked(directory: str) -> Iterable[str]:
    """Directories that the path files of a site directory add (editable installs)."""
    for name in _names(directory):
        if name.endswith((".pth", ".egg-link")):
            for line in _head(os.path.join(directory, name)).splitlines():
                path = line.strip()
                if path and not path.startswith(("#", "import ", "import\t")):
                    yield os.path.join(directory, path)
        elif name.startswith(f"__editable___{ENGINE}_") and name.endswith("_finder.py"):
            _, found, mapped = _head(os.path.join(directory, name)).partition(f"'{ENGINE}': '")
            if found:  # setuptools' finder: MAPPING = {'sglang': '/src/python/sglang'}
                yield os.path.dirname(mapped.partition("'")[0])


def _in_site(directory: str, found_by: str) -> InstalledEngine | None:
    found = _distribution(directory, found_by)
    if found is not None:
        package = _package(directory, found_by)
        if package is not None:  # the code is what runs; metadata may be left over from another installation
            if package.release and package.release != found.release:
                return package
            return InstalledEngine(ENGINE, found.release, found.location, found.found_by, package.package)
        for linked in _linked(directory):
            source = _package(linked, "an editable install")
            if source is not None:
                if source.release:
                    return source
                return InstalledEngine(ENGINE, found.release, source.location, "metadata", source.package)
        return found
    found = _package(directory, found_by)
    if found is not None:
        return found
    for linked in _linked(directory):
        found = _package(linked, "a path file")
        if found is not None:
            return found
    return None


def interpreter_of(invocation: Invocation, variables: Mapping[str, str]) -> str:
    """The interpreter's file, or "" if it cannot be told."""
    directory = invocation.working_directory or os.getcwd()
    chosen = invocation.python_environment
    named = invocation.interpreter or (invocation.program if invocation.entry == SERVE else "")
    if chosen == "unknown" or (chosen == "changed" and "/" not in named):
        return ""
    if "/" in invocation.interpreter:
        return which(invocation.interpreter, variables, directory)
    if chosen.startswith("prefix:"):
        return which(os.path.join(chosen[7:], "bin", "python"), variables, directory)
    if chosen.startswith("conda:"):
        root = os.path.dirname(os.path.dirname(variables.get("CONDA_EXE", "")))
        return which(os.path.join(root, "envs", chosen[6:], "bin", "python"), variables, directory) if root else ""
    if chosen == "uv":
        if invocation.release_hint:  # `uv run --with sglang==X` puts that over whatever the project has
            return ""
        project = variables.get("UV_PROJECT_ENVIRONMENT") or ".venv"
        return which(os.path.join(project, "bin", "python"), variables, directory)
    if invocation.interpreter:
        return which(invocation.interpreter, variables, directory)
    name = invocation.program or CONSOLE if invocation.entry == SERVE else _script_of(invocation)
    script = which(name, variables, directory) if name else ""
    starts = _shebang(script) if script else ""
    return which(starts, variables, directory) if starts else ""


def _script_of(invocation: Invocation) -> str:
    """The wrapper that starts the engine in its own interpreter (`torchrun -m ...`), or ""."""
    from drafter_contracts.serving.wrappers import SCRIPTS

    return next((word for word in reversed(invocation.wrapper) if os.path.basename(word) in SCRIPTS), "")


def _flags(options: Sequence[str]) -> set[str]:
    """The letters of an interpreter's own switches: {"I", "s"}."""
    letters: set[str] = set()
    for option in options:
        if option.startswith("-") and not option.startswith(("--", "-X", "-W")):
            letters.update(option[1:].partition("m")[0])
    return letters


def _first(
    invocation: Invocation, variables: Mapping[str, str], directory: str, flags: set[str]
) -> Iterable[tuple[str, str]]:
    """What comes before the installed packages on the module path, and how to call it."""
    if not flags & {"I", "P"} and not (variables.get("PYTHONSAFEPATH") and "E" not in flags):
        if invocation.entry == LAUNCH_SERVER and not invocation.program:
            yield directory, "the directory the launch starts in"
        elif invocation.program.endswith(".py"):
            yield os.path.dirname(os.path.join(directory, invocation.program)), "the script's directory"
    if not flags & {"I", "E"}:
        for path in variables.get("PYTHONPATH", "").split(os.pathsep):
            if path:
                yield os.path.join(directory, path), "PYTHONPATH"


def _surroundings(invocation: Invocation) -> tuple[dict[str, str], str, set[str]]:
    """The variables that place packages, the directory that the launch runs in, and the interpreter's own switches."""
    variables = {name: os.environ[name] for name in _WANTED if name in os.environ}
    variables.update(invocation.environment)
    return variables, invocation.working_directory or os.getcwd(), _flags(invocation.interpreter_options)


def _sites(interpreter: str, variables: Mapping[str, str], flags: set[str]) -> list[str]:
    """The package directories of an interpreter, in order."""
    prefix = _Prefix(interpreter)
    if not prefix.isolated and not variables.get("PYTHONNOUSERSITE") and not flags & {"s", "I"}:
        local = os.path.join(variables.get("HOME", ""), ".local", "lib")
        users = [os.path.join(local, name, "site-packages") for name in _names(local)]
        prefix.directories[:0] = [user for user in users if _same_minor(user, prefix.directories)]
    return prefix.directories


def module_path(invocation: Invocation) -> tuple[str, ...]:
    """Directories that a launch's interpreter imports packages from, in order, as far as that can be told.

    Args:
        invocation: The command line.
    """
    if not invocation.entry or invocation.image:
        return ()
    variables, directory, flags = _surroundings(invocation)
    found = [path for path, _ in _first(invocation, variables, directory, flags)]
    interpreter = interpreter_of(invocation, variables)
    if interpreter and not _is_script(interpreter):
        found += _sites(interpreter, variables, flags)
    return tuple(found)


def find_engine(invocation: Invocation) -> InstalledEngine | None:
    """The engine that a launch would start.

    Args:
        invocation: The command line.

    Returns:
        Release and place; a release of "" where the engine is there without a version; None where it cannot be told
        (a container, an environment that another tool chooses, no engine).
    """
    if not invocation.entry or invocation.image:
        return None
    variables, directory, flags = _surroundings(invocation)
    if any(mark in variables.get("PYTHONPATH", "") for mark in "$`"):
        return None
    for path, found_by in _first(invocation, variables, directory, flags):
        found = _package(path, found_by)
        if found is not None:
            named = _distribution(path, found_by)
            if named is None:
                return found
            return InstalledEngine(ENGINE, named.release, named.location, named.found_by, found.package)
    interpreter = interpreter_of(invocation, variables)
    if not interpreter or _is_script(interpreter):
        return None
    for site in _sites(interpreter, variables, flags):
        found = _in_site(site, f"the packages of {interpreter}")
        if found is not None:
            return found
    return None


def engine_at(path: str) -> InstalledEngine | None:
    """The engine in a directory that somebody names.

    Args:
        path: A virtual environment, a directory of packages, a checkout, or the package `sglang` itself.

    Returns:
        Release ("" if it cannot be read) and place; None if there is no engine in it.
    """
    full = os.path.abspath(path)
    places = [full, os.path.join(full, "python")]  # a checkout keeps the package in its folder `python`
    if os.path.isdir(os.path.join(full, "srt")):
        places[:0] = [os.path.dirname(full)] if os.path.basename(full) == ENGINE else []
    if os.path.isfile(os.path.join(full, "pyvenv.cfg")):
        places += _Prefix(os.path.join(full, "bin", "python")).directories
    for place in places:
        found = _in_site(place, path)
        if found is not None and found.package:
            return found
    return None


def _same_minor(user: str, directories: list[str]) -> bool:
    minor = os.path.basename(os.path.dirname(user))
    return any(f"/{minor}/" in directory for directory in directories)
