"""Log lines that tell acceptance: SGLang's "Decode batch" of every release, vLLM's "SpecDecoding metrics".

Wordings and where they come from: docs/engine-reports.md. A line is read only where the engine's own message begins:
what a user wrote in a prompt is logged too, behind another beginning, and is never taken for a figure.

`accept rate` is not read: its meaning changed twice (field by field in docs/engine-reports.md).
"""

from __future__ import annotations

import datetime as dt
import re

import msgspec

from drafter_contracts import limits
from drafter_contracts.acceptance.records import Reading
from drafter_contracts.acceptance.vllm_log import BEGINNING as VLLM
from drafter_contracts.acceptance.vllm_log import read_message as read_vllm

#: Colours, as a terminal gets them and as JSON and syslog write the escape character.
_COLOURS = re.compile(r"(?:\x1b|\\u001b|\\x1b|#033)\[[0-9;]*[A-Za-z]")
#: SGLang's own header: local time without a zone, milliseconds with SGLANG_LOG_MS, ranks.
_HEADER = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?)(?P<ranks>(?: [A-Z_]{2,12}\d{1,6}){0,8})\] "
)
_DECODE = re.compile(r"Decode batch(?:\.|,| \[\d{1,20}\],) #running-req: (?P<running>\d{1,9}), ")
_LENGTH = re.compile(r", accept len: (?P<length>\d{1,6}\.\d{1,6}|nan|inf), ")
#: What log collectors write before a line: hosts, processes, streams; and the key of a logfmt message. Never a quote
#: or a bracket of a call, behind which a logged request's own text begins.
_BEFORE = re.compile(r"[^'\"(){}]{0,256}?(?:(?:msg|message|log)=\")?")
#: The same before vLLM's message, whose header names the process and the file that logs.
_BEFORE_VLLM = re.compile(
    r"[^'\"(){}]{0,256}?(?:(?:msg|message|log)=\")?(?:\([A-Za-z]\w{0,63} pid=\d{1,10}\) )?[^'\"(){}\[\]]{0,128}?"
    r"(?:\[(?:[\w./]{0,128}/)?metrics\.py:\d{1,6}\] )?"
)
_ZONED = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)(?![\d:])")
_DP = re.compile(r" DP(\d{1,6})(?= |$)")
#: Keys of a JSON line under which loggers put the text, and the time.
_TEXTS = ("log", "message", "msg", "MESSAGE")
_TIMES = ("time", "timestamp", "@timestamp", "ts")


def read_line(line: str) -> Reading | None:
    """One line of an engine's log, with whatever a collector wrote around it.

    Args:
        line: The line. JSON lines (docker's, a JSON formatter's) are read by the key of their message.

    Returns:
        The reading; None for every other line, for a decode line without speculation, and for figures that cannot be
        (below 1, not finite). SGLang prints a length with two decimals. `verify_steps` is None but where vLLM's
        figures leave one number only. `time`: of a time with a zone that a collector wrote, if there is one; else the
        engine's own, which names no zone and is taken for local time of the machine that reads. vLLM's own has no
        year either and is not taken.
    """
    if len(line) > limits.log_line_max_characters or ("accept len: " not in line and VLLM not in line):
        return None
    line = _COLOURS.sub("", line).strip()
    time = None
    if line.startswith("{"):
        text, time = _unwrapped(line)
        line = _COLOURS.sub("", text).strip()
    found = _read_vllm(line) if VLLM in line else _read_sglang(line)
    return msgspec.structs.replace(found, time=time) if found is not None and time is not None else found


def _read_sglang(line: str) -> Reading | None:
    header = _HEADER.search(line)
    start = header.start() if header else line.find("Decode batch")
    if start < 0 or not _BEFORE.fullmatch(line, 0, start):
        return None
    decode = _DECODE.match(line, header.end() if header else start)
    told = _LENGTH.search(line, decode.end() - 2) if decode else None
    if decode is None or told is None or not _possible(length := float(told["length"])):
        return None
    time = _zoned(line[:start])
    if time is None and header:
        time = _local(header["time"])
    rank = _DP.search(header["ranks"]) if header else None
    return Reading(length=length, time=time, rank=rank[1] if rank else "", running=int(decode["running"]))


def _read_vllm(line: str) -> Reading | None:
    start = line.find(VLLM)
    if not _BEFORE_VLLM.fullmatch(line, 0, start) or line.count(".py:", 0, start) > 1:
        return None  # a message of another file, with this one in it
    found = read_vllm(line[start:])
    return msgspec.structs.replace(found, time=_zoned(line[:start])) if found else None


def _unwrapped(line: str) -> tuple[str, float | None]:
    """Text and time of a JSON line; docker's may hold another JSON line."""
    time = None
    for _ in range(2):
        try:
            document = msgspec.json.decode(line)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return "", None
        if not isinstance(document, dict):
            return "", None
        stamps = (_zoned(stamp) for key in _TIMES if isinstance(stamp := document.get(key), str))
        time = next((stamp for stamp in stamps if stamp is not None), time)
        line = next((text for key in _TEXTS if isinstance(text := document.get(key), str)), "").strip()
        if not line.startswith("{"):
            break
    return line, time


def _possible(length: float) -> bool:
    return 1 <= length <= limits.acceptance_max_length


def _zoned(text: str) -> float | None:
    """The first time of a text that names its zone, Unix seconds."""
    found = _ZONED.search(text)
    if found is None:
        return None
    stamp = re.sub(r"[.,](\d{1,6})\d*", lambda m: "." + m[1].ljust(6, "0"), found[0].replace(" ", "T"), count=1)
    return _seconds(stamp)


def _local(text: str) -> float | None:
    return _seconds(text.replace(" ", "T"))


def _seconds(text: str) -> float | None:
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
