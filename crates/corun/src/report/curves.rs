//! Miss-rate curves: one small chart a program, all with the same axes.

use maud::{Markup, html};

use super::document::{Program, Report, size};
use super::page;
use super::placements::chip;

// The chart's geometry, in its own units.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 30.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 22.0;

/// Axes that all charts share: both logarithmic.
struct Axes {
    bytes: (f64, f64),
    mpki: (f64, f64),
}

impl Axes {
    fn of(programs: &[Program], llc_bytes: &[f64]) -> Option<Self> {
        let points = || programs.iter().flat_map(|program| &program.curve);
        let sizes = || points().map(|point| point.0).chain(llc_bytes.iter().copied());
        let bytes = (sizes().reduce(f64::min)?, sizes().reduce(f64::max)?);
        let most = points().map(|point| point.1).fold(1.0, f64::max);
        // From a power of ten to a power of ten; less than 0.1 MPKI hurts nobody.
        let mpki = (0.1, 10f64.powf(most.log10().ceil()).max(1.0));
        (bytes.0 > 0.0 && bytes.1 > bytes.0).then_some(Self { bytes, mpki })
    }

    fn x(&self, bytes: f64) -> f64 {
        let part = (bytes / self.bytes.0).ln() / (self.bytes.1 / self.bytes.0).ln();
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, mpki: f64) -> f64 {
        let part = (mpki.max(self.mpki.0) / self.mpki.0).ln() / (self.mpki.1 / self.mpki.0).ln();
        HEIGHT - BOTTOM - part.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    /// Sizes worth a label: powers of two, some five of them.
    fn size_ticks(&self) -> Vec<f64> {
        let (low, high) = (self.bytes.0.log2().ceil() as i32, self.bytes.1.log2().floor() as i32);
        let step = ((high - low) as f64 / 4.0).ceil().max(1.0) as usize;
        (low..=high).step_by(step).map(|power| 2f64.powi(power)).collect()
    }

    fn mpki_ticks(&self) -> Vec<f64> {
        let decades = (self.mpki.1 / self.mpki.0).log10().round() as i32;
        (0..=decades).map(|decade| self.mpki.0 * 10f64.powi(decade)).collect()
    }
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
    let Some(axes) = Axes::of(&report.programs, &llc_bytes) else { return html! {} };
    let body = html! {
        div.curves {
            @for program in &shown { (figure(program, &axes, &llc_bytes)) }
        }
        (as_table(&shown))
    };
    let about = "Misses per 1000 instructions (up) against the cache a program has (across), both \
                 logarithmic and the same for all. The dashed line is the machine's last-level \
                 cache. A falling curve gains from space; a flat and high one only takes it.";
    page::section("curves", "Miss-rate curves", about, &body)
}

fn figure(program: &Program, axes: &Axes, llc_bytes: &[f64]) -> Markup {
    html! {
        figure {
            figcaption { (chip(program)) }
            (chart(program, axes, llc_bytes))
        }
    }
}

fn chart(program: &Program, axes: &Axes, llc_bytes: &[f64]) -> Markup {
    let number = |value: f64| format!("{value:.1}");
    let points: Vec<String> = program
        .curve
        .iter()
        .map(|&(bytes, mpki)| format!("{:.1},{:.1}", axes.x(bytes), axes.y(mpki)))
        .collect();
    let floor = HEIGHT - BOTTOM;
    let area = match (program.curve.first(), program.curve.last()) {
        (Some(first), Some(last)) => format!(
            "{:.1},{floor:.1} {} {:.1},{floor:.1}",
            axes.x(first.0),
            points.join(" "),
            axes.x(last.0)
        ),
        _ => String::new(),
    };
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
            aria-label={ "Miss-rate curve of " (program.name) ", " (described(program)) } {
            @for mpki in axes.mpki_ticks() {
                line.grid x1=(number(LEFT)) x2=(number(WIDTH - RIGHT))
                    y1=(number(axes.y(mpki))) y2=(number(axes.y(mpki))) {}
                text.tick x=(number(LEFT - 5.0)) y=(number(axes.y(mpki) + 3.5)) text-anchor="end" {
                    (mpki_label(mpki))
                }
            }
            @for bytes in axes.size_ticks() {
                text.tick x=(number(axes.x(bytes).clamp(LEFT, WIDTH - RIGHT - 16.0)))
                    y=(number(HEIGHT - 6.0)) text-anchor="middle" { (size(bytes)) }
            }
            @for &bytes in llc_bytes {
                line.llc-size x1=(number(axes.x(bytes))) x2=(number(axes.x(bytes)))
                    y1=(number(TOP)) y2=(number(floor)) {}
            }
            polygon.area points=(area) {}
            polyline.curve points=(points.join(" ")) {}
        }
    }
}

fn mpki_label(mpki: f64) -> String {
    let text = format!("{mpki:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
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
    fn sizes_are_spread_by_their_logarithm() {
        let axes = Axes { bytes: (1024.0, 1024.0 * 1024.0), mpki: (0.1, 100.0) };
        assert_eq!(axes.x(1024.0), LEFT);
        assert_eq!(axes.x(1024.0 * 1024.0), WIDTH - RIGHT);
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        assert!((axes.x(32.0 * 1024.0) - middle).abs() < 1e-9);
        // Nothing is drawn below the floor.
        assert_eq!(axes.y(0.0), HEIGHT - BOTTOM);
        assert_eq!(axes.mpki_ticks().len(), 4);
    }

    #[test]
    fn a_program_without_a_curve_is_left_out() {
        let programs = [Program { name: "a".to_owned(), solo_mpki: 1.0, curve: Vec::new() }];
        assert!(Axes::of(&programs, &[]).is_none());
    }
}
