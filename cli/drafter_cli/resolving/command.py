"""`drafters resolve`: the launch flags of a stored drafter for one engine release, or why there are none."""

from __future__ import annotations

import sys

import msgspec

from drafter_cli.cache import drafters as cache
from drafter_cli.cache import fetched
from drafter_cli.client.connect import OPTIONS as REGISTRY_OPTIONS
from drafter_cli.client.connect import connect
from drafter_cli.commandline import JSON, Command, Option
from drafter_cli.errors import EXIT_OK, EXIT_REFUSED, UnreachableError, UsageError, describe_error, exit_code_of_error
from drafter_cli.launched_engine import ENGINE
from drafter_cli.resolving.formats import text
from drafter_cli.resolving.here import require_known, resolve_here
from drafter_cli.resolving.request import FORMATS, JSON_FORMAT, Asked, read
from drafter_cli.terminal import Style, colours, printable, write, write_json
from drafter_cli.verdict_view import document, render
from drafter_contracts.launch.plan_records import PATH_PLACEHOLDER
from drafter_contracts.verdict import ALLOW, Verdict
from drafter_registry.errors import RefusedError, RegistryError, UnknownError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.client.backend import Backend
    from drafter_cli.commandline import Parsed
    from drafter_contracts.manifest import Manifest
    from drafter_registry.documents import Resolution

