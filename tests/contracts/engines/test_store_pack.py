"""The store of shipped profiles: what is packed comes out byte for byte, is shared, and is never taken for another."""

from __future__ import annotations

import itertools
import os
import shutil

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drafter_contracts.engines import pack, recipe, store
from drafter_contracts.engines.launch_rules import Flag, LaunchRules, Source, SpeculativeRules
from drafter_contracts.engines.profile import SCHEMA, CaptureMethod, Drafter, Profile
from drafter_contracts.engines.scan import encode
from drafter_contracts.errors import ProfileError

ENGINE = "sglang"
#: Text that looks like what the packer takes out, and text that JSON has to escape.
TEXT = st.one_of(
    st.sampled_from(("a.py", "b.py", '"line":7,', '"EAGLE3":0}', "\t", "\n", "\r", '",\n"', "\u2028", "{", "}")),
    st.text(max_size=4),
)
WORDS = st.lists(TEXT, max_size=3).map(tuple)
SOURCES = st.none() | st.builds(Source, TEXT, TEXT, st.integers(0, 4))
RULES = st.builds(CaptureMethod, status=TEXT, reason=TEXT, source=SOURCES, default=st.none() | WORDS)
FLAGS = st.builds(Flag, names=WORDS, default=st.none() | st.integers() | TEXT | st.lists(st.booleans(), max_size=2))
PROFILES = st.builds(
    Profile,
    schema=st.just(SCHEMA),
    engine=st.just(ENGINE),
    release=st.just(""),
    sources=st.dictionaries(TEXT, TEXT, max_size=3),
    rules=st.lists(RULES, max_size=3).map(tuple),
    targets=st.dictionaries(TEXT, st.dictionaries(st.sampled_from(("EAGLE3", "DFLASH")), st.integers(0, 20))),
    drafters=st.dictionaries(TEXT, st.builds(Drafter, TEXT, keys=WORDS, source=SOURCES), max_size=3),
    launch=st.builds(
        LaunchRules,
        flags=st.lists(FLAGS, max_size=3).map(tuple),
        speculative=st.builds(SpeculativeRules, algorithms=WORDS, aliases=st.dictionaries(TEXT, TEXT, max_size=2)),
    ),
)


def documents_of(profiles) -> dict[str, bytes]:
    """Release to document; the releases are numbered from 0.1."""
    named = {f"0.{number}": profile for number, profile in enumerate(profiles, 1)}
    return {name: encode(msgspec.structs.replace(profile, release=name)) for name, profile in named.items()}


def read_back(files: dict[str, bytes], release: str) -> bytes:
    """The document of a release out of the files of a store."""
    made = recipe.decode(files[f"{store.RECIPES}/{release}.json"], release)
    return recipe.document(made, files[store.LINES], release)


@pytest.fixture(scope="module")
def shipped() -> dict[str, bytes]:
    """Release to document, of everything that is shipped."""
    return {release: store.document(ENGINE, release) for release in store.releases(ENGINE)}


@settings(deadline=None, max_examples=50)
@given(st.lists(PROFILES, min_size=1, max_size=4))
def test_what_is_packed_comes_out_byte_for_byte(profiles):
    documents = documents_of(profiles)
    files = pack.pack(documents)
    assert {release: read_back(files, release) for release in documents} == documents


@settings(deadline=None, max_examples=50)
@given(st.lists(PROFILES, min_size=2, max_size=4), st.randoms())
def test_the_same_profiles_give_the_same_files(profiles, random):
    documents = documents_of(profiles)
    order = list(documents)
    random.shuffle(order)
    assert pack.pack({release: documents[release] for release in order}) == pack.pack(documents)


@settings(deadline=None, max_examples=50)
@given(st.lists(PROFILES, min_size=1, max_size=3), PROFILES)
def test_a_newer_release_only_adds_to_the_store(profiles, newer):
    before = pack.pack(documents_of(profiles))
    after = pack.pack(documents_of([*profiles, newer]))
    assert after[store.LINES].startswith(before[store.LINES])
    assert {path: after[path] for path in before if path != store.LINES} == {
        path: data for path, data in before.items() if path != store.LINES
    }


