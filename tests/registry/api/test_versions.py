"""A drafter through the API: published, read, withdrawn, aliased."""

from __future__ import annotations

import hashlib
import json

VERSION = "/v1/drafters/tiny-eagle3/versions/1.0.0"
ALIAS = "/v1/drafters/tiny-eagle3/aliases/prod"


def test_published_once_and_again_and_never_otherwise(client, publish, assert_problem, drafter):
    answer, _, manifest = publish(client)
    assert answer.status_code == 201
    digest = "sha256:" + hashlib.sha256(manifest).hexdigest()
    assert answer.headers["location"] == VERSION
    assert answer.headers["etag"] == f'"{digest}"'
    assert answer.json()["created"] is True
    again, _, _ = publish(client)
    assert (again.status_code, again.json()["digest"], again.json()["created"]) == (200, digest, False)
    other, _, _ = publish(client, steps=4)
    assert_problem(other, "CONFLICT")
    headers = {"content-type": "application/json"}
    assert_problem(client.put(VERSION.replace("1.0.0", "1.0.1"), content=manifest, headers=headers), "INVALID")
    _, second = drafter("tiny_eagle3")
    similar = client.put("/v1/drafters/tiny_eagle3/versions/1.0.0", content=second, headers=headers)
    assert_problem(similar, "NAME_TOO_SIMILAR")
    text = client.get("/metrics").text
    assert 'drafters_publications_total{outcome="created"} 1.0' in text
    assert 'drafters_publications_total{outcome="same"} 1.0' in text


def test_a_manifest_of_missing_or_other_files_is_refused_whole(client, drafter, store, assert_problem):
    files, manifest = drafter()
    headers = {"content-type": "application/json"}
    problem = assert_problem(client.put(VERSION, content=manifest, headers=headers), "BLOBS_MISSING")
    assert len(problem.errors) == len(files)
    for data in files.values():
        store(client, data)
    wrong = json.loads(manifest)
    wrong["layout"] |= {"boundaries": [3, 17], "output_ids": [2, 16]}
    for name in ("fc_input_width", "widths", "states"):
        wrong["layout"].pop(name, None)
    wrong["draft"]["hidden_size"] = 16
    problem = assert_problem(client.put(VERSION, json=wrong), "MANIFEST_CONTRADICTS_FILES")
    assert len(problem.errors) >= 2
    assert all(fault.pointer.startswith("/") and fault.expected != fault.actual for fault in problem.errors)
    assert client.get("/v1/drafters").json() == {"items": [], "next": ""}


EVIDENCE = {
    "identified": {
        "taps": [{"boundary": b, "error": 0.0002, "next_boundary": b - 1, "next_error": 0.3} for b in (3, 17, 30)],
        "tokens": 512,
        "sample_sha256": "1" * 64,
    },
    "known_by": "identified by values",
}


def test_evidence_by_values_that_contradicts_its_manifest_is_refused(client, drafter, store, assert_problem):
    files, manifest = drafter()
    for data in files.values():
        store(client, data)

    def offer(**layout):
        changed = json.loads(manifest)
        changed["layout"] |= {**EVIDENCE, **layout}
        return client.put(VERSION, json={**changed, "layout": {k: v for k, v in changed["layout"].items() if v}})

    def taps(number, **tap):
        found = [dict(one) for one in EVIDENCE["identified"]["taps"]]
        found[number] |= tap
        return {**EVIDENCE["identified"], "taps": found}

    other = assert_problem(offer(identified=taps(1, boundary=16, next_boundary=17)), "INVALID")
    (fault,) = other.errors
    assert fault.expected.startswith("boundaries 3, 17, 30")
    assert fault.actual.startswith("boundaries 3, 16, 30")
    evaluated = {
        "stated": {"boundaries": [3, 17, 30], "length": 2.1},
        "tried": 3,
        "rows": 100,
        "weights_sha256": "0" * 64,
    }
    refused = {
        "/layout/known_by": [{"identified": None}, {"known_by": "declared"}],
        "/layout/identified/taps/2/error": [{"identified": taps(2, error=0.5)}],
        "/layout/evaluated/weights_sha256": [{"evaluated": evaluated}],
    }
    for where, changes in refused.items():
        for layout in changes:
            problem = assert_problem(offer(**layout), "MANIFEST_CONTRADICTS_FILES")
            assert [fault.pointer for fault in problem.errors] == [where]
    assert client.get("/v1/drafters").json() == {"items": [], "next": ""}
    assert offer().status_code == 201
    kept = client.get(VERSION + "/manifest").json()["layout"]
    assert (kept["known_by"], kept["identified"]) == ("identified by values", EVIDENCE["identified"])


