//! LFOC's own experiments (García García, thesis, UCM 2021, chapter 6): with known curves, and with those
//! that it samples while programs run; KPart and Dunn beside it.

mod best;
mod by_phase;
mod figures;
mod mixes;
mod runs;
mod sampling;
mod times;

use std::sync::Arc;

use clap::{Args, ValueEnum};
use corun_app::Result;
use corun_model::{BandwidthModel, ModelOptions};
use corun_profile::Library;

use self::best::{BesideBest, beside_best};
use self::by_phase::{ByPhase, Phases};
pub(super) use self::mixes::by_class;
pub(super) use self::sampling::{Counted, counted};
use self::runs::Mixed;
use self::times::DecisionTime;
use super::partitioning::PartitionedLlc;
use super::ranking::{Half, half_of};
use crate::harness::{AsLiveArgs, Page, Programs, Study, StudyInputs};

/// The experiment.
pub(super) const STUDY: Study = Study {
    name: "lfoc",
    summary: "LFOC, KPart and Dunn with known curves and with sampled ones, and what sampling costs (LFOC, chapter 6)",
    programs: Programs::Spec,
    seeds: Some(1),
    has_quick: false,
    options: LfocArgs::augment_args,
    page,
    explained_in: "docs/studies/partitioning.md",
};

/// A part of the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Mixes of the table's programs, and what sampling costs
    Steady,
    /// Policies with known curves beside the best clustering of these mixes: it takes most of the time
    Best,
    /// Mixes of programs with phases
    Phases,
    /// What a decision takes
    Times,
}

/// Its own options.
#[derive(Debug, Args)]
struct LfocArgs {
    /// Mixes of each size, and as many of programs with phases
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    mixes: u32,
    /// The programs that mixes are drawn from: every second one by name is one half
    #[arg(long, value_enum, default_value = "all")]
    half: Half,
    /// Only these parts
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    only: Vec<Part>,
    #[command(flatten)]
    as_live: AsLiveArgs,
}

impl LfocArgs {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// The machine's LLC.
const WAYS: u32 = 11;
/// Sizes of the mixes of the table's programs (thesis, section 6.4).
const SIZES: [usize; 3] = [8, 12, 16];
/// Size of the mixes of the library's programs, with phases.
const CHANGING_PROGRAMS: usize = 8;

/// All that is measured.
struct Measured<'a> {
    spec: &'a PartitionedLlc,
    shipped: &'a PartitionedLlc,
    /// The mixes of the table's programs.
    steady: Vec<Mixed>,
    /// Those of the library's.
    changing: Vec<Mixed>,
    /// The same by policies that know the phases, as [`by_phase::KNOWING`].
    by_phase: Vec<Vec<runs::MixRun>>,
    beside: Vec<BesideBest>,
    times: Vec<DecisionTime>,
    seeds: u32,
    /// How policies see the machine as live.
    as_live: String,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let asked: LfocArgs = inputs.options()?;
    let half = |library: &Library| half_of(library.iter().collect(), asked.half);
    let (of_spec, of_shipped) = (half(inputs.spec()?)?, half(inputs.shipped()?)?);
    // The thesis's own model of bandwidth, as in the studies of its chapter 5.
    let stalls = ModelOptions { bandwidth: BandwidthModel::Stalls, ..ModelOptions::default() };
    let spec = PartitionedLlc::new(&of_spec, WAYS, stalls)?;
    let shipped = Arc::new(PartitionedLlc::new(&of_shipped, WAYS, ModelOptions::default())?);
    let (mut steady, mut changing, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    let mut by_phase = Vec::new();
    let phases = match asked.wants(Part::Phases) {
        true => Some(Phases::new(&of_shipped, shipped.clone())?),
        false => None,
    };
    let count = asked.mixes as usize;
    let observation = asked.as_live.observation()?;
    for seed in 1..=u64::from(inputs.seeds) {
        for programs in SIZES {
            let mixes = mixes::by_class(&spec, programs, count, seed);
            if asked.wants(Part::Best) {
                beside.extend(beside_best(inputs, &spec, &mixes)?);
            }
            if asked.wants(Part::Steady) {
                steady.extend(runs::all(inputs, &spec, &mixes, (seed, &observation))?);
            }
        }
        if let Some(phases) = &phases {
            let mixes = mixes::with_phases(&shipped, CHANGING_PROGRAMS, count, seed);
            changing.extend(runs::all(inputs, &shipped, &mixes, (seed, &observation))?);
            by_phase.extend(ByPhase::all(inputs, phases, &mixes, seed)?);
        }
    }
    // Nothing else runs meanwhile.
    let times = if asked.wants(Part::Times) { times::all(inputs, &spec)? } else { Vec::new() };
    let (seeds, as_live) = (inputs.seeds, asked.as_live.settings().to_owned());
    let (spec, shipped) = (&spec, &shipped);
    let found = Measured { spec, shipped, steady, changing, by_phase, beside, times, seeds, as_live };
    Ok(found.page())
}

#[cfg(test)]
mod tests;
