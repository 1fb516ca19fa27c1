"""What the lines of an SGLang log say beside its decode lines: arguments in force, and known complaints. Pure."""

from __future__ import annotations

import re

import msgspec

from drafter_contracts.acceptance.causes import POSSIBLE, SEEN, Cause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.acceptance.causes import Confidence

#: Arguments that decide; read from the line in which every release prints them all, as a call or as a mapping.
_NAMES = (
    "model_path", "revision", "dtype", "quantization", "chat_template", "context_length", "speculative_algorithm",
    "speculative_draft_model_path", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens",
    "aux_hidden_state_capture", "speculative_accept_threshold_single", "speculative_accept_threshold_acc",
)  # fmt: skip
_ARGUMENTS = re.compile(r"server_args=(?:ServerArgs\(|\{)")
_VALUE = re.compile(
    rf"\b({'|'.join(_NAMES)})'?\s*[=:]\s*(?:'([^']*)'|(None|True|False)|(-?\d+(?:\.\d+)?))(?=\s*[,)}}])"
)
_WORDS = {"None": None, "True": True, "False": False}


class _Known(msgspec.Struct, frozen=True):
    pattern: re.Pattern[str]
    code: str
    message: str
    confidence: Confidence
    next: str
    catalogue: tuple[str, ...]


#: Lines of the releases' own, with what they mean; groups fill the message.
_KNOWN = (
    _Known(
        re.compile(r"speculative_num_draft_tokens is adjusted to speculative_num_steps \+ 1"),
        "SPECULATION_CHANGED",
        "the engine changed the draft tokens to one more than the steps, because topk is 1",
        SEEN,
        "state draft tokens = steps + 1 with topk 1, or a larger topk",
        ("R13",),
    ),
    _Known(
        re.compile(r"(DFLASH|DSpark|DSPARK) only supports (speculative_\w+) == 1; overriding \w+=(\S+) to 1"),
        "SPECULATION_CHANGED",
        "the engine changed {1} from {2} to 1, as {0} needs it",
        SEEN,
        "state 1 for it, and give the block's length by --speculative-num-draft-tokens",
        ("R13", "R14"),
    ),
    _Known(
        re.compile(r"captured (\d+) of (\d+) aux hidden states"),
        "CAPTURE_COUNT",
        "the target captured {0} of the {1} states that were asked for",
        SEEN,
        "drafters check -- LAUNCH names the layer that this release cannot capture",
        ("R02", "R05"),
    ),
    _Known(
        re.compile(r"mat1 and mat2 shapes cannot be multiplied \((\d+x\d+) and (\d+x\d+)\)"),
        "FC_WIDTH",
        "a product of shapes {0} and {1} failed: the drafter's fc is not as wide as what arrives",
        POSSIBLE,
        "drafters check -- LAUNCH compares the widths",
        ("R03",),
    ),
    _Known(
        re.compile(r"has no attribute 'set_(eagle3|dflash|dspark)_layers_to_capture'"),
        "CAPTURE_NO_HOOK",
        "the target's class cannot capture layers for {0} in this release",
        SEEN,
        "drafters engine history CLASS names the releases that can",
        ("R02", "R26"),
    ),
    _Known(
        re.compile(
            r"(Target model's|User-specified) context_length \((\d+)\) is greater than the derived .*?\((\d+)\)"
        ),
        "CONTEXT",
        "{0} context of {1} tokens is longer than the {2} positions of a model's config",
        POSSIBLE,
        "serve no longer context than the drafter was trained on (--context-length)",
        ("R20",),
    ),
    _Known(
        re.compile(r"Parameter (\S+) not found in params_dict"),
        "DRAFT_WEIGHTS",
        "the tensor {0} was read and put nowhere",
        POSSIBLE,
        "drafters check -- LAUNCH tells whether it is the drafter's",
        ("R28",),
    ),
    _Known(
        re.compile(r"(SGLANG_SIMULATE_ACC_LEN)"),
        "ACCEPTANCE_SIMULATED",
        "the log speaks of {0}: acceptance may be made up",
        POSSIBLE,
        "unset it in the engine's environment and start it again",
        ("R26",),
    ),
)
#: What may stand before a line's own message: never a quote or a bracket, behind which a logged request's text begins.
_BEFORE = re.compile(r"[^'\"(){}]{0,256}")
#: Longest part of a line that is kept as evidence, signs.
_SHOWN = 200


def arguments_in(line: str) -> dict[str, object]:
    """The arguments in force that a log's line states; empty for another line."""
    start = _ARGUMENTS.search(line)
    if start is None or not _BEFORE.fullmatch(line, 0, start.start()):
        return {}
    found: dict[str, object] = {}
    for name, text, word, number in _VALUE.findall(line):
        if word:
            found.setdefault(name, _WORDS[word])
        elif number:
            found.setdefault(name, float(number) if "." in number else int(number))
        else:
            found.setdefault(name, text)
    return found


def cause_in(line: str) -> Cause | None:
    """The cause that a log's line names, if it is one that is known."""
    for known in _KNOWN:
        match = known.pattern.search(line)
        if match is None or not _BEFORE.fullmatch(line, 0, match.start()):
            continue
        return Cause(
            code=known.code,
            message=known.message.format(*match.groups()),
            confidence=known.confidence,
            evidence=(f"log: {line.strip()[:_SHOWN]}",),
            next=known.next,
            catalogue=known.catalogue,
        )
    return None
