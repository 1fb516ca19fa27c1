"""What one engine release does with a launch command: the part of a profile that the reader of launches needs."""

# No `from __future__ import annotations` here, for the reason that profile.py gives.

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


class Flag(msgspec.Struct, frozen=True, omit_defaults=True):
    """One launch option, as argparse knows it.

    Attributes:
        names: Option strings, e.g. ("--tensor-parallel-size", "--tp-size"); a positional has one bare name.
        dest: Attribute it sets; "" where argparse's own rule gives it (see `flag_dest`).
        action: "store", "store_true", "store_false", "store_const", "append", "help", "version",
            "BooleanOptionalAction"; for an action class of the release's own what it was seen to do: "store",
            "store_true", "store_const", "ignore" (nothing is set), "refuse" (the launch stops), or else its class
            name (values are kept as text).
        type: How a value's text becomes a value: "str", "int", "float", "json" (`json.loads`), "nullable_str"
            ("" and "None" become None), "human_int" (1k, 25.6k, 1Ki), "strict_json" (no NaN); "json?NAME": JSON, of
            which the release's converter NAME accepts only some; "?NAME": NAME behaves like none of these, so that
            its values are neither converted nor judged.
        nargs: argparse's nargs as text ("", "+", "*", "?", "2").
        choices: Accepted values, or None.
        default: Value when absent, converted (JSON values only).
        const: Constant of store_const.
        required: Whether argparse insists on it.
        deprecated: The release's own word, when it calls the flag deprecated.
    """

    names: tuple[str, ...]
    dest: str = ""
    action: str = "store"
    type: str = "str"
    nargs: str = ""
    choices: tuple[str | int | float | bool | None, ...] | None = None
    default: object = None
    const: object = None
    required: bool = False
    deprecated: str = ""


def flag_dest(flag: Flag) -> str:
    """The attribute that a flag sets: its own, or argparse's rule (first long name, else the first)."""
    if flag.dest:
        return flag.dest
    name = flag.names[0]
    if name[:2] != "--":
        name = next((other for other in flag.names if other[:2] == "--"), name)
    return name.lstrip("-").replace("-", "_")


class Triple(msgspec.Struct, frozen=True, array_like=True):
    """Draft steps, branches per step and draft tokens (the root included)."""

    steps: int
    topk: int
    draft_tokens: int


class BlockRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the draft tokens of a block drafter come from: option, then drafter's config, then a default.

    Attributes:
        flag: Dest of the option that states the block size, or "".
        keys: Dotted keys of the drafter's config that state it, first hit wins.
        default: Block size where none of these does.
        add: Draft tokens are the block size plus this (1 where the anchor token is not part of the block).
        clash: Exception where that option and `--speculative-num-draft-tokens` disagree; "" if nobody looks.
        config_clash: The same for the config's block size; "" where the given draft tokens win.
    """

    flag: str = ""
    keys: tuple[str, ...] = ()
    default: int = 0
    add: int = 0
    clash: str = ""
    config_clash: str = ""


class SpeculativeRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """The silent adjustments of the speculative arguments of a release.

    Conditions are those of `drafter_contracts.serving.conditions`, over option dests and "algorithm" (effective).

    Attributes:
        algorithms: Accepted values of --speculative-algorithm, after upper-casing where `upper` is set.
        open: The flag takes any text (plugins register algorithms).
        upper: The value is upper-cased first.
        aliases: Value to algorithm, e.g. NEXTN to EAGLE.
        auto: Target architecture to the triple chosen when none of the three is given; "*" for all others.
        partial: Which of the three are given ("steps", "steps+topk", "topk", ..., "" for none) to the exception
            raised, for those combinations that raise.
        topk1_tokens: Expression over S (steps) that draft tokens are forced to when topk is 1 ("S+1"), or "".
        fixed: Algorithm to values that are forced ("DFLASH" to {"steps": "1", "topk": "1"}).
        bundled: Target architectures whose own checkpoint is the drafter when no draft path is given.
        topk_needs: topk above 1 with page size above 1 is accepted on these attention backends only;
            None if the release does not look.
        topk_rejects: Attention backends that refuse topk above 1.
        overlap: "off", "on", "env:NAME" (only with that variable) - the overlap scheduler under speculation.
        limits: Other refusals, as (condition text, exception, source) that a rule quotes.
        source: Where it is done.
        chain: Algorithms that `auto`, `partial`, `topk1_tokens`, `bundled` and the topk rules are about.
        auto_for: Algorithm to its automatic triple, where the target's architecture does not matter.
        promotions: Drafter architecture to algorithm to the algorithm it becomes, or "!NAME" for the exception raised.
        blocks: Algorithm to where its draft tokens come from (block drafters).
        defaults: Algorithm to values that hold only where none is given: integers, option dests, or
            "draft_tokens//topk". `fixed` uses the same expressions.
        topk_paged_one: With page size above 1, topk is silently set to 1.
        partial_paged: The same as `partial`, for those that raise with page size above 1 only.
        page_sizes: Condition ("attention_backend==flashmla") to the page size that the release forces then.
        draft_revision: Revision of the drafter where none is given, or "".
        bundled_revision: A bundled drafter is read at the target's revision.
        unfitted: Algorithm, or "architecture NAME", to what was seen that no rule here says. Nothing is told of these.
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
    chain: tuple[str, ...] = ()
    auto_for: dict[str, Triple] = msgspec.field(default_factory=dict)
    promotions: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    blocks: dict[str, BlockRule] = msgspec.field(default_factory=dict)
    defaults: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    topk_paged_one: bool = False
    partial_paged: dict[str, str] = msgspec.field(default_factory=dict)
    page_sizes: dict[str, int] = msgspec.field(default_factory=dict)
    draft_revision: str = ""
    bundled_revision: bool = False
    unfitted: dict[str, str] = msgspec.field(default_factory=dict)


