//! How far recordings are from others of the same programs: sampled from exact ones, or made again.
//!
//! ComparisonOutcome is the miss ratio: misses per data access (load or store) of the whole execution, the
//! misses of instruction fetches included. Per access of any kind it would be smaller, and so
//! would every difference: this is the stricter of the two.

use std::collections::BTreeSet;
use std::path::Path;

use corun_profile::{Library, Profile, ProfileData, Recording};
use serde::Serialize;

use super::curve_pairs::{self, Pair};
use crate::cli::{CurveStudyOutput, RerecordingArgs, SamplingArgs, TableFormat};
use crate::failure::{Failure, Outcome};
use crate::output::{Align, check_target, csv_rows, json, round, table, write_file};
use crate::plot::Point;
use crate::report::size;

/// Sizes compared: from 4 KiB to 64 MiB, so many a doubling.
const SMALLEST_BYTES: f64 = 4096.0;
const DOUBLINGS: u32 = 14;
const SIZES_A_DOUBLING: u32 = 16;

/// What a pair of curves should reach: at most so far apart on average, and at any size.
const MEAN_GOAL: f64 = 0.01;
const GREATEST_GOAL: f64 = 0.03;

#[derive(Debug, Serialize)]
struct Study {
    study: &'static str,
    /// What the first and the second folder hold.
    #[serde(skip)]
    sides: (&'static str, &'static str),
    mean_goal: f64,
    greatest_goal: f64,
    sizes: u32,
    smallest_bytes: u64,
    largest_bytes: u64,
    programs: Vec<ComparisonOutcome>,
    /// Programs of one folder alone.
    unpaired: Vec<String>,
}

/// A program's two curves.
#[derive(Debug, Serialize)]
struct ComparisonOutcome {
    name: String,
    first_sampling_rate: f64,
    second_sampling_rate: f64,
    mean_difference: f64,
    greatest_difference: f64,
    greatest_at_bytes: u64,
    reached: bool,
    extrapolated: bool,
}

pub(super) fn run(arguments: &SamplingArgs) -> Outcome<String> {
    let (exact, sampled) = (&arguments.exact, &arguments.sampled);
    study("sampling", ("exact", "sampled"), exact, sampled, &arguments.output)
}

pub(super) fn run_again(arguments: &RerecordingArgs) -> Outcome<String> {
    let (first, second) = (&arguments.first, &arguments.second);
    study("rerecording", ("first", "second"), first, second, &arguments.output)
}

fn study(
    name: &'static str,
    sides: (&'static str, &'static str),
    first: &Path,
    second: &Path,
    output: &CurveStudyOutput,
) -> Outcome<String> {
    if let Some(path) = &output.svg {
        check_target(path)?;
    }
    let libraries = (Library::load(first)?, Library::load(second)?);
    let names = |library: &Library| -> BTreeSet<String> {
        library.iter().map(|profile| profile.name.clone()).collect()
    };
    let (of_first, of_second) = (names(&libraries.0), names(&libraries.1));
    let mut pairs = Vec::new();
    let mut programs = Vec::new();
    for name in of_first.intersection(&of_second) {
        let (one, other) = (libraries.0.get(name)?, libraries.1.get(name)?);
        let curves = (ratios(one)?, ratios(other)?);
        let compared = compare(name, (recording(one)?, recording(other)?), &curves);
        let (greatest, reached) = (compared.greatest_difference, compared.reached);
        pairs.push(Pair { name: name.clone(), curves, greatest, reached });
        programs.push(compared);
    }
    if programs.is_empty() {
        return Err(Failure::input(format!(
            "{} and {} have no program in common",
            first.display(),
            second.display()
        )));
    }
    let largest = sizes().last().unwrap_or(SMALLEST_BYTES);
    let study = Study {
        study: name,
        sides,
        mean_goal: MEAN_GOAL,
        greatest_goal: GREATEST_GOAL,
        sizes: DOUBLINGS * SIZES_A_DOUBLING + 1,
        smallest_bytes: SMALLEST_BYTES as u64,
        largest_bytes: largest as u64,
        programs,
        unpaired: of_first.symmetric_difference(&of_second).cloned().collect(),
    };
    if let Some(path) = &output.svg {
        write_file(path, curve_pairs::draw(&pairs, sides).as_bytes())?;
    }
    match output.format {
        TableFormat::Table => Ok(study.text()),
        TableFormat::Json => json(&study),
        TableFormat::Csv => study.csv(),
    }
}

fn sizes() -> impl Iterator<Item = f64> {
    let step = |step: u32| f64::from(step) / f64::from(SIZES_A_DOUBLING);
    (0..=DOUBLINGS * SIZES_A_DOUBLING).map(move |index| SMALLEST_BYTES * step(index).exp2())
}

fn recording(profile: &Profile) -> Outcome<&Recording> {
    match &profile.data {
        ProfileData::Recording(recording) => Ok(recording),
        ProfileData::Table(_) => Err(Failure::input(format!(
            "{}: found a solo table, expected a recording",
            profile.name
        ))),
    }
}

