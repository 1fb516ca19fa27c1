"""Pictures of evidence: errors of recorded states against every boundary, acceptance by layout.

Drawn with matplotlib's own canvas, no display and no state of its own; the same document gives the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from drafter_cli.errors import UsageError
from drafter_cli.values.evaluate_view import best_first, in_boundaries
from drafter_cli.values.whole_file import replace_file
from drafter_contracts.evidence.documents import (
    IDENTIFIED,
    UNKNOWN,
    Evaluation,
    Identification,
    LayoutScore,
    StateMatch,
)
from drafter_contracts.layout import FINAL_NORM

#: Dots per inch of a PNG.
_DPI = 144
#: Colours that people who see no red or no green tell apart (Okabe and Ito), dark enough for lines on white.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#e69f00", "#000000")
_GREY, _PALE, _STATED, _OWN = "#555555", "#dddddd", "#d55e00", "#009e73"
#: Settings that a user's own matplotlibrc must not change; text stays text in an SVG.
_SETTINGS = {
    "svg.hashsalt": "drafters",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _GREY,
    "text.parse_math": False,
}
#: Most boundary numbers below the picture.
_TICKS = 16
#: Room for so many bars, even if there are fewer.
_FEWEST_BARS = 4
#: Errors below this are drawn here: zero has no place on a logarithmic axis.
_LOWEST = 1e-8


def check_name(path: str) -> str:
    """The format that a picture's name asks for.

    Raises:
        UsageError: Another than png or svg.
    """
    _, dot, ending = path.rpartition(".")
    if not dot or ending.lower() not in ("png", "svg"):
        raise UsageError(f"{path} is no name of a picture", "name a file that ends in .png or .svg")
    return ending.lower()


def draw_identification(document: Identification, path: str) -> None:
    """Draw the error of every recorded state against every boundary, matches marked.

    Args:
        document: What `drafters identify` found.
        path: Picture to write, .png or .svg.

    Raises:
        UsageError: Another ending, or it cannot be written.
    """
    kind = check_name(path)
    with _own_settings():
        _write(_identification(document), path, kind)


def _identification(document: Identification) -> Any:
    states = [*document.states, *([] if document.last is None else [document.last])]
    names = [f"state {state.number}" for state in document.states]
    names += [] if document.last is None else ["last state"]
    layers = document.reference.layers
    figure, axes = _figure(max(7.5, min(4 + 0.11 * layers, 13)), 4.6)
    for at, (state, name) in enumerate(zip(states, names, strict=True)):
        _draw_state(axes, state, name, layers, at)
    tolerances = [state.tolerance for state in states if state.tolerance]
    if tolerances:
        label = f"tolerance: {max(tolerances):.2g}"
        axes.axhline(max(tolerances), color=_GREY, linewidth=0.9, linestyle=(0, (5, 3)), zorder=1, label=label)
    _boundary_axis(axes, layers)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylabel("relative error")
    axes.grid(axis="y", which="major", color=_PALE, linewidth=0.6, zorder=0)
    found = ", ".join(map(str, document.boundaries)) if document.boundaries else "not identified"
    _title(axes, "Recorded states against every boundary of the target", f"boundaries {found}; {_said(document)}")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0.0)
    return figure


def _draw_state(axes: Any, state: StateMatch, name: str, layers: int, at: int) -> None:
    """One line over the boundaries, a detached point for the final norm, a ring around the match."""
    colour, marker = _COLOURS[at % len(_COLOURS)], "osD^vP"[at // len(_COLOURS) % 6]
    stream = [error for error in state.errors if error.state != FINAL_NORM]
    normed = [error for error in state.errors if error.state == FINAL_NORM]
    label = f"{name}: {_match(state, layers)}"
    places = [error.boundary for error in stream]
    heights = [max(error.error, _LOWEST) for error in stream]
    axes.plot(places, heights, color=colour, linewidth=1.2, marker=marker, markersize=2.6, label=label, zorder=3)
    for error in normed:
        height = max(error.error, _LOWEST)
        axes.plot([_norm_place(layers)], [height], color=colour, marker=marker, markersize=4, zorder=3)
    if state.boundary is not None and state.error is not None:
        place = _norm_place(layers) if state.state == FINAL_NORM else state.boundary
        open_match = state.found != IDENTIFIED
        axes.plot(
            [place],
            [max(state.error, _LOWEST)],
            marker="o",
            markersize=11,
            markerfacecolor="none",
            markeredgecolor=colour,
            markeredgewidth=1.2 if open_match else 2.0,
            alpha=0.5 if open_match else 1.0,
            linestyle="none",
            zorder=4,
        )


def _match(state: StateMatch, layers: int) -> str:
    if state.found == UNKNOWN or state.boundary is None:
        return "unknown"
    place = "final norm" if state.state == FINAL_NORM else f"boundary {state.boundary}"
    if state.state != FINAL_NORM and state.boundary == layers:
        place += " (last layer)"
    extra = f", {state.map}" if state.map else ""
    extra += f", shifted by {state.shift:+d}" if state.shift else ""
    return f"{place}{extra}"


def _norm_place(layers: int) -> float:
    """The final norm is no boundary: it stands apart behind the last one."""
    return layers + max(1.5, layers * 0.04)


def _boundary_axis(axes: Any, layers: int) -> None:
    step = max(1, -(-layers // _TICKS))
    ticks = list(range(0, layers + 1, step))
    if ticks[-1] != layers:
        # The last boundary matters more than the even step before it.
        ticks = [*(tick for tick in ticks if layers - tick > step * 0.6), layers]
    norm = _norm_place(layers)
    axes.axvline((layers + norm) / 2, color=_PALE, linewidth=1.0, zorder=0)
    labels = ["0\nembedding", *map(str, ticks[1:])]
    axes.set_xticks([*ticks, norm], [*labels, "final\nnorm"])
    axes.set_xlim(-max(0.5, layers * 0.02), norm + max(0.5, layers * 0.02))
    axes.set_xlabel("boundary b: the stream that enters layer b; the output of layer b - 1")


def _said(document: Identification) -> str:
    reference = document.reference.model or document.reference.kind
    return f"against {reference}, {sum(sample.compared for sample in document.samples)} tokens"


def draw_evaluation(document: Evaluation, path: str) -> None:
    """Draw tokens per step by layout as bars, best first; the stated one stands out.

    The whiskers are three standard errors of the difference from the stated one, position by position: a whisker that
    does not reach its line is behind. Errors of the lengths themselves say nothing of that, and are not drawn.

    Args:
        document: What `drafters evaluate` found.
        path: Picture to write, .png or .svg.

    Raises:
        UsageError: Another ending, or it cannot be written.
    """
    kind = check_name(path)
    with _own_settings():
        _write(_evaluation(document), path, kind)


def _evaluation(document: Evaluation) -> Any:
    scores = best_first(document)
    drawn = max(len(scores), _FEWEST_BARS)
    figure, axes = _figure(8.0, 1.6 + 0.27 * drawn)
    places = range(len(scores))
    lengths = [score.length for score in scores]
    axes.barh(
        places,
        [length - 1 for length in lengths],
        left=1,
        height=0.68,
        color=[_bar_colour(score, document) for score in scores],
        xerr=[3 * score.behind_deviation for score in scores],
        error_kw={"ecolor": "#222222", "elinewidth": 0.9, "capsize": 2.5},
        zorder=3,
    )
    first = document.scores[0]
    axes.axvline(first.length, color=_STATED, linewidth=0.9, linestyle=(0, (5, 3)), zorder=2)
    right = max(score.length + 3 * score.behind_deviation for score in scores)
    span = max(right - 1, 0.05)
    for place, score in zip(places, scores, strict=True):
        text = f"{score.length:.2f}   {score.steps[0]:.1%}"
        axes.text(1 + 1.02 * span, place, text, va="center", ha="left", fontsize=8, color="#222222")
    axes.annotate(
        "per step, token 1",
        (1 + 1.02 * span, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 4),
        textcoords="offset points",
        fontsize=8,
        color=_GREY,
    )
    axes.set_yticks(places, [_bar_label(score) for score in scores])
    for text, score in zip(axes.get_yticklabels(), scores, strict=True):
        if score is document.scores[0]:
            text.set_fontweight("bold")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(drawn - 0.4, -0.6)
    axes.set_xlim(1, 1 + span)
    name = "the stated one" if first.name == "stated" else "the best one"
    axes.set_xlabel(
        "tokens per step, the target's own included; bars begin at 1: nothing accepted\n"
        f"whiskers: ±3 standard errors of the difference from {name}"
    )
    axes.grid(axis="x", color=_PALE, linewidth=0.6, zorder=0)
    steps = len(document.scores[0].steps)
    under = f"{steps} tokens drafted per step, {document.rows} positions; verdict: {document.verdict}"
    _title(axes, f"Acceptance by layout: {document.drafter}", under, above=14)
    return figure


def _bar_colour(score: LayoutScore, document: Evaluation) -> str:
    if score is document.scores[0]:
        return _STATED
    return _OWN if score is document.recorded else "#8fb8d6"


def _bar_label(score: LayoutScore) -> str:
    return f"{score.name}  [{in_boundaries(score)}]" if score.boundaries else f"{score.name} in the samples"


@contextmanager
def _own_settings() -> Iterator[None]:
    """Matplotlib's defaults and ours, whatever a matplotlibrc says."""
    import matplotlib as mpl

    with mpl.rc_context({**mpl.rcParamsDefault, **_SETTINGS}):
        yield


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI)
    return figure, figure.add_subplot()


def _title(axes: Any, title: str, under: str, *, above: float = 0) -> None:
    axes.annotate(
        title,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, above + 24),
        textcoords="offset points",
        fontsize=11,
        fontweight="bold",
        parse_math=False,
    )
    axes.annotate(
        under,
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, above + 9),
        textcoords="offset points",
        color=_GREY,
        parse_math=False,
    )


def _write(figure: Any, path: str, kind: str) -> None:
    """The whole picture or nothing."""
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    content = io.BytesIO()
    figure.savefig(content, format=kind, bbox_inches="tight", pad_inches=0.15, metadata=metadata)
    replace_file(path, content.getvalue())


__all__: Sequence[str] = ("check_name", "draw_evaluation", "draw_identification")
