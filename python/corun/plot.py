"""Figures: matplotlib for papers, plotly for exploring.

Each function takes ``engine="matplotlib"`` (the default) and returns a
:class:`matplotlib.figure.Figure`, or ``engine="plotly"`` and returns a
:class:`plotly.graph_objects.Figure`. Both come with ``pip install 'corun[plot]'``.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from corun import _corun
from corun.errors import InputError
from corun.results import Comparison, Partition, Run

#: Colours that colour-blind people tell apart (Okabe and Ito, 2008).
COLOURS = [
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#8C6D31",
    "#6A51A3",
    "#A50F15",
]

#: Bounds are grey, so that they differ from every policy.
BOUNDS = {"optimal": "#222222", "expectation": "#8A8A8A", "worst": "#C4C4C4"}

#: Their marks.
MARKS = {"policy": ("o", "circle"), "optimal": ("*", "star"), "worst": ("X", "x")}

#: Smaller caches than this are private to a core on any machine.
LEAST_CACHE = 32 * 1024


@dataclass
class _Axes:
    """What a figure shows, before an engine draws it."""

    title: str
    x: str
    y: str
    #: Points: (label, x, y, colour, what it is).
    points: list[tuple[str, float, float, str, str]] = field(default_factory=list)
    #: Bars: groups by label, each with one value a category.
    categories: list[str] = field(default_factory=list)
    bars: list[tuple[str, list[float], str]] = field(default_factory=list)
    #: Lines: (label, xs, ys, colour).
    lines: list[tuple[str, np.ndarray, np.ndarray, str]] = field(default_factory=list)
    #: Spans on rows: (row, from, to, colour, what it is, text within).
    rows: list[str] = field(default_factory=list)
    spans: list[tuple[int, float, float, str, str, str]] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)
    log_x: bool = False
    #: Where a line shows what is normal.
    line_at: float | None = None


def stp_against_unfairness(comparison: Comparison, *, engine: str = "matplotlib") -> Any:
    """Each policy as a point: throughput (STP, more is better) against unfairness (less is)."""
    frame = comparison.policies
    frame = frame[frame.stp.notna() & frame.same_as.isna()]
    axes = _Axes(
        title=f"{len(comparison.apps)} programs on {comparison.machine}",
        x="unfairness (largest / smallest slowdown)",
        y="STP (sum of 1 / slowdown)",
    )
    policies = [name for name in frame.index if frame.kind[name] == "policy"]
    for name, row in frame.iterrows():
        colour = BOUNDS.get(row.kind) or _colour(policies.index(name))
        axes.points.append((str(name), row.unfairness, row.stp, colour, row.kind))
    return _draw(axes, engine)


def slowdown_bars(
    comparison: Comparison, policies: Sequence[str] | None = None, *, engine: str = "matplotlib"
) -> Any:
    """Each program's slowdown under each policy, as bars."""
    frame = comparison.slowdowns
    if policies is None:
        table = comparison.policies
        policies = [name for name in frame.index if table.same_as.isna()[name]]
    elif isinstance(policies, str):
        policies = [policies]
    unknown = [name for name in policies if name not in frame.index]
    if unknown:
        known = ", ".join(frame.index)
        raise InputError(f"policies holds {unknown[0]!r}: the comparison has {known}")
    kinds = comparison.policies.kind
    axes = _Axes(
        title=f"{len(comparison.apps)} programs on {comparison.machine}",
        x="",
        y="slowdown (time beside the others / alone)",
        categories=list(frame.columns),
        line_at=1.0,
    )
    own = [name for name in policies if kinds[name] == "policy"]
    for name in policies:
        colour = BOUNDS[kinds[name]] if kinds[name] != "policy" else _colour(own.index(name))
        axes.bars.append((name, [float(value) for value in frame.loc[name]], colour))
    return _draw(axes, engine)


def miss_rate_curves(
    programs: Sequence[str | _corun.Profile],
    *,
    library: _corun.Library | None = None,
    engine: str = "matplotlib",
) -> Any:
    """Miss-rate curves: misses per 1000 instructions alone, by cache size.

    From 32 KiB up to where more cache changes nothing for any of the programs.
    """
    if isinstance(programs, str):
        raise TypeError(f"programs is the text {programs!r}: expected a list of names or profiles")
    library = library or _corun.Library()
    axes = _Axes(title="", x="cache size", y="misses per 1000 instructions", log_x=True)
    profiles = [one if isinstance(one, _corun.Profile) else library[one] for one in programs]
    sizes = {one.name: np.array(one.sizes_bytes, dtype=float) for one in profiles}
    highest = 4.0 * LEAST_CACHE
    for one in profiles:
        own = np.union1d(sizes[one.name], [LEAST_CACHE])
        own = own[own >= LEAST_CACHE]
        mpki = one.mpki(own)
        falls = own[mpki > mpki[-1] + 0.005 * mpki[0]]
        highest = max(highest, 2.0 * falls[-1] if len(falls) else 0.0)
    for place, one in enumerate(profiles):
        own = sizes[one.name]
        own = own[(own > LEAST_CACHE) & (own < highest)]
        own = np.union1d(own, [LEAST_CACHE, highest])
        axes.lines.append((one.name, own, one.mpki(own), _colour(place)))
    return _draw(axes, engine)


