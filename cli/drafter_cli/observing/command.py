"""`drafters observe`: what a running engine accepts, held against what the drafter is promised to."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager

from drafter_cli.client.registry_option import OPTIONS as REGISTRY
from drafter_cli.client.registry_option import of_registry
from drafter_cli.commandline import JSON, Command, Option, Parsed
from drafter_cli.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNKNOWN, EXIT_UNREACHABLE, UsageError
from drafter_cli.terminal import write_json
from drafter_cli.words import number, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from drafter_cli.client.backend import Backend
    from drafter_cli.observing.live import Live
    from drafter_cli.observing.posting import Posted, Poster
    from drafter_cli.observing.promised import Promises
    from drafter_cli.observing.report import Report
    from drafter_cli.observing.session import Clock, Until
    from drafter_cli.observing.setting_up import Asked, Setting
    from drafter_contracts.acceptance.records import Conditions, EngineState, Judgement

#: What `--fail-on` knows: the verdicts, written as one word each, and what a verdict adds.
WORDS = ("collapsed", "degraded", "too-little-seen", "nothing-promised", "never-accepted")
_INTERVAL = 10
_MOST_READINGS = 10**9

COMMANDS = {
    "observe": Command(
        name="observe",
        summary="what a running engine accepts, and whether that is what was promised",
        description=(
            "Reads the acceptance of a running SGLang or vLLM, by its counters (/metrics), its log, or its own mean\n"
            "(/server_info), and judges it by what the drafter is promised to do: as promised, degraded, collapsed,\n"
            "or too little seen. The promises are those of REFERENCE in the registry, of the manifest in DIR, of\n"
            "--promise, or else of the manifest beside the files that the engine serves. Runs until it is\n"
            "interrupted, if nothing says otherwise. The engine's key, if it has one, goes into DRAFTERS_ENGINE_KEY."
        ),
        words=("[REFERENCE|DIR]",),
        options=(
            Option("--url", "the running engine", "URL"),
            Option("--log", "its log, followed through rotations; - for standard input", "FILE"),
            Option("--from-start", "read what the log holds already, not only what is added"),
            Option("--interval", f"time between looks; default: {_INTERVAL}s", "TIME"),
            Option("--window", "time that is judged together; default: 1h", "TIME"),
            Option("--for", "end after so long; 0 for one look, of a log to its end", "TIME"),
            Option("--readings", "end after so many readings", "N"),
            Option("--until-verdict", "end with the first verdict; exit with 5 if there is none"),
            Option("--fail-on", f"exit with 3 on these: {', '.join(WORDS)}", "WORD...", many=True),
            Option("--promise", "promised mean length, tokens per verify step with the target's own", "LENGTH"),
            Option("--workload", "what is generated, as promises name it", "NAME"),
            Option("--steps", "--speculative-num-steps in force, where the engine is not asked or does not say", "N"),
            Option("--topk", "--speculative-eagle-topk in force, likewise", "N"),
            Option("--draft-tokens", "--speculative-num-draft-tokens in force, likewise", "N"),
            Option("--post", "report to the registry what is seen, hour by hour"),
            Option("--instance", "what the engine is called there; default: this machine's name", "NAME"),
            JSON,
            Option("--output", "add what is seen at each look to a file, a line of JSON each", "FILE", short="-o"),
            *REGISTRY,
        ),
        examples=(
            ("drafters observe kimi-eagle3@prod --url http://localhost:30000", "watch an engine"),
            (
                "drafters observe kimi-eagle3@2 --url http://canary:30000 --until-verdict --for 1h --fail-on degraded",
                "a canary: 0 goes on, 3 rolls back, 5 is too little traffic",
            ),
            ("drafters observe ./kimi-eagle3 --log engine.log --from-start --for 0", "judge a log that was kept"),
        ),
    )
}


def run(command: Command, parsed: Parsed) -> int:  # noqa: ARG001 - every command has this signature
    """Observe; see the description."""
    from drafter_cli.observing.session import SystemClock

    with _terminated_as_interrupted():
        report = observe(parsed, SystemClock())
    if parsed.has("--json"):
        write_json(report)
    else:
        from drafter_cli.observing.report import print_report

        print_report(report)
    return report.exit_code


def observe(parsed: Parsed, clock: Clock) -> Report:
    """The observation that a command line asks for.

    Raises:
        UsageError: The command line, or the engine does not answer at all.
        ContractsError: A manifest or an engine's answer that is not right.
        RegistryError: The registry refuses.
    """
    options = _Options(parsed)
    from drafter_cli.observing import promised
    from drafter_cli.observing.engine import EngineClient
    from drafter_cli.observing.follow import Follower
    from drafter_cli.observing.live import Live
    from drafter_cli.observing.setting_up import Asked, set_up

    with ExitStack() as stack:
        client = EngineClient(parsed.value("--url")) if parsed.has("--url") else None
        follower = None
        if parsed.has("--log"):
            follower = stack.enter_context(
                closing(Follower(parsed.value("--log"), from_start=parsed.has("--from-start")))
            )
        backend = stack.enter_context(_registry(parsed))
        live = stack.enter_context(closing(Live(clock, parsed.value("--output"))))
        asked = Asked(client, options.stated)
        setting = set_up(client, follower, asked)
        promises = _promises(parsed, backend, setting.state)
        another = promised.runs_another(setting.state, promises)
        if another and options.post:
            raise UsageError(another, "name the drafter that runs, or leave --post out: what is posted stays")
        if another:
            live.note(another)
        for limit in setting.limits:
            live.say(limit)
        if options.post and backend is not None:
            live.poster = _poster(parsed, backend, promises.reference, options.instance, live)
        return _observed(parsed, options, setting, asked, promises, live, clock)


def _observed(
    parsed: Parsed, options: _Options, setting: Setting, asked: Asked, promises: Promises, live: Live, clock: Clock
) -> Report:
    from drafter_cli.observing.live import iso
    from drafter_cli.observing.report import Report
    from drafter_cli.observing.session import Session
    from drafter_cli.observing.watch import Watch

    state = setting.state
    watch = Watch(promises.promises, state.conditions, simulated=state.simulated, window=options.window)
    can_tell = state.speculating is not False
    begun = iso(clock.wall())
    session = Session(
        setting.source, watch, live, state=asked.state, can_tell=can_tell, interval=options.interval, clock=clock
    )
    session.run(options.until)
    posted = live.poster.end() if live.poster is not None else None
    verdict, before = watch.verdict(), [one.judgement for one in watch.windows]
    return Report(
        engine=parsed.value("--url") or parsed.value("--log"),
        source=setting.source.kind,
        limits=setting.limits,
        conditions=watch.conditions,
        promised_by=promises.origin,
        begun=begun,
        ended=iso(clock.wall()),
        first=None if watch.first is None else iso(watch.first),
        last=None if watch.last is None else iso(watch.last),
        judgement=verdict,
        ranks=watch.seen().ranks,
        windows=tuple(watch.windows),
        notes=tuple(live.notes),
        posted=posted,
        exit_code=exit_code(verdict, before, options.fail_on, posted, demanded=options.until.verdict),
    )


def _poster(parsed: Parsed, backend: Backend, reference: str, instance: str, live: Live) -> Poster:
    from drafter_cli.observing.posting import Poster

    again = parsed.has("--from-start") and parsed.value("--log") != "-"
    source = os.path.realpath(parsed.value("--log")) if again else ""
    return Poster(backend, reference, instance, live.note, source=source)


def exit_code(
    found: Judgement, before: Sequence[Judgement], fail_on: tuple[str, ...], posted: Posted | None, *, demanded: bool
) -> int:
    """The command's exit code: the verdict's, and of what was to be reported only where the verdict has none.

    Args:
        found: The verdict.
        before: Those of the windows that are over: what was bad once does not pass.
        fail_on: Of `WORDS`.
        posted: What became of the reports.
        demanded: Whether there was to be a verdict.
    """
    from drafter_cli.observing.watch import SETTLED, is_final, is_named

    if any(is_named(one, fail_on) for one in (found, *(one for one in before if one.word in SETTLED))):
        return EXIT_REFUSED
    if demanded and not (found.word in SETTLED and is_final(found, fail_on)):
        return EXIT_UNKNOWN
    nothing_stored = posted is not None and not posted.stored and (posted.unsent or posted.dropped)
    return EXIT_UNREACHABLE if nothing_stored else EXIT_OK


class _Options:
    """What the options say, all of it read before anything is asked.

    Raises:
        UsageError: Values that are none, or options that do not go together.
    """

    def __init__(self, parsed: Parsed) -> None:
        if not parsed.has("--url") and not parsed.has("--log"):
            raise UsageError("nothing to observe", "give --url http://HOST:PORT of the engine, or --log FILE")
        if parsed.has("--from-start") and not parsed.has("--log"):
            raise UsageError("--from-start is of a log", "give --log FILE, too")
        from drafter_cli.observing.watch import WINDOW

        self.interval = float(_time(parsed, "--interval")) if parsed.has("--interval") else float(_INTERVAL)
        if not self.interval:
            raise UsageError("--interval is 0", "write at least 1s")
        self.window = float(_time(parsed, "--window")) if parsed.has("--window") else WINDOW
        if not self.window:
            raise UsageError("--window is 0", "write at least 1m")
        self.until = _until(parsed)
        self.fail_on = _fail_on(parsed)
        self.stated = _stated(parsed)
        self.post = parsed.has("--post")
        if self.post and (not parsed.word(0) or os.path.isdir(parsed.word(0))):
            raise UsageError("--post needs to know of which stored version", "drafters observe REFERENCE --post ...")
        self.instance = parsed.value("--instance") or _this_machine()


def _until(parsed: Parsed) -> Until:
    from drafter_cli.observing.session import Until

    return Until(
        seconds=float(_time(parsed, "--for")) if parsed.has("--for") else None,
        readings=number("--readings", parsed.value("--readings")) if parsed.has("--readings") else None,
        verdict=parsed.has("--until-verdict"),
        names=_fail_on(parsed),
    )


def _stated(parsed: Parsed) -> Conditions:
    from drafter_contracts.acceptance.records import Conditions

    def count(option: str) -> int | None:
        return number(option, parsed.value(option)) if parsed.has(option) else None

    return Conditions(
        workload=parsed.value("--workload"),
        steps=count("--steps"),
        topk=count("--topk"),
        draft_tokens=count("--draft-tokens"),
    )


def _time(parsed: Parsed, option: str) -> int:
    text = parsed.value(option)
    return seconds(option, f"{text}s" if text.isascii() and text.isdigit() and text != "0" else text)


def _fail_on(parsed: Parsed) -> tuple[str, ...]:
    words = [word for value in parsed.many("--fail-on") for word in value.replace(" ", "-").split(",") if word]
    for word in words:
        if word not in WORDS:
            raise UsageError(f"--fail-on does not know {word!r}", f"one of {', '.join(WORDS)}; REFERENCE goes first")
    return tuple(words)


def _this_machine() -> str:
    import socket

    return socket.gethostname()[:128]


def _promises(parsed: Parsed, backend: Backend | None, state: EngineState) -> Promises:
    from drafter_cli.observing import promised

    word = parsed.word(0)
    found = None
    if word:
        found = promised.beside(word) if backend is None else promised.stored(backend, word)
    if parsed.has("--promise"):
        stated = promised.stated(parsed.value("--promise"), state.conditions)
        return stated if found is None else _of(stated, found)
    return found if found is not None else promised.of_engine(state)


def _of(stated: Promises, found: Promises) -> Promises:
    from dataclasses import replace

    return replace(stated, reference=found.reference, digest=found.digest)


@contextmanager
def _registry(parsed: Parsed) -> Iterator[Backend | None]:
    """The registry, if the command line names something in it."""
    word = parsed.word(0)
    if not word or os.path.isdir(word):
        yield None
        return
    from drafter_cli.client.connect import connect

    with closing(connect(of_registry(parsed))) as backend:
        yield backend


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """A supervisor's SIGTERM ends an observation as Ctrl-C does: with the verdict so far."""
    import signal

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
