"""What must hold for a vLLM release to serve a drafter: each check says everything that it finds wrong.

Codes are those of `rules`; a check that has nothing to decide gives None and does not count.
"""

from __future__ import annotations

from drafter_contracts.checkpoint.facts import P_EAGLE
from drafter_contracts.engines.profile import BROKEN, FITTED
from drafter_contracts.engines.vllm.profile import OPAQUE
from drafter_contracts.engines.vllm.reading import switched, taps_of, width_of
from drafter_contracts.launch.vllm_case import BLOCKS, METHODS, PARALLEL, Case, Fed
from drafter_contracts.layout import NORM_CONCATENATION, NORM_PER_CHUNK, describe_taps
from drafter_contracts.solve import same_taps
from drafter_contracts.verdict import REFUSE, UNKNOWN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from drafter_contracts.engines.launch_rules import Source

    Outcome = tuple[Finding, ...] | None
    Check = Callable[[Case], Outcome]


def at(source: Source | None) -> str:
    """A place in the release, for a finding."""
    return f"vllm/{source.file}:{source.line} {source.function}".strip() if source is not None else ""


def method(case: Case) -> Outcome:
    """The release has the drafter's method."""
    name = METHODS.get(case.method)
    if name is None:
        told = "what kind of drafter it is cannot be told" if not case.method else f"it is a drafter for {case.method}"
        message = f"how {case.engine} serves {case.name} was not derived: {told}"
        expected = f"a drafter for one of {', '.join(METHODS)}"
        return (Finding("METHOD_UNCHECKED", UNKNOWN, message, expected, case.method, remedy="Serve it with SGLang."),)
    if name not in case.profile.methods:
        message = f"{case.engine} has no speculative method {name}, which {case.name} needs"
        has = ", ".join(one for one in case.profile.methods if one in METHODS.values())
        return (Finding("ALGORITHM_UNKNOWN", REFUSE, message, name, has, remedy="Use a newer release."),)
    if case.method == P_EAGLE and PARALLEL not in case.profile.options:
        message = f"{case.engine} cannot draft in parallel, which {case.name} was trained for"
        return (Finding("METHOD_MISMATCH", REFUSE, message, PARALLEL, remedy="Use a newer release."),)
    return ()


def drafter_format(case: Case) -> Outcome:
    """The release can read the drafter's config."""
    if case.seen is not None:
        return ()
    unknown = case.conversion is not None and case.conversion.status == OPAQUE
    message = f"{case.engine} cannot read the config of {case.name}: {case.problem}"
    return (Finding("DRAFT_FORMAT", UNKNOWN if unknown else REFUSE, message, source="config.json"),)


def drafter_class(case: Case) -> Outcome:
    """The release has a class for the drafter, and what it builds is known."""
    if case.seen is None:
        return None
    if case.known is None:
        message = (
            f"{case.engine} has no class for {case.own or 'a drafter without architectures'}, which {case.name} is"
        )
        names = sorted(case.profile.renames.get(METHODS.get(case.method, ""), {}))
        return (Finding("DRAFT_CLASS", REFUSE, message, f"one of {', '.join(names) or 'none'}", case.own),)
    if case.known.status == OPAQUE:
        message = f"what {case.engine} builds for {case.architecture} was not derived: {case.known.reason}"
        return (Finding("DRAFT_OPAQUE", UNKNOWN, message, source=at(case.known.source)),)
    return ()


def target_hook(case: Case) -> Outcome:
    """The target's class can hand out hidden states, and what it hands out is known."""
    named = case.target.architecture
    if not named or not case.decoder:
        message = f"the target's class is not known, and so not what {case.engine} captures"
        return (Finding("CAPTURE_UNCOMPUTED", UNKNOWN, message, remedy="Give the target's config.json."),)
    index = case.profile.targets.get(case.decoder)
    if index is None:
        message = f"{case.engine} registers no class {case.decoder}; what its fallback captures was not derived"
        return (Finding("CAPTURE_OPAQUE", UNKNOWN, message, actual=case.decoder),)
    if case.rule is None:
        message = f"{case.decoder} hands out no hidden states in {case.engine}"
        return (Finding("CAPTURE_NO_HOOK", REFUSE, message, "SupportsEagle3", case.decoder),)
    if case.rule.status == BROKEN:
        message = f"{case.decoder}'s hook cannot work in {case.engine}: {case.rule.reason}"
        return (Finding("CAPTURE_BROKEN", REFUSE, message, source=at(case.rule.source)),)
    if case.rule.status != FITTED:
        message = f"what {case.decoder} captures in {case.engine} was not derived: {case.rule.reason}"
        return (Finding("CAPTURE_OPAQUE", UNKNOWN, message, source=at(case.rule.source)),)
    return ()


