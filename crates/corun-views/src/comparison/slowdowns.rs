//! Slowdown bars for each program under each policy, and the same as a table.

use corun_app::ComparisonRow;
use corun_report::{figures_table, folded, section};
use maud::{Markup, html};

use super::distance::class;
use super::page::{ComparisonPage, Program};
use super::placements::chip;

/// The section.
pub(crate) fn of(page: &ComparisonPage<'_>) -> Markup {
    let rows = page.rows.iter().map(|(row, _)| *row);
    let rows: Vec<&ComparisonRow> = rows.filter(|row| !row.slowdown.is_empty()).collect();
    let largest = rows
        .iter()
        .flat_map(|entry| &entry.slowdown)
        .fold(1.0, |largest: f64, &slowdown| largest.max(slowdown));
    let body = html! {
        div.programs {
            @for place in 0..page.programs.len() {
                (program(page, &rows, place, (largest - 1.0).max(1e-6)))
            }
        }
        (as_table(page, &rows))
    };
    let about = format!(
        "Time beside the others / time alone. A bar begins at 1 (no loss); a full one is \
         {largest:.2}."
    );
    section("slowdowns", "Slowdown by program", &about, &body)
}

fn program(
    page: &ComparisonPage<'_>,
    entries: &[&ComparisonRow],
    place: usize,
    full: f64,
) -> Markup {
    let program = &page.programs[place];
    html! {
        article.program {
            h3 {
                (chip(program))
                span.note { (format!("{:.1}", program.solo_mpki)) " MPKI alone" }
            }
            div.bars.small {
                @for entry in entries {
                    @let slowdown = entry.slowdown[place];
                    div.bar {
                        span.label { (entry.policy) }
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

fn as_table(page: &ComparisonPage<'_>, entries: &[&ComparisonRow]) -> Markup {
    let policies = entries.iter().map(|entry| entry.policy.clone());
    let header: Vec<String> = std::iter::once("Program".to_owned()).chain(policies).collect();
    let row = |(place, program): (usize, &Program)| {
        let slowdowns = entries.iter().map(|entry| format!("{:.3}", entry.slowdown[place]));
        std::iter::once(program.name.clone()).chain(slowdowns).collect()
    };
    let rows: Vec<Vec<String>> = page.programs.iter().enumerate().map(row).collect();
    folded("As a table", &figures_table("Slowdown by program and policy", &header, &rows))
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