@settings(deadline=None, max_examples=50)
@given(PROFILES, st.data())
def test_a_changed_byte_is_an_error_or_changes_nothing(profile, data):
    documents = documents_of([profile])
    files = pack.pack(documents)
    path = data.draw(st.sampled_from(sorted(files)))
    place = data.draw(st.integers(0, len(files[path]) - 1))
    byte = data.draw(st.integers(0, 255))
    files[path] = files[path][:place] + bytes([byte]) + files[path][place + 1 :]
    try:
        read = read_back(files, "0.1")
    except ProfileError:
        return
    assert read == documents["0.1"]


def test_equal_releases_are_stored_once(shipped):
    document = shipped["0.5.23"]
    profile = store.decode(document, "here")
    moved = tuple(
        msgspec.structs.replace(rule, source=msgspec.structs.replace(rule.source, line=rule.source.line + 100))
        for rule in profile.rules
    )
    alone = pack.pack({"0.5.23": document})
    for change in ({}, {"rules": moved}):
        again = encode(msgspec.structs.replace(profile, release="0.5.24", **change))
        both = pack.pack({"0.5.23": document, "0.5.24": again})
        assert both[store.LINES] == alone[store.LINES] + b'"release":"0.5.24",\n', "nothing but its name is new"
        assert read_back(both, "0.5.24") == again


def test_the_shipped_store_is_what_its_profiles_pack_to(shipped):
    folder = os.path.join(store.DATA, ENGINE)
    for path, data in pack.pack(shipped).items():
        with open(os.path.join(folder, path), "rb") as file:
            assert file.read() == data, path
    assert set(os.listdir(folder)) == {store.LINES, store.RECIPES, "advisories.json"}


def test_one_that_is_shipped_is_shared_and_small(shipped):
    files = pack.pack(shipped)
    assert sum(map(len, files.values())) < 0.75 * sum(map(len, shipped.values()))
    lines = files[store.LINES].splitlines()
    assert len(lines) == len(set(lines))
    assert max(map(len, lines)) < 4_000, "a line is an entry that can be read"


# damaged stores -----------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path):
    """A folder with a copy of the shipped store."""
    shutil.copytree(store.DATA, tmp_path / "data")
    return tmp_path / "data"


