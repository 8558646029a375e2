//! What it costs to have memory elsewhere, against the miss rate (Fig. 7), and the line through it for
//! every machine of several nodes.

use std::sync::Arc;

use corun_app::Result;
use corun_machine::{preset, presets};
use corun_metrics::{FittedLine, line};
use corun_model::{Model, ModelOptions};
use corun_policy::solo_figures;

use corun_report::{Axis, Colour, Ends, Mark, Panel, Plot, Series};

use super::MACHINE;
use super::runs::Runs;
use crate::harness::{Figure, PaperClaim};

/// Programs that miss less are not memory-bound, and are left out of the fit (section 4.5).
const LEAST_MPKI: f64 = 1.0;

/// Left out of the fit by the paper, as the outlier of its machine.
const OUTLIER: &str = "mcf06";

/// A program alone.
struct Point {
    name: String,
    mpki: f64,
    penalty: f64,
}

impl Point {
    fn is_fitted(&self) -> bool {
        self.mpki >= LEAST_MPKI && self.name != OUTLIER
    }
}

/// The table's programs of CPU2006, as the paper took them.
fn points(runs: &Runs<'_>, machine: &str) -> Result<Vec<Point>> {
    let machine = preset(machine)?;
    let model = Model::new(Arc::new(machine), ModelOptions::default())?;
    let mut points = Vec::new();
    for profile in runs.inputs().spec()?.iter().filter(|profile| profile.name.ends_with("06")) {
        // What drew more than a machine's peak where it was measured has no place on it.
        let Ok(program) = model.load(profile) else { continue };
        let solo = solo_figures(&program);
        let Some(penalty) = solo.numa_penalty else { continue };
        points.push(Point { name: profile.name.clone(), mpki: solo.llc_mpki, penalty });
    }
    Ok(points)
}

fn fit<'a>(points: impl Iterator<Item = &'a Point>) -> Option<FittedLine> {
    let (mpki, penalty): (Vec<f64>, Vec<f64>) = points.map(|one| (one.mpki, one.penalty)).unzip();
    line(&mpki, &penalty)
}

fn fitted(points: &[Point]) -> Option<FittedLine> {
    fit(points.iter().filter(|point| point.is_fitted()))
}

pub(super) fn page(runs: &Runs<'_>) -> Result<(Vec<PaperClaim>, Vec<Figure>)> {
    let mut points = points(runs, MACHINE)?;
    points.sort_by(|one, other| other.mpki.total_cmp(&one.mpki));
    let all = fit(points.iter());
    let fitted_line = fitted(&points);
    let words = |fit: &Option<FittedLine>| match fit {
        Some(FittedLine { intercept, slope, r_squared }) => {
            format!("{intercept:.3} + {slope:.4} per MPKI, R^2 {r_squared:.2}")
        }
        None => "none".to_owned(),
    };
    let highest = points.iter().map(|point| point.penalty).fold(1.0, f64::max);
    let findings = vec![
        PaperClaim::new(
            "NUMA penalty over MPKI, all programs (Fig. 7)",
            "R^2 0.64; penalties of 1.00 to 1.46",
            format!("{}; penalties up to {highest:.2}", words(&all)),
        ),
        PaperClaim::new(
            "The line for N-MASS: without mcf and programs below 1 MPKI (section 4.5)",
            "1.05 + 0.015 per MPKI",
            words(&fitted_line),
        ),
    ];
    let about = "Cycles per instruction with all memory on the other node / with local memory, each \
                 program of CPU2006 alone. The line is that of the programs that the fit uses.";
    let figure = Figure::new("numa-penalty", "NUMA penalty against MPKI (Fig. 7)", about)
        .rows("program", &points, |point| point.name.clone())
        .column("MPKI", 2, |point| point.mpki)
        .column("penalty", 3, |point| point.penalty)
        .words("in the fit", |point| if point.is_fitted() { "yes" } else { "no" }.to_owned())
        .table()
        .drawn(Plot::of(scatter(&points, fitted_line.as_ref())));
    Ok((findings, vec![figure, of_all_machines(runs)?]))
}

fn scatter(points: &[Point], line: Option<&FittedLine>) -> Panel {
    let title =
        |point: &Point| format!("{}: {:.2} MPKI, {:.3}", point.name, point.mpki, point.penalty);
    let programs = Series {
        name: "a program".to_owned(),
        colour: Colour::Nth(0),
        mark: Mark::Dots,
        points: points.iter().map(|point| (point.mpki, point.penalty)).collect(),
        titles: points.iter().map(title).collect(),
    };
    let most = points.iter().map(|point| point.mpki).fold(0.0, f64::max);
    let fitted = line.map(|line| Series {
        name: "the fit".to_owned(),
        colour: Colour::Soft,
        mark: Mark::Thin,
        points: [0.0, most].map(|mpki| (mpki, line.intercept + line.slope * mpki)).to_vec(),
        titles: Vec::new(),
    });
    Panel {
        title: String::new(),
        across: Axis::Linear("MPKI".to_owned(), Some(0.0)),
        upwards: Axis::Linear("NUMA penalty".to_owned(), None),
        series: std::iter::once(programs).chain(fitted).collect(),
        vertical_lines: Vec::new(),
        ends: Ends::default(),
    }
}

/// The fit of every built-in machine of several nodes, beside what its file has.
fn of_all_machines(runs: &Runs<'_>) -> Result<Figure> {
    let mut fits = Vec::new();
    for name in presets() {
        let machine = preset(name)?;
        if machine.nodes().len() > 1 {
            fits.push((name, fitted(&points(runs, name)?), machine.calibration().numa_penalty));
        }
    }
    let about = "By the same fit on each machine, beside what its machine file has: that is where its \
                 figures come from.";
    Ok(Figure::new("fits", "The line for every built-in machine of several nodes", about)
        .rows("machine", &fits, |one| one.0.to_owned())
        .column("intercept", 4, |one| one.1.as_ref().map(|fit| fit.intercept))
        .column("per MPKI", 4, |one| one.1.as_ref().map(|fit| fit.slope))
        .column("R^2", 2, |one| one.1.as_ref().map(|fit| fit.r_squared))
        .column("in its file, intercept", 4, |one| one.2.map(|line| line.intercept))
        .column("in its file, per MPKI", 4, |one| one.2.map(|line| line.per_mpki))
        .table())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outlier_and_programs_that_hardly_miss_are_not_in_the_fit() {
        let point = |name: &str, mpki: f64| Point {
            name: name.to_owned(),
            mpki,
            penalty: 1.05 + 0.015 * mpki,
        };
        let exact = [point("one06", 2.0), point("one06", 10.0), point("two06", 30.0)];
        let found = fitted(&exact).unwrap();
        assert!((found.intercept - 1.05).abs() < 1e-12 && (found.slope - 0.015).abs() < 1e-12);
        assert!(
            fitted(&[point("one06", 0.5), point("two06", 0.7), point(OUTLIER, 30.0)]).is_none()
        );
    }
}
