"""Which format the fields of a file are, and the sample that they make. Sources: docs/samples.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from drafter_contracts import limits
from drafter_contracts.errors import SampleError
from drafter_contracts.layout import FINAL_NORM, RESIDUAL
from drafter_contracts.values.records import (
    ANGELSLIM,
    MODELOPT,
    PLAIN,
    SPECFORGE_DFLASH,
    SPECFORGE_DSPARK,
    SPECFORGE_EAGLE3,
    SPECULATORS_V0,
    SPECULATORS_V1,
    STACKED,
    TENSORRT_LLM,
    Sample,
)
from drafter_contracts.values.samples.fields import Fields, describe

#: What TensorRT-LLM's revisions call the states that feed `fc`.
AUX_KEYS = ("aux_hidden_states", "hidden_state_features")
#: What tokens are called.
TOKEN_KEYS = ("input_ids", "token_ids", "tokens")
#: Each belongs to one format alone (TensorRT-LLM's two names are never both there).
_MARKS = ("aux_hidden_state", *AUX_KEYS, "target_hiddens", "target", "target_last_hidden_states")
_NUMBERED = re.compile(r"(aux|boundary)\.(0|[1-9][0-9]{0,5})")


def recognise(content: object, *, tensors_only: bool) -> str:
    """The format of what a file holds; "" for something else than a sample.

    Args:
        content: Whatever was saved, or the tensors of a safetensors file.
        tensors_only: It is a safetensors file.
    """
    if isinstance(content, list | tuple):
        parts = [part for part in content if isinstance(part, Mapping) and "hidden_state" in part]
        return TENSORRT_LLM if parts else ""
    if not isinstance(content, Mapping) or not any(key in content for key in TOKEN_KEYS):
        return ""
    for needed, name in _BY_KEYS:
        if all(key in content for key in needed):
            return name
    states = content.get("hidden_states")
    if states is None:
        numbered = any(isinstance(key, str) and _NUMBERED.fullmatch(key) for key in content)
        return PLAIN if tensors_only and numbered else ""
    if isinstance(states, list | tuple):
        return SPECULATORS_V1
    deep = isinstance(states, torch.Tensor) and states.dim() == 3
    if tensors_only:
        return STACKED if deep else PLAIN
    if deep and "token_ids" in content:
        return STACKED
    tokens = content.get("input_ids")
    return ANGELSLIM if isinstance(tokens, torch.Tensor) and tokens.dim() == 2 else SPECFORGE_DFLASH


_BY_KEYS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("aux_hidden_state",), SPECFORGE_EAGLE3),
    (("target_hiddens",), ANGELSLIM),
    *((("hidden_state", key), TENSORRT_LLM) for key in AUX_KEYS),
    *(((key,), MODELOPT) for key in AUX_KEYS),
    (("hidden_state", "target"), SPECULATORS_V0),
    (("hidden_states", "target_last_hidden_states"), SPECFORGE_DSPARK),
)


def samples_of(name: str, content: Any, path: str) -> Iterator[Sample]:
    """The samples of a file whose format is known, one at a time.

    Args:
        name: The format.
        content: What the file holds.
        path: The file.

    Raises:
        SampleError: Fields of two formats, or any that is missing or does not fit; all of them are named.
    """
    if isinstance(content, list | tuple):
        _check_count(len(content), path)
        for index, part in enumerate(content):
            entry = str(index) if len(content) > 1 else ""
            where = f"{path}#{entry}" if entry else path
            if not isinstance(part, Mapping):
                raise SampleError("an entry is no sample", where=where, expected="a dict", actual=describe(part))
            yield _sample(name, Fields(part, where), path, entry)
        return
    batch = _batch(content) if name == ANGELSLIM else None
    if batch is None:
        yield _sample(name, Fields(content, path), path, "")
        return
    _check_count(batch, path)
    for row in range(batch):
        entry = str(row) if batch > 1 else ""
        yield _sample(name, Fields(content, f"{path}#{entry}" if entry else path, row), path, entry)


def _check_count(count: int, path: str) -> None:
    if not 1 <= count <= limits.sample_max_entries:
        raise SampleError(
            "no samples, or too many in one file",
            where=path,
            expected=f"1 to {limits.sample_max_entries}",
            actual=str(count),
        )


def _batch(content: Mapping[str, Any]) -> int | None:
    """Samples of a file that holds them side by side, [B, T, ...]; None where there is no such dimension."""
    tokens = content.get("input_ids")
    return len(tokens) if isinstance(tokens, torch.Tensor) and tokens.dim() == 2 else None


def _sample(name: str, fields: Fields, path: str, entry: str) -> Sample:
    marks = [key for key in _MARKS if key in fields.content]
    if len(marks) > 1:
        raise SampleError(
            "fields of two formats: which of them feeds fc is not said",
            where=fields.where,
            expected=f"one of {', '.join(_MARKS)}",
            actual=", ".join(marks),
        )
    keys = [key for key in TOKEN_KEYS if key in fields.content]
    if len(keys) != 1:
        fields.wrong("tokens", f"one of {', '.join(TOKEN_KEYS)}", " and ".join(keys) or "none")
        fields.finish()
    fields.take_tokens(keys[0])
    if name == ANGELSLIM:
        fields.cut("attention_mask")
    made = _BUILDERS[name](fields)
    mask = fields.loss_mask()
    blocks = tuple(block for block in made.pop("blocks") if block is not None)
    fields.finish()
    return Sample(path=path, entry=entry, format=name, tokens=fields.tokens, blocks=blocks, loss_mask=mask, **made)


def _pair(aux: str, last: str, norm: str) -> Callable[[Fields], dict[str, Any]]:
    """Two keys: one feeds fc, [T, k*H], the other is the target's last state, [T, H]."""

    def build(fields: Fields) -> dict[str, Any]:
        block, state = fields.state(aux), fields.state(last)
        _check_width(fields, aux, block, state)
        return {"blocks": (block,), "last": state, "last_norm": norm}

    return build


