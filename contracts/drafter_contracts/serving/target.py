"""What a target's config.json says, from a local directory or the Hub's offline cache; nothing else is read."""

from __future__ import annotations

import os

import msgspec

from drafter_contracts import hub_cache, limits
from drafter_contracts.checkpoint.config_view import as_number
from drafter_contracts.errors import TargetError
from drafter_contracts.serving.launch import TargetFacts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

CONFIG = "config.json"

#: Sub-configs that hold the language model of a larger one, in SGLang's order of preference
#: (`utils/hf_transformers/common.py`, get_hf_text_config).
TEXT_CONFIGS = ("thinker_config", "llm_config", "language_config", "text_config")
#: Other names of the same facts in older model families.
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
WIDTHS = ("hidden_size", "n_embd", "d_model")
#: Keys of the residual stream's copies (hyper-connections).
STREAMS = ("hc_mult", "hc_count")


def text_config(config: dict[str, object]) -> tuple[dict[str, object], str]:
    """The config of the language model inside a config, and its dotted path ("" for the config itself)."""
    path = []
    inner = config
    for _ in range(2):
        for key in TEXT_CONFIGS:
            value = inner.get(key)
            if isinstance(value, dict) and value:
                path.append(key)
                inner = value
                break
        else:
            break
    return inner, ".".join(path)


def apply_overrides(
    config: dict[str, object], overrides: Mapping[str, object], *, merged: Collection[str] = ()
) -> dict[str, object]:
    """A config as the engine sees it after `--json-model-override-args`.

    Args:
        config: The raw config.
        overrides: The launch's overrides.
        merged: Keys whose mappings the release merges; every other key's whole value is replaced. "text_config"
            stands for every sub-config (`LaunchRules.overrides.merged`).
    """
    mergeable = {*merged, *(TEXT_CONFIGS if "text_config" in merged else ())}
    result = dict(config)
    for key, value in overrides.items():
        old = result.get(key)
        if key in mergeable and isinstance(value, dict) and isinstance(old, dict):
            result[key] = {**old, **value}
        else:
            result[key] = value
    return result


class _View:
    """Typed look-ups that name file and field when a value is of the wrong kind."""

    def __init__(self, source: str, top: dict[str, object], inner: dict[str, object], path: str) -> None:
        self.source = source
        self.top = top
        self.inner = inner
        self.path = path

    def first(self, keys: tuple[str, ...]) -> tuple[str, object]:
        """The first of the keys that is there, in the language model's config, then at the top."""
        for config, path in ((self.inner, self.path), (self.top, "")):
            for key in keys:
                if config.get(key) is not None:
                    return f"{path}.{key}" if path else key, config[key]
        return "", None

    def integer(self, keys: tuple[str, ...], low: int, high: int) -> int | None:
        """A whole number within limits, or None if it is not there."""
        key, value = self.first(keys)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise TargetError(
                "not a possible value",
                where=f"{self.source}: {key}",
                expected=f"a whole number from {low} to {high}",
                actual=repr(value)[:80],
            )
        return value

    def text(self, *keys: str) -> str:
        """A text, or ""."""
        _, value = self.first(keys)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> float | None:
        """A number, or None."""
        _, value = self.first((key,))
        return as_number(value)

    def mapping(self, *keys: str) -> dict[str, object] | None:
        """A mapping, or None."""
        _, value = self.first(keys)
        return value if isinstance(value, dict) else None


def _quantization(view: _View) -> str:
    found = view.mapping("quantization_config", "compression_config") or {}
    method = found.get("quant_method")
    if isinstance(method, str):
        return method
    return "compressed-tensors" if "config_groups" in found else ""


