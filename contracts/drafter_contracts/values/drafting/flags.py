"""Switches that change what a drafter computes and that producers state in different ways, or not at all."""

from __future__ import annotations

from drafter_contracts.checkpoint.config_view import ConfigView, dotted
from drafter_contracts.checkpoint.facts import DrafterFacts
from drafter_contracts.errors import ContradictionError
from drafter_contracts.manifest_records import DraftRecord
from drafter_contracts.values.drafting.rope import DEFAULT_THETA

_PLACES = ("", "eagle_config.", "transformer_layer_config.")


def norm_before_residual(facts: DrafterFacts, stated: DraftRecord | None, notes: list[str]) -> bool:
    """Whether the first layer's residual starts from the normed state.

    Args:
        facts: The drafter's.
        stated: What a manifest says, or None.
        notes: Gets a line if nothing states it, or an engine does otherwise.

    Raises:
        ContradictionError: Two places say different things.
    """
    found = _agreed(facts, "norm_before_residual", None if stated is None else stated.norm_before_residual)
    if found is None:
        notes.append(
            "norm_before_residual is not stated: false is assumed, as in speculators' config class and SGLang; vLLM "
            "takes a speculators config without it as true"
        )
        return False
    if found:
        notes.append("norm_before_residual is true: SGLang 0.5.23 and TensorRT-LLM have no such option")
    return found


def norm_output(facts: DrafterFacts, stated: DraftRecord | None, notes: list[str]) -> bool:
    """Whether the next step gets the normed state, in the engines' meaning of the word.

    Args:
        facts: The drafter's.
        stated: What a manifest says, or None. It is needed where SpecForge's own, inverted meaning was written.
        notes: Gets a line where the producer may have meant something else.

    Raises:
        ContradictionError: Two places say different things.
    """
    meant = None if stated is None else stated.norm_output
    specforge = "specforge" in facts.layout.producer.lower()
    found = _agreed(facts, "norm_output", None if specforge else meant)
    if not specforge:
        return bool(found)
    if meant is not None:
        if found not in (None, meant):
            notes.append(
                f"norm_output is {meant} by the manifest; config.json's {found} may be SpecForge's own meaning"
            )
        return meant
    if found:
        notes.append(
            "norm_output is true, read as engines do (the next step gets the normed state); SpecForge before "
            "2026-09-15 wrote true and trained on the state that is not normed: draft.norm_output of the manifest "
            "settles it"
        )
    return bool(found)


def theta(facts: DrafterFacts, stated: DraftRecord | None, notes: list[str]) -> float:
    """RoPE base: the one trained with if a manifest records it, else the config's, else the default."""
    trained = None if stated is None else stated.rope_theta
    if trained is not None:
        if facts.rope_theta not in (None, trained):
            notes.append(
                f"RoPE base {trained:g}, trained with by the manifest, is used; engines take "
                f"config.json's {facts.rope_theta:g}"
            )
        return trained
    if facts.rope_theta is None:
        notes.append(f"rope_theta is not stated: {DEFAULT_THETA:g} is used, as engines do")
        return DEFAULT_THETA
    return facts.rope_theta


def _agreed(facts: DrafterFacts, key: str, recorded: bool | None) -> bool | None:
    """What all places say of a flag, or None if none says anything."""
    view = ConfigView(facts.config)
    said = {f"config.json {place}{key}": dotted(view.config, f"{place}{key}") for place in _PLACES}
    said[f"manifest draft.{key}"] = recorded
    flags = {place: flag for place, flag in said.items() if isinstance(flag, bool)}
    wrong = {place: flag for place, flag in said.items() if flag is not None and not isinstance(flag, bool)}
    if wrong or len(set(flags.values())) > 1:
        words = [f"{place} = {flag}" for place, flag in (flags | wrong).items()]
        raise ContradictionError(
            f"what it computes is stated in two ways: {'; '.join(words)}",
            where=facts.path,
            expected="true or false, the same everywhere",
            actual=", ".join(words),
        )
    return next(iter(flags.values()), None)
