"""`drafters engine scan | list | show`: the profiles of engine releases."""

from __future__ import annotations

import os

from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.engines.profile_argument import ENGINE, load
from drafter_cli.errors import EXIT_OK, UsageError
from drafter_cli.terminal import write, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_contracts.engines.profile import Profile

_ARCHITECTURE = Option("--target", "only this target class, e.g. DeepseekV3ForCausalLM", "CLASS")

COMMANDS = {
    "engine scan": Command(
        name="engine scan",
        summary="derive a profile from an unpacked engine release or its wheel",
        description=(
            "Reads an unpacked release or a wheel and writes its profile. Nothing of it is installed or imported: its\n"
            "capture code runs in a child process without files, network or processes. The same release always gives\n"
            "the same bytes."
        ),
        words=("PATH",),
        options=(
            Option("--output", "file to write; default: standard output", "FILE", short="-o"),
            Option("--allow-unconfined", "scan even where the platform cannot lock the child in: trusted releases"),
            JSON,
        ),
        examples=(("drafters engine scan sglang-0.5.23-py3-none-any.whl -o sglang-0.5.23.json", "from a wheel"),),
    ),
    "engine list": Command(
        name="engine list",
        summary="the engine releases whose behaviour is known",
        description=(
            "Lists the releases that the gate knows, oldest first: those that are shipped, and those that\n"
            "`drafters engine update` added on this machine (stale: made by another version of drafters; not used).\n"
            "For releases of vLLM drafters are resolved; their launches are not judged."
        ),
        options=(JSON,),
        examples=(("drafters engine list", "all of them"),),
    ),
    "engine show": Command(
        name="engine show",
        summary="what one release does, per target class",
        description="Shows how a release reads capture ids, what each target class captures, and its drafter classes.",
        words=("RELEASE",),
        options=(_ARCHITECTURE, JSON),
        examples=(
            ("drafters engine show 0.5.23 --target DeepseekV3ForCausalLM", "one target class"),
            ("drafters engine show sglang==0.5.9 --json", "the whole profile"),
        ),
    ),
}


def run(command: Command, parsed: Parsed) -> int:
    """Run one of them."""
    action = {"scan": _scan, "list": _list, "show": _show}[command.name.partition(" ")[2]]
    action(parsed)
    return EXIT_OK


def _scan(parsed: Parsed) -> None:
    path = parsed.word(0)
    if not os.path.exists(path):
        raise UsageError(f"{path} does not exist", "give an unpacked release or a wheel")
    data = _derived(path, allow_unconfined=parsed.has("--allow-unconfined"))
    output = parsed.value("--output")
    if not output or output == "-":
        write(data.decode())
        return
    if os.path.exists(output) and not os.path.isfile(output):  # a device would be replaced by a file
        raise UsageError(f"{output} is no regular file", "name another file: -o FILE")
    partial = f"{output}.part"
    try:
        with open(partial, "wb") as file:
            file.write(data)
        os.replace(partial, output)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from error
    if parsed.has("--json"):
        write_json({"output": output, "bytes": len(data)})
        return
    write(f"wrote {output} ({len(data)} bytes)", to_stderr=True)


def _derived(path: str, *, allow_unconfined: bool) -> bytes:
    """The document of a release, of the engine that it is one of."""
    from drafter_contracts.engines.scan import encode, scan
    from drafter_contracts.engines.vllm import scan as vllm
    from drafter_contracts.engines.vllm.tree import is_vllm

    if is_vllm(path):
        return vllm.encode(vllm.scan(path, allow_unconfined=allow_unconfined))
    return encode(scan(path, allow_unconfined=allow_unconfined))


def _list(parsed: Parsed) -> None:
    from drafter_contracts.engines.local import known
    from drafter_contracts.engines.vllm import store as vllm
    from drafter_contracts.engines.vllm.profile import ENGINE as VLLM

    found = [(ENGINE, one, source) for one, source in known.releases(ENGINE).items()]
    found += [(VLLM, one, known.SHIPPED) for one in vllm.releases()]
    if parsed.has("--json"):
        write_json([{"engine": engine, "release": one, "source": source} for engine, one, source in found])
        return
    notes = {known.SHIPPED: "", **{source: f"  ({source})" for _, _, source in found if source != known.SHIPPED}}
    write("\n".join(f"{engine}=={one}{notes[source]}" for engine, one, source in found))


def _show(parsed: Parsed) -> None:
    from drafter_cli.engines.engine_view import render, target_document

    profile = load(parsed.word(0))
    architecture = parsed.value("--target")
    if architecture:
        _check_architecture(profile, architecture)
    if parsed.has("--json"):
        write_json(target_document(profile, architecture) if architecture else profile)
    else:
        write(render(profile, architecture))


def _check_architecture(profile: Profile, architecture: str) -> None:
    if architecture in profile.targets:
        return
    from drafter_cli.nearest import nearest

    close = nearest(architecture, profile.targets)
    raise UsageError(
        f"{profile.name} registers no target class {architecture}",
        f"did you mean {close}?" if close else f"see drafters engine show {profile.release}",
    )
