//! How far recordings are from others of the same programs: sampled from exact ones, or made again.
//!
//! What is compared is the miss ratio: misses per data access (load or store) of the whole execution,
//! the misses of instruction fetches included. Per access of any kind it would be smaller, and so
//! would every difference: this is the stricter of the two.

use std::collections::BTreeSet;
use std::path::PathBuf;

use corun_app::{Error, Result};
use corun_profile::{Library, Phase, Profile, ProfileData, Recording};
use corun_report::{
    Axis, Colour, Columns, Ends, Mark, Panel, Plot, Series, fixed, json, round, size,
};
use serde::Serialize;

use crate::harness::{Figure, Page};

/// Sizes compared: from 4 KiB to 64 MiB, so many a doubling.
const SMALLEST_BYTES: f64 = 4096.0;
const DOUBLINGS: u32 = 14;
const SIZES_A_DOUBLING: u32 = 16;

/// What a pair of curves should reach: at most so far apart on average, and at any size.
const MEAN_GOAL: f64 = 0.01;
const GREATEST_GOAL: f64 = 0.03;

/// Two folders of recordings.
pub(super) struct Folders {
    /// What they hold.
    pub(super) sides: [&'static str; 2],
    pub(super) paths: [PathBuf; 2],
}

/// The JSON document.
#[derive(Debug, Serialize)]
struct CurveStudy {
    study: &'static str,
    mean_goal: f64,
    greatest_goal: f64,
    sizes: u32,
    smallest_bytes: u64,
    largest_bytes: u64,
    programs: Vec<CurvePair>,
    /// Programs of one folder alone.
    unpaired: Vec<String>,
}

/// A program's two curves.
#[derive(Debug, Serialize)]
struct CurvePair {
    name: String,
    first_sampling_rate: f64,
    second_sampling_rate: f64,
    mean_difference: f64,
    greatest_difference: f64,
    greatest_at_bytes: u64,
    reached: bool,
    extrapolated: bool,
    /// Cache bytes, miss ratio, and whether that was extrapolated; at the same sizes.
    #[serde(skip)]
    curves: [Vec<(f64, f64, bool)>; 2],
}

impl Folders {
    /// The page of the study of this name.
    pub(super) fn page(&self, study: &'static str) -> Result<Page> {
        let [first, second] = &self.paths;
        let libraries = [Library::load(first)?, Library::load(second)?];
        let names = |library: &Library| -> BTreeSet<String> {
            library.iter().map(|profile| profile.name.clone()).collect()
        };
        let [of_first, of_second] = libraries.each_ref().map(names);
        let mut programs = Vec::new();
        for name in of_first.intersection(&of_second) {
            programs.push(CurvePair::new(libraries[0].get(name)?, libraries[1].get(name)?)?);
        }
        if programs.is_empty() {
            let (first, second) = (first.display(), second.display());
            return Err(Error::input(format!("{first} and {second} have no program in common")));
        }
        let found = CurveStudy {
            study,
            mean_goal: MEAN_GOAL,
            greatest_goal: GREATEST_GOAL,
            sizes: DOUBLINGS * SIZES_A_DOUBLING + 1,
            smallest_bytes: SMALLEST_BYTES as u64,
            largest_bytes: sizes().last().unwrap_or(SMALLEST_BYTES) as u64,
            programs,
            unpaired: of_first.symmetric_difference(&of_second).cloned().collect(),
        };
        found.page(self.sides)
    }
}

fn sizes() -> impl Iterator<Item = f64> {
    let step = |step: u32| f64::from(step) / f64::from(SIZES_A_DOUBLING);
    (0..=DOUBLINGS * SIZES_A_DOUBLING).map(move |index| SMALLEST_BYTES * step(index).exp2())
}

fn recording(profile: &Profile) -> Result<&Recording> {
    match &profile.data {
        ProfileData::Recording(recording) => Ok(recording),
        ProfileData::Table(_) => {
            Err(Error::input(format!("{}: found a solo table, expected a recording", profile.name)))
        }
    }
}

/// Misses per data access at each size.
fn ratios(profile: &Profile) -> Result<Vec<(f64, f64, bool)>> {
    let recording = recording(profile)?;
    let of_phase = |phase: &Phase| phase.data_accesses_pki * phase.instructions as f64;
    let accesses_pki =
        recording.phases.iter().map(of_phase).sum::<f64>() / recording.instructions().max(1) as f64;
    if accesses_pki <= 0.0 {
        return Err(Error::input(format!("{}: found no data accesses", profile.name)));
    }
    let point = |bytes: f64| {
        let reading = profile.solo_mpki(bytes);
        (bytes, reading.value / accesses_pki, reading.extrapolated)
    };
    Ok(sizes().map(point).collect())
}

impl CurvePair {
    fn new(first: &Profile, second: &Profile) -> Result<Self> {
        let curves = [ratios(first)?, ratios(second)?];
        let (mut sum, mut greatest, mut extrapolated) = (0.0, (-1.0, 0.0), false);
        for (one, other) in curves[0].iter().zip(&curves[1]) {
            let difference = (one.1 - other.1).abs();
            sum += difference;
            extrapolated |= one.2 || other.2;
            if difference > greatest.0 {
                greatest = (difference, one.0);
            }
        }
        let mean = sum / curves[0].len() as f64;
        Ok(Self {
            name: first.name.clone(),
            first_sampling_rate: recording(first)?.origin.sampling_rate,
            second_sampling_rate: recording(second)?.origin.sampling_rate,
            mean_difference: round(mean, 6),
            greatest_difference: round(greatest.0, 6),
            greatest_at_bytes: greatest.1.round() as u64,
            reached: mean <= MEAN_GOAL && greatest.0 <= GREATEST_GOAL,
            extrapolated,
            curves,
        })
    }

