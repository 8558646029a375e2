//! The model's laws of space against the reference cache: all pairs of recorded programs.

mod document;
mod measure;
mod model;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use corun_app::{Error, Result, open_library};
use corun_cache::ReplayFigures;
use corun_model::SpaceLaw;
use corun_profile::{Phase, Profile, ProfileData};
use corun_report::{check_target, json, write_file};
use rayon::prelude::*;

use self::document::PredictionDocument;
use self::measure::{Traced, together, traces};
use self::model::{SharedCache, repeated};
use crate::harness::{Page, Programs, Study, StudyInputs};

pub(super) const STUDY: Study = Study {
    name: "prediction",
    summary: "The laws of space against a reference cache that replays the programs' traces",
    programs: Programs::OwnOptions,
    seeds: None,
    has_quick: false,
    options: PredictionArgs::augment_args,
    page,
    explained_in: "docs/studies/prediction.md",
};

/// Its own options.
#[derive(Debug, Args)]
struct PredictionArgs {
    /// A folder of traces: NAME.trace
    #[arg(long, value_name = "DIR")]
    traces: PathBuf,
    /// A folder of profiles of the same programs, recorded in the same run each: NAME.toml
    #[arg(long, value_name = "DIR")]
    profiles: PathBuf,
    /// Forms of the reference cache (several, with commas)
    #[arg(
        long,
        value_name = "FORM",
        value_enum,
        value_delimiter = ',',
        default_value = "full,16-lru,16-plru"
    )]
    form: Vec<CacheForm>,
    /// Sizes of the reference cache in MiB (several, with commas)
    #[arg(long, value_name = "MIB", value_delimiter = ',', default_value = "1,2,4", value_parser = clap::value_parser!(u64).range(1..=1024))]
    size_mib: Vec<u64>,
    /// Also write a row a program, pair and cache
    #[arg(long, value_name = "FILE.csv")]
    rows: Option<PathBuf>,
}

/// A form of the reference cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum CacheForm {
    /// Fully associative with LRU, as the laws have it
    Full,
    /// 16 ways with LRU
    #[value(name = "16-lru")]
    Lru16,
    /// 16 ways with tree-PLRU
    #[value(name = "16-plru")]
    Plru16,
}

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
struct PairPoint {
    form: CacheForm,
    mib: u64,
    pair: [usize; 2],
    /// Which of the pair.
    of: usize,
    /// Loads and stores per 1000 instructions.
    data_accesses_pki: f64,
    alone: ReplayFigures,
    beside: ReplayFigures,
    predicted: [Prediction; SpaceLaw::ALL.len()],
}

impl PairPoint {
    /// Measured.
    fn slowdown(&self) -> f64 {
        self.beside.ns_per_instruction() / self.alone.ns_per_instruction()
    }
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let arguments: PredictionArgs = inputs.options()?;
    if let Some(path) = &arguments.rows {
        check_target(path)?;
    }
    let programs = traces(&arguments.traces)?;
    let library = open_library(Some(&arguments.profiles))?;
    let profiles: Vec<Profile> = programs
        .par_iter()
        .map(|program| repeated(library.get(&program.name)?, program.lines()))
        .collect::<Result<_>>()?;
    let caches = Caches::new(&arguments);
    let points = caches.points(&programs, &profiles)?;
    let names: Vec<String> = programs.into_iter().map(|program| program.name).collect();
    let csv = document::csv(&names, &points)?;
    if let Some(path) = &arguments.rows {
        write_file(path, csv.as_bytes())?;
    }
    let document = PredictionDocument::new(&names, &profiles, &caches, &points);
    let page = document.page(&names, &caches, &points);
    Ok(Page { own_json: Some(json(&document)?), own_csv: Some(csv), ..page })
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

/// The caches of a study: each form in each size.
struct Caches {
    forms: Vec<CacheForm>,
    sizes_mib: Vec<u64>,
}

impl Caches {
    /// Those that were asked for, in their order, each once.
    fn new(arguments: &PredictionArgs) -> Self {
        let (mut forms, mut sizes_mib) = (arguments.form.clone(), arguments.size_mib.clone());
        forms.sort();
        forms.dedup();
        sizes_mib.sort_unstable();
        sizes_mib.dedup();
        Self { forms, sizes_mib }
    }

    /// All programs alone and all pairs in each cache, the smallest first, in the order of the
    /// programs' names.
    fn points(&self, programs: &[Traced], profiles: &[Profile]) -> Result<Vec<PairPoint>> {
        let count = programs.len();
        let pairs: Vec<[usize; 2]> =
            (0..count).flat_map(|a| (a + 1..count).map(move |b| [a, b])).collect();
        let caches = self.forms.len() * self.sizes_mib.len();
        let replays = (caches * (count + pairs.len())) as u64;
        let bar = corun_cli::progress_bar(replays, "{pos}/{len} replays {eta}");
        let mut points = Vec::with_capacity(2 * caches * pairs.len());
        for &mib in &self.sizes_mib {
            let laws: Vec<SharedCache> = SpaceLaw::ALL
                .iter()
                .map(|&(_, law)| SharedCache::new(mib << 20, law, profiles))
                .collect::<Result<_>>()?;
            for &form in &self.forms {
                let place = CacheBench { form, mib, programs, profiles, laws: &laws, bar: &bar };
                let alone = place.alone()?;
                let of_pairs: Vec<[PairPoint; 2]> = pairs
                    .par_iter()
                    .map(|&pair| place.pair(pair, &alone))
                    .collect::<Result<_>>()?;
                points.extend(of_pairs.into_iter().flatten());
            }
        }
        Ok(points)
    }
}

/// One cache.
struct CacheBench<'a> {
    form: CacheForm,
    mib: u64,
    programs: &'a [Traced],
    profiles: &'a [Profile],
    laws: &'a [SharedCache],
    bar: &'a indicatif::ProgressBar,
}

impl CacheBench<'_> {
    fn replay(&self, programs: &[&Traced]) -> Result<Vec<ReplayFigures>> {
        let figures = together(self.form, self.mib, programs);
        self.bar.inc(1);
        figures
    }

    /// Each program alone.
    fn alone(&self) -> Result<Vec<ReplayFigures>> {
        let alone = |(program, profile): (&Traced, &Profile)| {
            let figures = self.replay(&[program])?[0];
            let (traced, profiled) = (figures.instructions, profile.instructions());
            if (traced as f64 / profiled as f64 - 1.0).abs() > SAME_STRETCH {
                return Err(Error::input(format!(
                    "{}: {traced} instructions, its profile has {profiled}: record both in one run",
                    program.path.display()
                )));
            }
            Ok(figures)
        };
        self.programs.par_iter().zip(self.profiles).map(alone).collect()
    }

    fn pair(&self, pair: [usize; 2], alone: &[ReplayFigures]) -> Result<[PairPoint; 2]> {
        let beside = self.replay(&pair.map(|one| &self.programs[one]))?;
        let predicted: Vec<[_; 2]> = self.laws.iter().map(|law| law.pair(pair)).collect();
        Ok([0, 1].map(|of| PairPoint {
            form: self.form,
            mib: self.mib,
            pair,
            of,
            data_accesses_pki: data_accesses_pki(&self.profiles[pair[of]]),
            alone: alone[pair[of]],
            beside: beside[of],
            predicted: std::array::from_fn(|law| predicted[law][of]),
        }))
    }
}
