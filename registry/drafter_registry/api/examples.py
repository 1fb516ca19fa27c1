"""The examples of the OpenAPI document: one drafter, followed through every route. A test decodes each."""

from __future__ import annotations

from typing import Any

DIGEST = "sha256:" + "3f" * 32
_FINGERPRINT = "sha256:" + "a1" * 32
_AT = "2026-03-01T12:00:00.000000Z"

MANIFEST: dict[str, Any] = {
    "schema": "drafters.manifest.v1",
    "name": "kimi-eagle3",
    "version": "1.1.0",
    "method": "EAGLE3",
    "target": {
        "model": "moonshotai/Kimi-K2.5",
        "architecture": "DeepseekV3ForCausalLM",
        "layers": 61,
        "hidden_size": 7168,
    },
    "layout": {"boundaries": [3, 31, 59], "output_ids": [2, 30, 58], "fc_input_width": 21504},
    "files": [{"path": "config.json", "size": 1203, "sha256": "3f" * 32}],
}
PUBLICATION = {"by": "trainer", "at": _AT, "tool": "drafters/0.1.0"}
SUMMARY: dict[str, Any] = {
    "name": "kimi-eagle3",
    "version": "1.1.0",
    "digest": DIGEST,
    "fingerprint": _FINGERPRINT,
    "method": "EAGLE3",
    "target_model": "moonshotai/Kimi-K2.5",
    "target_architecture": "DeepseekV3ForCausalLM",
    "boundaries": [3, 31, 59],
    "aliases": ["prod"],
    "published": PUBLICATION,
    "size": 4831838208,
}
VERSION: dict[str, Any] = {"summary": SUMMARY, "manifest": MANIFEST}
PAGE: dict[str, Any] = {"items": [SUMMARY], "next": "eyJ2IjoxfQ"}
PUBLISHED: dict[str, Any] = {
    "name": "kimi-eagle3",
    "version": "1.1.0",
    "digest": DIGEST,
    "fingerprint": _FINGERPRINT,
    "created": True,
    "same_contract": ["1.0.0"],
}
DIFFERENCE: dict[str, Any] = {
    "name": "kimi-eagle3",
    "before": "1.0.0",
    "after": "1.1.0",
    "same_contract": False,
    "changes": [
        {
            "field": "layout.boundaries",
            "before": "[0, 4, 32]",
            "after": "[3, 31, 59]",
            "words": "The drafter reads other layers of its target.",
            "contract": True,
        }
    ],
}
ALIAS: dict[str, Any] = {
    "name": "kimi-eagle3",
    "alias": "prod",
    "version": "1.1.0",
    "digest": DIGEST,
    "revision": 3,
    "at": _AT,
    "by": "release",
    "why": "acceptance 3.1 on the canary",
}
HISTORY: dict[str, Any] = {
    "items": [
        {"alias": "prod", "revision": 1, "to_version": "1.0.0", "at": _AT, "by": "release", "why": "first"},
    ]
}
UPLOAD: dict[str, Any] = {"id": "5f0c", "offset": 1048576, "expires": "2026-03-02T12:00:00.000000Z"}
BLOB: dict[str, Any] = {"digest": DIGEST, "size": 1203}
RESOLVE: dict[str, Any] = {
    "drafter": "kimi-eagle3@prod",
    "engine": "sglang==0.5.23",
    "draft_path": "/models/kimi-eagle3",
}
VERDICT: dict[str, Any] = {
    "decision": "refuse",
    "findings": [
        {
            "code": "CAPTURE_LAYERS",
            "severity": "refuse",
            "message": "sglang 0.5.9 would feed kimi-eagle3@1.1.0 other layers than it was trained on.",
            "expected": "boundaries 3, 31, 59 (outputs of layers 2, 30, 58)",
            "actual": "boundaries 2, 30, 58 (outputs of layers 1, 29, 57)",
            "remedy": "resolve the reference for this release",
        }
    ],
    "checked": ["CAPTURE_LAYERS"],
    "context": {"engine": "sglang 0.5.9"},
}
RESOLUTION: dict[str, Any] = {
    "name": "kimi-eagle3",
    "version": "1.1.0",
    "digest": DIGEST,
    "fingerprint": _FINGERPRINT,
    "engine": "sglang 0.5.23",
    "flags": [
        "--speculative-algorithm",
        "EAGLE3",
        "--speculative-draft-model-path",
        "/models/kimi-eagle3",
        "--speculative-num-steps",
        "3",
    ],
    "files": MANIFEST["files"],
    "manifest": MANIFEST,
    "verdict": {"decision": "allow", "checked": ["CAPTURE_LAYERS"]},
}
CHECK: dict[str, Any] = {
    "drafter": "kimi-eagle3@prod",
    "engine": "sglang==0.5.9",
    "launch": ["python", "-m", "sglang.launch_server", "--model-path", "moonshotai/Kimi-K2.5"],
}
_TOKEN: dict[str, Any] = {
    "id": "9f86d081884c7d65",
    "name": "trainer",
    "scopes": ["publish:kimi-*"],
    "created_at": _AT,
    "created_by": "first admin",
    "expires_at": "2026-05-30T12:00:00.000000Z",
}
TOKENS: dict[str, Any] = {"items": [_TOKEN]}
NEW_TOKEN: dict[str, Any] = {"token": "drt_...", "record": _TOKEN}
AUDIT: dict[str, Any] = {
    "items": [
        {
            "at": _AT,
            "actor": "release",
            "action": "alias.move",
            "subject": "kimi-eagle3@prod",
            "detail": {"from": "1.0.0", "to": "1.1.0", "revision": "3"},
            "request_id": "5b4d0f0a",
            "address": "10.0.0.7",
        }
    ],
    "next": "",
}
ACCEPTANCE: dict[str, Any] = {
    "length": 3.1,
    "dataset": "MT-Bench",
    "engine": "sglang 0.5.23",
    "steps": 3,
    "topk": 1,
    "draft_tokens": 4,
    "positions": [0.86, 0.71, 0.53],
    "target_revision": "7f3c2a1",
    "temperature": 0,
    "verify_steps": 48211,
    "date": "2026-03-01",
    "measured": "engine",
}
_VERSION: dict[str, Any] = {"name": "kimi-eagle3", "version": "1.1.0", "digest": DIGEST}
_KNOWN: dict[str, Any] = {
    "digest": "sha256:" + "c4" * 32,
    "source": "attached",
    "acceptance": ACCEPTANCE,
    "by": "trainer",
    "at": _AT,
}
ACCEPTANCES: dict[str, Any] = _VERSION | {"items": [_KNOWN]}
ADDED: dict[str, Any] = _VERSION | {"created": True, "item": _KNOWN}
_OBSERVATION: dict[str, Any] = {
    "hour": "2026-03-01T11:00:00Z",
    "instance": "kimi-7",
    "conditions": {"engine": "sglang", "release": "0.5.23", "steps": 3, "topk": 1, "draft_tokens": 4},
    "readings": 42,
    "verify_steps": 90312,
    "length": 2.94,
    "lowest": 2.61,
    "highest": 3.2,
}
OBSERVATIONS: dict[str, Any] = {"run": "kimi-7.5b4d0f0a", "observations": [_OBSERVATION]}
TAKEN: dict[str, Any] = _VERSION | {"taken": 1, "known": 0}
SEEN: dict[str, Any] = _VERSION | {"items": [{"observation": _OBSERVATION, "by": "observer", "at": _AT}], "next": ""}
HEALTH: dict[str, Any] = {"status": "ok", "version": "0.1.0"}
READY: dict[str, Any] = {"ready": True, "checks": {"database": "ok", "schema": "ok", "storage": "ok", "process": "ok"}}
