"""Put the gate on SGLang's launch path, with SGLang's own registry of hooks, and make sure that it is there.

Every start of an engine in a main process comes by one of two functions, in every release that has plugins (0.5.11 on):
`prepare_server_args` makes the options of a command line (`python -m sglang.launch_server`, `sglang serve`), and
`ServerArgs.check_server_args` is called by `Engine._launch_subprocesses`, for a server and for `sgl.Engine`, after the
plugins are loaded and before a process is started. Both are in a module that every process of the engine has loaded
anyway; the engine's own workers load the plugin too, and call neither.

A hook that cannot be applied is logged by the registry and forgotten, so that this is looked up once it has been tried.
"""

from __future__ import annotations

import os
import pkgutil

from drafter_cli.plugin import entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PREPARE = "sglang.srt.server_args.prepare_server_args"
CHECK = "sglang.srt.server_args.ServerArgs.check_server_args"


class NotOnLaunchPathError(Exception):
    """This release of SGLang has no place for the gate, or did not take it."""


def around_prepare(original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Judge a command line before its options are made."""
    argv = arguments[0] if arguments else named.get("argv")
    if argv is not None and not entry.mentions(list(argv)):
        return original(*arguments, **named)
    launches = _launches()
    if argv is None or launches is None:  # without its command line, it is judged by its options
        return original(*arguments, **named)
    launches.judge_arguments(list(argv))
    made = original(*arguments, **named)
    launches.remember(made)
    return made


def before_check(server_args: Any, *_: Any, **__: Any) -> None:
    """Judge the options that an engine is about to be started with, unless their command line was judged."""
    if getattr(server_args, "speculative_algorithm", "") or getattr(server_args, "speculative_draft_model_path", ""):
        launches = _launches()
        if launches is not None:
            launches.judge_options(server_args)


def _launches() -> Any:
    """The module that judges; None if it cannot be imported and the mode lets that pass."""
    try:
        from drafter_cli.plugin import launches
    except Exception as error:  # noqa: BLE001 - a damaged installation; it must not end a launch in mode warn
        entry.stop_for(error, os.environ.get("DRAFTERS_GUARD", ""))
        return None
    return launches


def install() -> None:
    """Register both hooks.

    Raises:
        NotOnLaunchPathError: There is no registry, or a function that is hooked does not exist.
    """
    try:
        from sglang.srt.plugins.hook_registry import (  # type: ignore[import-not-found,unused-ignore]
            HookRegistry,
            HookType,
        )
    except ImportError as error:
        raise NotOnLaunchPathError(f"this SGLang has no registry of hooks ({error})") from error
    hooks = ((PREPARE, around_prepare, HookType.AROUND), (CHECK, before_check, HookType.BEFORE))
    for target, hook, kind in hooks:
        function(target)
        HookRegistry.register(target, hook, kind)
    verify_when_applied(HookRegistry, {target: hook for target, hook, _ in hooks})


def function(target: str) -> object:
    """What a dotted name stands for.

    Raises:
        NotOnLaunchPathError: For nothing that can be called.
    """
    try:
        found = pkgutil.resolve_name(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise NotOnLaunchPathError(f"this SGLang has no {target} ({error})") from error
    if not callable(found):
        raise NotOnLaunchPathError(f"{target} is no function in this SGLang")
    return found


def verify_when_applied(registry: Any, hooks: dict[str, Callable[..., Any]]) -> None:
    """Look, right after the registry has applied its hooks, whether these are among them.

    The registry applies all hooks when the last plugin has been loaded, so that it cannot be seen before. Its own
    function is put back at the first call.

    Args:
        registry: SGLang's `HookRegistry`.
        hooks: Target to its hook.

    Raises:
        NotOnLaunchPathError: The registry does not apply hooks in the way that is known of it.
    """
    own = registry.__dict__.get("apply_hooks")
    if not isinstance(own, classmethod):
        raise NotOnLaunchPathError("this SGLang's registry applies its hooks in another way than is known")

    def apply_and_look(cls: Any) -> None:
        registry.apply_hooks = own
        own.__func__(cls)
        try:
            _refuse_missing(hooks)
        except Exception as error:  # noqa: BLE001 - the mode decides what becomes of a launch, whatever failed
            entry.stop_for(error, os.environ.get("DRAFTERS_GUARD", ""))

    registry.apply_hooks = classmethod(apply_and_look)


def _refuse_missing(hooks: dict[str, Callable[..., Any]]) -> None:
    missing = [target for target, hook in hooks.items() if not runs(function(target), hook)]
    if missing:
        raise NotOnLaunchPathError(f"SGLang did not apply the hook on {', '.join(missing)}")


def runs(found: Any, hook: Callable[..., Any]) -> bool:
    """Whether a hook is in a chain of wrappers.

    Args:
        found: The outermost function; a wrapper names the next one as `__wrapped__`.
        hook: The function that one of the wrappers calls.
    """
    for _ in range(100):
        if any(_holds(cell, hook) for cell in getattr(found, "__closure__", None) or ()):
            return True
        found = getattr(found, "__wrapped__", None)
        if found is None:
            return False
    return False


def _holds(cell: Any, hook: Callable[..., Any]) -> bool:
    try:
        return cell.cell_contents is hook
    except ValueError:  # an empty cell
        return False
