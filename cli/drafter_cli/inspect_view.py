"""How `drafters inspect` shows a drafter: a table of facts, its contradictions, and a picture of what it reads."""

from __future__ import annotations

from drafter_cli.layer_stack import ASCII, UNICODE, draw
from drafter_cli.sheet import Sheet
from drafter_cli.terminal import DIM, GREEN, RED, YELLOW, Style, printable, wrap
from drafter_contracts.checkpoint.facts import (
    CONTRADICTORY,
    DECLARED,
    ENGINE_DEFAULT,
    NEXTN,
    PRODUCER_RULE,
    STANDALONE,
    UNDECIDABLE,
)
from drafter_contracts.layout import NORM_CONCATENATION, NORM_PER_CHUNK, describe_taps, layout_from_boundaries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.checkpoint.facts import DrafterFacts

_COLOURS = {
    DECLARED: GREEN,
    PRODUCER_RULE: GREEN,
    ENGINE_DEFAULT: YELLOW,
    UNDECIDABLE: RED,
    CONTRADICTORY: RED,
}
_NORMS = {
    NORM_CONCATENATION: "one over the concatenation",
    NORM_PER_CHUNK: "one for each tap",
}


def render(
    facts: DrafterFacts,
    *,
    target_layers: int | None = None,
    color: bool = False,
    unicode: bool = True,
    width: int = 80,
) -> str:
    """A drafter for a person.

    Args:
        facts: What `read_drafter` says.
        target_layers: Depth of the target for the picture, if the facts do not hold it.
        color: Use colours.
        unicode: Draw with more than ASCII.
        width: Columns of the terminal.
    """
    table = _Table(Style(on=color), width)
    depth = facts.target_layers if facts.target_layers is not None else target_layers
    table.title(f"{facts.method} drafter", facts.path)
    _method(table, facts)
    _capture(table, facts)
    _shape(table, facts)
    _target(table, facts)
    _problems(table, facts)
    if facts.layout.layout is not None or facts.layout.alternatives:
        table.lines.append("")
        table.lines += draw(
            facts.layout.layout,
            depth,
            facts.layout.alternatives,
            style=table.style,
            glyphs=UNICODE if unicode else ASCII,
        )
    text = "\n".join(table.lines)
    return text if unicode else text.encode("ascii", "backslashreplace").decode()


def render_json(facts: DrafterFacts) -> str:
    """The facts for a program: one indented JSON document."""
    import msgspec.json

    return msgspec.json.format(msgspec.json.encode(facts), indent=2).decode()


class _Table(Sheet):
    """A sheet with lists, as wide as it is told."""

    def item(self, text: str, *codes: str) -> None:
        """One line of a list."""
        first, *rest = wrap(printable(text), indent="    ", width=self.width).split("\n")
        self.lines += [self.style.paint(line, *codes) for line in (f"  - {first[4:]}", *rest)]


def _method(table: _Table, facts: DrafterFacts) -> None:
    table.section("Method")
    table.field("kind", facts.method)
    for evidence in facts.method_evidence:
        side, _, why = evidence.partition(": ")
        table.field(f"by {side.removesuffix('.json')}", why)


def _capture(table: _Table, facts: DrafterFacts) -> None:
    reading = facts.layout
    table.section("Capture layout")
    if reading.layout is not None:
        table.field("reads", describe_taps(reading.layout.taps))
    else:
        table.field("reads", "no aux hidden states" if facts.method in (STANDALONE, NEXTN) else "not known", YELLOW)
    table.field("confidence", reading.confidence, _COLOURS.get(reading.confidence, ""))
    if reading.key:
        table.field("stated as", f"{reading.key} = {list(reading.ids)}" if reading.ids else reading.key)
    table.field("numbering", reading.numbering)
    table.field("producer", reading.producer)
    table.field("why", reading.reason)
    for other in reading.alternatives:
        table.field("or else", describe_taps(layout_from_boundaries(other).taps), YELLOW)
    table.field("to settle", reading.settle, YELLOW)
    fc = facts.fc
    if fc is not None:
        taps = f": {fc.taps} taps of {fc.tap_width}" if fc.taps is not None else ""
        table.field("fusion", f"{fc.name} [{fc.out_width}, {fc.in_width}]{taps}{', with bias' if fc.bias else ''}")
    if reading.layout is not None:
        table.field("norm before fc", _NORMS.get(reading.layout.norm, ""))


def _shape(table: _Table, facts: DrafterFacts) -> None:
    table.section("Drafter")
    table.field("architecture", ", ".join(facts.architectures))
    table.field("weights", _weights(facts))
    table.field("hidden size", facts.hidden_size)
    table.field("layers", _layers(facts))
    table.field("vocabulary", _vocabulary(facts))
    table.field("head", _ownership(facts.has_lm_head))
    table.field("embedding", _ownership(facts.has_embedding))
    table.field("context", facts.max_position_embeddings)
    table.field("RoPE", _rope(facts))
    table.field("attention", facts.attention)
    flags = [
        name
        for name, value in (
            ("norm_output", facts.norm_output),
            ("norm_before_residual", facts.norm_before_residual),
            ("tie_word_embeddings", facts.tie_word_embeddings),
        )
        if value
    ]
    table.field("flags", ", ".join(flags))
    table.field("quantisation", facts.quantization)
    table.field("block size", facts.block_size)
    table.field("mask token", facts.mask_token_id)


def _target(table: _Table, facts: DrafterFacts) -> None:
    if facts.target:
        table.section("Target, as the config says")
        for key, value in facts.target.items():
            table.field(key.replace("_", " "), value)


def _problems(table: _Table, facts: DrafterFacts) -> None:
    for name, fatal, colour in (("Errors", True, RED), ("Warnings", False, YELLOW)):
        found = [one for one in facts.disagreements if one.fatal is fatal]
        if found:
            table.section(name)
            for one in found:
                table.item(f"{one.what}: {one.left}, but {one.right}", colour)
    if facts.notes:
        table.section("Notes")
        for note in facts.notes:
            table.item(note, DIM)


def _weights(facts: DrafterFacts) -> str:
    if facts.weights == "none":
        return "none: config.json alone" + (f", {facts.dtype}" if facts.dtype else "")
    return f"{facts.weights}, {len(facts.tensors)} tensors, mostly {facts.dtype}"


def _layers(facts: DrafterFacts) -> str:
    if facts.real_layers is None:
        return "" if facts.config_layers is None else f"{facts.config_layers} by config.json"
    return f"{facts.real_layers} by tensor names ({', '.join(facts.layer_prefixes)})"


def _vocabulary(facts: DrafterFacts) -> str:
    words = facts.vocabulary
    if words.size is None:
        return ""
    text = f"{words.size} of the target's {words.target_size}" if words.reduced else f"{words.size}"
    if words.d2t is not None:
        text += f", d2t [{words.d2t}] as {words.encoding}"
    return text + (f", t2d [{words.t2d}]" if words.t2d is not None else "")


def _ownership(present: bool | None) -> str:
    return "" if present is None else "its own" if present else "borrowed from the target"


def _rope(facts: DrafterFacts) -> str:
    parts = [f"theta {facts.rope_theta:g}"] if facts.rope_theta is not None else []
    if facts.rope_scaling:
        kind = facts.rope_scaling.get("rope_type", facts.rope_scaling.get("type", "scaled"))
        factor = facts.rope_scaling.get("factor")
        parts.append(f"{kind}" + (f" x {factor}" if factor is not None else ""))
    return ", ".join(parts)
