//! The calibration as a page: figures with their intervals and sources, and every curve.

use corun_calibrate::{Calibrated, Curve, CurveKind};
use corun_machine::LoadedLatency;
use corun_report::{
    Axis, Colour, Ends, Mark, Panel, Plot, Series, document, foot, head, scrolled, section,
};
use maud::{Markup, html};

use super::text::{figure, headline};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The page as one HTML document.
pub fn page(measured: &Calibrated) -> String {
    let machine = &measured.machine;
    let notes = machine.spec().measurement.iter().flat_map(|measurement| &measurement.notes);
    let plot = Plot { panels: panels(measured) };
    let body = html! {
        (head("corun calibrate", &html! { "What " (machine.title()) " can do" }, &headline(machine), &html! {}))
        main #main {
            (section("notes", "Notes", "What could not be told apart, and what was out of the ordinary.",
                &html! { ul.plain { @for note in notes { li { (note) } } } }))
            (section("curves", "Curves",
                "Thin lines are the least and the most that a quarter of the rounds gives.",
                &plot.inline("curves")))
            (section("figures", "Figures",
                "From and to are the least and the most that a quarter of the rounds gives.",
                &figures(measured)))
        }
        (foot("corun", VERSION, ""))
    };
    document("What this machine can do", VERSION, &body)
}

/// How a figure was found is a sentence, not a figure.
fn figures(measured: &Calibrated) -> Markup {
    let table = html! { table.paths {
        thead { tr {
            th scope="col" { "figure" }
            @for name in ["value", "from", "to"] { th.n scope="col" { (name) } }
            th scope="col" { "unit" } th scope="col" { "how" }
        } }
        tbody { @for one in &measured.figures { tr {
            th scope="row" { (one.path) }
            @for value in [one.estimate.value, one.estimate.low, one.estimate.high] {
                td.n { (figure(value)) }
            }
            td { (one.unit) } td.reason { (one.source) }
        } } }
    } };
    scrolled("Figures measured", &table)
}

/// Every measured curve, and the latency of memory by the traffic on it.
fn panels(measured: &Calibrated) -> Vec<Panel> {
    let machine = &measured.machine;
    let types = machine.core_types();
    let title = |curve: &Curve| match types.get(curve.core_type) {
        Some(one) if types.len() > 1 => format!("{}: {}", curve_title(curve.kind), one.name),
        _ => curve_title(curve.kind).to_owned(),
    };
    let mut panels: Vec<Panel> =
        measured.curves.iter().map(|curve| curve_panel(curve, title(curve))).collect();
    let domains = machine.bandwidth_domains().iter();
    panels.extend(
        domains
            .filter(|domain| domain.loaded_latency.len() > 1)
            .map(|domain| (format!("Memory by traffic: {}", domain.name), &domain.loaded_latency))
            .map(|(title, curve)| loaded_panel(title, curve)),
    );
    panels
}

/// What a curve tells.
fn curve_title(kind: CurveKind) -> &'static str {
    match kind {
        CurveKind::Ladder => "Caches and memory by size",
        CurveKind::Tlb => "Address translation by pages",
        CurveKind::LlcParallelism => "Loads at once, from the LLC",
        CurveKind::MemoryParallelism => "Loads at once, from memory",
        CurveKind::ReorderBuffer => "Reorder buffer",
    }
}

fn curve_panel(curve: &Curve, title: String) -> Panel {
    let linear = |caption: &str| Axis::Linear(caption.to_owned(), Some(0.0));
    let logarithmic = |caption: &str| Axis::Logarithmic(caption.to_owned());
    let (across, upwards) = match curve.kind {
        CurveKind::Ladder => {
            (Axis::CacheSizes("visited in random order".to_owned()), logarithmic("cycles a load"))
        }
        CurveKind::Tlb => (logarithmic("pages"), linear("cycles that a line a page adds")),
        CurveKind::LlcParallelism => (linear("chases over the LLC"), linear("loads in flight")),
        CurveKind::MemoryParallelism => (linear("chases over memory"), linear("loads in flight")),
        CurveKind::ReorderBuffer => {
            (linear("instructions between two misses"), linear("cycles of both"))
        }
    };
    let of = |value: fn(&corun_calibrate::FigureRange) -> f64| -> Vec<(f64, f64)> {
        curve.points.iter().map(|point| (point.x, value(&point.y))).collect()
    };
    let series = interval(of(|y| y.value), of(|y| y.low), of(|y| y.high));
    panel(title, across, upwards, series)
}

fn loaded_panel(title: String, curve: &[LoadedLatency]) -> Panel {
    let of = |value: fn(&LoadedLatency) -> f64| -> Vec<(f64, f64)> {
        curve.iter().map(|point| (point.mb_per_s / 1e3, value(point))).collect()
    };
    let series = interval(of(|one| one.latency_ns), of(|one| one.low_ns), of(|one| one.high_ns));
    let across = Axis::Linear("traffic, GB/s".to_owned(), Some(0.0));
    panel(title, across, Axis::Linear("latency, ns".to_owned(), Some(0.0)), series)
}

/// A curve between the ends of its intervals.
fn interval(value: Vec<(f64, f64)>, low: Vec<(f64, f64)>, high: Vec<(f64, f64)>) -> Vec<Series> {
    let series = |mark, colour, points| Series {
        name: String::new(),
        colour,
        mark,
        points,
        titles: Vec::new(),
    };
    vec![
        series(Mark::Thin, Colour::Soft, low),
        series(Mark::Thin, Colour::Soft, high),
        series(Mark::DottedLine, Colour::Nth(0), value),
    ]
}

fn panel(title: String, across: Axis, upwards: Axis, series: Vec<Series>) -> Panel {
    Panel { title, across, upwards, series, vertical_lines: Vec::new(), ends: Ends::default() }
}
