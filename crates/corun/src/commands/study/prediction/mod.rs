//! The model's laws of space against the reference cache: all pairs of recorded programs.

mod document;
mod measure;
mod model;
mod plot;

use corun_cache::Figures;
use corun_model::SpaceLaw;
use corun_profile::{Phase, Profile, ProfileData};
use rayon::prelude::*;

use self::document::Document;
use self::measure::{FORMS, Form, Traced, together, traces};
use self::model::{SharedCache, repeated};
use crate::cli::{PredictionArgs, TableFormat};
use crate::failure::{Failure, Outcome};
use crate::output::{check_target, json, write_file};
use crate::scenario::library;

/// Sizes of the shared cache.
const SIZES_MIB: [u64; 3] = [1, 2, 4];

/// Cycles an instruction without misses, in the model and in the replay.
const CPI: f64 = 1.0;
/// The cores' clock.
const CLOCK_MHZ: f64 = 2000.0;
/// Time of a miss, all of it waited for.
const LATENCY_NS: f64 = 90.0;

/// How far profile and trace may differ in instructions before they are of different stretches.
const SAME_STRETCH: f64 = 0.01;

/// What a law says of a program beside another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Prediction {
    mpki: f64,
    slowdown: f64,
}

/// A program beside another in one cache: measured, and predicted by each law.
#[derive(Debug, Clone)]
struct Point {
    form: usize,
    size: usize,
    pair: [usize; 2],
    /// Which of the pair.
    of: usize,
    /// Loads and stores per 1000 instructions.
    data_accesses_pki: f64,
    alone: Figures,
    beside: Figures,
    predicted: [Prediction; SpaceLaw::ALL.len()],
}

impl Point {
    /// Measured.
    fn slowdown(&self) -> f64 {
        self.beside.ns_per_instruction() / self.alone.ns_per_instruction()
    }
}

pub(super) fn run(arguments: &PredictionArgs) -> Outcome<String> {
    if let Some(plot) = &arguments.svg {
        check_target(plot)?;
    }
    let programs = traces(&arguments.traces)?;
    let library = library(Some(&arguments.profiles))?;
    let profiles: Vec<Profile> = programs
        .iter()
        .map(|program| repeated(library.get(&program.name)?))
        .collect::<Outcome<_>>()?;
    let mut points = Vec::new();
    for (size, mib) in SIZES_MIB.iter().enumerate() {
        let bytes = mib << 20;
        let laws: Vec<SharedCache> = SpaceLaw::ALL
            .iter()
            .map(|&(_, law)| SharedCache::new(bytes, law, &profiles))
            .collect::<Outcome<_>>()?;
        for (number, form) in FORMS.iter().enumerate() {
            let at = Place { form: number, size, bytes };
            points.extend(pairs(at, form, &programs, &profiles, &laws)?);
        }
    }
    let names: Vec<String> = programs.into_iter().map(|program| program.name).collect();
    if let Some(path) = &arguments.svg {
        write_file(path, plot::svg(&names, &points).as_bytes())?;
    }
    let document = Document::new(&names, &profiles, &points);
    match arguments.format {
        TableFormat::Table => Ok(document.text()),
        TableFormat::Json => json(&document),
        TableFormat::Csv => document::csv(&names, &points),
    }
}

fn data_accesses_pki(profile: &Profile) -> f64 {
    match &profile.data {
        ProfileData::Recording(recording) => {
            let accesses = |phase: &Phase| phase.data_accesses_pki * phase.instructions as f64;
            let sum: f64 = recording.phases.iter().map(accesses).sum();
            sum / recording.instructions() as f64
        }
        ProfileData::Table(_) => f64::NAN,
    }
}

/// A form and size of cache.
#[derive(Clone, Copy)]
struct Place {
    form: usize,
    size: usize,
    bytes: u64,
}

/// All programs alone and all pairs, in the order of their names.
fn pairs(
    at: Place,
    form: &Form,
    programs: &[Traced],
    profiles: &[Profile],
    laws: &[SharedCache],
) -> Outcome<Vec<Point>> {
    let alone: Vec<Figures> = programs
        .par_iter()
        .map(|program| Ok(together(form, at.bytes, &[program])?[0]))
        .collect::<Outcome<_>>()?;
    for ((program, profile), figures) in programs.iter().zip(profiles).zip(&alone) {
        let (traced, profiled) = (figures.instructions, profile.instructions());
        if (traced as f64 / profiled as f64 - 1.0).abs() > SAME_STRETCH {
            return Err(Failure::input(format!(
                "{}: {traced} instructions, its profile has {profiled}: record both in one run",
                program.trace.display()
            )));
        }
    }
    let count = programs.len();
    let all: Vec<[usize; 2]> =
        (0..count).flat_map(|a| (a + 1..count).map(move |b| [a, b])).collect();
    let points: Vec<[Point; 2]> = all
        .par_iter()
        .map(|&pair| {
            let beside = together(form, at.bytes, &pair.map(|one| &programs[one]))?;
            let predicted: Vec<[_; 2]> = laws.iter().map(|law| law.pair(pair)).collect();
            Ok([0, 1].map(|of| Point {
                form: at.form,
                size: at.size,
                pair,
                of,
                data_accesses_pki: data_accesses_pki(&profiles[pair[of]]),
                alone: alone[pair[of]],
                beside: beside[of],
                predicted: std::array::from_fn(|law| predicted[law][of]),
            }))
        })
        .collect::<Outcome<_>>()?;
    Ok(points.into_iter().flatten().collect())
}
