"""Many processes want the same thing at the same moment, through two servers and without any."""

from __future__ import annotations

from collections import Counter
from itertools import cycle, pairwise

import httpx2
import pytest
from sqlalchemy import func, select

PROCESSES = 32


@pytest.fixture(params=["two servers", "no server"])
def ways(request, bed):
    """Where the processes go in turn: servers, or the registry itself."""
    return [bed.server(), bed.server()] if request.param == "two servers" else [None]


def rows(bed):
    """How many versions there are, and which blobs."""
    from drafter_registry.db.models import BlobRow, VersionRow

    with bed.open() as registry, registry.database.read() as connection:
        versions = connection.execute(select(func.count()).select_from(VersionRow)).scalar_one()
        return versions, sorted(connection.execute(select(BlobRow.digest)).scalars())


def files(manifest):
    return sorted("sha256:" + file["sha256"] for file in manifest["files"])


def test_the_same_bytes_from_32_processes_are_one_version(bed, ways, together):
    directory = bed.drafter()
    manifest = bed.manifest(directory, "1.0")
    jobs = [
        bed.job("publish", way, manifest=manifest, directory=directory)
        for way, _ in zip(cycle(ways), range(PROCESSES), strict=False)
    ]
    answers = together(jobs)
    assert Counter(one["answer"] for one in answers) == {"created": 1, "same": PROCESSES - 1}, answers
    assert len({one["digest"] for one in answers}) == 1
    assert rows(bed) == (1, files(manifest))
    bed.assert_spotless()
    assert bed.assert_whole(ways[0] or bed.server()) == ["1.0"]


def test_other_bytes_from_32_processes_are_one_version_and_31_conflicts(bed, ways, together):
    directory = bed.drafter()
    manifest = bed.manifest(directory, "1.0")
    jobs = [
        bed.job("publish", way, directory=directory, manifest=manifest | {"recommended": {"steps": number + 1}})
        for way, number in zip(cycle(ways), range(PROCESSES), strict=False)
    ]
    answers = together(jobs)
    assert Counter(one["answer"] for one in answers) == {"created": 1, "CONFLICT": PROCESSES - 1}, answers
    assert rows(bed) == (1, files(manifest))
    bed.assert_spotless()
    assert bed.assert_whole(ways[0] or bed.server()) == ["1.0"]


def test_no_move_of_an_alias_is_lost(bed, ways, together):
    directory = bed.drafter()
    for version in ("1.0", "1.1"):
        bed.publish(directory, version)
    movers, moves = 8, 4
    jobs = [
        bed.job("move", way, name="tiny", versions=["1.0", "1.1"], moves=moves, who=f"mover {number}")
        for way, number in zip(cycle(ways), range(movers), strict=False)
    ]
    answers = together(jobs)
    made = [tuple(one) for answer in answers for one in answer["made"]]
    assert sum(answer["lost"] for answer in answers) > 0, "nobody raced"
    server = ways[0] or bed.server()
    place = server.url + "/v1/drafters/tiny/aliases/prod/history"
    history = httpx2.get(place, headers=server.headers).json()["items"]
    assert [one["revision"] for one in history] == list(range(movers * moves, 0, -1))
    assert sorted((one["revision"], one["why"]) for one in history) == sorted(made)
    assert len({why for _, why in made}) == movers * moves
    for newer, older in pairwise(history):
        assert newer["from_version"] == older["to_version"]
    assert bed.scrub() == []


def test_a_collection_while_many_publish_loses_nothing(bed, together):
    """The soak: publishers that share blobs, deleters of what was just published, collectors without any grace."""
    server = bed.server()
    publishers, versions, kept, files = 3, 8, [], []
    shared = bed.manifest(bed.drafter("shared"), "1.0")
    jobs = []
    for number in range(publishers):
        own = bed.manifest(bed.drafter(f"own-{number}", rope_theta=float(1000 + number)), "1.0")
        publications, deletions = [], []
        for version in range(versions):
            manifest, directory = ((own, f"own-{number}"), (shared, "shared"))[version % 2]
            named = {"name": f"tiny-{'abc'[number]}", "version": f"1.{version}"}
            files += [[*named.values(), one["path"], one["sha256"]] for one in manifest["files"]]
            publications.append({"manifest": manifest | named, "directory": f"{bed.folder}/{directory}"})
            if version < versions - 2:
                deletions.append(list(named.values()))
            else:
                kept.append(tuple(named.values()))
        jobs.append(bed.job("publish_many", server, publications=publications))
        jobs.append(bed.job("delete", server, versions=deletions))
    jobs.append(bed.job("read", server, files=files))
    jobs += [bed.job("collect", grace=grace) for grace in (0, 1)]
    answers = together(jobs)
    counted = Counter()
    for answer in answers:
        counted.update({name: value for name, value in answer.items() if name not in ("work", "answer", "message")})
    assert not [answer for answer in answers if "answer" in answer]
    assert counted["published"] == publishers * versions
    assert counted["deleted"] == publishers * (versions - 2)
    assert counted["removed"] > 0, "the collectors removed nothing"
    assert counted["read"] > 0
    assert counted["torn"] == 0
    assert [line for line in bed.requests(server, "", "/") if line["status"] >= 500] == []
    assert sorted(bed.assert_whole(server)) == sorted(version for _, version in kept)
    bed.assert_spotless()
