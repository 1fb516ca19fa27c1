"""What an upgrade does to a drafter, as text and as a document."""

from __future__ import annotations

from drafter_cli.terminal import wrap
from drafter_contracts.engines.words import boundary_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from drafter_contracts.engines.profile import Profile
    from drafter_contracts.solve import Solution
    from drafter_contracts.upgrades.answer import Answer
    from drafter_contracts.upgrades.drafters import Fate, Move
    from drafter_contracts.verdict import Finding

_MOST_NAMES = 8


def lines(fate: Fate, before: Profile, after: Profile) -> Iterator[str]:
    """One drafter's part of the output."""
    yield f"{fate.drafter}  ({', '.join(filter(None, (fate.architecture, fate.method)))})"
    yield from _paragraphs(_reads(fate))
    if not fate.method:
        yield from _paragraphs("reads no aux hidden states: nothing is captured for it")
    for move in fate.moves:
        yield from _move_lines(move, before, after)
    if fate.method and not fate.target.architecture:
        yield from _paragraphs(_others(fate, after))
    yield from _class_lines(fate, before, after)


def _paragraphs(text: str, indent: str = "  ") -> list[str]:
    return wrap(text, indent=indent).split("\n")


def _reads(fate: Fate) -> str:
    target = fate.target
    if not fate.method:
        return f"{fate.architecture} drafts without captured layers"
    ids = f"ids {list(fate.ids)} from {fate.key}" if fate.ids is not None else "no ids in its config"
    trained = f"; trained on {fate.trained} by its manifest" if fate.trained else ""
    depth = f"{fate.layers} layers" if not fate.assumed else f"taken to be {fate.assumed}"
    if target.architecture:
        return f"{ids}{trained}; on {target.architecture} by {target.origin}, {depth}"
    return f"{ids}{trained}; its files do not name its target class, {depth} (--architecture and --layers say it)"


def _move_lines(move: Move, before: Profile, after: Profile) -> Iterator[str]:
    names = ", ".join(move.architectures[:_MOST_NAMES])
    more = len(move.architectures) - _MOST_NAMES
    names += f" and {more} more" if more > 0 else ""
    if not move.changes:
        yield from _paragraphs(f"{names}: this upgrade does not move its capture: {move.after.words()}")
        yield from _right(move, before, after)
        return
    bare = _bare(move)
    if move.undecided:
        yield from _paragraphs(f"{names}: whether this upgrade moves its capture is not decidable")
    elif move.gains:
        yield from _paragraphs(f"{names}: only {after.release} captures for it")
    elif bare:
        yield from _paragraphs(f"{names}: this upgrade moves its capture from {bare[0]} to {bare[1]}")
    else:
        yield from _paragraphs(f"{names}: this upgrade changes what it is fed")
    for release, seen in ((before, move.before), (after, move.after)):
        yield from _paragraphs(f"{release.release}: {seen.words()}", "    ")
        if seen.source():
            yield from _paragraphs(f"[{seen.source()}]", "      ")
    for span, seen in move.steps[1:-1] if len(move.steps) > 2 else ():
        yield from _paragraphs(f"{span.phrase()}: {seen.words()}", "    ")
    if len(move.steps) > 1 and move.steps[-1][0].first != after.release:
        yield from _paragraphs(f"the change to {after.release}'s behaviour came with {move.steps[-1][0].first}", "    ")
    yield from _right(move, before, after)
    if move.keep is not None:
        yield from _paragraphs(_keep(move, move.keep, before, after), "    ")


def _bare(move: Move) -> tuple[str, str] | None:
    """Both captures as bare boundaries, where that says it all."""
    pair = (move.before, move.after)
    if any(seen.replays_otherwise or not seen.boundaries for seen in pair):
        return None
    return move.before.boundaries, move.after.boundaries


def _right(move: Move, before: Profile, after: Profile) -> list[str]:
    if move.trained is None:
        return []
    told = [
        f"{release.release} {'feeds' if right else 'does not feed'} it what it was trained on"
        for release, right in zip((before, after), move.trained, strict=True)
    ]
    return _paragraphs("; ".join(told), "    ")