def capture_on(case: Case) -> Outcome:
    """The drafter's config leaves capture on."""
    if case.seen is None or case.known is None or case.stated is None:
        return None
    if switched(case.known.switches.get("use_aux_hidden_state"), case.seen) is not False:
        return ()
    message = f"the config of {case.name} turns the capture of hidden states off in {case.engine}"
    return (Finding("CAPTURE_OFF", REFUSE, message, describe_taps(case.stated.layout.taps), "no hidden states"),)


def captured(case: Case) -> Outcome:
    """Every runner that the release may choose feeds exactly the trained states, in order."""
    if case.stated is None or case.seen is None or case.rule is None:
        return None
    wanted = describe_taps(case.stated.layout.taps)
    return tuple(found for fed in case.fed() for found in _captured(case, fed, wanted))


def _captured(case: Case, fed: Fed, wanted: str) -> Iterator[Finding]:
    if case.stated is None:
        return
    runner, source = case.profile.runners[fed.runner], at(case.profile.runners[fed.runner].source)
    who = f"the {fed.runner} runner of {case.engine}"
    if fed.capture is None:
        if case.rule is not None and case.rule.status == FITTED:
            message = f"what {who} feeds {case.name} could not be computed: {fed.problem}"
            yield Finding("CAPTURE_UNCOMPUTED", UNKNOWN, message, wanted, source=source)
        return
    got, layout = fed.capture, case.stated.layout
    how = f"by {fed.key} = {list(fed.ids)}" if fed.ids is not None else "by the target class's default"
    if got.error or got.foreign:
        code = "CAPTURE_CRASH" if got.error else "CAPTURE_FOREIGN_STATE"
        what = f"raises {got.error}" if got.error else f"captures {got.foreign}"
        yield Finding(code, REFUSE, f"{who} {what} for {case.name} ({how})", wanted, got.error or got.foreign, source)
        return
    if same_taps(layout.taps, got.taps):
        return
    actual = describe_taps(got.taps)
    if sorted(layout.taps) == list(got.taps):
        message = f"{who} concatenates in ascending layer order, {case.name} was trained in another"
        yield Finding("CAPTURE_ORDER", REFUSE, message, wanted, actual, source)
        return
    if got.dropped:
        message = f"{who} drops {', '.join(f'boundary {b}' for b in got.dropped)} without a message ({how})"
        yield Finding("CAPTURE_DROPPED", REFUSE, message, wanted, actual, source)
        return
    unread = "" if runner.steps else "; it reads no ids from a drafter's config"
    message = f"{who} would feed {case.name} other layers than it was trained on: {actual} ({how}{unread})"
    yield Finding("CAPTURE_LAYERS", REFUSE, message, wanted, actual, source)


def fc_size(case: Case) -> Outcome:
    """The class builds `fc` as wide as the checkpoint's."""
    trained = trained_columns(case)
    if case.seen is None or case.known is None or case.known.status == OPAQUE or trained is None:
        return None
    taps, word = taps_of(case.known, case.seen)
    width, key = width_of(case.known, case.seen)
    if taps is None or width is None:
        message = f"how wide {case.engine} builds fc for {case.name} could not be computed"
        return (Finding("FC_SIZE", UNKNOWN, message, str(trained), f"{word or '?'} times {key or '?'}"),)
    if taps * width == trained:
        return ()
    message = f"{case.engine} builds fc of {case.name} with {taps * width} columns, its checkpoint has {trained}"
    actual = f"{word} = {taps} times {key} = {width}"
    return (Finding("FC_SIZE", REFUSE, message, str(trained), actual, at(case.known.source)),)


