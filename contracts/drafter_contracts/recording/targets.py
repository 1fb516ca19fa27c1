"""The target of a recording: its config where that is at hand, else what the drafter's own config says of it."""

from __future__ import annotations

from typing import Any

from drafter_contracts.checkpoint.facts import DrafterFacts
from drafter_contracts.manifest_records import TargetRecord
from drafter_contracts.recording.derive import Derived, count, stated_depth
from drafter_contracts.recording.ledger import Ledger, says
from drafter_contracts.recording.statement import Statement
from drafter_contracts.rules.runtime import positions
from drafter_contracts.serving.launch import TargetFacts

_DRAFTER = "config.json of the drafter"


def record_target(
    facts: DrafterFacts, statement: Statement, base: TargetRecord, target: TargetFacts | None, ledger: Ledger
) -> TargetRecord:
    """The target to record.

    Args:
        facts: The drafter.
        statement: The publisher's word: name and revision.
        base: What the manifest beside the weights says.
        target: The target's config, or None.
        ledger: Takes what was read, what was taken on word, and where manifest and config disagree.
    """
    stated = {"model": statement.target_model, "revision": statement.target_revision}
    by_drafter = _by_drafter(facts)
    by_target = _by_target(target) if target is not None else {}
    fields: dict[str, Any] = {}
    for name in TargetRecord.__struct_fields__:
        read = by_target.get(name, Derived(None, ""))
        known = read if says(read.value) else by_drafter.get(name, Derived(None, ""))
        recorded = getattr(base, name)
        fields[name] = ledger.choose(f"target.{name}", stated.get(name), recorded, known.value, known.place)
        if not (name == "layers" and target is not None and _one_loop(recorded, target)):
            ledger.must_agree(f"target.{name}", recorded, read.value, read.place)
    if not fields["model"] and target is not None:
        fields["model"] = ledger.choose("target.model", "", "", _name(target.path), "the target that was given")
    return TargetRecord(**{name: value for name, value in fields.items() if value is not None})


def _one_loop(recorded: object, target: TargetFacts) -> bool:
    """The layers of one pass of a target that runs them several times."""
    return target.num_layers is not None and recorded == target.num_layers // max(target.num_loops, 1)


def _name(path: str) -> str:
    """A Hub id as it is; of a directory its last part, since nobody else has that directory."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    if len(parts) == 2 and path[:1] not in ("/", ".", "~"):
        return path
    return parts[-1] if parts else ""


def _by_target(target: TargetFacts) -> dict[str, Derived]:
    place = f"config.json of {target.path}"
    context = positions(target.config)
    return {
        "architecture": Derived(target.architecture, f"{place}: architectures"),
        "model_type": Derived(target.model_type, f"{place}: model_type"),
        "text_model_type": Derived(_text_model_type(target), f"{place}: model_type of its language model"),
        "layers": Derived(target.num_layers, f"{place}: its decoder layers"),
        "hidden_size": Derived(target.hidden_size, f"{place}: hidden_size"),
        "vocab_size": Derived(target.vocab_size, f"{place}: vocab_size"),
        "tokenizer_sha256": Derived(target.tokenizer_sha256, f"tokenizer.json of {target.path}"),
        "context_length": Derived(count(context[0]), f"{place}: {context[1]}") if context else Derived(None, ""),
    }


def _text_model_type(target: TargetFacts) -> str:
    return "" if target.text_model_type == target.model_type else target.text_model_type


def _by_drafter(facts: DrafterFacts) -> dict[str, Derived]:
    said = facts.target
    return {
        "model": Derived(said.get("name", ""), _DRAFTER),
        "architecture": Derived(said.get("architectures", "").partition(", ")[0], _DRAFTER),
        "layers": Derived(stated_depth(facts), _DRAFTER),
        "hidden_size": Derived(facts.target_hidden_size or None, f"{_DRAFTER}: target_hidden_size"),
    }
