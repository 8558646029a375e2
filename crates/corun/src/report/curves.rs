//! Miss-rate curves: one small chart a program, all with the same axes.

use maud::{Markup, html};

use super::document::{Program, Report, size};
use super::page;
use super::placements::chip;
use crate::plot::{Axis, Frame, number};

// The chart's geometry, in its own units.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 30.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 22.0;

/// The area that all charts share: both axes are logarithmic.
fn frame(programs: &[Program], llc_bytes: &[f64]) -> Option<Frame> {
    let points = || programs.iter().flat_map(|program| &program.curve);
    let sizes = || points().map(|point| point.0).chain(llc_bytes.iter().copied());
    let (low, high) = (sizes().reduce(f64::min)?, sizes().reduce(f64::max)?);
    let most = points().map(|point| point.1).fold(0.0, f64::max);
    Some(Frame {
        left: LEFT,
        top: TOP,
        width: WIDTH - LEFT - RIGHT,
        height: HEIGHT - TOP - BOTTOM,
        sizes: Axis::of_sizes(low, high)?,
        rates: Axis::of_mpki(most),
    })
}

/// The section; empty where no program has a curve.
pub(super) fn section(report: &Report) -> Markup {
    let mut llc_bytes: Vec<f64> = report
        .machine
        .packages
        .iter()
        .flat_map(|package| &package.llcs)
        .filter_map(|llc| llc.bytes.map(|bytes| bytes as f64))
        .collect();
    llc_bytes.sort_by(f64::total_cmp);
    llc_bytes.dedup();
    let mut shown: Vec<&Program> = Vec::new();
    for program in &report.programs {
        // Copies of a program have one curve.
        if !program.curve.is_empty() && !shown.iter().any(|one| one.curve == program.curve) {
            shown.push(program);
        }
    }
    let Some(frame) = frame(&report.programs, &llc_bytes) else { return html! {} };
    let body = html! {
        div.curves {
            @for program in &shown { (figure(program, &frame, &llc_bytes)) }
        }
        (as_table(&shown))
    };
    let about = "Misses per 1000 instructions (up) against the cache a program has (across), both \
                 logarithmic and the same for all. The dashed line is the machine's last-level \
                 cache. A falling curve gains from space; a flat and high one only takes it.";
    page::section("curves", "Miss-rate curves", about, &body)
}

fn figure(program: &Program, frame: &Frame, llc_bytes: &[f64]) -> Markup {
    html! {
        figure {
            figcaption { (chip(program)) }
            (chart(program, frame, llc_bytes))
        }
    }
}

fn chart(program: &Program, frame: &Frame, llc_bytes: &[f64]) -> Markup {
    let points = frame.points(program.curve.iter().copied());
    let floor = number(frame.floor());
    let area = match (program.curve.first(), program.curve.last()) {
        (Some(first), Some(last)) => {
            let (from, to) = (number(frame.x(first.0)), number(frame.x(last.0)));
            format!("{from},{floor} {points} {to},{floor}")
        }
        _ => String::new(),
    };
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
            aria-label={ "Miss-rate curve of " (program.name) ", " (described(program)) } {
            (frame.grid(5))
            @for &bytes in llc_bytes {
                line.llc-size x1=(number(frame.x(bytes))) x2=(number(frame.x(bytes)))
                    y1=(number(TOP)) y2=(floor) {}
            }
            polygon.area points=(area) {}
            polyline.curve points=(points) {}
        }
    }
}

fn described(program: &Program) -> String {
    match (program.curve.first(), program.curve.last()) {
        (Some(first), Some(last)) => {
            format!("{:.1} MPKI at {}, {:.1} at {}", first.1, size(first.0), last.1, size(last.0))
        }
        _ => "unknown".to_owned(),
    }
}

fn as_table(shown: &[&Program]) -> Markup {
    html! {
        details {
            summary { "As a table" }
            div.scroll tabindex="0" role="region" aria-label="Miss-rate curves" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Program" }
                            th.n scope="col" { "Cache" }
                            th.n scope="col" { "MPKI" }
                        }
                    }
                    tbody {
                        @for program in shown {
                            @for &(bytes, mpki) in &program.curve {
                                tr {
                                    th scope="row" { (program.name) }
                                    td.n { (size(bytes)) }
                                    td.n { (format!("{mpki:.2}")) }
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
    use super::*;

    #[test]
    fn a_program_without_a_curve_is_left_out() {
        let programs = [Program { name: "a".to_owned(), solo_mpki: 1.0, curve: Vec::new() }];
        assert!(frame(&programs, &[]).is_none());
    }
}
