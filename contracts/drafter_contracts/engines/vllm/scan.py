"""Derive a vLLM profile from a release: run the probes in the sandbox, fit what they saw, put the parts together."""

from __future__ import annotations

import msgspec

from drafter_contracts.engines.scan.encoding import encode as encode_document
from drafter_contracts.engines.scan.fit import Study, fit, place
from drafter_contracts.engines.scan.sandbox import run_probe
from drafter_contracts.engines.vllm.fit import ClassSeen, ConversionSeen, RunnerSeen, conversion, drafter, runner
from drafter_contracts.engines.vllm.profile import ENGINE, SCHEMA, VllmProfile
from drafter_contracts.engines.vllm.tree import open_release
from drafter_contracts.errors import ScanError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from drafter_contracts.engines.profile import CaptureMethod
    from drafter_contracts.engines.scan.tree import SourceTree

    Document = TypeVar("Document")

_PROBES = "drafter_contracts.engines.vllm.probes"
_DIGITS = 16
#: Configs of the battery that a reading is tried on.
_RUNS = 400


class StudySeen(Study, forbid_unknown_fields=True):
    """A study of a target class; `delegates` where its decoder is of a class that its config names."""

    delegates: str = ""


class TargetSeen(msgspec.Struct):
    """One registered architecture."""

    file: str
    study: StudySeen


class TargetsSeen(msgspec.Struct):
    """The answer of the probe of targets."""

    architectures: dict[str, TargetSeen]
    files: list[str]


class ReadingsSeen(msgspec.Struct):
    """The answer of the probe of runners."""

    runners: dict[str, RunnerSeen]
    files: list[str]


class ClassesSeen(msgspec.Struct):
    """The answer of the probe of drafters."""

    classes: dict[str, ClassSeen]
    files: list[str]


class ConfigsSeen(msgspec.Struct):
    """The answer of the probe of configs."""

    methods: list[str]
    options: list[str]
    renames: dict[str, dict[str, str]]
    speculators: dict[str, ConversionSeen]
    files: list[str]


def scan(path: str, *, allow_unconfined: bool = False) -> VllmProfile:
    """The profile of a release.

    Args:
        path: A wheel, the package's directory or one that holds it. Nothing is installed.
        allow_unconfined: See `sandbox.run_probe`.

    Raises:
        ScanError: It is no release, or the scan failed.
    """
    tree = open_release(path)
    read = _run(tree, "readings", ReadingsSeen, allow_unconfined=allow_unconfined)
    written = _run(tree, "configs", ConfigsSeen, allow_unconfined=allow_unconfined)
    built = _run(tree, "drafters", ClassesSeen, allow_unconfined=allow_unconfined)
    found = _run(tree, "targets", TargetsSeen, allow_unconfined=allow_unconfined)
    rules, targets, delegates = _targets(found)
    used = {*read.files, *written.files, *built.files, *found.files}
    return VllmProfile(
        schema=SCHEMA,
        engine=ENGINE,
        release=tree.release,
        sources={file: tree.sha256(file)[:_DIGITS] for file in sorted(used) if file in tree},
        methods=tuple(written.methods),
        options=tuple(written.options),
        runners={name: runner(one) for name, one in read.runners.items()},
        rules=rules,
        targets=targets,
        delegates=delegates,
        drafters={name: drafter(one) for name, one in built.classes.items()},
        renames=written.renames,
        speculators={kind: conversion(one) for kind, one in written.speculators.items()},
    )


def encode(profile: VllmProfile) -> bytes:
    """A profile as a canonical JSON document: the same profile always gives the same bytes.

    Raises:
        InternalError: The document does not read back as the same profile.
    """
    return encode_document(profile)


def _run(tree: SourceTree, probe: str, kind: type[Document], *, allow_unconfined: bool) -> Document:
    """A probe's answer.

    Raises:
        ScanError: It could not run, or what it says is no answer.
    """
    answer = run_probe(
        probe, tree.sources(), {"runs": _RUNS}, allow_unconfined=allow_unconfined, package=ENGINE, probes=_PROBES
    )
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        where = f"{tree.origin}: probe {probe}"
        raise ScanError("the scan's answer cannot be read", where=where, actual=str(error)) from None


def _targets(seen: TargetsSeen) -> tuple[tuple[CaptureMethod, ...], dict[str, int], dict[str, str]]:
    """Distinct rules, each architecture's, and those that take their decoder from their config."""
    rules: list[CaptureMethod] = []
    index: dict[bytes, int] = {}
    targets, delegates = {}, {}
    for name, one in sorted(seen.architectures.items()):
        study = one.study
        if not study.setter and not study.unclear:
            targets[name] = -1
            continue
        if study.delegates:
            delegates[name] = study.delegates
            continue
        rule = msgspec.structs.replace(fit(study), source=place(study.setter), forward=place(study.forward))
        targets[name] = index.setdefault(msgspec.json.encode(rule), len(rules))
        if targets[name] == len(rules):
            rules.append(rule)
    return tuple(rules), targets, delegates
