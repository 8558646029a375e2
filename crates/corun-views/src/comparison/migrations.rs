//! Who was on which LLC when, and why each move was made.

use corun_app::{ComparisonRow, Timeline};
use corun_report::{COLOURS, counted, folded, scrolled, section};
use maud::{Markup, html};

use super::page::ComparisonPage;
use super::placements::chip;

/// Lanes are drawn to so many steps: finer moves are in the figures, not in the picture.
const STEPS: f64 = 400.0;

/// So many moves are listed of each policy.
const LISTED: usize = 40;

/// The section.
pub(crate) fn of(page: &ComparisonPage<'_>) -> Markup {
    let entries: Vec<(&ComparisonRow, &Timeline)> =
        page.rows.iter().filter_map(|&(row, timeline)| Some((row, timeline?))).collect();
    if entries.is_empty() {
        return html! {};
    }
    let moving = entries.iter().filter(|(_, line)| !line.moves.is_empty());
    let still: Vec<&str> = entries
        .iter()
        .filter(|(_, line)| line.moves.is_empty())
        .map(|(entry, _)| entry.policy.as_str())
        .collect();
    let body = html! {
        p.legend {
            @for llc in 0..page.machine.llcs().len() {
                span.key {
                    span class={ "swatch l" (llc % COLOURS.len()) } aria-hidden="true" {}
                    "LLC " (llc)
                }
            }
        }
        @for (entry, line) in moving { (policy(page, entry, line)) }
        @if !still.is_empty() { p.note { "No migration under " (still.join(", ")) "." } }
    };
    let about = "Each program's last-level cache over simulated time, in the run with the first \
                 seed. A change of colour is a move to another cache.";
    section("moves", "Migrations", about, &body)
}

fn policy(page: &ComparisonPage<'_>, entry: &ComparisonRow, line: &Timeline) -> Markup {
    let count = counted(line.moves.len(), "migration");
    let decimals = if line.seconds < 10.0 { 2 } else { 0 };
    html! {
        article.line {
            h3 {
                (entry.policy)
                span.note { (count) " in " (format!("{:.decimals$}", line.seconds)) " s" }
            }
            div.lanes {
                @for (place, lane) in line.lanes.iter().enumerate() {
                    span.lane-name { (page.programs[place].name) }
                    (drawn(line, lane, &page.programs[place].name))
                }
            }
            (reasons(page, &entry.policy, line))
        }
    }
}

fn drawn(line: &Timeline, lane: &[(f64, usize)], name: &str) -> Markup {
    let stretches = stretches(lane, line.seconds);
    let spoken = match stretches.as_slice() {
        [(_, _, llc)] => format!("{name}: LLC {llc} throughout"),
        many => {
            let last = many.last().map_or(0, |&(_, _, llc)| llc);
            format!("{name}: {} stretches, last on LLC {last}", many.len())
        }
    };
    html! {
        svg.lane viewBox={ "0 0 " (STEPS) " 10" } preserveAspectRatio="none" role="img"
            aria-label=(spoken) {
            @for (from, to, llc) in &stretches {
                rect class={ "l" (llc % COLOURS.len()) } x=(from) y="0" width=(to - from) height="10" {
                    title { (name) " on LLC " (llc) }
                }
            }
        }
    }
}

/// Steps from, steps to and LLC; equal neighbours are one, and what is too short to be seen goes.
fn stretches(lane: &[(f64, usize)], seconds: f64) -> Vec<(u32, u32, usize)> {
    let step = |at: f64| (at / seconds.max(1e-9) * STEPS).round().clamp(0.0, STEPS) as u32;
    let mut stretches: Vec<(u32, u32, usize)> = Vec::new();
    for (place, &(at, llc)) in lane.iter().enumerate() {
        let from = step(at);
        let to = lane.get(place + 1).map_or(STEPS as u32, |next| step(next.0));
        match stretches.last_mut() {
            Some(last) if last.2 == llc && last.1 == from => last.1 = to,
            _ if to > from => stretches.push((from, to, llc)),
            _ => {}
        }
    }
    stretches
}

fn reasons(page: &ComparisonPage<'_>, policy: &str, line: &Timeline) -> Markup {
    let left_out = line.moves.len().saturating_sub(LISTED);
    let table = html! {
        table.moves {
            thead {
                tr {
                    th.n scope="col" { "Second" }
                    th scope="col" { "Program" }
                    th.n scope="col" { "CPU" }
                    th scope="col" { "Reason" }
                }
            }
            tbody {
                @for one in line.moves.iter().take(LISTED) {
                    tr {
                        td.n { (format!("{:.3}", one.at_s)) }
                        td { (chip(&page.programs[one.program])) }
                        td.n { (one.from_cpu) " → " (one.to_cpu) }
                        td.reason { (one.reason) }
                    }
                }
            }
        }
    };
    let body = html! {
        (scrolled(&format!("Moves under {policy}, and their reasons"), &table))
        @if left_out > 0 {
            p.note { "The first " (LISTED) " of " (line.moves.len()) " moves." }
        }
    };
    folded("Moves and their reasons", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_cover_the_run_and_join_equals() {
        let lane = [(0.0, 0), (2.0, 1), (3.0, 1), (3.000_01, 0)];
        assert_eq!(stretches(&lane, 4.0), [(0, 200, 0), (200, 300, 1), (300, 400, 0)]);
        // Too short to be seen: gone, and the neighbours stay apart or join.
        assert_eq!(stretches(&[(0.0, 0), (2.0, 1), (2.000_1, 0)], 4.0), [(0, 400, 0)]);
    }
}
