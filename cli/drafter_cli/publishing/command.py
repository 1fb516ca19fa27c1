"""`drafters publish`: reads a drafter, shows what it would record, and stores it in a registry."""

from __future__ import annotations

import os

import msgspec

from drafter_cli.commandline import Command, Parsed
from drafter_cli.errors import EXIT_INTEGRITY, EXIT_OK, EXIT_UNKNOWN, UsageError
from drafter_cli.hub import source as hub_source
from drafter_cli.progress import Progress
from drafter_cli.publishing import carry_out as publishing
from drafter_cli.publishing import evidence, file_digests
from drafter_cli.publishing import options as publish_options
from drafter_cli.publishing.carry_out import Plan, PlannedFile
from drafter_cli.publishing.files import Chosen, choose
from drafter_cli.publishing.no_render import stated_beside
from drafter_cli.publishing.view import View
from drafter_cli.terminal import printable, write, write_json
from drafter_contracts.errors import TargetError
from drafter_contracts.manifest import FileRecord, Manifest, digest
from drafter_contracts.recording.build import Recorded, record
from drafter_contracts.recording.fingerprint import fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from drafter_cli.client.backend import Backend
    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.recording.claims import Claim
    from drafter_contracts.recording.statement import Statement
    from drafter_contracts.serving.launch import TargetFacts
    from drafter_registry.documents import Published

COMMANDS = {
    "publish": Command(
        name="publish",
        summary="store a drafter in the registry under a name and version",
        description=(
            "Reads config.json and the safetensors headers, and records what the drafter was trained on: what the\n"
            "files say is read off them, the rest is taken on word and shown as such. A drafters-manifest.json beside\n"
            "the weights is such a word. Publishes nothing while a fact that decides is open (exit 5) or contradicted\n"
            "by the files (exit 7), and says what settles it. --evidence and --sample settle or confirm the layers by\n"
            "numbers; a layout that they contradict is not published.\n"
            "DIR may be hf://ORG/REPO[@REVISION]. A run that was cut continues where it stopped."
        ),
        words=("DIR",),
        options=publish_options.OPTIONS,
        examples=(
            ("drafters publish ./kimi-eagle3 --name kimi-eagle3 --version 1.0 --target ./Kimi-K2.5 --dry-run", "look"),
            ("drafters publish ./kimi-eagle3 --name kimi-eagle3 --version 1.0 --target ./Kimi-K2.5", "publish"),
            ("drafters publish ./d --name d --version 2 --target ORG/NAME --output-ids 2,30,58 --alias prod", "state"),
            ("drafters publish ./d --name d --version 2 --target ./target --evidence identify.json", "prove"),
        ),
    )
}