def trained_columns(case: Case) -> int | None:
    """Columns of the drafter's `fc`: by its tensor, else by its record."""
    if case.facts.fc is not None:
        return case.facts.fc.in_width
    return case.stated.layout.fc_input_width if case.stated is not None else None


def trained_switches(case: Case) -> dict[str, bool | None]:
    """What the drafter was trained with, by the name of the switch; None where nothing says it."""
    facts, draft = case.facts, case.manifest.draft
    norm = case.stated.layout.norm if case.stated is not None else ""
    output = facts.norm_output if draft.norm_output is None else draft.norm_output
    before = facts.norm_before_residual if draft.norm_before_residual is None else draft.norm_before_residual
    return {
        "norm_before_fc": facts.norm_before_fc or norm == NORM_CONCATENATION,
        "fc_norm": facts.fc_norm or norm == NORM_PER_CHUNK,
        "norm_output": output,
        "norm_before_residual": before,
    }


#: Switch to the code of its rule.
SWITCH_CODES = {
    "norm_before_fc": "NORM_BEFORE_FC",
    "fc_norm": "NORM_PER_CHUNK",
    "norm_output": "NORM_OUTPUT",
    "norm_before_residual": "NORM_BEFORE_RESIDUAL",
}


def _switch(name: str) -> Check:
    def check(case: Case) -> Outcome:
        if case.seen is None or case.known is None or case.known.status == OPAQUE:
            return None
        if case.method in BLOCKS and name not in case.known.switches:
            return None
        wanted, read = trained_switches(case)[name], switched(case.known.switches.get(name), case.seen)
        if wanted is None:  # nothing says how it was trained: only a class that never does it, or config, decides
            if not read:
                return ()
            message = f"{case.engine} takes {name} to be true for {case.name}, and nothing says how it was trained"
            remedy = f"Record draft.{name} in its manifest."
            return (Finding(SWITCH_CODES[name], UNKNOWN, message, actual="true", remedy=remedy),)
        if wanted == bool(read):
            return ()
        lacks = read is None
        how = f"{case.architecture} has no {name}" if lacks else f"it reads {name} as {str(read).lower()}"
        message = f"{case.name} was trained with {name} {str(wanted).lower()}; in {case.engine} {how}"
        expected, source = f"{name} {str(wanted).lower()}", at(case.known.source)
        return (Finding(SWITCH_CODES[name], REFUSE, message, expected, how, source),)

    return check


def vocabulary(case: Case) -> Outcome:
    """The class's head has as many rows as the drafter's."""
    size = case.facts.vocabulary.size or case.manifest.draft.vocab_size
    if case.seen is None or case.known is None or size is None:
        return None
    told = case.seen.get("draft_vocab_size")
    read = case.seen.get("vocab_size") if told is None else told
    if read is None or read == size:
        return ()
    key = "vocab_size" if told is None else "draft_vocab_size"
    message = f"{case.engine} builds the head of {case.name} with {read} rows ({key}), its checkpoint has {size}"
    return (Finding("DRAFT_VOCABULARY", REFUSE, message, str(size), str(read), f"config.json: {key}"),)


def depth(case: Case) -> Outcome:
    """The target's depth is known."""
    if case.stated is None or case.target.num_layers is not None:
        return None
    message = f"the target's depth is not known, and so not what {case.engine} captures by default"
    return (Finding("CAPTURE_UNCOMPUTED", UNKNOWN, message, remedy="Give the target's config.json."),)


#: Code under which each check counts, and the check.
CHECKS: tuple[tuple[str, Check], ...] = (
    ("ALGORITHM_UNKNOWN", method),
    ("DRAFT_FORMAT", drafter_format),
    ("DRAFT_CLASS", drafter_class),
    ("CAPTURE_NO_HOOK", target_hook),
    ("CAPTURE_UNCOMPUTED", depth),
    ("CAPTURE_OFF", capture_on),
    ("CAPTURE_LAYERS", captured),
    ("FC_SIZE", fc_size),
    *((code, _switch(name)) for name, code in SWITCH_CODES.items()),
    ("DRAFT_VOCABULARY", vocabulary),
)
