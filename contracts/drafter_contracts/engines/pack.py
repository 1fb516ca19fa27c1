"""Build the store of shipped profiles from scanned documents, and take it apart again.

    python -m drafter_contracts.engines.pack pack DIRECTORY [--releases FILE] [--data DATA]
    python -m drafter_contracts.engines.pack unpack DIRECTORY [--data DATA]

DIRECTORY has one canonical document per release, named RELEASE.json, as `drafters engine scan` writes them. The same
documents always give the same store. The module `recipe` says what is in it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import zlib

import msgspec

from drafter_contracts.engines import recipe, store
from drafter_contracts.engines.scan.encoding import sections
from drafter_contracts.engines.versions import version_key
from drafter_contracts.errors import ContractsError, ProfileError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Numbers that change while the line around them stays: lines of the release's source, and indices of rules.
_NUMBERS = re.compile(rb'("(?:line|EAGLE3|DFLASH|DSPARK)":)(0|[1-9][0-9]*)(?=[,}])')
_SUFFIX = ".json"


class Packer:
    """Shared lines, growing as documents are added."""

    def __init__(self) -> None:
        self.lines = bytearray()
        self._place: dict[bytes, int] = {}

    def add(self, document: bytes, where: str) -> bytes:
        """Add one release's document.

        Args:
            document: A profile in canonical form.
            where: Where it comes from, for messages.

        Returns:
            Its recipe, encoded.

        Raises:
            ProfileError: It is no profile, or not in canonical form.
        """
        texts = sections(store.decode(document, where))
        if b"".join(texts.values()) != document:
            raise ProfileError("a profile that is not in canonical form; scan the release again", where=where)
        made = tuple(self._section(name, text) for name, text in texts.items())
        return _encode(recipe.Recipe(recipe.SCHEMA, recipe.checksum(made), made))

    def _section(self, name: str, text: bytes) -> recipe.Section:
        numbers = [number for _, number in _NUMBERS.findall(text)]
        spans: list[int] = []
        for line in _NUMBERS.sub(rb"\1" + recipe.HOLE, text).splitlines(keepends=True):
            start = self._place.get(line)
            if start is None:
                start = self._place[line] = len(self.lines)
                self.lines += line
            if spans and spans[-1] == start:
                spans[-1] = start + len(line)
            else:
                spans += (start, start + len(line))
        return recipe.Section(name, zlib.crc32(text), tuple(spans), b" ".join(numbers).decode())


def _encode(made: recipe.Recipe) -> bytes:
    """One section per line, so that two recipes can be compared."""
    head = f'{{"schema":"{made.schema}",\n"checksum":{made.checksum},\n"sections":[\n'
    lines = ",\n".join(msgspec.json.encode(section).decode() for section in made.sections)
    return f"{head}{lines}]}}\n".encode()


def pack(documents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a store.

    Args:
        documents: Release to its profile's canonical document.

    Returns:
        Path below the engine's folder to content.

    Raises:
        ProfileError: A document is no profile in canonical form, or one of another release than it is filed under.
    """
    packer = Packer()
    files = {}
    for release in sorted(documents, key=version_key):
        stated = store.decode(documents[release], release).release
        if stated != release:
            raise ProfileError("a profile of another release", where=release, expected=release, actual=stated)
        files[f"{store.RECIPES}/{release}{_SUFFIX}"] = packer.add(documents[release], release)
    return {store.LINES: bytes(packer.lines), **files}


def read_documents(directory: str, releases: Iterable[str] = ()) -> dict[str, bytes]:
    """Release to document.

    Args:
        directory: Folder of RELEASE.json files.
        releases: Those to read; without any, all that are there.

    Raises:
        ProfileError: One is missing, or there is none.
    """
    there = {name.removesuffix(_SUFFIX) for name in os.listdir(directory) if name.endswith(_SUFFIX)}
    wanted = set(releases) or there
    if not wanted or wanted - there:
        missing = ", ".join(sorted(wanted - there, key=version_key))
        raise ProfileError("profiles to pack are missing", where=directory, expected=missing or "RELEASE.json")
    documents = {}
    for release in wanted:
        with open(os.path.join(directory, f"{release}{_SUFFIX}"), "rb") as file:
            documents[release] = file.read()
    return documents


def write_store(files: Mapping[str, bytes], folder: str) -> None:
    """Write a store, and remove the recipes of releases that are no longer in it."""
    recipes = os.path.join(folder, store.RECIPES)
    os.makedirs(recipes, exist_ok=True)
    for name in os.listdir(recipes):
        if f"{store.RECIPES}/{name}" not in files:
            os.remove(os.path.join(recipes, name))
    for path, data in files.items():
        partial = os.path.join(folder, f"{path}.part")
        with open(partial, "wb") as file:
            file.write(data)
        os.replace(partial, os.path.join(folder, path))


def _pack(directory: str, data: str, engine: str, listed: str) -> str:
    releases = []
    if listed:
        with open(listed, encoding="ascii") as file:
            releases = file.read().split()
    documents = read_documents(directory, releases)
    files = pack(documents)
    write_store(files, os.path.join(data, engine))
    for release, document in documents.items():
        if store.document(engine, release, data=data) != document:
            raise ProfileError("the store does not give back what was packed", where=release)
    size = sum(map(len, files.values()))
    before = sum(map(len, documents.values()))
    return f"{len(documents)} profiles of {before} bytes packed into {size}"


def _unpack(directory: str, data: str, engine: str) -> str:
    os.makedirs(directory, exist_ok=True)
    found = store.releases(engine, data=data)
    for release in found:
        with open(os.path.join(directory, f"{release}{_SUFFIX}"), "wb") as file:
            file.write(store.document(engine, release, data=data))
    return f"{len(found)} profiles unpacked"


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("pack", "unpack"))
    parser.add_argument("directory", help="folder of RELEASE.json files")
    parser.add_argument("--data", default=store.DATA, help="folder that holds one store per engine")
    parser.add_argument("--engine", default="sglang")
    parser.add_argument("--releases", default="", help="file that lists the releases to pack; default: all there are")
    options = parser.parse_args(argv)
    try:
        if options.action == "pack":
            done = _pack(options.directory, options.data, options.engine, options.releases)
        else:
            done = _unpack(options.directory, options.data, options.engine)
        print(done)  # noqa: T201 - a build-time command
    except (ContractsError, OSError) as error:
        print(error.diagnostics() if isinstance(error, ContractsError) else error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
