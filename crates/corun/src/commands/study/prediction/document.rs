//! The study's figures.

use corun_metrics::{mean, rank_correlation};
use corun_model::SpaceLaw;
use corun_profile::Profile;
use serde::Serialize;

use super::{CLOCK_MHZ, CPI, Caches, LATENCY_NS, Point};
use crate::cli::CacheForm;
use crate::failure::Outcome;
use crate::output::{Align, counted, csv_rows, round, table};

/// Relative errors are of programs that miss at least so often: below, one miss in 10,000
/// instructions, they say nothing.
const LEAST_MPKI: f64 = 0.1;

/// What must be reached with the law of LRU in its own cache.
const GOAL_PERCENT: f64 = 5.0;
const GOAL_CORRELATION: f64 = 0.95;

#[derive(Debug, Serialize)]
pub(super) struct Document {
    study: &'static str,
    programs: Vec<String>,
    instructions: Vec<u64>,
    cpi: f64,
    clock_mhz: f64,
    latency_ns: f64,
    goal_error_percent: f64,
    goal_rank_correlation: f64,
    #[serde(skip)]
    forms: usize,
    rows: Vec<Row>,
    cliffs: Vec<Cliff>,
}

/// A law against a cache.
#[derive(Debug, Serialize)]
struct Row {
    cache: &'static str,
    /// `None`: all sizes together.
    mib: Option<u64>,
    law: &'static str,
    /// Mean of |predicted - measured| / measured MPKI, and of how many.
    mpki_error_percent: Option<f64>,
    mpki_errors: usize,
    /// Mean of |predicted - measured| misses a data access, of all.
    miss_ratio_error: Option<f64>,
    largest_miss_ratio_error: Option<f64>,
    /// Spearman's, of the pairs' mean slowdowns; of all sizes: the mean of theirs.
    rank_correlation: Option<f64>,
}

/// A program that all but fits alone and does not beside another.
#[derive(Debug, Serialize)]
struct Cliff {
    mib: u64,
    program: String,
    beside: String,
    alone_mpki: f64,
    beside_mpki: f64,
    /// By each law, in the order of the rows.
    predicted_mpki: Vec<f64>,
}

impl Document {
    pub(super) fn new(
        names: &[String],
        profiles: &[Profile],
        caches: &Caches,
        points: &[Point],
    ) -> Self {
        let mut rows = Vec::new();
        let sizes_mib = &caches.sizes_mib;
        for &form in &caches.forms {
            for mib in sizes_mib.iter().copied().map(Some).chain([None]) {
                let here = of(points, form, mib);
                for (law, (name, _)) in SpaceLaw::ALL.iter().enumerate() {
                    let sizes_mib = mib.as_ref().map_or(&sizes_mib[..], std::slice::from_ref);
                    rows.push(Row::new(form, mib, (law, name), sizes_mib, &here));
                }
            }
        }
        Self {
            study: "prediction",
            programs: names.to_vec(),
            instructions: profiles.iter().map(Profile::instructions).collect(),
            cpi: CPI,
            clock_mhz: CLOCK_MHZ,
            latency_ns: LATENCY_NS,
            goal_error_percent: GOAL_PERCENT,
            goal_rank_correlation: GOAL_CORRELATION,
            forms: caches.forms.len(),
            rows,
            cliffs: cliffs(names, points),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "Laws of space against the reference cache: {} programs, {} pairs, each in {} of \
             cache.\nCPI {CPI} at {CLOCK_MHZ} MHz, {LATENCY_NS} ns a miss. Goal, in the fully \
             associative LRU cache: {GOAL_PERCENT} %, {GOAL_CORRELATION}.\n\n",
            self.programs.len(),
            self.programs.len() * (self.programs.len() - 1) / 2,
            counted(self.forms, "form"),
        );
        let right = |name| (name, Align::Right);
        let header = [
            ("cache", Align::Left),
            right("MiB"),
            ("law", Align::Left),
            right("MPKI error %"),
            right("of"),
            right("miss ratio error"),
            right("largest"),
            right("rank correlation"),
        ];
        let cell = |value: Option<f64>, decimals: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
        };
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                vec![
                    row.cache.to_owned(),
                    row.mib.map_or("all".to_owned(), |mib| mib.to_string()),
                    row.law.to_owned(),
                    cell(row.mpki_error_percent, 1),
                    row.mpki_errors.to_string(),
                    cell(row.miss_ratio_error, 5),
                    cell(row.largest_miss_ratio_error, 4),
                    cell(row.rank_correlation, 3),
                ]
            })
            .collect();
        text.push_str(&table(&header, &rows));
        text.push_str("\nCliffs: at most half the misses alone, 1 MPKI more beside the other\n\n");
        let mut header = vec![
            right("MiB"),
            ("program", Align::Left),
            ("beside", Align::Left),
            right("alone"),
            right("measured"),
        ];
        header.extend(SpaceLaw::ALL.map(|(name, _)| right(name)));
        let rows: Vec<Vec<String>> = self.cliffs.iter().map(Cliff::cells).collect();
        text.push_str(&table(&header, &rows));
        text
    }
}

