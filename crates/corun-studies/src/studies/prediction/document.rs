//! The study's figures.

use corun_app::Result;
use corun_metrics::{mean, rank_correlation};
use corun_model::SpaceLaw;
use corun_profile::Profile;
use corun_report::{Axis, Colour, Columns, Ends, Mark, Panel, Plot, Series, counted, round};
use serde::Serialize;

use super::{CLOCK_MHZ, CPI, CacheForm, Caches, LATENCY_NS, PairPoint};
use crate::harness::{Figure, Page};

/// Relative errors are of programs that miss at least so often: below, one miss in 10,000
/// instructions, they say nothing.
const LEAST_MPKI: f64 = 0.1;

/// What must be reached with the law of LRU in its own cache.
const GOAL_PERCENT: f64 = 5.0;
const GOAL_CORRELATION: f64 = 0.95;

#[derive(Debug, Serialize)]
pub(super) struct PredictionDocument {
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
    rows: Vec<LawOnCache>,
    cliffs: Vec<Cliff>,
}

/// A law against a cache.
#[derive(Debug, Serialize)]
struct LawOnCache {
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

impl PredictionDocument {
    pub(super) fn new(
        names: &[String],
        profiles: &[Profile],
        caches: &Caches,
        points: &[PairPoint],
    ) -> Self {
        let mut rows = Vec::new();
        let sizes_mib = &caches.sizes_mib;
        for &form in &caches.forms {
            for mib in sizes_mib.iter().copied().map(Some).chain([None]) {
                let here = of(points, form, mib);
                for (law, (name, _)) in SpaceLaw::ALL.iter().enumerate() {
                    let sizes_mib = mib.as_ref().map_or(&sizes_mib[..], std::slice::from_ref);
                    rows.push(LawOnCache::new(form, mib, (law, name), sizes_mib, &here));
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

    pub(super) fn page(&self, names: &[String], caches: &Caches, points: &[PairPoint]) -> Page {
        let about = format!(
            "{} programs, {} pairs, each in {} of cache. CPI {CPI} at {CLOCK_MHZ} MHz, {LATENCY_NS} ns a \
             miss. Goal, in the fully associative LRU cache: {GOAL_PERCENT} %, {GOAL_CORRELATION}.",
            self.programs.len(),
            self.programs.len() * (self.programs.len() - 1) / 2,
            counted(self.forms, "form"),
        );
        let about_laws = format!(
            "The drawing: misses per 1000 instructions of each program beside another, measured (across) \
             and predicted (up), in the cache {}.",
            caches.forms[0].title()
        );
        let laws = Figure::new("laws", "Each law against each cache", about_laws)
            .rows("cache", &self.rows, |row| row.cache.to_owned())
            .words("MiB", |row| row.mib.map_or("all".to_owned(), |mib| mib.to_string()))
            .words("law", |row| row.law.to_owned())
            .column("MPKI error %", 1, |row| row.mpki_error_percent)
            .column("of", 0, |row| row.mpki_errors as f64)
            .column("miss ratio error", 5, |row| row.miss_ratio_error)
            .column("largest", 4, |row| row.largest_miss_ratio_error)
            .column("rank correlation", 3, |row| row.rank_correlation)
            .table()
            .drawn(scatter(names, caches, points));
        let about_cliffs = "At most half the misses alone, 1 MPKI more beside the other.";
        let mut cliffs = Figure::new("cliffs", "Cliffs", about_cliffs)
            .rows("program", &self.cliffs, |one| one.program.clone())
            .words("beside", |one| one.beside.clone())
            .column("MiB", 0, |one| one.mib as f64)
            .column("alone", 2, |one| one.alone_mpki)
            .column("measured", 2, |one| one.beside_mpki);
        for (law, (name, _)) in SpaceLaw::ALL.iter().enumerate() {
            cliffs = cliffs.column(*name, 2, |one| one.predicted_mpki[law]);
        }
        let title = "Laws of space against the reference cache";
        Page::new(title, about, Vec::new(), vec![laws, cliffs.table()])
    }
}

/// Misses per 1000 instructions shown; less is drawn at the edge.
const SHOWN_MPKI: (f64, f64) = (0.01, 1000.0);

/// A panel a law, a colour a size; points of the first form of cache, as a rule the fully associative
/// one.
fn scatter(names: &[String], caches: &Caches, points: &[PairPoint]) -> Plot {
    let (least, most) = SHOWN_MPKI;
    let panel = |(law, (name, _)): (usize, &(&str, SpaceLaw))| {
        let of_size = |(place, &mib): (usize, &u64)| {
            let here = of(points, caches.forms[0], Some(mib));
            let at = |mpki: f64| mpki.clamp(least, most);
            let title = |one: &&PairPoint| {
                format!("{} beside {}", names[one.pair[one.of]], names[one.pair[1 - one.of]])
            };
            Series {
                name: format!("{mib} MiB"),
                colour: Colour::Nth(place),
                mark: Mark::Dots,
                points: here
                    .iter()
                    .map(|one| (at(one.beside.mpki()), at(one.predicted[law].mpki)))
                    .collect(),
                titles: here.iter().map(title).collect(),
            }
        };
        let diagonal = Series {
            name: String::new(),
            colour: Colour::Soft,
            mark: Mark::Thin,
            points: vec![(least, least), (most, most)],
            titles: Vec::new(),
        };
        let sizes = caches.sizes_mib.iter().enumerate().map(of_size);
        Panel {
            title: (*name).to_owned(),
            across: Axis::Logarithmic("measured MPKI".to_owned()),
            upwards: Axis::Logarithmic("predicted MPKI".to_owned()),
            series: sizes.chain([diagonal]).collect(),
            vertical_lines: Vec::new(),
            ends: Ends { across: Some(SHOWN_MPKI), upwards: Some(SHOWN_MPKI) },
        }
    };
    Plot { panels: SpaceLaw::ALL.iter().enumerate().map(panel).collect() }
}

/// The points of a form, and of a size or all.
fn of(points: &[PairPoint], form: CacheForm, mib: Option<u64>) -> Vec<&PairPoint> {
    let wanted = |point: &&PairPoint| point.form == form && mib.is_none_or(|mib| point.mib == mib);
    points.iter().filter(wanted).collect()
}

impl LawOnCache {
    fn new(
        form: CacheForm,
        mib: Option<u64>,
        (law, name): (usize, &'static str),
        sizes_mib: &[u64],
        points: &[&PairPoint],
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
                let here: Vec<&&PairPoint> = points.iter().filter(|one| one.mib == mib).collect();
                let of_pairs = |figure: &dyn Fn(&PairPoint) -> f64| -> Vec<f64> {
                    here.chunks(2).map(|pair| pair.iter().map(|one| figure(one)).sum()).collect()
                };
                rank_correlation(
                    &of_pairs(&|point| point.predicted[law].slowdown),
                    &of_pairs(&PairPoint::slowdown),
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

fn cliffs(names: &[String], points: &[PairPoint]) -> Vec<Cliff> {
    let falls = |point: &&PairPoint| {
        let (alone, beside) = (point.alone.mpki(), point.beside.mpki());
        point.form == CacheForm::Full && alone <= beside / 2.0 && beside >= alone + 1.0
    };
    let cliff = |point: &PairPoint| Cliff {
        mib: point.mib,
        program: names[point.pair[point.of]].clone(),
        beside: names[point.pair[1 - point.of]].clone(),
        alone_mpki: round(point.alone.mpki(), 4),
        beside_mpki: round(point.beside.mpki(), 4),
        predicted_mpki: point.predicted.iter().map(|one| round(one.mpki, 4)).collect(),
    };
    points.iter().filter(falls).map(cliff).collect()
}

/// Every point, a row each.
pub(super) fn csv(names: &[String], points: &[PairPoint]) -> Result<String> {
    let mut columns = Columns::of(points)
        .left("cache", |point| point.form.title())
        .right("mib", |point| point.mib)
        .left("program", |point| names[point.pair[point.of]].clone())
        .left("beside", |point| names[point.pair[1 - point.of]].clone())
        .right("alone_mpki", |point| round(point.alone.mpki(), 6))
        .right("mpki", |point| round(point.beside.mpki(), 6))
        .right("data_accesses_pki", |point| round(point.data_accesses_pki, 6))
        .right("slowdown", |point| round(point.slowdown(), 6));
    for (law, (name, _)) in SpaceLaw::ALL.iter().enumerate() {
        columns = columns
            .right(&format!("{name} mpki"), |point| round(point.predicted[law].mpki, 6))
            .right(&format!("{name} slowdown"), |point| round(point.predicted[law].slowdown, 6));
    }
    columns.csv()
}
