//! LFOC's own experiments (García García, thesis, UCM 2021, chapter 6): with known curves, and with those
//! that it samples while programs run; KPart and Dunn beside it.

mod best;
mod figures;
mod mixes;
mod runs;
mod sampling;
mod times;

use corun_model::{BandwidthModel, ModelOptions};

use self::best::{Beside, beside_best};
use self::runs::Mixed;
use self::times::Time;
use super::paper::{self, PaperStudy, StandsOn};
use super::partitioning::ground::{Ground, MACHINE};
use crate::failure::Outcome;
use crate::report::StudyReport;

/// The experiment.
pub(super) const STUDY: PaperStudy =
    PaperStudy { name: "lfoc", stands_on: StandsOn::Spec, seeds: 1, page };

/// The machine's LLC.
const WAYS: u32 = 11;
/// Sizes of the mixes of the table's programs, and how many of each (thesis, section 6.4).
const SIZES: [usize; 3] = [8, 12, 16];
const MIXES: usize = 12;
/// Mixes of the library's programs, with phases.
const CHANGING_MIXES: usize = 12;
const CHANGING_PROGRAMS: usize = 8;

/// All that is measured.
struct Measured<'g> {
    spec: &'g Ground,
    shipped: &'g Ground,
    /// The mixes of the table's programs.
    steady: Vec<Mixed>,
    /// Those of the library's.
    changing: Vec<Mixed>,
    beside: Vec<Beside>,
    times: Vec<Time>,
    seeds: u32,
}

fn page(study: &paper::Ground) -> Outcome<StudyReport> {
    // The thesis's own model of bandwidth, as in the studies of its chapter 5.
    let stalls = ModelOptions { bandwidth: BandwidthModel::Stalls, ..ModelOptions::default() };
    let spec = Ground::new(study.spec()?, WAYS, stalls)?;
    let shipped = Ground::new(study.shipped()?, WAYS, ModelOptions::default())?;
    let (mut steady, mut changing, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 1..=u64::from(study.seeds) {
        for programs in SIZES {
            let mixes = mixes::by_class(&spec, programs, MIXES, seed);
            beside.extend(beside_best(study, &spec, &mixes)?);
            steady.extend(runs::all(study, &spec, &mixes, seed)?);
        }
        let mixes = mixes::with_phases(&shipped, CHANGING_PROGRAMS, CHANGING_MIXES, seed);
        changing.extend(runs::all(study, &shipped, &mixes, seed)?);
    }
    // Nothing else runs meanwhile.
    let times = times::all(study, &spec)?;
    let seeds = study.seeds;
    Ok(Measured { spec: &spec, shipped: &shipped, steady, changing, beside, times, seeds }.page())
}

#[cfg(test)]
mod tests;