def target_from_config(
    config: dict[str, object],
    path: str,
    *,
    source: str = "",
    overrides: Mapping[str, object] | None = None,
    merged: Collection[str] = (),
    tokenizer_sha256: str = "",
) -> TargetFacts:
    """A target's facts from its config.

    Args:
        config: config.json, parsed.
        path: Directory or Hub id, as the launch gives it.
        source: File it was read from, for messages.
        overrides: `--json-model-override-args`, parsed.
        merged: Keys whose mappings are merged, see `apply_overrides`.
        tokenizer_sha256: Digest of tokenizer.json, if known.

    Raises:
        TargetError: A fact has an impossible value; names file and field.
    """
    config = apply_overrides(config, overrides or {}, merged=merged)
    inner, inside = text_config(config)
    view = _View(source or path, config, inner, inside)
    architectures = config.get("architectures")
    loops = view.integer(("num_loops",), 1, limits.target_max_layers) or 1
    layers = view.integer(LAYERS, 1, limits.target_max_layers // loops)
    rope = view.mapping("rope_parameters") or {}
    theta = rope.get("rope_theta")
    return TargetFacts(
        path=path,
        source=source,
        architecture=str(architectures[0]) if isinstance(architectures, list) and architectures else "",
        model_type=str(config.get("model_type") or ""),
        text_model_type=str(inner.get("model_type") or config.get("model_type") or ""),
        num_layers=layers * loops if layers is not None else None,
        num_loops=loops,
        hidden_size=view.integer(WIDTHS, 1, 1 << 20),
        vocab_size=view.integer(("vocab_size",), 1, 1 << 28),
        max_position_embeddings=view.integer(("max_position_embeddings", "n_positions", "seq_length"), 1, 1 << 40),
        dtype=view.text("dtype", "torch_dtype"),
        quantization=_quantization(view),
        attention="mla" if view.first(("kv_lora_rank",))[1] is not None else "mha",
        rope_theta=as_number(theta) if isinstance(theta, (int, float)) else view.number("rope_theta"),
        rope_scaling=view.mapping("rope_scaling") or (rope if rope.get("rope_type", "default") != "default" else None),
        tie_word_embeddings=_flag(config, inner, "tie_word_embeddings"),
        residual_streams=view.integer(STREAMS, 1, 1024) or 1,
        tokenizer_sha256=tokenizer_sha256,
        config=config,
    )


def _flag(config: dict[str, object], inner: dict[str, object], key: str) -> bool | None:
    for holder in (inner, config):
        value = holder.get(key)
        if isinstance(value, bool):
            return value
    return None


def _read_config(file: str) -> dict[str, object]:
    try:
        with open(file, "rb") as opened:
            data = opened.read(limits.config_max_bytes + 1)
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise TargetError("the target's config cannot be read", where=file, actual=reason) from None
    if len(data) > limits.config_max_bytes:
        raise TargetError(
            "the target's config is too large", where=file, expected=f"at most {limits.config_max_bytes} bytes"
        )
    try:
        config = msgspec.json.decode(data, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise TargetError(
            "the target's config is not JSON", where=file, expected="a JSON object", actual=str(error)
        ) from None
    return config


def tokenizer_digest(directory: str) -> str:
    """Digest of tokenizer.json beside a config, or "" if there is none.

    In the Hub's cache the file is a link to a blob that is named by its digest, so that nothing need be read.
    """
    file = os.path.join(directory, "tokenizer.json")
    name = os.path.basename(os.path.realpath(file))
    if len(name) == 64 and all(character in "0123456789abcdef" for character in name):
        return name
    try:
        with open(file, "rb") as opened:
            from hashlib import file_digest

            return file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


def read_target(
    path_or_id: str,
    *,
    revision: str = "",
    overrides: Mapping[str, object] | None = None,
    merged: Collection[str] = (),
    environment: Mapping[str, str] | None = None,
    with_tokenizer: bool = False,
) -> TargetFacts:
    """A target's facts, offline.

    Args:
        path_or_id: A local directory, or a Hub id that is in the offline cache.
        revision: Branch, tag or commit, for a Hub id.
        overrides: `--json-model-override-args`, parsed.
        merged: Keys whose mappings are merged, see `apply_overrides`.
        environment: Variables of the process that will load the target (they place the cache).
        with_tokenizer: Digest the tokenizer too (it may have tens of megabytes).

    Raises:
        TargetError: It is not here, or its config cannot be read; names what was looked for and where.
    """
    directory = hub_cache.find(path_or_id, revision, environment=environment)
    if directory is None:
        where = f"{path_or_id} (revision {revision})" if revision else path_or_id
        raise TargetError(
            "the target is not on this machine",
            where=where,
            expected=f"a directory, or a model in the Hub cache {hub_cache.cache_directory(environment)}",
        )
    file = os.path.join(directory, CONFIG)
    config = _read_config(file)
    digest = tokenizer_digest(directory) if with_tokenizer else ""
    return target_from_config(
        config, path_or_id, source=file, overrides=overrides, merged=merged, tokenizer_sha256=digest
    )