def _keep(move: Move, keep: Solution, before: Profile, after: Profile) -> str:
    what = f"what {before.release} feeds it"
    if not keep.found:
        return f"no ids make {after.release} feed it {what.removesuffix(' it')}: {keep.reason}"
    graphs = ", and launch without CUDA graphs" if keep.graphs_off else ""
    if keep.ids is None:
        return f"to keep {what}: leave the ids out of its config for {after.release}{graphs}"
    unchanged = move.after.ids is not None and tuple(keep.ids) == move.after.ids and not keep.graphs_off
    if unchanged:
        return f"{after.release} feeds the same with the ids as they are"
    return f"to keep {what}: set {keep.key} to {list(keep.ids)} for {after.release}{graphs}"


def _others(fate: Fate, after: Profile) -> str:
    new = f"; {fate.newly} that {after.release} alone captures for" if fate.newly else ""
    unknown = f"; {fate.unknown} that cannot be told of" if fate.unknown else ""
    return f"target classes for which nothing changes: {fate.unmoved}{new}{unknown}"


def _class_lines(fate: Fate, before: Profile, after: Profile) -> Iterator[str]:
    had, has = fate.class_before is not None, fate.class_after is not None
    if had != has:
        who = after.release if has else before.release
        yield from _paragraphs(f"class {fate.architecture}: only {who} has it")
    if fate.keys_gained:
        yield from _paragraphs(f"keys of its config that {after.release} newly reads: {', '.join(fate.keys_gained)}")
    if fate.keys_lost:
        yield from _paragraphs(f"keys of its config that {after.release} no longer reads: {', '.join(fate.keys_lost)}")
    for finding in fate.appeared:
        yield from _paragraphs(f"new in {after.release}: {finding.severity} {finding.code}: {finding.message}")
    for finding in fate.vanished:
        yield from _paragraphs(f"no longer so in {after.release}: {finding.code}: {finding.message}")
    if had and has and not (fate.keys_gained or fate.keys_lost or fate.appeared or fate.vanished):
        yield from _paragraphs(f"class {fate.architecture}: the same for this drafter in both")


# documents ----------------------------------------------------------------------------------------------------------


def document(fate: Fate) -> dict[str, object]:
    """One drafter's part of the document; its keys are described in docs/upgrades.md."""
    return {
        "drafter": fate.drafter,
        "architecture": fate.architecture,
        "method": fate.method,
        "ids": list(fate.ids) if fate.ids is not None else None,
        "key": fate.key,
        "target": {
            "architecture": fate.target.architecture,
            "layers": fate.layers,
            "assumed": fate.assumed,
            "origin": fate.target.origin,
        },
        "moved": fate.moved,
        "undecided": fate.undecided,
        "captures": [_move_document(move) for move in fate.moves],
        "unmoved_classes": fate.unmoved,
        "new_classes": fate.newly,
        "undecided_classes": fate.unknown,
        "class_known": {"from": fate.class_before is not None, "to": fate.class_after is not None},
        "keys_gained": list(fate.keys_gained),
        "keys_lost": list(fate.keys_lost),
        "appeared": [_finding(finding) for finding in fate.appeared],
        "vanished": [_finding(finding) for finding in fate.vanished],
    }


def _move_document(move: Move) -> dict[str, object]:
    keep = move.keep
    return {
        "architectures": list(move.architectures),
        "changes": move.changes,
        "moves": move.moves,
        "undecided": move.undecided,
        "from": answer_document(move.before),
        "to": answer_document(move.after),
        "steps": [{"first": s.first, "last": s.last} | answer_document(seen) for s, seen in move.steps],
        "keep": None
        if keep is None
        else {
            "found": keep.found,
            "ids": list(keep.ids) if keep.ids is not None else None,
            "key": keep.key,
            "graphs_off": keep.graphs_off,
            "reason": keep.reason,
        },
        "trained": None if move.trained is None else {"from": move.trained[0], "to": move.trained[1]},
    }


def answer_document(seen: Answer) -> dict[str, object]:
    """What a release captures, as a document."""
    effect = seen.effect
    replay = effect.replay if effect is not None and seen.replays_otherwise else None
    return {
        "status": seen.kind,
        "text": seen.words(),
        "boundaries": boundary_names(effect.eager) if effect is not None else [],
        "replayed_boundaries": boundary_names(replay) if replay is not None else None,
        "dropped": list(effect.eager.dropped) if effect is not None else [],
        "error": effect.eager.error if effect is not None else "",
        "reason": seen.reason,
        "source": seen.source(),
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {"code": finding.code, "severity": finding.severity, "message": finding.message}
