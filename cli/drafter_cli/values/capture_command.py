"""`drafters capture`: a target's states on some tokens, as a file for machines where the target does not fit."""

from __future__ import annotations

import json
import os

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.terminal import write, write_json
from drafter_cli.values.need import require_tensors
from drafter_cli.values.whole_file import check_output
from drafter_cli.words import plural, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    import torch

    from drafter_contracts.values.targets import Target

#: Tokens that are captured unless `--limit` says otherwise: enough to tell any two layers apart.
LIMIT = 512
#: Largest file of tokens or text that is read, bytes.
_MOST_BYTES = 64 * 1024 * 1024
#: What names the tokens: one of these is given.
_SOURCES = ("--tokens", "--text", "--sample")

COMMANDS = {
    "capture": Command(
        name="capture",
        summary="run a target and keep its states in a file, for `--reference`",
        description=(
            "Runs a target of this machine with transformers, never the network and never a pickle, and writes the\n"
            "state at every boundary, the state after the final norm and the target's own choices to a safetensors\n"
            "file (docs/capture.md says how SGLang and vLLM make one of a target that does not run here).\n"
            "Needs the extra `values`. Tokens that --limit cuts off are told."
        ),
        options=(
            Option("--target", "directory or cached Hub id of the target", "PATH"),
            Option("--output", "the capture file", "FILE", short="-o"),
            Option("--tokens", "token ids: a JSON list, or separated by spaces, commas or lines", "FILE"),
            Option("--text", "text, for the target's own tokenizer, which adds what it adds to a prompt", "FILE"),
            Option("--sample", "recorded states: their tokens are taken", "FILE"),
            Option("--entry", "which sample of a file or folder that holds several; else the first", "NAME"),
            Option("--limit", f"most tokens; {LIMIT} if not given", "N"),
            Option(
                "--dtype",
                "in which it runs; auto, the default: that of its config",
                "DTYPE",
                choices=("auto", "float32", "bfloat16", "float16"),
            ),
            Option("--device", "where it runs: cpu (the default), cuda, cuda:1", "DEVICE"),
            Option("--force", "replace a file that is there"),
            JSON,
        ),
        examples=(
            ("drafters capture --target ./SmolLM2-135M --text book.txt -o smollm2.safetensors", "512 tokens of a text"),
            (
                "drafters capture --target T --sample data_0.ckpt --dtype float32 -o T.safetensors",
                "a sample's own tokens",
            ),
        ),
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Write the capture file and say what is in it."""
    require_tensors()
    output = _output(parsed)
    limit = _limit(parsed)
    directory = _directory(parsed)
    tokens = _tokens(parsed, directory)
    from time import perf_counter

    from drafter_contracts.values.targets import open_target, record_target

    given = len(tokens)
    tokens = tokens[:limit].clone()
    before = perf_counter()
    target = open_target(directory, dtype=parsed.value("--dtype") or "auto", device=parsed.value("--device") or "cpu")
    record_target(target, tokens, output)
    _report(parsed, target, output, (len(tokens), given), perf_counter() - before)
    return EXIT_OK


def _report(parsed: Parsed, target: Target, output: str, tokens: tuple[int, int], seconds: float) -> None:
    """What was made: (tokens captured, tokens given)."""
    from drafter_contracts.values.captures import read_capture

    written = os.path.getsize(output)
    record = read_capture(output, digest=parsed.has("--json")).record
    cut = f" of {tokens[1]}" if tokens[1] > tokens[0] else ""
    states = plural(record.layers + 1, "boundary").replace("boundarys", "boundaries")
    write(
        f"{output}: {record.shown()}\n"
        f"  {plural(record.layers, 'layer')}, {states} and the final norm, {tokens[0]}{cut} tokens, "
        f"{size(written)}, {seconds:.1f} s",
        to_stderr=True,
    )
    if parsed.has("--json"):
        write_json(
            {
                "output": output,
                "sha256": record.sha256,
                "bytes": written,
                "tokens": tokens[0],
                "given_tokens": tokens[1],
                "model": record.model,
                "revision": record.revision,
                "reference_sha256": target.record.sha256,
                "layers": record.layers,
                "hidden_size": record.hidden_size,
                "vocab_size": record.vocab_size,
                "dtype": record.dtype,
                "made_with": record.made_with,
                "seconds": round(seconds, 3),
            }
        )


def _output(parsed: Parsed) -> str:
    output = parsed.value("--output")
    if not output:
        raise UsageError("capture needs --output FILE", "drafters capture --target PATH --text FILE -o FILE")
    if os.path.isdir(output):
        raise UsageError(f"{output} is a directory", "name a file: -o capture.safetensors")
    folder = os.path.dirname(os.path.abspath(output))
    if not os.path.isdir(folder):
        raise UsageError(f"there is no directory {folder}", "make it, or name another")
    if os.path.lexists(output) and not parsed.has("--force"):
        raise UsageError(f"{output} is there already", "name another file, or add --force to replace it")
    check_output(output, *(parsed.value(name) for name in _SOURCES if parsed.has(name)))
    return output


def _limit(parsed: Parsed) -> int:
    if not parsed.has("--limit"):
        return LIMIT
    text = parsed.value("--limit")
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise UsageError(f"--limit is {text!r}", "write a whole number of tokens, for example --limit 512")
    return int(text)


def _directory(parsed: Parsed) -> str:
    from drafter_contracts.hub_cache import find

    path = parsed.value("--target")
    if not path:
        raise UsageError("capture needs --target PATH", "the target's directory, or a Hub id that is in the cache")
    directory = find(path, "")
    if directory is None:
        raise UsageError(f"{path} is neither a directory nor in this machine's Hub cache")
    return directory


def _tokens(parsed: Parsed, directory: str) -> torch.Tensor:
    """Token ids, int64 [T], from the one source that was named."""
    given = [name for name in _SOURCES if parsed.has(name)]
    if len(given) != 1:
        what = f"{' and '.join(given)} both name the tokens" if given else "capture needs tokens"
        raise UsageError(what, f"give one of {', '.join(_SOURCES)}")
    if parsed.has("--entry") and given != ["--sample"]:
        raise UsageError("--entry names a sample", "give it together with --sample")
    path = parsed.value(given[0])
    if given == ["--sample"]:
        return _of_sample(path, parsed.value("--entry"))
    text = _read(given[0], path)
    ids = _of_text(text, directory) if given == ["--text"] else _of_list(text, path)
    if not ids:
        raise UsageError(f"{path} holds no token")
    import torch

    return torch.tensor(ids, dtype=torch.int64)


def _read(option: str, path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror or error}") from None
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{option} {path} is too large", f"at most {size(_MOST_BYTES)}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{option} {path} is not UTF-8: {error.reason} at byte {error.start}") from None


def _of_list(text: str, path: str) -> list[int]:
    """Ids from a JSON list, or separated by white space or commas, as `fingerprint --print-probe` prints them."""
    listed = text.lstrip().startswith("[")
    try:
        found = json.loads(text) if listed else [int(word) for word in text.replace(",", " ").split()]
    except (ValueError, RecursionError):
        found = None
    bound = 1 << 63
    if not isinstance(found, list) or any(type(one) is not int or not -bound <= one < bound for one in found):
        hint = "a JSON list, or ids separated by spaces or commas"
        raise UsageError(f"--tokens {path} holds other than token ids", hint)
    return found


def _of_text(text: str, directory: str) -> list[int]:
    """Ids of a text by the target's own tokenizer, as a prompt: with the tokens that it puts before one."""
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
        return [int(one) for one in tokenizer(text, verbose=False)["input_ids"]]
    except Exception as error:  # noqa: BLE001 - whatever transformers raises, there is no tokenizer here
        told = " ".join(str(error).split())[:200]
        raise UsageError(
            f"{directory} has no tokenizer that can be read: {type(error).__name__}: {told}",
            "give the ids themselves: --tokens FILE",
        ) from None


def _of_sample(path: str, entry: str) -> torch.Tensor:
    from drafter_contracts.values.samples import read_samples

    sample = next(iter(read_samples(path, entry=entry)), None)
    if sample is None:
        raise UsageError(f"--sample {path} holds no sample")
    return sample.tokens