def way_map(partition: Partition, *, engine: str = "matplotlib") -> Any:
    """Who has which ways of the LLC; with ``all``, under each policy."""
    document = partition.document
    entries = document.get("policies") or [document]
    entries = [entry for entry in entries if not entry.get("error")]
    apps = document["apps"]
    axes = _Axes(
        title=f"{document['machine']}, {document['llc_ways']} ways of "
        f"{_size(document['way_bytes'])}",
        x="ways of the LLC",
        y="",
        rows=[entry["policy"] for entry in entries],
    )
    for row, entry in enumerate(entries):
        by_mask: dict[int, list[str]] = {}
        for app, mask in zip(apps, entry["mask"]):
            by_mask.setdefault(int(mask, 16), []).append(app)
        for mask, users in by_mask.items():
            ways = [way for way in range(64) if mask >> way & 1]
            colour = _colour(apps.index(users[0]))
            text = f"{', '.join(users)}: {len(ways)} ways"
            axes.spans.append((row, ways[0], ways[-1] + 1, colour, text, "+".join(users)))
    axes.legend = [(app, _colour(place)) for place, app in enumerate(apps)]
    return _draw(axes, engine)


def time_line(run: Run, *, engine: str = "matplotlib") -> Any:
    """Where each program was when: a row a program, coloured by the LLC it was on.

    Of runs with the seed 1 alone: others do not keep where programs were.
    """
    if run.placements.empty:
        raise ValueError(
            f"the run has the seed {run.seed}, and where its programs were is not kept: expected a "
            "run with the seed 1"
        )
    axes = _Axes(
        title=f"{run.policy}, seed {run.seed}", x="simulated time (s)", y="", rows=list(run.apps.index)
    )
    threads = run.threads[run.threads["index"] == 0].set_index("thread")
    llcs: set[int] = set()
    for thread, placed in run.placements.groupby("thread"):
        if thread not in threads.index:
            continue
        record = threads.loc[thread]
        end = run.simulated_s if np.isnan(float(record.end_s or np.nan)) else float(record.end_s)
        starts = list(placed.at_s)
        for row, until in zip(placed.itertuples(), [*starts[1:], end]):
            llcs.add(row.llc)
            text = f"{record.app}: CPU {row.cpu}, LLC {row.llc}, run {record.run}"
            place = axes.rows.index(record.app)
            axes.spans.append((place, row.at_s, until, _colour(row.llc), text, ""))
    axes.legend = [(f"LLC {llc}", _colour(llc)) for llc in sorted(llcs)]
    return _draw(axes, engine)


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _size(size: float) -> str:
    for unit in ["B", "KiB", "MiB", "GiB"]:
        if size < 1024 or unit == "GiB":
            return f"{size:g} {unit}" if size == int(size) else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def _draw(axes: _Axes, engine: str) -> Any:
    if engine == "matplotlib":
        return _matplotlib(axes)
    if engine == "plotly":
        return _plotly(axes)
    raise ValueError(f"engine is {engine!r}: expected 'matplotlib' or 'plotly'")


def _missing(name: str, error: ImportError) -> ImportError:
    return ImportError(f"{name} is not here: pip install 'corun[plot]'", name=error.name)


@cache
def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise _missing("matplotlib", error) from error

    class ShownFigure(Figure):
        """A figure that notebooks show without pyplot."""

        def _repr_png_(self) -> bytes:
            page = io.BytesIO()
            self.savefig(page, format="png")
            return page.getvalue()

    return ShownFigure


def _matplotlib(axes: _Axes) -> Any:
    tall = 1.2 + 0.34 * len(axes.rows) if axes.rows else 3.6
    wide = max(6.4, 1.6 + 0.16 * len(axes.categories) * (len(axes.bars) + 1.5))
    figure = _figure_class()(figsize=(min(wide, 14.0), tall), dpi=150, layout="constrained")
    plot = figure.add_subplot()
    plot.set_title(axes.title, fontsize=10)
    plot.set_xlabel(axes.x)
    plot.set_ylabel(axes.y)
    for side in ["top", "right"]:
        plot.spines[side].set_visible(False)
    if axes.points:
        _points(plot, axes)
    if axes.bars:
        _bars(plot, axes)
    if axes.lines:
        _lines(plot, axes)
    if axes.rows:
        _spans(plot, axes)
    return figure


def _points(plot: Any, axes: _Axes) -> None:
    for label, x, y, colour, kind in axes.points:
        plot.scatter([x], [y], c=colour, marker=MARKS[kind][0], s=80, label=label, zorder=3)
    plot.grid(alpha=0.3)
    # Names beside the points would lie on one another where policies come out alike.
    plot.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))


