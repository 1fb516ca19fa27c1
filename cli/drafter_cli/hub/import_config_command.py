"""`drafters import-config`: publishes a drafter whose weights stay on the Hub."""

from __future__ import annotations

import os
import tempfile

import msgspec

from drafter_cli.commandline import Command, Option, Parsed
from drafter_cli.errors import UsageError
from drafter_cli.hub import source as hub_source
from drafter_cli.publishing import command as publish_command
from drafter_cli.publishing import evidence
from drafter_cli.publishing import options as publish_options
from drafter_cli.publishing.carry_out import Plan
from drafter_cli.publishing.files import Chosen
from drafter_cli.publishing.no_render import stated_beside
from drafter_cli.publishing.view import View
from drafter_contracts.errors import CheckpointError
from drafter_contracts.recording.build import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from drafter_cli.hub.importing import Imported
    from drafter_cli.hub.source import HubListing

COMMANDS = {
    "import-config": Command(
        name="import-config",
        summary="publish a drafter whose weights stay where they are",
        description=(
            "Publishes a drafter of the Hub without copying its weights: the registry keeps config.json, the other\n"
            "small files and every weight file's header, fetched by range request, and reads the same facts off them\n"
            "as off the whole drafter. Of the weights it records size, sha256 (both on the Hub's word) and the pinned\n"
            "place hf://ORG/REPO@COMMIT/PATH, from which `drafters pull` fetches and verifies them.\n"
            "SOURCE is hf://ORG/REPO[@REVISION], or a config.json of your own with --weights. A config.json without\n"
            "weights is refused: nobody could tell whether it fits any."
        ),
        words=("SOURCE",),
        options=(
            Option("--weights", "where the weights are, if SOURCE is a config.json", "hf://ORG/REPO[@REVISION]"),
            *publish_options.OPTIONS,
        ),
        examples=(
            (
                "drafters import-config hf://ORG/kimi-eagle3 --name kimi-eagle3 --version 1.0 --target ORG/NAME",
                "as it is",
            ),
            (
                "drafters import-config ./config.json --weights hf://ORG/kimi-eagle3 --name kimi-eagle3 --version 1.1",
                "with a corrected config.json",
            ),
        ),
    ),
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Import; see the description.

    Raises:
        UsageError: A source that is none, or without weights; no access.
        UnreachableError: The Hub or the registry does not answer.
        CheckpointError: Files that cannot be read.
        RegistryError: The registry refuses.
    """
    from drafter_cli.client import configuration
    from drafter_cli.hub import importing as hub_import

    config, place = _places(parsed)
    view, listing = View(), hub_source.listing(place)
    for note in listing.notes:
        view.note(note)
    cache = os.path.abspath(os.path.expanduser(configuration.read(parsed).value("cache")))
    with tempfile.TemporaryDirectory(prefix="drafters-") as folder:
        try:
            imported = hub_import.build(listing, folder, config=config, digests=os.path.join(cache, "digests"))
            return _publish(parsed, view, listing, imported, folder)
        except CheckpointError as error:
            raise _where_it_is(error, folder, f"{listing.source}@{listing.commit}") from None


def _where_it_is(error: CheckpointError, folder: str, place: str) -> CheckpointError:
    """The error as somebody who never saw the folder can read it."""
    told = (text.replace(folder, place) for text in (error.message, error.where, error.expected, error.actual))
    message, where, expected, actual = told
    return type(error)(message, where=where, expected=expected, actual=actual)


def _places(parsed: Parsed) -> tuple[str, str]:
    """A local config.json ("" for the repository's) and where the weights are.

    Raises:
        UsageError: It is not clear where the weights are, or there is no such file.
    """
    source, weights = parsed.word(0), parsed.value("--weights")
    if hub_source.is_hub_source(source):
        if weights:
            raise UsageError(
                "SOURCE and --weights both name a repository", "give a config.json, or leave out --weights"
            )
        return "", source
    if os.path.isdir(source):
        raise UsageError(f"{source} is a directory", f"drafters publish {source} stores it whole")
    if not os.path.isfile(source):
        raise UsageError(f"{source} does not exist", "give a config.json, or hf://ORG/REPO[@REVISION]")
    if not weights:
        raise UsageError(
            f"{source} alone says nothing of the weights: neither which they are nor whether they fit",
            "say where they are with --weights hf://ORG/REPO[@REVISION], or publish a directory that has them",
        )
    hub_source.parse(weights)
    return source, weights


def _publish(parsed: Parsed, view: View, listing: HubListing, imported: Imported, folder: str) -> int:
    target, model = publish_command.read_target_of(parsed, view)
    beside = stated_beside(folder)
    said = publish_options.statement(parsed, beside, source=listing.source, revision=listing.commit)
    said = msgspec.structs.replace(said, notes=(*said.notes, *imported.notes))
    if model and not said.target_model:
        said = msgspec.structs.replace(said, target_model=model)
    facts = publish_command.read_facts(folder, target, beside)
    said = msgspec.structs.replace(said, evidence=evidence.gather(parsed, view))
    recorded = record(facts, said, target, tuple(file.record for file in imported.files))
    if recorded.obstacles or recorded.manifest is None:
        return publish_command.refuse(parsed, view, f"{said.name or 'NAME'}@{said.version or 'VERSION'}", recorded)
    paths = tuple(file.record.path for file in imported.files)
    chosen = Chosen(paths, code=tuple(path for path in paths if path.endswith(".py")))
    return publish_command.finish(parsed, view, recorded, Plan(recorded.manifest, imported.files), chosen)
