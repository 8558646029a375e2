//! LFOC's own experiments (García García, thesis, UCM 2021, chapter 6): with known curves, and with those
//! that it samples while programs run; KPart and Dunn beside it.

mod best;
mod figures;
mod mixes;
mod runs;
mod sampling;
mod times;

use corun_app::Result;
use corun_model::{BandwidthModel, ModelOptions};

use self::best::{BesideBest, beside_best};
pub(super) use self::mixes::by_class;
use self::runs::Mixed;
use self::times::DecisionTime;
use super::partitioning::PartitionedLlc;
use crate::harness::{Page, Programs, Study, StudyInputs, no_options};

/// The experiment.
pub(super) const STUDY: Study = Study {
    name: "lfoc",
    summary: "LFOC, KPart and Dunn with known curves and with sampled ones, and what sampling costs (LFOC, chapter 6)",
    programs: Programs::Spec,
    seeds: Some(1),
    options: no_options,
    page,
    explained_in: "docs/partitioning.md",
};

/// The machine's LLC.
const WAYS: u32 = 11;
/// Sizes of the mixes of the table's programs, and how many of each (thesis, section 6.4).
const SIZES: [usize; 3] = [8, 12, 16];
const MIXES: usize = 12;
/// Mixes of the library's programs, with phases.
const CHANGING_MIXES: usize = 12;
const CHANGING_PROGRAMS: usize = 8;

/// All that is measured.
struct Measured<'a> {
    spec: &'a PartitionedLlc,
    shipped: &'a PartitionedLlc,
    /// The mixes of the table's programs.
    steady: Vec<Mixed>,
    /// Those of the library's.
    changing: Vec<Mixed>,
    beside: Vec<BesideBest>,
    times: Vec<DecisionTime>,
    seeds: u32,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    // The thesis's own model of bandwidth, as in the studies of its chapter 5.
    let stalls = ModelOptions { bandwidth: BandwidthModel::Stalls, ..ModelOptions::default() };
    let spec = PartitionedLlc::new(inputs.spec()?, WAYS, stalls)?;
    let shipped = PartitionedLlc::new(inputs.shipped()?, WAYS, ModelOptions::default())?;
    let (mut steady, mut changing, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 1..=u64::from(inputs.seeds) {
        for programs in SIZES {
            let mixes = mixes::by_class(&spec, programs, MIXES, seed);
            beside.extend(beside_best(inputs, &spec, &mixes)?);
            steady.extend(runs::all(inputs, &spec, &mixes, seed)?);
        }
        let mixes = mixes::with_phases(&shipped, CHANGING_PROGRAMS, CHANGING_MIXES, seed);
        changing.extend(runs::all(inputs, &shipped, &mixes, seed)?);
    }
    // Nothing else runs meanwhile.
    let times = times::all(inputs, &spec)?;
    let seeds = inputs.seeds;
    Ok(Measured { spec: &spec, shipped: &shipped, steady, changing, beside, times, seeds }.page())
}

#[cfg(test)]
mod tests;
