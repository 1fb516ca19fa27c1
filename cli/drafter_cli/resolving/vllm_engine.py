"""A release of vLLM that `drafters resolve` is asked for: by its version, a wheel, its package, or a profile's file."""

from __future__ import annotations

import os

from drafter_cli.errors import UsageError
from drafter_cli.launched_engine import Engine
from drafter_cli.terminal import write
from drafter_contracts.engines.vllm import store
from drafter_contracts.engines.vllm.profile import ENGINE, SCHEMA, VllmProfile
from drafter_contracts.engines.vllm.tree import is_vllm
from drafter_contracts.errors import UnknownReleaseError

_OPTION = "option --engine"
_HEAD = 4096


def names(text: str) -> bool:
    """Whether an option names a release of vLLM."""
    if not os.path.exists(text):
        return text.partition("==")[0].strip() == ENGINE
    return is_vllm(text) or _is_profile(text)


def _is_profile(path: str) -> bool:
    if not path.endswith(".json") or not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return SCHEMA.encode() in file.read(_HEAD)
    except OSError:
        return False


def read(text: str) -> Engine:
    """The release.

    Raises:
        UsageError: It names no version, or a file that cannot be read.
        ContractsError: A release that cannot be scanned, or a damaged profile.
    """
    if not os.path.exists(text):
        return _published(text.partition("==")[2].strip())
    if is_vllm(text):
        from drafter_contracts.engines.vllm.scan import scan

        write(f"drafters: reading {text}, a minute", to_stderr=True)
        return _found(scan(text), f"{_OPTION} {text}")
    try:
        with open(text, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"{text} cannot be read: {error.strerror}") from error
    return _found(store.decode(data, text), f"{_OPTION} {text}")


def _published(release: str) -> Engine:
    if not release[:1].isdigit():
        raise UsageError(f"{ENGINE}=={release} names no release", f"write {ENGINE}==VERSION: {_examples()}")
    try:
        return _found(store.load_profile(release), _OPTION)
    except UnknownReleaseError:
        remedy = f"Known of {ENGINE}: {_examples()}. Or name its wheel: --engine WHEEL."
        return Engine(
            release, _OPTION, None, problem="no profile of that release is shipped", remedy=remedy, engine=ENGINE
        )


def _found(profile: VllmProfile, taken_from: str) -> Engine:
    return Engine(profile.release, taken_from, None, engine=ENGINE, vllm=profile)


def _examples() -> str:
    return ", ".join(store.releases())


def is_published(engine: Engine) -> bool:
    """Whether a release does what it does as published: then a registry can answer for it by name."""
    try:
        return engine.vllm is None or store.load_profile(engine.release) == engine.vllm
    except UnknownReleaseError:
        return False
