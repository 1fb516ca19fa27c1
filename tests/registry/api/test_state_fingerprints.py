"""Fingerprints of states in manifests that no command of this project made."""

from __future__ import annotations

import base64
import json

PLACE = "/v1/drafters/tiny-eagle3/versions/1.0.0"


def crafted(manifest, **tap):
    zeros = base64.b64encode(bytes(4 * 64 * 2)).decode()
    whole = {"norms": [0, 0], "first": [[0] * 5] * 2, "projection": zeros}
    taps = [{"boundary": boundary} | whole for boundary in (3, 17, 30)]
    taps[1] |= tap
    record = {"spec": "drafters.fingerprint.v1", "tokens": [17, 19], "taps": taps, "layers": 32, "width": 8}
    return json.loads(manifest) | {"state_fingerprint": record}


def test_a_fingerprint_that_cannot_be_is_refused_with_its_place(client, drafter, store, assert_problem):
    files, manifest = drafter()
    for data in files.values():
        store(client, data)
    for place, tap in {
        "/state_fingerprint/taps/1/projection": {"projection": "AAAA"},
        "/state_fingerprint/taps/1/norms": {"norms": [0]},
        "/state_fingerprint/taps": {"boundary": 18},
    }.items():
        problem = assert_problem(client.put(PLACE, json=crafted(manifest, **tap)), "INVALID")
        assert [one.pointer for one in problem.errors] == [place]
    assert client.get("/v1/drafters").json() == {"items": [], "next": ""}
    published = client.put(PLACE, json=crafted(manifest))
    assert published.status_code == 201, published.text
    stored = client.get(f"{PLACE}/manifest").json()
    assert stored["state_fingerprint"] == crafted(manifest)["state_fingerprint"]