def _bars(plot: Any, axes: _Axes) -> None:
    width = 0.84 / len(axes.bars)
    for place, (label, values, colour) in enumerate(axes.bars):
        left = np.arange(len(values)) - 0.42 + width * (place + 0.5)
        plot.bar(left, values, width * 0.92, color=colour, label=label)
    plot.set_ylim(*_bar_range(axes))
    plot.set_xticks(range(len(axes.categories)), axes.categories)
    plot.margins(x=0.01)
    if sum(map(len, axes.categories)) > 56:
        plot.tick_params(axis="x", rotation=30)
    plot.grid(axis="y", alpha=0.3)
    plot.set_axisbelow(True)
    plot.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5))


def _bar_range(axes: _Axes) -> tuple[float, float]:
    """From what is normal, or the least bar, to the tallest."""
    values = [value for _, each, _ in axes.bars for value in each]
    low = min([axes.line_at or 0.0, *values])
    return low, max(values) + 0.04 * (max(values) - low) + 1e-9


def _lines(plot: Any, axes: _Axes) -> None:
    for label, xs, ys, colour in axes.lines:
        plot.plot(xs, ys, color=colour, label=label, linewidth=1.6)
    if axes.log_x:
        ticks = _ticks(axes)
        plot.set_xscale("log", base=2)
        plot.set_xticks(ticks, [_size(tick) for tick in ticks])
        plot.minorticks_off()
    plot.set_ylim(bottom=0.0)
    plot.grid(alpha=0.3)
    plot.legend(fontsize=8, frameon=False)


def _ticks(axes: _Axes) -> list[float]:
    """Doublings, seven at most."""
    low = min(xs.min() for _, xs, _, _ in axes.lines)
    high = max(xs.max() for _, xs, _, _ in axes.lines)
    exponents = range(int(np.ceil(np.log2(low))), int(np.log2(high)) + 1)
    step = max(1, -(-len(exponents) // 7))
    return [2.0**one for one in exponents][::step]


def _spans(plot: Any, axes: _Axes) -> None:
    whole = max(to for _, _, to, _, _, _ in axes.spans)
    for row, start, to, colour, _, text in axes.spans:
        plot.barh(row, to - start, left=start, height=0.72, color=colour, edgecolor="white", lw=0.6)
        # What does not fit is in the legend.
        if text and len(text) * 0.014 < (to - start) / whole:
            plot.text((start + to) / 2, row, text, ha="center", va="center", fontsize=7, color="white")
    plot.set_yticks(range(len(axes.rows)), axes.rows)
    plot.set_ylim(len(axes.rows) - 0.5, -0.5)
    plot.set_xlim(0, whole)
    if whole == int(whole) and whole <= 64:
        plot.set_xticks(range(0, int(whole) + 1, 1 if whole <= 24 else 4))
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=label) for label, colour in axes.legend]
    plot.legend(
        handles=handles, fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.01, 0.5)
    )


def _plotly(axes: _Axes) -> Any:
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise _missing("plotly", error) from error
    figure = go.Figure()
    figure.update_layout(
        title=axes.title, xaxis_title=axes.x, yaxis_title=axes.y, template="plotly_white"
    )
    for label, x, y, colour, kind in axes.points:
        marker = {"color": colour, "size": 13, "symbol": MARKS[kind][1]}
        figure.add_scatter(x=[x], y=[y], name=label, mode="markers", marker=marker)
    for label, values, colour in axes.bars:
        figure.add_bar(x=axes.categories, y=values, name=label, marker_color=colour)
    if axes.bars:
        figure.update_yaxes(range=_bar_range(axes))
    for label, xs, ys, colour in axes.lines:
        figure.add_scatter(x=xs, y=ys, name=label, mode="lines", line_color=colour)
    if axes.log_x:
        ticks = _ticks(axes)
        figure.update_xaxes(type="log", tickvals=ticks, ticktext=[_size(tick) for tick in ticks])
    if axes.rows:
        _plotly_spans(figure, axes)
    return figure


def _plotly_spans(figure: Any, axes: _Axes) -> None:
    # The colours are few: where there are more names, some share one.
    names = {colour: label for label, colour in reversed(axes.legend)}
    for colour in dict.fromkeys(colour for _, colour in axes.legend):
        own = [one for one in axes.spans if one[3] == colour]
        figure.add_bar(
            y=[axes.rows[row] for row, *_ in own],
            x=[to - start for _, start, to, *_ in own],
            base=[start for _, start, *_ in own],
            text=[label for *_, label in own],
            textposition="inside",
            insidetextanchor="middle",
            customdata=[(start, to, text) for _, start, to, _, text, _ in own],
            hovertemplate="%{customdata[2]}<br>%{customdata[0]:.2f} to %{customdata[1]:.2f}"
            "<extra></extra>",
            orientation="h",
            name=names.get(colour, ""),
            marker={"color": colour, "line": {"color": "white", "width": 1}},
        )
    figure.update_layout(barmode="overlay", height=180 + 36 * len(axes.rows))
    figure.update_yaxes(categoryorder="array", categoryarray=axes.rows[::-1])
