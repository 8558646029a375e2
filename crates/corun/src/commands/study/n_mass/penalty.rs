//! What it costs to have memory elsewhere, against the miss rate (Fig. 7), and the line through it for
//! every machine of several nodes.

use std::sync::Arc;

use anyhow::anyhow;
use corun_machine::{NumaPenaltyFit, preset, presets};
use corun_model::{Model, ModelOptions};
use corun_policy::solo_figures;

use super::MACHINE;
use super::runs::Runs;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, Finding, StudyFigure, strings};

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

/// A line by least squares, and the share of the variance that it explains.
struct Fit {
    line: NumaPenaltyFit,
    r_squared: f64,
}

impl Point {
    fn is_fitted(&self) -> bool {
        self.mpki >= LEAST_MPKI && self.name != OUTLIER
    }
}

/// The table's programs of CPU2006, as the paper took them.
fn points(runs: &Runs<'_>, machine: &str) -> Outcome<Vec<Point>> {
    let machine = preset(machine).map_err(|error| anyhow!(error))?;
    let model = Model::new(Arc::new(machine), ModelOptions::default())?;
    let mut points = Vec::new();
    for profile in runs.ground().spec()?.iter().filter(|profile| profile.name.ends_with("06")) {
        // What drew more than a machine's peak where it was measured has no place on it.
        let Ok(program) = model.load(profile) else { continue };
        let solo = solo_figures(&program);
        let Some(penalty) = solo.numa_penalty else { continue };
        points.push(Point { name: profile.name.clone(), mpki: solo.llc_mpki, penalty });
    }
    Ok(points)
}

/// None for fewer than two points, or points of one miss rate.
fn fit(points: &[&Point]) -> Option<Fit> {
    let count = points.len() as f64;
    let mean = |of: fn(&Point) -> f64| points.iter().map(|point| of(point)).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.mpki), mean(|point| point.penalty));
    let sum = |of: &dyn Fn(f64, f64) -> f64| {
        points.iter().map(|point| of(point.mpki - x, point.penalty - y)).sum::<f64>()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if points.len() < 2 || xx <= 0.0 || yy <= 0.0 {
        return None;
    }
    let per_mpki = xy / xx;
    let line = NumaPenaltyFit { intercept: y - per_mpki * x, per_mpki };
    Some(Fit { line, r_squared: xy * xy / (xx * yy) })
}

fn fitted(points: &[Point]) -> Option<Fit> {
    fit(&points.iter().filter(|point| point.is_fitted()).collect::<Vec<_>>())
}