def damaged_lines(damage):
    """Every way to damage the shared lines that is listed below, by name."""
    return {
        "missing": None,
        "empty": b"",
        "cut": damage[: len(damage) // 2],
        "a line gone": damage[damage.index(b"\n") + 1 :],
        "a line twice": damage[: damage.index(b"\n") + 1] + damage,
        "a name changed": damage.replace(b"LlamaForCausalLM", b"LlamaForCausalML"),
        "other line ends": damage.replace(b"\n", b"\r\n"),
    }


@pytest.mark.parametrize("damage", list(damaged_lines(b"\n")))
def test_damaged_lines_are_an_error_that_names_the_file(copy, damage):
    path = copy / ENGINE / store.LINES
    data = damaged_lines(path.read_bytes())[damage]
    path.unlink() if data is None else path.write_bytes(data)
    with pytest.raises(ProfileError) as caught:
        store.load_profile(ENGINE, "0.5.23", data=str(copy))
    assert caught.value.where.startswith(str(copy))
    assert caught.value.code == "PROFILE_INVALID"


def test_a_damaged_recipe_is_an_error_that_names_the_file(copy):
    path = copy / ENGINE / store.RECIPES / "0.5.9.json"
    whole = path.read_bytes()
    made = recipe.decode(whole, "here")
    sections = list(made.sections)
    number = next(i for i, section in enumerate(sections) if section.name == "rules")
    ways = {
        "cut": whole[:-20],
        "empty": b"",
        "another schema": whole.replace(recipe.SCHEMA.encode(), b"drafters.profile-recipe.v0"),
        "a section gone": pack._encode(msgspec.structs.replace(made, sections=(*sections[:-2], sections[-1]))),
        "sections in another order": pack._encode(
            msgspec.structs.replace(made, sections=(sections[1], sections[0], *sections[2:]))
        ),
    }
    changes = {
        "a number changed": {"numbers": sections[number].numbers.replace("1", "2", 1)},
        "a number gone": {"numbers": sections[number].numbers.partition(" ")[2]},
        "a span gone": {"spans": sections[number].spans[2:]},
        "half a span": {"spans": sections[number].spans[1:]},
        "beyond the end": {"spans": (*sections[number].spans[:-1], 10**12)},
        "backwards": {"spans": sections[number].spans[::-1]},
        "before the start": {"spans": (-5, *sections[number].spans[1:])},
    }
    for what, change in changes.items():
        spoilt = list(sections)
        spoilt[number] = msgspec.structs.replace(sections[number], **change)
        ways[what] = pack._encode(msgspec.structs.replace(made, sections=tuple(spoilt)))
    for what, data in ways.items():
        path.write_bytes(data)
        with pytest.raises(ProfileError) as caught:
            store.load_profile(ENGINE, "0.5.9", data=str(copy))
        assert caught.value.where == str(path), what
    path.write_bytes(whole)
    assert store.load_profile(ENGINE, "0.5.9", data=str(copy)).release == "0.5.9"


def test_a_recipe_under_another_name_is_no_profile_of_that_release(copy):
    recipes = copy / ENGINE / store.RECIPES
    shutil.copy(recipes / "0.5.9.json", recipes / "0.5.10.json")
    with pytest.raises(ProfileError, match="another release") as caught:
        store.load_profile(ENGINE, "0.5.10", data=str(copy))
    assert (caught.value.expected, caught.value.actual) == ("sglang 0.5.10", "sglang 0.5.9")


def test_a_store_that_is_unreadable_is_not_taken_for_one_without_the_release(copy):
    (copy / ENGINE / store.LINES).write_bytes(b"")
    with pytest.raises(ProfileError, match="cannot be read"):
        store.load_profile(ENGINE, "0.5.9", data=str(copy))


# the command --------------------------------------------------------------------------------------------------------


def test_the_command_packs_a_directory_and_takes_it_apart_again(tmp_path, shipped, capsys):
    scanned, data, out = tmp_path / "scanned", tmp_path / "data", tmp_path / "out"
    scanned.mkdir()
    for release in ("0.5.9", "0.5.23"):
        (scanned / f"{release}.json").write_bytes(shipped[release])
    assert pack.main(["pack", str(scanned), "--data", str(data)]) == 0
    assert pack.main(["unpack", str(out), "--data", str(data)]) == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in scanned.iterdir()
    }
    assert store.load_profile(ENGINE, "0.5.23", data=str(data)) == store.load_profile(ENGINE, "0.5.23")

    (scanned / "0.5.9.json").unlink()
    assert pack.main(["pack", str(scanned), "--data", str(data)]) == 0
    assert store.releases(ENGINE, data=str(data)) == ("0.5.23",), "what is no longer there is no longer shipped"
    assert not list(data.rglob("*.part"))
    assert "1 profiles of" in capsys.readouterr().out


def test_the_command_packs_the_listed_releases_or_nothing(tmp_path, shipped, capsys):
    scanned, data, listed = tmp_path / "scanned", tmp_path / "data", tmp_path / "listed.txt"
    scanned.mkdir()
    for release in ("0.5.2", "0.5.9", "0.5.23"):
        (scanned / f"{release}.json").write_bytes(shipped[release])
    command = ["pack", str(scanned), "--data", str(data), "--releases", str(listed)]
    listed.write_text("0.5.9\n0.5.22\n0.5.21.post1\n")
    assert pack.main(command) == 1
    assert "0.5.21.post1, 0.5.22" in capsys.readouterr().err
    assert not data.exists()
    listed.write_text("0.5.9\n0.5.23\n")
    assert pack.main(command) == 0
    assert store.releases(ENGINE, data=str(data)) == ("0.5.9", "0.5.23")


def test_what_is_no_canonical_document_of_its_release_is_not_packed(tmp_path, shipped, capsys):
    data = tmp_path / "data"
    ways = {
        "no canonical form": shipped["0.5.9"].replace(b",\n", b", \n", 1),
        "another release": shipped["0.5.23"],
        "no profile": b"{}",
    }
    for (what, document), number in zip(ways.items(), itertools.count()):
        scanned = tmp_path / str(number)
        scanned.mkdir()
        (scanned / "0.5.9.json").write_bytes(document)
        assert pack.main(["pack", str(scanned), "--data", str(data)]) == 1, what
        assert "0.5.9" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert pack.main(["pack", str(tmp_path / "empty"), "--data", str(data)]) == 1
    assert not data.exists()