COMMANDS = {
    "resolve": Command(
        name="resolve",
        summary="the launch flags of a stored drafter for one engine release",
        description=(
            "Prints the flags with which that release feeds the drafter the layers it was trained on, and fetches its\n"
            "files. The flags are read back as the release would read them, and every rule of `drafters check` is\n"
            "applied. Standard output holds only what a script consumes, and nothing if there are no such flags:\n"
            "the exit code is then 3 (refused) or 5 (not known), and standard error says why.\n"
            "What follows -- are more options of the launch; they are judged together with the flags and not printed.\n"
            "Write the flags after your own: of repeated options the last counts."
        ),
        words=("NAME@VERSION|ALIAS|sha256:DIGEST",),
        options=(
            Option(
                "--engine",
                "a release as published (sglang==0.5.23), or the path of an environment, a source tree, a wheel or a "
                "profile's file; default: what is installed for python here",
                "RELEASE|PATH",
            ),
            Option("--target", "directory or name of the target; default: the one it was trained for", "PATH|ID"),
            Option("--target-config", "the target's config.json, where the target is not on this machine", "FILE"),
            Option("--format", "args (default), shell, json, yaml or env: see docs/resolve.md", "FORMAT", "", FORMATS),
            Option("--draft-path", "where the drafter's files will lie for the engine; fetches nothing", "PATH"),
            Option("--steps", "--speculative-num-steps instead of the recommended", "NUMBER"),
            Option("--topk", "--speculative-eagle-topk instead of the recommended", "NUMBER"),
            Option("--draft-tokens", "--speculative-num-draft-tokens instead of the recommended", "NUMBER"),
            Option("--no-pull", f"fetch nothing; without --draft-path the flags hold {PATH_PLACEHOLDER}"),
            Option("--offline", "ask no registry: an exact version or digest that was pulled before"),
            *REGISTRY_OPTIONS,
            JSON,
        ),
        examples=(
            ("flags=$(drafters resolve kimi-eagle3@prod) || exit", "stop where there are no flags ..."),
            ('eval "exec python -m sglang.launch_server --model-path M $flags"', "... else launch with them"),
            ("drafters resolve kimi-eagle3@1.0.0 --engine sglang==0.5.9 --json", "for a program"),
        ),
        launch=True,
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Print the flags; returns the exit code."""
    asked = read(parsed)
    try:
        resolution = answer(asked, parsed)
    except RefusedError as error:
        return refused(error, as_json=parsed.has("--json"))
    for change in resolution.config_changes:
        write(f"drafters: config.json: {printable(change)}", to_stderr=True)
    if resolution.config is not None and not asked.pull and asked.shape != JSON_FORMAT:
        write(
            "drafters: flags cannot say that: the drafter's config.json must be changed; let this command fetch the"
            " files (leave out --no-pull and --draft-path), or take the config from --format json",
            to_stderr=True,
        )
        return EXIT_REFUSED
    exact = f"{resolution.name}@{resolution.version}"
    if asked.reference != exact:  # for the log of the start: where an alias pointed then
        write(f"drafters: {printable(asked.reference)} is {exact}", to_stderr=True)
    for notice in resolution.notices:
        write(f"drafters: {printable(notice)}", to_stderr=True)
    if resolution.verdict is not None and resolution.verdict.decision != ALLOW:
        write(render(resolution.verdict, Style(on=colours(sys.stderr))), to_stderr=True)
    write(text(resolution, asked.shape, asked.engine.profile))
    return EXIT_OK


def answer(asked: Asked, parsed: Parsed) -> Resolution:
    """By the registry; by what was pulled before, if it does not answer and what is asked for cannot have changed.

    Args:
        asked: The question.
        parsed: The command line, for which registry.

    Raises:
        RefusedError: There are no such flags; with the whole verdict.
        RegistryError: The registry does not give the drafter.
        UsageError: Neither registry nor cache has it.
        ContractsError: Files that cannot be read, or options that no launch can have.
    """
    if asked.offline:
        return _here(asked)
    try:
        backend = connect(parsed)
        try:
            return _by_registry(asked, backend)
        finally:
            backend.close()
    except (UsageError, RegistryError) as error:
        if not fetched.unreachable(error):
            raise
        try:
            resolution = _here(asked)
        except UnreachableError as nothing:
            raise UnreachableError(f"{error}, and {nothing.message}", nothing.hint) from error
        write(f"drafters: {printable(str(error))}; answered from the cache", to_stderr=True)
        return resolution


def _by_registry(asked: Asked, backend: Backend) -> Resolution:
    """The registry's answer for a release that it knows; else its files, and the answer computed here."""
    if asked.published:
        try:
            resolution = backend.resolve(asked.request(f"{ENGINE}=={asked.engine.release}"))
        except UnknownError as error:
            if asked.engine.profile is None or not _lacks_release(error):
                raise
        else:
            found = (backend, asked.reference, resolution.name, resolution.digest, _manifest(resolution))
            if not asked.pull:
                fetched.require_asked(*found)
                return placed(resolution, asked.draft_path)
            files = fetched.fetch(*found)
            return pulled_to(resolution, files)
    if not asked.pull:
        raise UsageError(
            f"{asked.engine.name} ({asked.engine.taken_from}) is judged here, by the drafter's files",
            f"leave out --no-pull and --draft-path, or name a published release: --engine {ENGINE}==VERSION",
        )
    contract = backend.resolve(asked.request(""))
    require_known(asked.engine, f"{contract.name}@{contract.version}")
    manifest = _manifest(contract)
    directory = fetched.fetch(backend, asked.reference, contract.name, contract.digest, manifest)
    resolution = resolve_here(asked, fetched.Fetched(directory, manifest, contract.digest))
    notices = (*contract.notices, *resolution.notices)
    return pulled_to(msgspec.structs.replace(resolution, notices=notices), directory)


def _manifest(resolution: Resolution) -> Manifest:
    """The manifest that every registry sends along."""
    if resolution.manifest is None:
        raise UsageError("the registry's answer holds no manifest", "it speaks another version of this protocol")
    return resolution.manifest


def _lacks_release(error: RefusedError) -> bool:
    """Whether the registry is undecided because it does not know the release."""
    verdict = error.verdict
    return isinstance(verdict, Verdict) and any(one.code == "ENGINE_UNKNOWN" for one in verdict.findings)


def _here(asked: Asked) -> Resolution:
    """By what was pulled before."""
    found = fetched.from_cache(asked.reference)
    resolution = resolve_here(asked, found)
    notice = "no registry was asked: whether this version was yanked meanwhile is not known"
    resolution = msgspec.structs.replace(resolution, notices=(notice, *resolution.notices))
    return pulled_to(resolution, found.directory) if asked.pull else placed(resolution, asked.draft_path)


def pulled_to(resolution: Resolution, directory: str) -> Resolution:
    """With the pulled directory in its flags: one with another config.json where the release needs that."""
    if resolution.config is not None:
        directory = cache.with_config(directory, resolution.config)
    return placed(resolution, directory)


def placed(resolution: Resolution, path: str) -> Resolution:
    """With the drafter's directory in its flags, if there is one."""
    if not path:
        return resolution
    flags = tuple(path if flag == PATH_PLACEHOLDER else flag for flag in resolution.flags)
    return msgspec.structs.replace(resolution, flags=flags)


def refused(error: RefusedError, *, as_json: bool) -> int:
    """Say why there are no flags: the whole verdict, to standard error or as one document; returns the exit code."""
    verdict = error.verdict
    code = exit_code_of_error(error)
    if as_json:
        shown = document(verdict) if isinstance(verdict, Verdict) else None
        write_json({"error": describe_error(error), "exit_code": code, "verdict": shown})
        return code
    if isinstance(verdict, Verdict):
        write(render(verdict, Style(on=colours(sys.stderr))), to_stderr=True)
    write(f"drafters: {printable(error.message)}", to_stderr=True)
    if error.hint:
        write(f"  {printable(error.hint)}", to_stderr=True)
    return code
