"""What a launch command says: the values that the reader of a launch produces and the rules consume."""

from __future__ import annotations

import msgspec


class Invocation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command line, split into what wraps the engine and what the engine sees.

    Attributes:
        argv: The command as given.
        wrapper: Leading part that starts something else ("env A=B", "numactl ...", "docker run IMAGE").
        interpreter: The Python that the command names ("python3", "/opt/x/bin/python"), or "".
        interpreter_options: Options of that Python itself ("-I", "-s").
        program: The script or console command that the command line names ("/opt/x/bin/sglang"), or "".
        entry: "launch_server" (`python -m sglang.launch_server`), "serve" (`sglang serve`), or "" if this is
            no SGLang launch.
        arguments: What the engine's own parser sees.
        environment: Variables that the wrapper sets for the engine.
        image: Container image, if the launch runs in one (then the engine installed here says nothing).
        working_directory: Directory that the wrapper changes to, or "".
        python_environment: What chooses the Python environment: "" (the interpreter as named, through PATH),
            "prefix:DIR", "conda:NAME", "uv", "changed" (a shell may have changed PATH: only a path still names a
            program) or "unknown" (a tool that this reader cannot follow).
        release_hint: Release that an image tag or a package requirement names ("0.5.9"), or "". A hint, never a fact.
        release_hint_source: The text it was read from.
    """

    argv: tuple[str, ...]
    wrapper: tuple[str, ...] = ()
    interpreter: str = ""
    interpreter_options: tuple[str, ...] = ()
    program: str = ""
    entry: str = ""
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    image: str = ""
    working_directory: str = ""
    python_environment: str = ""
    release_hint: str = ""
    release_hint_source: str = ""


class ArgumentProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that the release's own parser would not accept.

    Attributes:
        kind: "unknown_flag", "ambiguous", "bad_value", "bad_choice", "missing_value", "required", "config_file",
            "unexpected_value", "bad_override".
        flag: As written.
        value: As written, or "".
        expected: What the release accepts.
        nearest: The closest known flag, or "".
    """

    kind: str
    flag: str
    value: str = ""
    expected: str = ""
    nearest: str = ""


class Arguments(msgspec.Struct, frozen=True, omit_defaults=True):
    """A launch's options as the release's own parser reads them.

    Attributes:
        values: dest to value, defaults included.
        given: dest to where it was given: "command line", the config file's path, ...
        spelled: dest to the option string as written (abbreviation, alias).
        deprecated: dest to the release's own word on a deprecated option that was given.
        problems: What the parser would refuse. If any, the engine exits before it reads a checkpoint.
        ignored: dest to why the release does nothing with an option that was given.
    """

    values: dict[str, object] = msgspec.field(default_factory=dict)
    given: dict[str, str] = msgspec.field(default_factory=dict)
    spelled: dict[str, str] = msgspec.field(default_factory=dict)
    deprecated: dict[str, str] = msgspec.field(default_factory=dict)
    problems: tuple[ArgumentProblem, ...] = ()
    ignored: dict[str, str] = msgspec.field(default_factory=dict)


