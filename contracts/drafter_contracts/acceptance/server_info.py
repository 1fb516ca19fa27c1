"""What SGLang answers to /server_info and /get_server_info, of every release.

0.4.5 merges the scheduler's state into the answer; later releases list it per data-parallel rank under
`internal_states`. A mean length is there only once a decode line was due, and never where speculation is off.
"""

from __future__ import annotations

import math
import re
import shlex
from typing import Any

from drafter_contracts import limits
from drafter_contracts.acceptance.records import Conditions, EngineState
from drafter_contracts.acceptance.simulation import simulated_in
from drafter_contracts.errors import EngineReportError

_STATES, _LENGTH = "internal_states", "avg_spec_accept_length"
#: Keys that are no arguments: what the scheduler, its pools and the server add. `launch_command` is one, and stays.
_LIVE = frozenset(
    {
        _STATES, _LENGTH, "version", "status", "frontend", "startup_time", "max_total_num_tokens",
        "max_req_input_len", "last_gen_throughput", "memory_usage", "load", "step_time_dict", "kv_events", "env_vars",
        "dspark_info_record", "custom_sigquit_handler", "effective_max_running_requests_per_dp", "world_size",
    }
)  # fmt: skip
_SECRET = re.compile(r"api_k|passw|secret|credential|(?:access|private|account)_key|(?:^|_)token$|watermark_key")
#: A name with its value as a command line, a call, a shell and JSON write them.
_NAMED = re.compile(r"""([\w-]+)(["']?\s*[=:]\s*|(?<=[\w-])\s+(?!-))('[^']*'|"[^"]*"|[^\s,)}\]'"]+)""")
#: Names of releases for one method; others are kept as they are written.
_METHODS = {"LOOKAHEAD": "NGRAM"}
_DTYPES = {"half": "float16", "float": "float32", "auto": ""}
#: A snapshot in the cache of the Hub: organisation, name, commit.
_SNAPSHOT = re.compile(r"(?:^|/)models--(?P<owner>[\w.-]+?)--(?P<name>[\w.-]+)/snapshots/(?P<commit>[0-9a-f]{40})/?$")


def read_state(document: dict[str, Any], *, where: str) -> EngineState:
    """One answer.

    Secrets (keys and passwords among the arguments, and in the launch command) are left out.

    Args:
        document: The answer, decoded.
        where: Its address, for errors.

    Returns:
        The state. `lengths` has one entry per data-parallel rank, in the order in which they answered; None where a
        rank has not verified yet. `conditions.method` is the algorithm in force as the release calls it: SGLang calls
        the heads of NEXTN "EAGLE" too.

    Raises:
        EngineReportError: No SGLang wrote this, or a figure in it cannot be. Everything that is wrong is named.
    """
    version = document.get("version")
    if not isinstance(version, str) or "model_path" not in document:
        raise EngineReportError(
            "this is no answer of SGLang's",
            where=where,
            expected="version and model_path",
            actual=", ".join(sorted(map(str, document))[:8])[:200] or "an empty object",
        )
    states, wrong = _states(document)
    arguments = _arguments(document, states)
    conditions = _conditions(arguments, version[:64], wrong)
    longest = _longest(conditions)
    lengths = tuple(_length(state.get(_LENGTH), name, longest, wrong) for name, state in states)
    if wrong:
        raise EngineReportError("; ".join(wrong), where=where)
    return EngineState(
        engine="sglang",
        release=version[:64],
        arguments=arguments,
        conditions=conditions,
        lengths=lengths if conditions.method else (),
        simulated=next((reason for _, state in states if (reason := _simulated(state, version))), ""),
        speculating=bool(conditions.method) if "speculative_algorithm" in arguments else None,
    )


def _states(document: dict[str, Any]) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    """States of the schedulers with their names in errors, and what is wrong."""
    if _STATES not in document:
        return [("", document)], []
    given = document[_STATES]
    if isinstance(given, dict):
        return [(f"{_STATES}.", given)], []
    if not isinstance(given, list) or len(given) > limits.engine_max_ranks:
        return [], [f"{_STATES}: no list of at most {limits.engine_max_ranks} states"]
    named = [(f"{_STATES}[{i}].", state) for i, state in enumerate(given)]
    wrong = [f"{name[:-1]}: no object" for name, state in named if not isinstance(state, dict)]
    return [(name, state) for name, state in named if isinstance(state, dict)], wrong