pub(super) fn figures(runs: &Runs<'_>) -> Outcome<(Vec<Finding>, Vec<StudyFigure>)> {
    let mut points = points(runs, MACHINE)?;
    points.sort_by(|one, other| other.mpki.total_cmp(&one.mpki));
    let all = fit(&points.iter().collect::<Vec<_>>());
    let line = fitted(&points);
    let words = |fit: &Option<Fit>| match fit {
        Some(Fit { line: NumaPenaltyFit { intercept, per_mpki }, r_squared }) => {
            format!("{intercept:.3} + {per_mpki:.4} per MPKI, R^2 {r_squared:.2}")
        }
        None => "none".to_owned(),
    };
    let highest = points.iter().map(|point| point.penalty).fold(1.0, f64::max);
    let findings = vec![
        Finding {
            what: "NUMA penalty over MPKI, all programs (Fig. 7)".to_owned(),
            paper: "R^2 0.64; penalties of 1.00 to 1.46".to_owned(),
            ours: format!("{}; penalties up to {highest:.2}", words(&all)),
            difference: "The model stretches the memory part of a program's cycles by the ratio of \
                         latencies, 1.8 here; how large that part is at one MPKI differs from program \
                         to program as misses overlap, which the stall counters of the table tell."
                .to_owned(),
        },
        Finding {
            what: "The line for N-MASS: without mcf and programs below 1 MPKI (section 4.5)".to_owned(),
            paper: "1.05 + 0.015 per MPKI".to_owned(),
            ours: words(&line),
            difference: "Other processors measured these programs: the table is of a Skylake's with a \
                         deeper reorder buffer and more prefetching."
                .to_owned(),
        },
    ];
    let row = |point: &Point| {
        let used = if point.is_fitted() { "yes" } else { "no" };
        let penalty = format!("{:.3}", point.penalty);
        vec![point.name.clone(), format!("{:.2}", point.mpki), penalty, used.to_owned()]
    };
    let figure = StudyFigure {
        id: "numa-penalty".to_owned(),
        heading: "NUMA penalty against MPKI (Fig. 7)".to_owned(),
        about:
            "Cycles per instruction with all memory on the other node / with local memory, each \
                program of CPU2006 alone. The line is that of the programs that the fit uses."
                .to_owned(),
        chart: Some(Chart {
            kind: ChartKind::Dots {
                across: points.iter().map(|point| point.mpki).collect(),
                line: line.as_ref().map(|fit| (fit.line.intercept, fit.line.per_mpki)),
            },
            across: "MPKI".to_owned(),
            upwards: "NUMA penalty".to_owned(),
            labels: points.iter().map(|point| point.name.clone()).collect(),
            series: vec![(
                "a program".to_owned(),
                points.iter().map(|point| Some(point.penalty)).collect(),
            )],
        }),
        header: strings(&["program", "MPKI", "penalty", "in the fit"]),
        rows: points.iter().map(row).collect(),
    };
    Ok((findings, vec![figure, of_all_machines(runs)?]))
}

/// The fit of every built-in machine of several nodes, beside what its file has.
fn of_all_machines(runs: &Runs<'_>) -> Outcome<StudyFigure> {
    let mut rows = Vec::new();
    for name in presets() {
        let machine = preset(name).map_err(|error| anyhow!(error))?;
        if machine.nodes().len() < 2 {
            continue;
        }
        let points = points(runs, name)?;
        let number =
            |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
        let found = fitted(&points);
        let line = found.as_ref().map(|fit| fit.line);
        let stored = machine.calibration().numa_penalty;
        rows.push(vec![
            name.to_owned(),
            number(line.map(|line| line.intercept)),
            number(line.map(|line| line.per_mpki)),
            found.map_or("-".to_owned(), |fit| format!("{:.2}", fit.r_squared)),
            number(stored.map(|line| line.intercept)),
            number(stored.map(|line| line.per_mpki)),
        ]);
    }
    Ok(StudyFigure {
        id: "fits".to_owned(),
        heading: "The line for every built-in machine of several nodes".to_owned(),
        about:
            "By the same fit on each machine, beside what its machine file has: that is where its \
                figures come from."
                .to_owned(),
        chart: None,
        header: strings(&[
            "machine",
            "intercept",
            "per MPKI",
            "R^2",
            "in its file, intercept",
            "in its file, per MPKI",
        ]),
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let point = |mpki: f64, off: f64| Point {
            name: "one06".to_owned(),
            mpki,
            penalty: 1.05 + 0.015 * mpki + off,
        };
        let exact = [point(2.0, 0.0), point(10.0, 0.0), point(30.0, 0.0)];
        let found = fitted(&exact).unwrap();
        assert!((found.line.intercept - 1.05).abs() < 1e-12, "{}", found.line.intercept);
        assert!((found.line.per_mpki - 0.015).abs() < 1e-12 && found.r_squared > 1.0 - 1e-12);
        // Off the line, symmetrically: the same line, and less explained. 1.0 is left out.
        let spread = [point(2.0, 0.1), point(2.0, -0.1), point(30.0, 0.1), point(30.0, -0.1)];
        let found = fitted(&spread).unwrap();
        assert!((found.line.per_mpki - 0.015).abs() < 1e-12 && found.r_squared < 0.9);
        assert!(fitted(&[point(0.5, 0.0), point(0.7, 0.0)]).is_none());
        assert!(fit(&[&point(2.0, 0.0), &point(2.0, 0.1)]).is_none());
    }
}