/// Misses per data access at each size.
fn ratios(profile: &Profile) -> Outcome<Vec<Point>> {
    let recording = recording(profile)?;
    let of_phase =
        |phase: &corun_profile::Phase| phase.data_accesses_pki * phase.instructions as f64;
    let accesses_pki =
        recording.phases.iter().map(of_phase).sum::<f64>() / recording.instructions().max(1) as f64;
    if accesses_pki <= 0.0 {
        return Err(Failure::input(format!("{}: found no data accesses", profile.name)));
    }
    let point = |bytes: f64| {
        let reading = profile.solo_mpki(bytes);
        Point { bytes, rate: reading.value / accesses_pki, extrapolated: reading.extrapolated }
    };
    Ok(sizes().map(point).collect())
}

fn compare(
    name: &str,
    recordings: (&Recording, &Recording),
    curves: &(Vec<Point>, Vec<Point>),
) -> ComparisonOutcome {
    let (mut sum, mut greatest, mut extrapolated) = (0.0, (-1.0, 0.0), false);
    for (one, other) in curves.0.iter().zip(&curves.1) {
        let difference = (one.rate - other.rate).abs();
        sum += difference;
        extrapolated |= one.extrapolated || other.extrapolated;
        if difference > greatest.0 {
            greatest = (difference, one.bytes);
        }
    }
    let mean = sum / curves.0.len() as f64;
    ComparisonOutcome {
        name: name.to_owned(),
        first_sampling_rate: recordings.0.origin.sampling_rate,
        second_sampling_rate: recordings.1.origin.sampling_rate,
        mean_difference: round(mean, 6),
        greatest_difference: round(greatest.0, 6),
        greatest_at_bytes: greatest.1.round() as u64,
        reached: mean <= MEAN_GOAL && greatest.0 <= GREATEST_GOAL,
        extrapolated,
    }
}

impl Study {
    fn text(&self) -> String {
        let (first, second) = self.sides;
        let rates = [first, second].map(|side| format!("{side} rate"));
        let header = [
            ("program", Align::Left),
            (rates[0].as_str(), Align::Right),
            (rates[1].as_str(), Align::Right),
            ("mean", Align::Right),
            ("greatest", Align::Right),
            ("at", Align::Right),
            ("", Align::Left),
        ];
        let mut rows: Vec<Vec<String>> = self.programs.iter().map(ComparisonOutcome::row).collect();
        let count = self.programs.len();
        let mean = self.programs.iter().map(|one| one.mean_difference).sum::<f64>() / count as f64;
        let greatest = self.programs.iter().map(|one| one.greatest_difference).fold(0.0, f64::max);
        let all = ["all", "", "", &figure(mean), &figure(greatest), "", ""];
        rows.push(all.map(str::to_owned).to_vec());
        let missed = self.programs.iter().filter(|one| !one.reached).count();
        let mut text = format!(
            "miss ratio (misses per data access), {first} against {second}:\ndifferences at {} sizes \
             from {} to {}\n\n{}\n{} of {count} programs reach a mean of at most {} and none above {}\n",
            self.sizes,
            size(self.smallest_bytes as f64),
            size(self.largest_bytes as f64),
            table(&header, &rows),
            count - missed,
            self.mean_goal,
            self.greatest_goal,
        );
        if self.programs.iter().any(|one| one.extrapolated) {
            text.push_str("* read in part outside the recorded sizes\n");
        }
        if !self.unpaired.is_empty() {
            text.push_str(&format!("in one folder alone: {}\n", self.unpaired.join(", ")));
        }
        text
    }

    fn csv(&self) -> Outcome<String> {
        let header = [
            "name",
            "first_sampling_rate",
            "second_sampling_rate",
            "mean_difference",
            "greatest_difference",
            "greatest_at_bytes",
            "reached",
            "extrapolated",
        ];
        let row = |one: &ComparisonOutcome| {
            vec![
                one.name.clone(),
                one.first_sampling_rate.to_string(),
                one.second_sampling_rate.to_string(),
                one.mean_difference.to_string(),
                one.greatest_difference.to_string(),
                one.greatest_at_bytes.to_string(),
                one.reached.to_string(),
                one.extrapolated.to_string(),
            ]
        };
        csv_rows(&header, &self.programs.iter().map(row).collect::<Vec<_>>())
    }
}

impl ComparisonOutcome {
    fn row(&self) -> Vec<String> {
        let mark = if self.extrapolated { "*" } else { "" };
        vec![
            self.name.clone(),
            self.first_sampling_rate.to_string(),
            self.second_sampling_rate.to_string(),
            figure(self.mean_difference),
            format!("{}{mark}", figure(self.greatest_difference)),
            size(self.greatest_at_bytes as f64),
            if self.reached { String::new() } else { "missed".to_owned() },
        ]
    }
}

fn figure(difference: f64) -> String {
    format!("{difference:.5}")
}
