"""A launch that somebody asks about over the network: read from the request alone.

Paths in it are names, whatever lies at them on this machine; no variable of this process has a part in the answer.
"""

from __future__ import annotations

import re

from drafter_contracts.checkpoint.facts_from import drafter_facts
from drafter_contracts.engines.launch_rules import flag_dest
from drafter_contracts.errors import TargetError
from drafter_contracts.launch.target_facts import target_of_record
from drafter_contracts.serving import config_file
from drafter_contracts.serving.invocation import read_invocation
from drafter_contracts.serving.target import target_from_config
from drafter_registry.errors import Fault, InvalidError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from drafter_contracts.checkpoint.facts import DrafterFacts
    from drafter_contracts.engines.launch_rules import Flag
    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.manifest import Manifest
    from drafter_contracts.serving.launch import Invocation, TargetFacts
    from drafter_registry.documents import CheckRequest, ResolveRequest

_KEY = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")
_TARGET_CONFIG = "target_config of the request"


def check_shape(request: CheckRequest) -> None:
    """Whether a request names one drafter and one launch.

    Raises:
        InvalidError: It does not; lists both faults.
    """
    faults = []
    if bool(request.drafter) == (request.manifest is not None):
        faults.append(Fault("/drafter", "one drafter", expected="either drafter or manifest"))
    if bool(request.launch) == (request.serving is not None):
        faults.append(Fault("/launch", "one launch", expected="either launch or serving"))
    if request.config is not None and request.manifest is None:
        faults.append(
            Fault("/config", "a stored drafter has its own config.json", expected="config with manifest only")
        )
    if faults:
        raise InvalidError("the request cannot be read", faults=tuple(faults))


def read_launch(request: CheckRequest, profile: Profile) -> Invocation:
    """The launch of a request.

    Raises:
        InvalidError: Keys that are no options, or an option that names a file to be read.
    """
    if request.serving is not None:
        options = serving_arguments(request.serving, profile.launch.flags)
        argv = ("python", "-m", "sglang.launch_server", *options)
    else:
        argv = request.launch
    invocation = read_invocation(argv, isolated=True)
    refuse_files(invocation.arguments, profile, "/launch" if request.launch else "/serving")
    return invocation


def refuse_files(arguments: Sequence[str], profile: Profile, pointer: str) -> None:
    """No file of this machine is read because somebody names it.

    Raises:
        InvalidError: The arguments name one with `--config`.
    """
    if profile.launch.config_file is not None and config_file.OPTION in arguments:
        raise InvalidError(
            "a registry reads no files of a launch",
            hint=f"write the options of {config_file.OPTION} FILE out, or check where the file is: `drafters check`",
            faults=(Fault(pointer, "options that are not in the request", actual=config_file.OPTION),),
        )


def serving_arguments(serving: Mapping[str, str | int | float | bool | None], flags: Sequence[Flag]) -> tuple[str, ...]:
    """Options as a mapping, as arguments of a release with this flag table.

    A switch is written for true and left out for false; None leaves any option out.

    Raises:
        InvalidError: Keys that cannot be options; lists every one.
    """
    faults = tuple(
        Fault(f"/serving/{key}", "no option", expected="an option's name without dashes, like page-size")
        for key in serving
        if not _KEY.fullmatch(key)
    )
    if faults:
        raise InvalidError("the request cannot be read", faults=faults)
    actions = {name: flag.action for flag in flags for name in (*flag.names, "--" + flag_dest(flag))}
    argv: list[str] = []
    for key, value in serving.items():
        name = "--" + key.replace("_", "-")
        action = actions.get(name, "store")
        if value is None:
            continue
        if isinstance(value, bool) and action in ("store_true", "BooleanOptionalAction"):
            negated = name.replace("--", "--no-", 1)
            argv += [name] if value else [negated] if action == "BooleanOptionalAction" else []
        else:
            argv.append(f"{name}={str(value).lower() if isinstance(value, bool) else value}")
    return tuple(argv)


def read_target(
    request: CheckRequest | ResolveRequest, name: str, manifest: Manifest
) -> tuple[TargetFacts | None, str]:
    """The target by the config that was sent, else by the manifest's record; or None and why."""
    config, tokenizer = request.target_config, request.target_tokenizer_sha256
    if config is None:
        return target_of_record(manifest.target, name), ""
    path = name or manifest.target.model
    try:
        return target_from_config(config, path, source=_TARGET_CONFIG, tokenizer_sha256=tokenizer), ""
    except TargetError as error:
        return None, error.diagnostics()


def facts_of_config(
    config: dict[str, object] | None, manifest: Manifest, target: TargetFacts | None
) -> DrafterFacts | None:
    """What a drafter's config alone says of it; None without one."""
    if config is None:
        return None
    return drafter_facts(
        config,
        (),
        path=f"{manifest.name} {manifest.version}".strip(),
        weights="none",
        target_layers=target.num_layers if target is not None else None,
        target_hidden_size=target.hidden_size if target is not None else None,
        target_model_type=target.text_model_type if target is not None else "",
    )
