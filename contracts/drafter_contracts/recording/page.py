"""The manifest's documentation, generated: `python -m drafter_contracts.recording.page > docs/manifest.md`.

With `--schema`, the JSON Schema: `python -m drafter_contracts.recording.page --schema > docs/manifest.schema.json`.
"""

from __future__ import annotations

import json

import msgspec

from drafter_contracts import limits
from drafter_contracts.manifest import FILE_NAME, MEDIA_TYPE, SCHEMA, Manifest, json_schema
from drafter_contracts.manifest_records import (
    Acceptance,
    DraftRecord,
    FileRecord,
    LayoutRecord,
    Provenance,
    Recommended,
    RenderRecord,
    StatedIds,
    TargetRecord,
)
from drafter_contracts.manifest_values import (
    EvaluatedLayout,
    EvaluatedRecord,
    FingerprintRecord,
    IdentifiedRecord,
    IdentifiedTap,
    TapFingerprint,
)
from drafter_contracts.recording.derive import DERIVED_FIELDS
from drafter_contracts.recording.fingerprint import CONTRACT_FIELDS

#: Parts of the document: the dotted field that holds each, and its class.
_PARTS: tuple[tuple[str, type[msgspec.Struct]], ...] = (
    ("", Manifest),
    ("target", TargetRecord),
    ("layout", LayoutRecord),
    ("layout.stated", StatedIds),
    ("layout.identified", IdentifiedRecord),
    ("layout.identified.taps", IdentifiedTap),
    ("layout.evaluated", EvaluatedRecord),
    ("layout.evaluated.stated", EvaluatedLayout),
    ("layout.evaluated.next_best", EvaluatedLayout),
    ("draft", DraftRecord),
    ("recommended", Recommended),
    ("acceptance", Acceptance),
    ("files", FileRecord),
    ("provenance", Provenance),
    ("render", RenderRecord),
    ("state_fingerprint", FingerprintRecord),
    ("state_fingerprint.taps", TapFingerprint),
)
_LISTS = ("acceptance", "files", "layout.identified.taps", "state_fingerprint.taps")

_HEAD = f"""# The manifest

Generated from the code (`make docs`); a test keeps it current. The same as JSON Schema:
[manifest.schema.json](manifest.schema.json).

What a drafter was trained on, what it needs and which files it is, as one JSON document. Beside the weights it is
called `{FILE_NAME}`; a registry keeps one per version. Media type: `{MEDIA_TYPE}`.

* **Strict**: a field that the schema does not know is refused, so that a misspelt key cannot turn a requirement off.
  The one required key is `schema`, and its value is `{SCHEMA}`: a document with another one is refused by its name.
  At most {limits.manifest_max_bytes} bytes.
* **Identity**: the sha256 of the canonical bytes (keys sorted, defaults left out, no white space, UTF-8). Who published
  it, when and with which tool is the registry's word, beside the document and not in it: the same drafter published
  twice is one version ([why](adr/0010-manifest-identity.md)).
* **Contract**: the fields marked so decide whether and how a drafter is served. Their digest is the *fingerprint*:
  versions with the same one may stand in for each other in any launch. Spelling does not matter: states left out are
  `residual`, widths left out are the target's, `bfloat16` is `BF16`.
* **Read or taken on word**: what a drafter's own config.json and tensor headers decide (the fields marked as read,
  where the files state them) is read there when it is published, and a registry reads it again: a claim that its bytes
  contradict is refused, with all contradictions listed. The rest is the publisher's word, or of the target's config.

What is empty or left out is not recorded.
"""

_STORED = """
## What must be there to be stored

`name`, `version`, `method`, `target.model`, `target.architecture`, `target.layers`, `target.hidden_size`, `files`
(every one, sorted by path), and `layout` for methods that read aux hidden states (EAGLE3, P-EAGLE, DFLASH, DFLASH2,
DSPARK).

A layout is known in one of three ways (`layout.known_by`):

| | |
|---|---|
| `declared` | stated by its publisher, by the manifest beside the weights, or by two keys of config.json that agree |
| `producer rule` | config.json states numbers, and what they mean follows from who wrote them, which a check doubts |
| `identified by values` | recorded states were compared with the target's layers: `layout.identified` has the errors |

Where config.json states nothing, contradicts itself, or could only be guessed, there is no manifest until the layers
are stated, `--output-ids 2,30,58` or `--boundaries 3,31,59`, or identified ([evidence](identify.md)). Ids that
contradict a declared layout, the width of `fc` or what was identified are refused.
"""


def markdown() -> str:
    """The whole page."""
    return _HEAD + "".join(_section(field, kind) for field, kind in _PARTS) + _STORED


def schema() -> str:
    """The JSON Schema as a file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _section(field: str, kind: type[msgspec.Struct]) -> str:
    said, meanings = _docstring(kind)
    title = f"`{field}`" if field else "The document"
    each = " The list holds any number of these." if field in _LISTS else ""
    rows = "".join(_row(field, entry, meanings[entry.name]) for entry in msgspec.structs.fields(kind))
    return (
        f"\n## {title}\n\n{said}{each}\n\n| field | type | contract | read | meaning |\n|---|---|---|---|---|\n{rows}"
    )


def _row(field: str, entry: msgspec.structs.FieldInfo, meaning: str) -> str:
    dotted = f"{field}.{entry.name}" if field else entry.name
    contract = "yes" if dotted in CONTRACT_FIELDS else ""
    read = "yes" if dotted in DERIVED_FIELDS else ""
    return f"| `{entry.name}` | {_type(msgspec.json.schema(entry.type))} | {contract} | {read} | {meaning} |\n"


def _type(schema: dict[str, object]) -> str:
    """A field's type in a few words."""
    options = schema.get("anyOf")
    if isinstance(options, list):
        return " or ".join(_type(option) for option in options if option.get("type") != "null")
    values = schema.get("enum")
    if isinstance(values, list):
        return ", ".join(f"`{value}`" for value in values if value != "")
    if "$ref" in schema:
        return "object"
    kind = str(schema.get("type", ""))
    if kind == "array":
        items = schema.get("items")
        return f"list of {_type(items)}" if isinstance(items, dict) else "list"
    low = schema.get("minimum")
    return {"string": "text", "boolean": "true or false"}.get(kind, kind) + (f" >= {low}" if low is not None else "")


def _docstring(kind: type[msgspec.Struct]) -> tuple[str, dict[str, str]]:
    """Summary of a class, and the meaning of each field, from its docstring."""
    head, _, tail = (kind.__doc__ or "").partition("Attributes:")
    meanings: dict[str, str] = {}
    name = ""
    for line in tail.splitlines():
        text = line.strip()
        key, colon, rest = text.partition(": ")
        if colon and key in kind.__struct_fields__:
            name = key
            meanings[name] = rest
        elif text:
            meanings[name] += f" {text}"
    return " ".join(head.split()), meanings


if __name__ == "__main__":
    import sys

    sys.stdout.write(schema() if sys.argv[1:] == ["--schema"] else markdown())
