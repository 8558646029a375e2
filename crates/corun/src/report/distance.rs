//! How far each policy is from the optimum: bars, then all figures in a table.

use maud::{Markup, html};

use super::document::{Entry, Kind, Report};
use super::page::{self, signed_percent};

/// The colour class of an entry.
pub(super) fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Policy => "policy",
        Kind::Optimal => "optimal",
        Kind::Expectation => "expected",
        Kind::Worst => "worst",
    }
}

/// The section.
pub(super) fn section(report: &Report) -> Markup {
    let bounded = report.optimal().is_some();
    let (heading, about) = if bounded {
        (
            "Distance to the optimum",
            format!(
                "Mean slowdown above that of the best placement {}. Shorter is better.",
                page::known(report)
            ),
        )
    } else {
        ("The policies", "All figures, mean over the seeds.".to_owned())
    };
    let body = html! {
        @if bounded { (bars(report)) }
        (figures(report))
    };
    page::section("distance", heading, &about, &body)
}

fn bars(report: &Report) -> Markup {
    let above = |entry: &Entry| entry.above_optimal_percent.unwrap_or(0.0).max(0.0);
    let longest = report.results.iter().map(above).fold(0.1, f64::max);
    html! {
        div.bars role="img" aria-label="Bars: distance to the optimum; figures in the table below" {
            @for entry in &report.results {
                div.bar {
                    span.label { (entry.name) }
                    span.track {
                        span class={ "fill " (class(entry.kind)) }
                            style={ "width:" (format!("{:.2}", above(entry) / longest * 100.0)) "%" } {}
                    }
                    span.value {
                        @match entry.above_optimal_percent {
                            Some(above) => (signed_percent(above)),
                            None => "–",
                        }
                    }
                }
            }
        }
    }
}

fn figures(report: &Report) -> Markup {
    let optional = |value: Option<f64>, decimals: usize| match value {
        Some(value) => format!("{value:.decimals$}"),
        None => "–".to_owned(),
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="All figures by policy" {
            table {
                thead {
                    tr {
                        th scope="col" { "Policy" }
                        th.n scope="col" { "Mean slowdown" }
                        th.n scope="col" { "Above optimum" }
                        th.n scope="col" { "Worst slowdown" }
                        th.n scope="col" { "STP" }
                        th.n scope="col" { "Unfairness" }
                        th.n scope="col" { "Spread, %" }
                        th.n scope="col" { "Migrations a run" }
                    }
                }
                tbody {
                    @for entry in &report.results {
                        tr class=(class(entry.kind)) {
                            th scope="row" { (entry.name) }
                            td.n { (format!("{:.3}", entry.mean_slowdown)) }
                            td.n { (entry.above_optimal_percent.map_or("–".to_owned(), signed_percent)) }
                            td.n { (optional(entry.worst_slowdown, 3)) }
                            td.n { (optional(entry.stp, 3)) }
                            td.n { (optional(entry.unfairness, 3)) }
                            td.n { (optional(entry.spread.map(|spread| spread * 100.0), 2)) }
                            td.n { (optional(entry.migrations, 1)) }
                        }
                    }
                }
            }
        }
    }
}