class GraphSwitch(msgspec.Struct, frozen=True, omit_defaults=True):
    """When CUDA graphs are on or off for decode and verify steps; the first switch that holds decides.

    Attributes:
        when: Condition over option dests.
        on: Whether graphs are then on.
        source: File, line and function where the release decides it, or "".
    """

    when: str
    on: bool = False
    source: str = ""


class ServeRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `sglang serve` does to its arguments before the server's own parser sees them.

    Attributes:
        positional: A first argument without dashes is the model path.
        model_type: `--model-type X` is taken out, and only "auto" and "llm" lead to the server of language models.
        needs: Spellings of the model option one of which must be there literally ("--model-path").
        source: Where it is done.
    """

    positional: bool = False
    model_type: bool = False
    needs: tuple[str, ...] = ()
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
        rejects: Keys (with underscores) that raise, found by trying every option.
        key_spellings: Which keys are recognised as a store_true option: its "dest" only, or any of its long "names";
            "any": every key is written as one, whatever its option takes.
        not_switches: Dests of options that behave like store_true on the command line but not in a file.
        suffixes: Accepted file suffixes.
        source: Where it is done.
    """

    forms: tuple[str, ...] = ()
    position: str = "front"
    mapping: str = "repr"
    list_separator: str = "nargs"
    false_flag: str = "omit"
    rejects_actions: bool = False
    rejects: tuple[str, ...] = ()
    key_spellings: str = "dest"
    not_switches: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = (".yaml", ".yml")
    source: Source | None = None


class Overrides(msgspec.Struct, frozen=True, omit_defaults=True):
    """How `--json-model-override-args` reaches the configs.

    Attributes:
        target: It is applied to the target's config.
        drafter: It is applied to the drafter's config too.
        merge: "replace" (a key's whole value is replaced, nested objects are not merged), or "unknown".
        source: Where it is done.
        merged: Keys for which nested objects are merged all the same ("text_config" stands for every sub-config).
    """

    target: bool = True
    drafter: bool = False
    merge: str = "replace"
    source: Source | None = None
    merged: tuple[str, ...] = ()


class LaunchRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything about the launch command of a release.

    Attributes:
        flags: Every option.
        speculative: What happens to the speculative arguments.
        config_file: `--config`; None if the release has none.
        overrides: `--json-model-override-args`.
        entries: Ways to start the server.
        plugins: Entry-point group of plugins, or "".
        draft_quantization: Where the drafter's quantisation comes from: "inherits" (`--quantization` unless a flag of
            its own says otherwise), or "" if the release does not pass it on.
        draft_context: What happens when the target's context is longer than the drafter's: "error" (unless
            SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN allows it), "error,override" (with it, the drafter's positions
            are enlarged), "warn"; "" if not known.
        quantization_files: Values of `--quantization` whose loader raises when the checkpoint neither has a
            `quantization_config` nor the method's own file.
        graphs: When CUDA graphs are off for decode and verify steps.
        serve: What `sglang serve` does to its arguments; None if the release has no such command.
        unknown: What could not be derived, to why.
    """

    flags: tuple[Flag, ...] = ()
    speculative: SpeculativeRules = SpeculativeRules()
    config_file: ConfigFile | None = None
    overrides: Overrides = Overrides()
    entries: tuple[str, ...] = ("launch_server",)
    plugins: str = ""
    draft_quantization: str = ""
    draft_context: str = ""
    graphs: tuple[GraphSwitch, ...] = ()
    serve: ServeRule | None = None
    unknown: dict[str, str] = msgspec.field(default_factory=dict)
    quantization_files: tuple[str, ...] = ()