/// The points of a form, and of a size or all.
fn of(points: &[Point], form: CacheForm, mib: Option<u64>) -> Vec<&Point> {
    let wanted = |point: &&Point| point.form == form && mib.is_none_or(|mib| point.mib == mib);
    points.iter().filter(wanted).collect()
}

impl Row {
    fn new(
        form: CacheForm,
        mib: Option<u64>,
        (law, name): (usize, &'static str),
        sizes_mib: &[u64],
        points: &[&Point],
    ) -> Self {
        let relative: Vec<f64> = points
            .iter()
            .filter(|point| point.beside.mpki() >= LEAST_MPKI)
            .map(|point| (point.predicted[law].mpki / point.beside.mpki() - 1.0).abs() * 100.0)
            .collect();
        let ratios: Vec<f64> = points
            .iter()
            .map(|point| {
                (point.predicted[law].mpki - point.beside.mpki()).abs() / point.data_accesses_pki
            })
            .collect();
        let ranks: Vec<f64> = sizes_mib
            .iter()
            .filter_map(|&mib| {
                let here: Vec<&&Point> = points.iter().filter(|one| one.mib == mib).collect();
                let of_pairs = |figure: &dyn Fn(&Point) -> f64| -> Vec<f64> {
                    here.chunks(2).map(|pair| pair.iter().map(|one| figure(one)).sum()).collect()
                };
                rank_correlation(
                    &of_pairs(&|point| point.predicted[law].slowdown),
                    &of_pairs(&Point::slowdown),
                )
            })
            .collect();
        let largest = ratios.iter().copied().reduce(f64::max);
        Self {
            cache: form.title(),
            mib,
            law: name,
            mpki_error_percent: mean(&relative).map(|one| round(one, 3)),
            mpki_errors: relative.len(),
            miss_ratio_error: mean(&ratios).map(|one| round(one, 6)),
            largest_miss_ratio_error: largest.map(|one| round(one, 6)),
            rank_correlation: mean(&ranks).map(|one| round(one, 4)),
        }
    }
}

fn cliffs(names: &[String], points: &[Point]) -> Vec<Cliff> {
    let falls = |point: &&Point| {
        let (alone, beside) = (point.alone.mpki(), point.beside.mpki());
        point.form == CacheForm::Full && alone <= beside / 2.0 && beside >= alone + 1.0
    };
    let cliff = |point: &Point| Cliff {
        mib: point.mib,
        program: names[point.pair[point.of]].clone(),
        beside: names[point.pair[1 - point.of]].clone(),
        alone_mpki: round(point.alone.mpki(), 4),
        beside_mpki: round(point.beside.mpki(), 4),
        predicted_mpki: point.predicted.iter().map(|one| round(one.mpki, 4)).collect(),
    };
    points.iter().filter(falls).map(cliff).collect()
}

impl Cliff {
    fn cells(&self) -> Vec<String> {
        let mut cells = vec![self.mib.to_string(), self.program.clone(), self.beside.clone()];
        let figures = [self.alone_mpki, self.beside_mpki];
        cells.extend(figures.iter().chain(&self.predicted_mpki).map(|mpki| format!("{mpki:.2}")));
        cells
    }
}

/// Every point, a row each.
pub(super) fn csv(names: &[String], points: &[Point]) -> Outcome<String> {
    let mut header: Vec<String> = [
        "cache",
        "mib",
        "program",
        "beside",
        "alone_mpki",
        "mpki",
        "data_accesses_pki",
        "slowdown",
    ]
    .map(str::to_owned)
    .to_vec();
    for (name, _) in SpaceLaw::ALL {
        header.extend([format!("{name} mpki"), format!("{name} slowdown")]);
    }
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|point| {
            let mut row = vec![
                point.form.title().to_owned(),
                point.mib.to_string(),
                names[point.pair[point.of]].clone(),
                names[point.pair[1 - point.of]].clone(),
            ];
            let measured = [
                point.alone.mpki(),
                point.beside.mpki(),
                point.data_accesses_pki,
                point.slowdown(),
            ];
            let predicted = point.predicted.iter().flat_map(|one| [one.mpki, one.slowdown]);
            row.extend(measured.into_iter().chain(predicted).map(|one| round(one, 6).to_string()));
            row
        })
        .collect();
    csv_rows(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}
