//! Slowdown bars for each program under each policy, and the same as a table.

use maud::{Markup, html};

use super::distance::class;
use super::document::{Entry, Report};
use super::page;
use super::placements::chip;

/// The section.
pub(super) fn section(report: &Report) -> Markup {
    let entries: Vec<&Entry> =
        report.results.iter().filter(|entry| !entry.slowdowns.is_empty()).collect();
    let largest = entries
        .iter()
        .flat_map(|entry| &entry.slowdowns)
        .fold(1.0, |largest: f64, &slowdown| largest.max(slowdown));
    let body = html! {
        div.programs {
            @for place in 0..report.programs.len() {
                (program(report, &entries, place, (largest - 1.0).max(1e-6)))
            }
        }
        (as_table(report, &entries))
    };
    let about = format!(
        "Time beside the others / time alone. A bar begins at 1 (no loss); a full one is \
         {largest:.2}."
    );
    page::section("slowdowns", "Slowdown by program", &about, &body)
}

fn program(report: &Report, entries: &[&Entry], place: usize, full: f64) -> Markup {
    let program = &report.programs[place];
    html! {
        article.program {
            h3 {
                (chip(program))
                span.note { (format!("{:.1}", program.solo_mpki)) " MPKI alone" }
            }
            div.bars.small {
                @for entry in entries {
                    @let slowdown = entry.slowdowns[place];
                    div.bar {
                        span.label { (entry.name) }
                        span.track aria-hidden="true" {
                            span class={ "fill " (class(entry.kind)) }
                                style={ "width:" (width(slowdown, full)) "%" } {}
                        }
                        span.value { (format!("{slowdown:.3}")) }
                    }
                }
            }
        }
    }
}

fn width(slowdown: f64, full: f64) -> String {
    format!("{:.2}", ((slowdown - 1.0) / full * 100.0).clamp(0.0, 100.0))
}

fn as_table(report: &Report, entries: &[&Entry]) -> Markup {
    html! {
        details {
            summary { "As a table" }
            div.scroll tabindex="0" role="region" aria-label="Slowdown by program and policy" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Program" }
                            @for entry in entries { th.n scope="col" { (entry.name) } }
                        }
                    }
                    tbody {
                        @for (place, program) in report.programs.iter().enumerate() {
                            tr {
                                th scope="row" { (program.name) }
                                @for entry in entries {
                                    td.n { (format!("{:.3}", entry.slowdowns[place])) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::width;

    #[test]
    fn a_bar_begins_at_one_and_never_leaves_its_track() {
        assert_eq!(width(1.0, 0.5), "0.00");
        assert_eq!(width(1.25, 0.5), "50.00");
        assert_eq!(width(0.99, 0.5), "0.00");
        assert_eq!(width(9.0, 0.5), "100.00");
    }
}