def _check_width(fields: Fields, key: str, block: torch.Tensor | None, last: torch.Tensor | None) -> None:
    """The width of the last state is the target's: whatever feeds fc is a multiple of it, of the same dtype."""
    if block is None or last is None:
        return
    if block.shape[-1] % last.shape[-1]:
        fields.wrong(key, f"a multiple of the last state's width, {last.shape[-1]}", describe(block))
    if block.dtype != last.dtype:
        fields.wrong(key, describe(last).partition(" ")[0], describe(block))


def _speculators_v1(fields: Fields) -> dict[str, Any]:
    listed = fields.content["hidden_states"]
    if not 2 <= len(listed) <= limits.layout_max_taps + 1:
        fields.wrong("hidden_states", f"2 to {limits.layout_max_taps + 1} states, the last one last", str(len(listed)))
        return {"blocks": ()}
    states = [fields.state(f"hidden_states[{index}]", value) for index, value in enumerate(listed)]
    first = states[0]
    for index, state in enumerate(states):
        if first is not None and state is not None and (state.shape, state.dtype) != (first.shape, first.dtype):
            fields.wrong(f"hidden_states[{index}]", describe(first), describe(state))
    return {"blocks": tuple(states[:-1]), "last": states[-1], "last_norm": RESIDUAL}


def _stacked(fields: Fields) -> dict[str, Any]:
    return {"blocks": fields.stacked("hidden_states"), "last_may_be_inside": True}


def _single(fields: Fields) -> dict[str, Any]:
    return {"blocks": (fields.state("hidden_states"),)}


def _modelopt(fields: Fields) -> dict[str, Any]:
    flag = fields.content.get("hidden_states_prenorm")
    if isinstance(flag, torch.Tensor) and flag.numel() == 1:
        flag = bool(flag)
    if flag is not None and not isinstance(flag, bool):
        fields.wrong("hidden_states_prenorm", "true or false", describe(flag))
    norm = "" if flag is None else RESIDUAL if flag else FINAL_NORM
    return _aux(fields, "hidden_states", norm)


def _tensorrt_llm(fields: Fields) -> dict[str, Any]:
    made = _aux(fields, "hidden_state", FINAL_NORM)
    block, last = made["blocks"][0], made["last"]
    if block is not None and last is not None and 0 < len(last) == len(block) and block.shape[-1] > last.shape[-1]:
        # Whoever lists -1 among the layers gets the last state a second time, behind the others.
        ends = block[:, -last.shape[-1] :]
        made["last_may_be_inside"] = all(_same(ends[row], last[row]) for row in (0, -1))
    return made


def _aux(fields: Fields, last: str, norm: str) -> dict[str, Any]:
    aux = next((key for key in AUX_KEYS if key in fields.content), AUX_KEYS[0])
    return _pair(aux, last, norm)(fields)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def _angelslim(fields: Fields) -> dict[str, Any]:
    if "target_hiddens" in fields.content:
        return _pair("hidden_states", "target_hiddens", FINAL_NORM)(fields)
    return _single(fields)


def _plain(fields: Fields) -> dict[str, Any]:
    matches = [match for key in fields.content if (match := _NUMBERED.fullmatch(key))]
    found = sorted((match[1], int(match[2])) for match in matches)
    kinds = {kind for kind, _ in found} | ({"hidden_states"} & set(fields.content))
    if len(kinds) != 1:
        fields.wrong("hidden_states, aux.N, boundary.N", "one of the three", " and ".join(sorted(kinds)))
        return {"blocks": ()}
    made: dict[str, Any] = {}
    if "hidden_states" in kinds:
        made["blocks"] = (fields.state("hidden_states"),)
    else:
        kind, numbers = found[0][0], [number for _, number in found]
        if len(numbers) > limits.layout_max_taps or (kind == "aux" and numbers != list(range(len(numbers)))):
            fields.wrong("aux.N", "aux.0, aux.1 and so on, none left out", ", ".join(map(str, numbers[:20])))
        made["blocks"] = tuple(fields.state(f"{kind}.{number}") for number in numbers)
        if kind == "boundary":
            made.update(labels=tuple(numbers), label_source="names of tensors: boundary.N")
        _check_alike(fields, kind, numbers, made["blocks"])
    if "last" in fields.content:
        made["last"] = fields.state("last")
        for block in made["blocks"][:1]:
            _check_width(fields, "last", block, made["last"])
    return made


def _check_alike(fields: Fields, kind: str, numbers: list[int], states: tuple[torch.Tensor | None, ...]) -> None:
    first = states[0]
    for number, state in zip(numbers, states, strict=True):
        if first is not None and state is not None and (state.shape, state.dtype) != (first.shape, first.dtype):
            fields.wrong(f"{kind}.{number}", describe(first), describe(state))


_BUILDERS: dict[str, Callable[[Fields], dict[str, Any]]] = {
    SPECULATORS_V0: _pair("hidden_state", "target", FINAL_NORM),
    SPECULATORS_V1: _speculators_v1,
    STACKED: _stacked,
    SPECFORGE_EAGLE3: _pair("aux_hidden_state", "hidden_state", FINAL_NORM),
    SPECFORGE_DFLASH: _single,
    SPECFORGE_DSPARK: _pair("hidden_states", "target_last_hidden_states", FINAL_NORM),
    MODELOPT: _modelopt,
    TENSORRT_LLM: _tensorrt_llm,
    ANGELSLIM: _angelslim,
    PLAIN: _plain,
}
