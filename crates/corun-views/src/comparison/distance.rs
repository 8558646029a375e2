//! How far each policy is from the optimum: bars, then all figures in a table.

use corun_app::{ComparisonRow, RowKind};
use corun_report::{scrolled, section, signed_percent};
use maud::{Markup, html};

use super::page::ComparisonPage;

/// The colour class of an entry.
pub(crate) fn class(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Policy => "policy",
        RowKind::Optimal => "optimal",
        RowKind::Expectation => "expected",
        RowKind::Worst => "worst",
    }
}

/// The section.
pub(crate) fn of(page: &ComparisonPage<'_>) -> Markup {
    let bounded = page.optimal().is_some();
    let (heading, about) = if bounded {
        (
            "Distance to the optimum",
            format!(
                "Mean slowdown above that of the best placement {}. Shorter is better.",
                page.known()
            ),
        )
    } else {
        ("The policies", "All figures, mean over the seeds.".to_owned())
    };
    let body = html! {
        @if bounded { (bars(page)) }
        (figures(page))
    };
    section("distance", heading, &about, &body)
}

fn bars(page: &ComparisonPage<'_>) -> Markup {
    let above = |entry: &ComparisonRow| entry.above_optimal_percent.unwrap_or(0.0).max(0.0);
    let longest = page.rows.iter().map(|(row, _)| above(row)).fold(0.1, f64::max);
    html! {
        div.bars role="img" aria-label="Bars: distance to the optimum; figures in the table below" {
            @for (entry, _) in &page.rows {
                div.bar {
                    span.label { (entry.policy) }
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

fn figures(page: &ComparisonPage<'_>) -> Markup {
    let optional = |value: Option<f64>, decimals: usize| match value {
        Some(value) => format!("{value:.decimals$}"),
        None => "–".to_owned(),
    };
    let table = html! {
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
                    @for (entry, _) in &page.rows {
                        tr class=(class(entry.kind)) {
                            th scope="row" { (entry.policy) }
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
    };
    scrolled("All figures by policy", &table)
}
