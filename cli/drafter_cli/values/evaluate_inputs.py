"""What `drafters evaluate` works on: the drafter, ready to run, and the layouts to try."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drafter_cli.commandline import Parsed
from drafter_cli.errors import UsageError
from drafter_cli.values.reference_of import Reference
from drafter_cli.values.stated_layout import FILES, Stated, stated_layout
from drafter_contracts import hub_cache
from drafter_contracts.errors import CaptureError
from drafter_contracts.layout import CaptureLayout, layout_from_boundaries
from drafter_contracts.manifest import Manifest, read_manifest

if TYPE_CHECKING:
    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.values.drafting import Drafter

#: Most tokens per step: a drafter that is right so often in a row needs no more to be compared.
MOST_STEPS = 32
#: Tokens per step where nothing says how many.
_STEPS = 3
_CONFIG = "config.json"


@dataclass(frozen=True, kw_only=True)
class Model:
    """The target as far as the drafter needs it.

    Attributes:
        directory: Its files, or "" where only captures of it are here.
        layers: N.
        hidden_size: Width of its residual stream.
        model_type: Of its config, or "".
        vocab_size: Rows of its embedding, 0 if not known.
    """

    directory: str
    layers: int
    hidden_size: int
    model_type: str = ""
    vocab_size: int = 0


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """The drafter's directory, and what it is called and said to be."""

    directory: str
    called: str
    facts: DrafterFacts
    beside: Manifest | None


def model_of(reference: Reference, files: str) -> Model:
    """The target's shape: from its config, or from the first capture.

    Args:
        reference: What is compared with.
        files: With captures: directory or Hub id of the target, for the embedding and head that a drafter may lack.

    Raises:
        UsageError: A target that is not on this machine.
        CaptureError: A config that does not say the shape, or a capture that cannot be read.
    """
    if reference.target and files:
        raise UsageError("--target and --target-files state the same thing", "--target-files goes with --reference")
    path = reference.target or files
    directory = hub_cache.find(path, reference.revision) if path else None
    if path and directory is None:
        raise UsageError(f"{path} is neither a directory nor in this machine's Hub cache", "give its directory")
    if reference.target:
        from drafter_contracts.serving.target import read_target

        told = read_target(directory or "")
        if told.num_layers is None or told.hidden_size is None:
            raise CaptureError("the target's config does not say its depth and width", where=told.source)
        return Model(
            directory=directory or "",
            layers=told.num_layers,
            hidden_size=told.hidden_size,
            model_type=told.text_model_type,
            vocab_size=told.vocab_size or 0,
        )
    from drafter_contracts.values.captures import read_capture

    record = read_capture(reference.captures[0], digest=False).record
    return Model(
        directory=directory or "",
        layers=record.layers,
        hidden_size=record.hidden_size,
        vocab_size=record.vocab_size,
    )


def drafter_of(word: str, model: Model) -> Evaluated:
    """The drafter that a word names: a directory, a model in the Hub's cache, or a reference to a registry.

    Raises:
        UsageError: It names nothing, or no registry or cache has it.
        RegistryError: The registry does not give it.
        CheckpointError: Files that cannot be read.
        CaptureError: Its manifest is of a target of another shape.
    """
    from drafter_cli.publishing.command import read_facts

    directory = _directory(word)
    beside = read_manifest(directory)
    if beside is not None:
        _require_same_target(beside, model, directory)
    from drafter_contracts.serving.launch import TargetFacts

    told = TargetFacts(
        model.directory, num_layers=model.layers, hidden_size=model.hidden_size, text_model_type=model.model_type
    )
    facts = read_facts(directory, told, beside)
    return Evaluated(directory=directory, called=_called(word, beside), facts=facts, beside=beside)


def _directory(word: str) -> str:
    from drafter_registry.names import is_reference

    if "@" in word and not os.path.lexists(word) and is_reference(word):
        from drafter_cli.cache.fetched import referenced

        return referenced(word).directory
    directory = hub_cache.find(word, "")
    if directory is None:
        raise UsageError(
            f"{word} is neither a directory nor in this machine's Hub cache",
            "give the drafter's directory, or NAME@VERSION of a registry",
        )
    return directory


def _called(word: str, beside: Manifest | None) -> str:
    if "@" in word and not os.path.lexists(word):
        return word
    if beside is not None and beside.name:
        return f"{beside.name}@{beside.version}" if beside.version else beside.name
    return os.path.basename(os.path.abspath(word))


def _require_same_target(beside: Manifest, model: Model, directory: str) -> None:
    recorded = (beside.target.layers, beside.target.hidden_size)
    for name, theirs, ours in zip(("layers", "width"), recorded, (model.layers, model.hidden_size), strict=True):
        if theirs is not None and theirs != ours:
            raise CaptureError(
                "the reference is another target than the drafter's manifest names",
                where=f"{directory}: target",
                expected=f"{theirs} {name}",
                actual=f"{ours}",
            )