class Adjustment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A value that the release changes without being asked.

    Attributes:
        what: "num_draft_tokens", "num_steps", "eagle_topk", "algorithm", "draft_model_path", ...
        stated: What the launch says ("" if it says nothing).
        effective: What the engine will use.
        why: The release's rule, one sentence.
        source: File, line and function in the release.
    """

    what: str
    stated: str
    effective: str
    why: str
    source: str = ""


class Speculation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Speculative decoding as the launch states it and as the engine will run it.

    Attributes:
        algorithm: Effective algorithm ("EAGLE", "EAGLE3", "DFLASH", ...), "" if speculation is off.
        stated_algorithm: As written.
        known: Whether this release knows the algorithm (None: the flag is open and cannot be judged).
        draft_path: Draft model path as the engine will use it, or "".
        stated_draft_path: As written, or "".
        draft_revision: Or "".
        stated: (steps, topk, draft tokens) as given; None where not given.
        effective: The same after the release's adjustments; None where the release would crash or does not use it.
        adjustments: What changed, and why.
        failure: Exception that the release raises while adjusting, or "".
        failure_source: Where.
        unknown: Why the effective values cannot be told from the profile, or "".
    """

    algorithm: str = ""
    stated_algorithm: str = ""
    known: bool | None = True
    draft_path: str = ""
    stated_draft_path: str = ""
    draft_revision: str = ""
    stated: tuple[int | None, int | None, int | None] = (None, None, None)
    effective: tuple[int | None, int | None, int | None] = (None, None, None)
    adjustments: tuple[Adjustment, ...] = ()
    failure: str = ""
    failure_source: str = ""
    unknown: str = ""


class ServingConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole launch, read as one release would read it.

    Attributes:
        invocation: The command line.
        arguments: The options.
        speculation: Speculative decoding.
        overrides: `--json-model-override-args`, parsed; empty if not given.
        target_path: Model path or Hub id, as given.
        target_revision: Or "".
        cuda_graphs: Whether CUDA graphs stay on for decode and verify steps.
        graphs_reason: Which option or rule decided that.
    """

    invocation: Invocation
    arguments: Arguments = Arguments()
    speculation: Speculation = Speculation()
    overrides: dict[str, object] = msgspec.field(default_factory=dict)
    target_path: str = ""
    target_revision: str = ""
    cuda_graphs: bool = True
    graphs_reason: str = ""

    def value(self, dest: str) -> object:
        """Value of an option by its dest, defaults included; None if the release has no such option."""
        return self.arguments.values.get(dest)


class InstalledEngine(msgspec.Struct, frozen=True, omit_defaults=True):
    """The engine that a launch would start, found without running anything.

    Attributes:
        engine: "sglang".
        release: Its version, e.g. "0.5.9"; "" if it is there but its version cannot be read.
        location: Directory of its package, or of its distribution's metadata.
        found_by: How it was found, one phrase for messages.
        package: Directory of its package (the one that holds `srt`), or "" if only metadata was found.
    """

    engine: str
    release: str
    location: str
    found_by: str = ""
    package: str = ""


class TargetFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the target's config.json says. None means: not stated there.

    Attributes:
        path: Directory or Hub id.
        source: File that was read.
        architecture: `architectures[0]`.
        model_type: Of the top-level config.
        text_model_type: Of the text sub-config, or the same.
        num_layers: Decoder layers of the text model, times `num_loops` for loop models.
        num_loops: 1 unless the config says otherwise.
        hidden_size: Width of the residual stream.
        vocab_size: Rows of the embedding.
        max_position_embeddings: Longest context of the checkpoint.
        dtype: "bfloat16", ...
        quantization: Method of `quantization_config`, or "".
        attention: "mla" if the config has `kv_lora_rank`, else "mha".
        rope_theta: RoPE base.
        rope_scaling: RoPE scaling object.
        tie_word_embeddings: Or None.
        residual_streams: Parallel residual streams (hyper-connections); 1 normally.
        tokenizer_sha256: Digest of tokenizer.json if it lies beside the config, else "".
        config: The raw config, overrides applied.
    """

    path: str
    source: str = ""
    architecture: str = ""
    model_type: str = ""
    text_model_type: str = ""
    num_layers: int | None = None
    num_loops: int = 1
    hidden_size: int | None = None
    vocab_size: int | None = None
    max_position_embeddings: int | None = None
    dtype: str = ""
    quantization: str = ""
    attention: str = ""
    rope_theta: float | None = None
    rope_scaling: dict[str, object] | None = None
    tie_word_embeddings: bool | None = None
    residual_streams: int = 1
    tokenizer_sha256: str = ""
    config: dict[str, object] = msgspec.field(default_factory=dict)