def _arguments(document: dict[str, Any], states: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Arguments in force: as the server has them, those of speculation as the first scheduler has them."""
    found = {key: _without_secrets(value) for key, value in document.items() if key not in _LIVE and not _secret(key)}
    first = states[0][1] if states else {}
    found |= {key: value for key, value in first.items() if key in found and key.startswith("speculative_")}
    command = found.get("launch_command")
    if isinstance(command, (str, list)):
        text = command if isinstance(command, str) else shlex.join(map(str, command))
        found["launch_command"] = _NAMED.sub(_masked, text)
    return found


def _secret(name: str) -> bool:
    return _SECRET.search(name.lower().replace("-", "_")) is not None


def _masked(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    if _secret(name):
        return f"{name}{between}***"
    return name + between + _NAMED.sub(_masked, value)


def _without_secrets(value: Any) -> Any:
    """An argument's value, without what lies in it under a secret's name."""
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items() if not _secret(str(key))}
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def _conditions(arguments: dict[str, Any], release: str, wrong: list[str]) -> Conditions:
    algorithm = _text(arguments, "speculative_algorithm").upper()
    method = "" if algorithm == "NONE" else _METHODS.get(algorithm, algorithm)
    model, revision = _text(arguments, "model_path"), _text(arguments, "revision")
    snapshot = _SNAPSHOT.search(model)
    if snapshot:
        model, revision = f"{snapshot['owner']}/{snapshot['name']}", snapshot["commit"]
    dtype = _text(arguments, "dtype")
    steps, topk, draft_tokens = (
        _count(arguments, f"speculative_{key}", wrong) if method else None
        for key in ("num_steps", "eagle_topk", "num_draft_tokens")
    )
    return Conditions(
        engine="sglang",
        release=release,
        method=method,
        target_model=model,
        target_revision=revision,
        target_dtype=_DTYPES.get(dtype, dtype),
        target_quantization=_text(arguments, "quantization"),
        steps=steps,
        topk=topk,
        draft_tokens=draft_tokens,
    )


def _text(arguments: dict[str, Any], key: str) -> str:
    value = arguments.get(key)
    return value[:4096] if isinstance(value, str) else ""


def _count(arguments: dict[str, Any], key: str, wrong: list[str]) -> int | None:
    """A number of drafted tokens or steps; 0 (adaptive speculation that drafts nothing now) is None."""
    value = arguments.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value == 0):
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= limits.acceptance_max_length:
        wrong.append(f"{key}: {_shown(value)} is no number from 0 to {limits.acceptance_max_length}")
        return None
    return value


def _longest(conditions: Conditions) -> int:
    """The longest length that verification can give: every drafted token of a path, and the target's own."""
    told = [number for number in (conditions.steps, conditions.draft_tokens) if number is not None]
    return max(told) + 1 if told else limits.acceptance_max_length


def _length(value: object, name: str, longest: int, wrong: list[str]) -> float | None:
    if value is None or (isinstance(value, (int, float)) and value == 0 and not isinstance(value, bool)):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        wrong.append(f"{name}{_LENGTH}: {_shown(value)} is no length")
        return None
    if not 1 <= value <= longest:
        wrong.append(f"{name}{_LENGTH}: {_shown(value)} is not from 1 to {longest}")
        return None
    return float(value)


def _simulated(state: dict[str, Any], release: str) -> str:
    """Why a scheduler's figures are made up, as far as it tells."""
    variables = state.get("env_vars")
    if isinstance(variables, dict):
        texts = {name: value for name, value in variables.items() if isinstance(value, str)}
        if reason := simulated_in(texts, release):
            return reason
    record = state.get("dspark_info_record")
    length = record.get("simulate_acc_len") if isinstance(record, dict) else None
    if isinstance(length, (int, float)) and length > 0:
        return f"dspark_info_record.simulate_acc_len is {_shown(length)}: acceptance is simulated"
    return ""


def _shown(value: object) -> str:
    return repr(value)[:40] if not isinstance(value, (dict, list)) else type(value).__name__