def test_a_render_is_refused_and_the_version_it_came_from_is_named(client, drafter, store, assert_problem):
    files, manifest = drafter()
    for data in files.values():
        store(client, data)
    render = json.loads(manifest) | {"render": {"of": "sha256:" + "a" * 64, "engine": "sglang 0.5.23"}}
    problem = assert_problem(client.put(VERSION, json=render), "IS_A_RENDER")
    assert "a render of 'tiny-eagle3@1.0.0' for 'sglang 0.5.23'" in problem.detail
    assert [(one.pointer, one.actual) for one in problem.errors] == [("/render", "sha256:" + "a" * 64)]
    assert client.get("/v1/drafters").json() == {"items": [], "next": ""}
    published = client.put(VERSION, content=manifest, headers={"content-type": "application/json"})
    assert published.status_code == 201


def test_who_published_with_what_is_the_registrys_word(client, publish):
    publish(client, headers={"user-agent": "trainer/1.2 \u00b5".encode("latin-1")})
    published = client.get(VERSION).json()["summary"]["published"]
    assert published["by"] == "first admin"
    assert published["tool"].startswith("trainer/1.2")


def test_a_version_is_tagged_with_its_digest_and_not_sent_twice(client, publish, token):
    publish(client)
    answer = client.get(VERSION)
    tag = answer.headers["etag"]
    digest = answer.json()["summary"]["digest"]
    assert tag == f'"{digest}"'
    reader = token("read")
    assert client.get(VERSION, headers=reader).headers["etag"] == tag
    for condition in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        unchanged = client.get(VERSION, headers={"if-none-match": condition})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
    assert client.get(VERSION, headers={"if-none-match": '"x"'}).status_code == 200
    by_digest = client.get(f"/v1/drafters/tiny-eagle3/versions/{digest}")
    assert by_digest.json() == answer.json()
    assert client.head(VERSION).headers["etag"] == tag
    assert client.head(VERSION).content == b""


def test_a_copy_from_before_a_yank_is_not_taken_for_valid(client, publish, assert_problem):
    publish(client)
    tag = client.get(VERSION).headers["etag"]
    assert client.post(VERSION + "/yank", json={"why": "wrong layers"}).status_code == 204
    answer = client.get(VERSION, headers={"if-none-match": tag})
    assert (answer.status_code, answer.json()["yanked_why"]) == (200, "wrong layers")
    assert answer.headers["etag"] == tag[:-1] + '.yanked"'
    assert_problem(client.put(ALIAS, json={"version": "1.0.0"}), "CONFLICT")
    assert client.request("DELETE", VERSION + "/yank").status_code == 204
    assert client.get(VERSION, headers={"if-none-match": tag}).status_code == 304
    assert client.request("DELETE", VERSION, json={"why": "licence"}).status_code == 204
    assert_problem(client.get(VERSION), "NOT_FOUND")
    again, _, _ = publish(client)
    assert_problem(again, "CONFLICT")


def test_the_manifests_exact_bytes_are_given_and_negotiated(client, publish, assert_problem):
    _, _, manifest = publish(client)
    digest = "sha256:" + hashlib.sha256(manifest).hexdigest()
    answer = client.get(VERSION + "/manifest")
    assert answer.content == manifest
    assert answer.headers["content-type"] == "application/vnd.drafters.manifest.v1+json"
    assert answer.headers["etag"] == f'"{digest}"'
    assert "immutable" not in answer.headers["cache-control"]
    forever = client.get(f"/v1/drafters/tiny-eagle3/versions/{digest}/manifest")
    assert "immutable" in forever.headers["cache-control"]
    assert client.get(VERSION + "/manifest", headers={"if-none-match": f'"{digest}"'}).status_code == 304
    accept = {"accept": "application/vnd.drafters.manifest.v2+json"}
    assert "manifest.v1" in assert_problem(client.get(VERSION + "/manifest", headers=accept), "NOT_ACCEPTABLE").hint


def test_files_are_sent_whole_and_in_ranges(client, publish, assert_problem):
    _, files, _ = publish(client)
    data = files["model.safetensors"]
    place = VERSION + "/files/model.safetensors"
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    for url in (place, f"/v1/blobs/{digest}"):
        whole = client.get(url)
        assert (whole.status_code, whole.content) == (200, data)
        assert whole.headers["etag"] == f'"{digest}"'
        assert whole.headers["accept-ranges"] == "bytes"
        assert whole.headers["content-type"] == "application/octet-stream"
        head = client.head(url)
        assert (head.content, head.headers["content-length"]) == (b"", str(len(data)))
        for asked, expected in [("0-0", data[:1]), ("5-9", data[5:10]), ("7-", data[7:]), ("-3", data[-3:])]:
            part = client.get(url, headers={"range": f"bytes={asked}"})
            assert (part.status_code, part.content) == (206, expected)
        assert client.get(url, headers={"range": "bytes=5-9"}).headers["content-range"] == f"bytes 5-9/{len(data)}"
        outside = client.get(url, headers={"range": f"bytes={len(data)}-"})
        assert_problem(outside, "RANGE_NOT_SATISFIABLE")
        assert outside.headers["content-range"] == f"bytes */{len(data)}"
        assert client.get(url, headers={"range": "bytes=0-1,4-5"}).content == data
        same = {"range": "bytes=0-1", "if-range": f'"{digest}"'}
        assert client.get(url, headers=same).status_code == 206
        assert client.get(url, headers={**same, "if-range": '"other"'}).content == data
        assert client.get(url, headers={"if-none-match": f'"{digest}"'}).status_code == 304
    assert_problem(client.get(VERSION + "/files/absent"), "NOT_FOUND")
    assert_problem(client.get(VERSION + "/files/..%2F..%2Fetc"), "NOT_FOUND")