def load(drafter: Evaluated, model: Model) -> Drafter:
    """The drafter ready to run.

    Raises:
        UsageError: It has no embedding or head of its own, and the target's files are not here.
        UnsupportedDrafterError: A drafter of a kind that is not computed.
        CheckpointError: Files that cannot be read.
    """
    import torch

    from drafter_contracts.values.drafting import load_drafter

    facts = drafter.facts
    if model.directory:
        from drafter_contracts.values.targets import embedding_and_head

        embedding, head = embedding_and_head(model.directory)
    else:
        lacks = [name for name, has in (("embedding", facts.has_embedding), ("head", facts.has_lm_head)) if not has]
        if lacks and not (lacks == ["head"] and facts.tie_word_embeddings):
            raise UsageError(
                f"{drafter.called} has no {' and no '.join(lacks)} of its own: it drafts with the target's",
                "add --target-files, the target's directory; it is not run, these tensors are read",
            )
        rows = model.vocab_size or facts.vocabulary.target_size or facts.vocabulary.size or 1
        embedding = head = torch.zeros(1, model.hidden_size).expand(rows, model.hidden_size)
    return load_drafter(
        drafter.directory,
        embedding=embedding,
        head=head,
        target_hidden_size=model.hidden_size,
        stated=drafter.beside.draft if drafter.beside is not None else None,
    )


@dataclass(frozen=True, kw_only=True)
class Layouts:
    """What to try.

    Attributes:
        tried: (name, layout), the stated one first; without one, those of `--layouts`.
        stated: What is said.
    """

    tried: tuple[tuple[str, CaptureLayout], ...]
    stated: Stated


def layouts_of(parsed: Parsed, drafter: Evaluated, model: Model) -> Layouts:
    """The stated layout, its neighbours, what the files say if that is another, and those of `--layouts`.

    Raises:
        UsageError: Options that cannot be read.
        LayoutError: A layout that the target cannot have.
        ManifestError: A layout in the manifest that cannot exist.
    """
    from drafter_contracts.values.acceptance import STATED, neighbours

    stated = stated_layout(parsed, drafter.facts, drafter.beside, layers=model.layers, hidden_size=model.hidden_size)
    given = _given(parsed, model)
    if stated.layout is None:
        return Layouts(tried=_once(given), stated=stated)
    files = [] if stated.files is None else [(FILES, stated.files)]
    others = neighbours(stated.layout, model.layers)
    return Layouts(tried=_once([(STATED, stated.layout), *files, *given, *others]), stated=stated)


def _once(layouts: Sequence[tuple[str, CaptureLayout]]) -> tuple[tuple[str, CaptureLayout], ...]:
    seen: dict[object, tuple[str, CaptureLayout]] = {}
    for name, layout in layouts:
        seen.setdefault(layout.taps, (name, layout))
    return tuple(seen.values())


def _given(parsed: Parsed, model: Model) -> list[tuple[str, CaptureLayout]]:
    from drafter_cli.gate_options import numbers

    if not parsed.has("--layouts"):
        return []
    lists = [part for part in parsed.value("--layouts").split(";") if part.strip()]
    if not lists:
        raise UsageError("--layouts names no layout", 'write boundaries, for example --layouts "3,31,59;2,30,58"')
    return [
        (
            f"given {number}",
            layout_from_boundaries(numbers("--layouts", part), width=model.hidden_size, num_layers=model.layers),
        )
        for number, part in enumerate(lists, 1)
    ]


def drafted_steps(parsed: Parsed, beside: Manifest | None, most: int | None) -> int:
    """Tokens to draft per step: as the option says, else the manifest, else a whole block, else 3.

    Args:
        parsed: The command line.
        beside: The drafter's manifest.
        most: What the drafter can draft per step; None for any number.

    Raises:
        UsageError: More than it can draft, or than is counted.
    """
    from drafter_cli.words import number

    limit = MOST_STEPS if most is None else min(most, MOST_STEPS)
    if parsed.has("--steps"):
        steps = number("--steps", parsed.value("--steps"))
        if steps > limit:
            why = f"; this drafter's block has {most} after the given one" if most is not None and most == limit else ""
            raise UsageError(f"{steps} tokens per step are too many", f"--steps is at most {limit}{why}")
        return steps
    said = None
    if beside is not None:
        said = beside.recommended.speculative_tokens or beside.recommended.steps
    return min(said or most or _STEPS, limit)


def file_digests_of(drafter: Evaluated, folder: str) -> tuple[str, str]:
    """Digests of the drafter as it would be published: of its weights (see `evidence.documents`), and its config.

    Raises:
        UsageError: A file that cannot be read, or that changes.
    """
    from drafter_cli.progress import Progress
    from drafter_cli.publishing.file_digests import digest_of
    from drafter_cli.publishing.files import weight_files
    from drafter_contracts.evidence.documents import weights_digest

    full = {path: os.path.join(drafter.directory, path) for path in (*weight_files(drafter.directory), _CONFIG)}
    with Progress("hashing", sum(os.path.getsize(one) for one in full.values())) as progress:
        digests = {path: digest_of(one, folder, progress.tell, _changed)[0] for path, one in full.items()}
    return weights_digest(digests), digests[_CONFIG]


def _changed(path: str) -> UsageError:
    return UsageError(f"{path} changed while it was read", "evaluate again once it is finished")
