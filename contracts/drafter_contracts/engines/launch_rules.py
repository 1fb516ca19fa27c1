"""What one engine release does with a launch command: the part of a profile that the reader of launches needs."""

from __future__ import annotations

import msgspec


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in the release: file below `sglang/srt`, function, first line."""

    file: str
    function: str = ""
    line: int = 0

    def text(self) -> str:
        """The place as text: "models/llama.py:929 (LlamaForCausalLM.set_eagle3_layers_to_capture)"."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place} ({self.function})" if self.function else place


class Flag(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """One launch option, as argparse knows it.

    Attributes:
        names: Option strings, e.g. ("--tensor-parallel-size", "--tp-size"); a positional has one bare name.
        dest: Attribute it sets.
        action: "store", "store_true", "store_false", "store_const", "append", "help", "version" or another
            action's class name.
        type: "str", "int", "float", "json", "bool" or the name of the release's own converter.
        nargs: argparse's nargs as text ("", "+", "*", "?", "2").
        choices: Accepted values, or None.
        default: Value when absent (JSON values only).
        const: Constant of store_const.
        required: Whether argparse insists on it.
        deprecated: The release's own word, when it calls the flag deprecated.
    """

    names: tuple[str, ...]
    dest: str
    action: str = "store"
    type: str = "str"
    nargs: str = ""
    choices: tuple[str | int | float | bool | None, ...] | None = None
    default: msgspec.Raw | object | None = None
    const: object | None = None
    required: bool = False
    deprecated: str = ""


class Triple(msgspec.Struct, frozen=True, array_like=True):
    """Draft steps, branches per step and draft tokens (the root included)."""

    steps: int
    topk: int
    draft_tokens: int


class SpeculativeRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """The silent adjustments of the speculative arguments of a release.

    Attributes:
        algorithms: Accepted values of --speculative-algorithm, after upper-casing where `upper` is set.
        open: The flag takes any text (plugins register algorithms).
        upper: The value is upper-cased first.
        aliases: Value to algorithm, e.g. NEXTN to EAGLE.
        auto: Target architecture to the triple chosen when none of the three is given; "*" for all others.
        partial: Which of the three are given ("steps", "steps+topk", "topk", ...) to the exception raised, for
            those combinations that raise.
        topk1_tokens: Expression over S (steps) that draft tokens are forced to when topk is 1 ("S+1"), or "".
        fixed: Algorithm to values that are forced ("DFLASH" to {"steps": "1", "topk": "1"}).
        bundled: Target architectures whose own checkpoint is the drafter when no draft path is given.
        topk_needs: topk above 1 with page size above 1 is accepted on these attention backends only;
            None if the release does not look.
        topk_rejects: Attention backends that refuse topk above 1.
        overlap: "off", "on", "env:NAME" (only with that variable) - the overlap scheduler under speculation.
        limits: Other refusals, as (condition text, exception, source) that a rule quotes.
        source: Where it is done.
    """

    algorithms: tuple[str, ...] = ()
    open: bool = False
    upper: bool = False
    aliases: dict[str, str] = msgspec.field(default_factory=dict)
    auto: dict[str, Triple] = msgspec.field(default_factory=dict)
    partial: dict[str, str] = msgspec.field(default_factory=dict)
    topk1_tokens: str = ""
    fixed: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    bundled: tuple[str, ...] = ()
    topk_needs: tuple[str, ...] | None = None
    topk_rejects: tuple[str, ...] = ()
    overlap: str = ""
    limits: tuple[tuple[str, str, str], ...] = ()
    source: Source | None = None


class ConfigFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """How `--config FILE` is merged into argv.

    Attributes:
        forms: "two-token" (`--config F` only) and, where supported, "equals" (`--config=F`).
        position: Where the file's options go: "front" (so that the command line wins) or "in place".
        mapping: How a mapping is written as a value: "json" or "repr".
        list_separator: "nargs" (one token per item).
        false_flag: What `false` does on a store_true option: "omit".
        rejects_actions: Options with actions other than store and store_true raise.
        suffixes: Accepted file suffixes.
        source: Where it is done.
    """

    forms: tuple[str, ...] = ()
    position: str = "front"
    mapping: str = "repr"
    list_separator: str = "nargs"
    false_flag: str = "omit"
    rejects_actions: bool = False
    suffixes: tuple[str, ...] = (".yaml", ".yml")
    source: Source | None = None


class Overrides(msgspec.Struct, frozen=True, omit_defaults=True):
    """How `--json-model-override-args` reaches the configs.

    Attributes:
        target: It is applied to the target's config.
        drafter: It is applied to the drafter's config too.
        merge: "replace" (a key's whole value is replaced, nested objects are not merged).
        source: Where it is done.
    """

    target: bool = True
    drafter: bool = False
    merge: str = "replace"
    source: Source | None = None


class LaunchRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything about the launch command of a release."""

    flags: tuple[Flag, ...] = ()
    speculative: SpeculativeRules = SpeculativeRules()
    config_file: ConfigFile | None = None
    overrides: Overrides = Overrides()
    entries: tuple[str, ...] = ("launch_server",)
    plugins: str = ""
    draft_quantization: str = ""
    draft_context: str = ""