def test_a_large_file_comes_in_pieces_and_is_whole(client, store):
    data = bytes(range(256)) * (4096 * 5 // 2)
    digest = store(client, data)
    assert client.get(f"/v1/blobs/{digest}").content == data
    assert (
        client.get(f"/v1/blobs/{digest}", headers={"range": "bytes=1000000-2200000"}).content == data[1000000:2200001]
    )


def test_lists_are_searched_and_paged(client, publish):
    for number in range(3):
        publish(client, version=f"1.0.{number}")
    assert len(client.get("/v1/drafters").json()["items"]) == 3
    page = client.get("/v1/drafters?limit=2&boundary=17&method=EAGLE3").json()
    assert len(page["items"]) == 2
    following = client.get(
        "/v1/drafters", params={"limit": 2, "boundary": 17, "method": "EAGLE3", "cursor": page["next"]}
    )
    assert len(following.json()["items"]) == 1
    assert client.get("/v1/drafters?boundary=5").json() == {"items": [], "next": ""}


def test_two_versions_are_compared_in_words(client, publish):
    publish(client)
    publish(client, version="1.1.0", steps=5)
    answer = client.get("/v1/drafters/tiny-eagle3/diff?from=1.0.0&to=1.1.0").json()
    assert answer["same_contract"] is True
    assert "recommended.steps" in {change["field"] for change in answer["changes"]}


def test_an_alias_moves_by_compare_and_swap(client, publish, assert_problem):
    publish(client)
    publish(client, version="1.1.0")
    assert_problem(client.get(ALIAS), "NOT_FOUND")
    first = client.put(ALIAS, json={"version": "1.0.0", "why": "first"}, headers={"if-none-match": "*"})
    assert (first.status_code, first.headers["etag"], first.json()["revision"]) == (200, '"1"', 1)
    again = client.put(ALIAS, json={"version": "1.1.0"}, headers={"if-none-match": "*"})
    assert_problem(again, "PRECONDITION_FAILED")
    moved = client.put(ALIAS, json={"version": "1.1.0"}, headers={"if-match": '"1"'})
    assert moved.headers["etag"] == '"2"'
    late = client.put(ALIAS, json={"version": "1.0.0"}, headers={"if-match": '"1"'})
    assert_problem(late, "PRECONDITION_FAILED")
    assert client.get(ALIAS, headers={"if-none-match": '"2"'}).status_code == 304
    assert_problem(client.put(ALIAS, json={"version": "1.0.0"}, headers={"if-match": "2"}), "INVALID")
    assert client.get("/v1/drafters/tiny-eagle3/versions/prod").json()["summary"]["version"] == "1.1.0"
    assert_problem(client.delete(ALIAS, headers={"if-match": '"1"'}), "PRECONDITION_FAILED")
    assert client.delete(ALIAS, headers={"if-match": '"2"'}).status_code == 204
    moves = client.get(ALIAS + "/history").json()["items"]
    assert [(move["revision"], move.get("to_version", "")) for move in moves] == [(3, ""), (2, "1.1.0"), (1, "1.0.0")]


def test_resolve_and_check_answer_and_refuse(client, publish, assert_problem):
    publish(client)
    plain = client.post("/v1/resolve", json={"drafter": "tiny-eagle3@1.0.0"}).json()
    assert (plain["version"], plain["flags"]) == ("1.0.0", [])
    engine = "sglang==0.5.23"
    asked = {"drafter": "tiny-eagle3@1.0.0", "engine": engine, "draft_path": "/models/tiny"}
    answer = client.post("/v1/resolve", json=asked)
    assert answer.status_code == 200, answer.text
    flags = answer.json()["flags"]
    assert flags[flags.index("--speculative-draft-model-path") + 1] == "/models/tiny"
    launch = ["python", "-m", "sglang.launch_server", "--model-path", "org/target", *flags]
    request = {"drafter": "tiny-eagle3@1.0.0", "engine": engine, "launch": launch}
    verdict = client.post("/v1/check", json=request).json()
    assert verdict["decision"] in {"allow", "warn"}
    unknown = client.post("/v1/resolve", json={**asked, "engine": "sglang==9.9.9"})
    assert assert_problem(unknown, "UNDECIDED").verdict.decision == "unknown"
    assert_problem(client.post("/v1/resolve", json={"drafter": "tiny-eagle3"}), "INVALID")
    text = client.get("/metrics").text
    assert 'drafters_resolutions_total{decision="none"} 1.0' in text
    assert 'drafters_resolutions_total{decision="unknown"} 1.0' in text
    assert f'drafters_verdicts_total{{decision="{verdict["decision"]}"}} 1.0' in text
