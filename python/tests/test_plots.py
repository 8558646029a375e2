"""Figures show what the results hold, with either engine."""

import io

import pytest

import corun
from corun import plot

pytest.importorskip("matplotlib", reason="needs the extra `plot`")
pytest.importorskip("plotly", reason="needs the extra `plot`")

FOUR = ["xz", "sqlite3", "sort", "flac"]


def figures(comparison):
    every = corun.partition(["sort", "xz", "numpy"], all=True)
    return {
        "stp": lambda engine: plot.stp_against_unfairness(comparison, engine=engine),
        "bars": lambda engine: plot.slowdown_bars(comparison, engine=engine),
        "curves": lambda engine: plot.miss_rate_curves(FOUR, engine=engine),
        "ways": lambda engine: plot.way_map(every, engine=engine),
        "time": lambda engine: plot.time_line(comparison.run("dio-2010"), engine=engine),
    }


@pytest.mark.parametrize("name", ["stp", "bars", "curves", "ways", "time"])
def test_every_figure_can_be_drawn(comparison, name):
    draw = figures(comparison)[name]
    page = io.BytesIO()
    draw("matplotlib").savefig(page, format="png")
    assert page.getvalue().startswith(b"\x89PNG")
    assert len(draw("plotly").data) > 0
    with pytest.raises(ValueError, match="expected 'matplotlib' or 'plotly'"):
        draw("gnuplot")


def test_points_and_bars_are_the_figures(comparison):
    frame = comparison.policies
    drawn = plot.stp_against_unfairness(comparison, engine="plotly")
    at = {trace.name: (trace.x[0], trace.y[0]) for trace in drawn.data}
    assert at["dio-2010"] == (frame.unfairness["dio-2010"], frame.stp["dio-2010"])
    assert "random (expected)" not in at, "it has no STP"
    bars = plot.slowdown_bars(comparison, ["dio-2010", "worst"], engine="plotly")
    assert [trace.name for trace in bars.data] == ["dio-2010", "worst"]
    assert list(bars.data[1].y) == list(comparison.slowdowns.loc["worst"])
    assert list(bars.data[0].x) == comparison.apps


def test_a_time_line_covers_the_run(comparison):
    run = comparison.run("dio-2010")
    drawn = plot.time_line(run, engine="plotly")
    length = {app: 0.0 for app in FOUR}
    for trace in drawn.data:
        for app, seconds in zip(trace.y, trace.x):
            length[app] += seconds
    for seconds in length.values():
        assert seconds == pytest.approx(run.simulated_s, rel=1e-3)


def test_a_way_map_has_every_way_of_every_mask():
    parted = corun.partition(["sort", "xz", "numpy"], masks=[0x3, 0xC, 0x7F0])
    drawn = plot.way_map(parted, engine="plotly")
    spans = sorted((base, base + x) for trace in drawn.data for base, x in zip(trace.base, trace.x))
    assert spans == [(0, 2), (2, 4), (4, 11)]


def test_what_cannot_be_drawn_is_said(comparison):
    run = corun.simulate("di", FOUR[:2], seed=2, instructions=10**9)
    with pytest.raises(ValueError, match="the run has the seed 2, and where its programs were"):
        plot.time_line(run)
    with pytest.raises(corun.InputError, match="policies holds 'zzz': the comparison has .*dio-2010"):
        plot.slowdown_bars(comparison, ["zzz"])
    with pytest.raises(TypeError, match="programs is the text 'sort': expected a list"):
        plot.miss_rate_curves("sort")