    /// Both curves over their own scale of miss ratios, from 0.
    fn panel(&self, sides: [&str; 2]) -> Panel {
        let line = |place: usize, colour| {
            let points = self.curves[place].iter().map(|&(bytes, ratio, _)| (bytes, ratio));
            let points: Vec<(f64, f64)> = points.collect();
            let name = sides[place].to_owned();
            Series { name, colour, mark: Mark::Line, points, titles: Vec::new() }
        };
        let missed = if self.reached { "" } else { ", missed" };
        Panel {
            title: format!(
                "{}, at most {} apart{missed}",
                self.name,
                fixed(self.greatest_difference, 4)
            ),
            across: Axis::CacheSizes("cache".to_owned()),
            upwards: Axis::Linear("miss ratio".to_owned(), Some(0.0)),
            series: vec![line(0, Colour::Nth(7)), line(1, Colour::Nth(5))],
            vertical_lines: Vec::new(),
            ends: Ends::default(),
        }
    }
}

impl CurveStudy {
    fn page(&self, sides: [&'static str; 2]) -> Result<Page> {
        let [first, second] = sides;
        let reached = self.programs.iter().filter(|one| one.reached).count();
        let mut about = format!(
            "Miss ratio (misses per data access), {first} against {second}: differences at {} sizes \
             from {} to {}. {reached} of {} programs reach a mean of at most {MEAN_GOAL} and none above \
             {GREATEST_GOAL}.",
            self.sizes,
            size(self.smallest_bytes as f64),
            size(self.largest_bytes as f64),
            self.programs.len(),
        );
        if !self.unpaired.is_empty() {
            about.push_str(&format!(" In one folder alone: {}.", self.unpaired.join(", ")));
        }
        let title = format!("Miss ratio against cache size: {first} and {second}");
        Ok(Page {
            own_json: Some(json(self)?),
            own_csv: Some(self.csv()?),
            ..Page::new(title, about, Vec::new(), vec![self.figure(sides)])
        })
    }

    fn figure(&self, sides: [&'static str; 2]) -> Figure {
        let mark = |one: &CurvePair| if one.extrapolated { "*" } else { "" };
        let panels = self.programs.iter().map(|one| one.panel(sides)).collect();
        let greatest = self.programs.iter().map(|one| one.greatest_difference).fold(0.0, f64::max);
        let greatest = format!("The greatest of all is {}.", fixed(greatest, 5));
        let about = if self.programs.iter().any(|one| one.extrapolated) {
            format!("{greatest} * read in part outside the recorded sizes")
        } else {
            greatest
        };
        Figure::new("differences", "Differences by program", about)
            .rows("program", &self.programs, |one| one.name.clone())
            .words(&format!("{} rate", sides[0]), |one| one.first_sampling_rate.to_string())
            .words(&format!("{} rate", sides[1]), |one| one.second_sampling_rate.to_string())
            .column("mean", 5, |one| one.mean_difference)
            .words("greatest", |one| format!("{}{}", fixed(one.greatest_difference, 5), mark(one)))
            .words("at", |one| size(one.greatest_at_bytes as f64))
            .words("goal", |one| if one.reached { "reached" } else { "missed" }.to_owned())
            .summary("mean of all", corun_metrics::mean)
            .table()
            .drawn(Plot { panels })
    }

    fn csv(&self) -> Result<String> {
        Columns::of(&self.programs)
            .left("name", |one| one.name.clone())
            .right("first_sampling_rate", |one| one.first_sampling_rate)
            .right("second_sampling_rate", |one| one.second_sampling_rate)
            .right("mean_difference", |one| one.mean_difference)
            .right("greatest_difference", |one| one.greatest_difference)
            .right("greatest_at_bytes", |one| one.greatest_at_bytes)
            .right("reached", |one| one.reached)
            .right("extrapolated", |one| one.extrapolated)
            .csv()
    }
}