class Source(msgspec.Struct, frozen=True):
    """Where the files are: the directory, which of its files count (None: all), digests known already, provenance."""

    directory: str
    only: Collection[str] | None = None
    sha256: dict[str, str] = {}
    source: str = ""
    revision: str = ""
    notes: tuple[str, ...] = ()


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Publish; see the description."""
    view, source = View(), _source(parsed.word(0))
    for note in source.notes:
        view.note(note)
    target, model = read_target_of(parsed, view)
    beside = stated_beside(source.directory)
    statement = publish_options.statement(parsed, beside, source=source.source, revision=source.revision)
    if model and not statement.target_model:
        statement = msgspec.structs.replace(statement, target_model=model)
    facts = read_facts(source.directory, target, beside)
    statement = msgspec.structs.replace(statement, evidence=evidence.gather(parsed, view))
    recorded = record(facts, statement, target, ())
    if recorded.obstacles or recorded.manifest is None:
        return refuse(parsed, view, _title(recorded.manifest, statement), recorded)
    chosen = choose(source.directory, source.only)
    files = _hash(parsed, source, chosen.paths)
    recorded = record(facts, statement, target, tuple(file.record for file in files))
    if recorded.obstacles or recorded.manifest is None:
        return refuse(parsed, view, _title(recorded.manifest, statement), recorded)
    return finish(parsed, view, recorded, Plan(recorded.manifest, files), chosen)


def finish(parsed: Parsed, view: View, recorded: Recorded, plan: Plan, chosen: Chosen) -> int:
    """Show the manifest, then publish it unless this is a dry run.

    Raises:
        UsageError, UnreachableError, RegistryError: See `publishing.publish`.
    """
    manifest = plan.manifest
    reference = f"{manifest.name}@{manifest.version}"
    _check_names(manifest, parsed.value("--alias"))
    view.facts(reference, recorded)
    for note in recorded.notes:
        view.note(note)
    view.files([file.record for file in plan.files], chosen.left_out, chosen.code)
    if parsed.has("--dry-run"):
        _show_dry_run(parsed, recorded, chosen)
        return EXIT_OK
    from drafter_cli.client.connect import connect

    backend = connect(parsed, create=True)
    try:
        plan = _as_stored(backend, plan, recorded, view)
        with Progress("storing", plan.size) as progress:
            published = publishing.publish(backend, plan, progress.tell, repair=parsed.has("--repair"))
        _say_published(parsed, backend, published)
        if parsed.has("--alias"):
            move_alias(backend, published, parsed.value("--alias"), parsed.value("--why"))
    finally:
        backend.close()
    return EXIT_OK


def _as_stored(backend: Backend, plan: Plan, recorded: Recorded, view: View) -> Plan:
    """The plan with the manifest that is stored, if an earlier release of this program made it of the same content."""
    from drafter_contracts.manifest import canonical, decode
    from drafter_contracts.recording.again import recorded_before
    from drafter_registry.errors import NotFoundError

    reference = f"{plan.manifest.name}@{plan.manifest.version}"
    try:
        data, _ = backend.manifest(reference)
    except NotFoundError:
        return plan
    stored = decode(data, where=reference)
    if canonical(stored) == canonical(plan.manifest) or not recorded_before(stored, recorded):
        return plan
    view.note(f"{reference} is stored with the same content; more is read off its files today than is recorded there")
    return msgspec.structs.replace(plan, manifest=stored)


def read_facts(directory: str, target: TargetFacts | None, beside: Manifest | None) -> DrafterFacts:
    """A drafter's facts, read with the depth and width of its target, or those that the manifest beside it names.

    Raises:
        CheckpointError: See `read_drafter`.
    """
    from drafter_contracts.checkpoint.read import read_drafter

    return read_drafter(
        directory,
        target_layers=target.num_layers if target else beside.target.layers if beside else None,
        target_hidden_size=target.hidden_size if target else beside.target.hidden_size if beside else None,
        target_model_type=target.text_model_type if target else _text_type(beside),
    )


def _text_type(beside: Manifest | None) -> str:
    return "" if beside is None else beside.target.text_model_type or beside.target.model_type


def read_target_of(parsed: Parsed, view: View) -> tuple[TargetFacts | None, str]:
    """The target's config if it is on this machine, and its name on word where only a Hub id is given.

    Raises:
        TargetError: A directory that is not there, or a config that cannot be read.
    """
    from drafter_contracts import hub_cache
    from drafter_contracts.serving.target import read_target

    given, revision = parsed.value("--target"), parsed.value("--target-revision")
    if not given:
        return None, ""
    try:
        return read_target(given, revision=revision, with_tokenizer=True), ""
    except TargetError:
        is_id = given.count("/") == 1 and given[0] not in "./~" and not os.path.exists(given)
        if not is_id or hub_cache.find(given, revision) is not None:
            raise
        view.note(f"{given} is not on this machine: of the target only what the drafter says is known")
        return None, given


def refuse(parsed: Parsed, view: View, title: str, recorded: Recorded) -> int:
    """Say every obstacle; the exit code is that of a contradiction, if there is one."""
    contradicted = any(not _is_open(claim) for claim in recorded.obstacles)
    code = EXIT_INTEGRITY if contradicted else EXIT_UNKNOWN
    if parsed.has("--json"):
        word = "MANIFEST_CONTRADICTS_FILES" if contradicted else "UNDECIDED"
        message = "; ".join(claim.message for claim in recorded.obstacles)
        error = {"code": word, "message": message, "where": parsed.word(0), "expected": "", "actual": "", "hint": ""}
        write_json({"error": error, "obstacles": recorded.obstacles, "exit_code": code})
        return code
    view.facts(title, recorded)
    view.obstacles(recorded.obstacles, _is_open)
    return code


def move_alias(backend: Backend, published: Published, alias: str, why: str) -> None:
    """Point an alias at what was published, unless somebody moves it at the same moment.

    Raises:
        RegistryError: The registry refuses, or somebody else was faster.
    """
    from drafter_cli.catalogue.alias_commands import tell_another_contract
    from drafter_registry.errors import NotFoundError

    try:
        state = backend.alias(published.name, alias)
    except NotFoundError:
        state = None
    if state is not None and state.version == published.version:
        write(f"{published.name}@{alias} is {published.version} already", to_stderr=True)
        return
    revision = 0 if state is None else state.revision
    backend.set_alias(published.name, alias, published.version, expected=revision, why=why)
    before = f", before {state.version}" if state is not None else ""
    write(f"{published.name}@{alias} is now {published.version}{before}", to_stderr=True)
    if state is not None:
        tell_another_contract(backend, published.name, state.version, published.version)


def _source(word: str) -> Source:
    if not hub_source.is_hub_source(word):
        if not os.path.isdir(word):
            raise UsageError(
                f"{word} is no directory", "name the drafter's directory, or hf://ORG/REPO for one of the Hub"
            )
        return Source(word)
    found = hub_source.open(word, lambda line: write(f"fetching {printable(line)}", to_stderr=True))
    return Source(found.directory, found.paths, found.sha256, found.source, found.revision, found.notes)


def _title(manifest: Manifest | None, statement: Statement) -> str:
    said = statement if manifest is None else manifest
    return f"{said.name or 'NAME'}@{said.version or 'VERSION'}"


def _is_open(claim: Claim) -> bool:
    """Whether an obstacle is something that nobody said yet, and not something that was said wrongly."""
    from drafter_contracts.recording.layouts import GIVE_TARGET, SETTLED_BY

    return claim.expected in (SETTLED_BY, GIVE_TARGET) or claim.expected.startswith("--") or claim.pointer == "/method"


def _hash(parsed: Parsed, source: Source, paths: Collection[str]) -> tuple[PlannedFile, ...]:
    from drafter_cli.client import configuration

    cache = os.path.abspath(os.path.expanduser(configuration.read(parsed).value("cache")))
    folder = os.path.join(cache, "digests")
    full = {path: os.path.join(source.directory, path) for path in sorted(paths)}
    files = []
    with Progress("hashing", sum(os.path.getsize(one) for one in full.values())) as progress:
        for path, one in full.items():
            known = source.sha256.get(path, "")
            seen = file_digests.identity(one)
            if not known:
                known, seen = file_digests.digest_of(one, folder, progress.tell)
            files.append(PlannedFile(FileRecord(path=path, size=seen.size, sha256=known), one, seen))
    return tuple(files)


def _check_names(manifest: Manifest, alias: str) -> None:
    from drafter_registry import names

    names.check_name(manifest.name)
    names.check_version(manifest.version)
    if alias:
        names.check_alias(alias)


def _show_dry_run(parsed: Parsed, recorded: Recorded, chosen: Chosen) -> None:
    manifest = recorded.manifest
    if manifest is None:
        raise UsageError("there is no manifest to show")
    write("dry run: nothing was published", to_stderr=True)
    if not parsed.has("--json"):
        write_json(manifest)
        return
    write_json(
        {
            "dry_run": True,
            "name": manifest.name,
            "version": manifest.version,
            "digest": digest(manifest),
            "fingerprint": fingerprint(manifest),
            "manifest": manifest,
            "read": recorded.read,
            "taken_on_word": recorded.taken_on_word,
            "told_by_values": recorded.told_by_values,
            "notes": recorded.notes,
            "left_out": [{"path": path, "why": why} for path, why in chosen.left_out],
        }
    )


def _say_published(parsed: Parsed, backend: Backend, published: Published) -> None:
    reference = f"{published.name}@{published.version}"
    what = "is published" if published.created else "was there already, with this very content: nothing was changed"
    write(f"{reference} {what} ({backend.name})", to_stderr=True)
    if published.same_contract:
        write(f"same contract as {', '.join(published.same_contract)}", to_stderr=True)
    if parsed.has("--json"):
        write_json(published)
    else:
        write(f"{reference} {published.digest}")
