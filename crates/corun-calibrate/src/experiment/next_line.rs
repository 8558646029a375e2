//! The line after one that was loaded: many cores fetch it as well, whoever asked for it or not.
//!
//! Loads that always go on in the same way teach a prefetcher. So of the pairs of single loads only a few are of one line
//! and the next; the others go on to any line near by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use corun_machine::CpuId;
use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64;

use crate::CalibrateError;
use crate::bench::{Sample, pin, timed};
use crate::estimate::{Estimator, Values};
use crate::experiment::idle::{hits, load_ns, rest};
use crate::figure::{CoreFigure, Figure};
use crate::kernel::Zeros;
use crate::region::Region;
use crate::rounds::Experiment;
use corun_metrics::{median, quantile};

/// Pairs of a sample, and the share of them that are of a line and the next. (Of one in forty a Zen 5 brought as many.)
const PAIRS: usize = 1000;
const NEXT: f64 = 1.0 / 8.0;
/// How far the others go.
const FARTHEST: usize = 20;
/// What a prefetch takes at most.
const WAIT: Duration = Duration::from_micros(1);
/// What a fast miss takes: so many first loads take less.
const FAST_MISS: f64 = 0.1;

/// Whether the next line comes along.
pub(crate) struct NextLine {
    core_type: usize,
    cpu: CpuId,
    region: Arc<Region>,
    random: Pcg64,
}

impl NextLine {
    pub(crate) fn new(core_type: usize, cpu: CpuId, region: Arc<Region>) -> Self {
        Self { core_type, cpu, region, random: Pcg64::seed_from_u64(13) }
    }

    /// The share of next lines that are in a cache.
    fn share_found(&mut self) -> f64 {
        let zeros = self.region.lock();
        let (mut first, mut next, mut again) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let line = self.random.random_range(FARTHEST..zeros.lines() - FARTHEST);
            first.push(load(&zeros, line));
            rest(WAIT);
            if self.random.random_bool(NEXT) {
                next.push(load(&zeros, line + 1));
                again.push(load(&zeros, line + 1));
            } else {
                load(&zeros, self.random.random_range(line - FARTHEST..line + FARTHEST));
            }
        }
        let near = median(&again).unwrap_or(f64::NAN);
        hits(&next, near, quantile(&first, FAST_MISS).unwrap_or(f64::NAN))
    }
}

/// A single load in ns.
fn load(zeros: &Zeros, line: usize) -> f64 {
    load_ns(|| zeros.strided_chase(line, 1, 1))
}

impl Experiment for NextLine {
    fn name(&self) -> &'static str {
        "the next line"
    }

    fn points(&self) -> usize {
        1
    }

    fn measure(&mut self, _: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let mut share = f64::NAN;
        let reading = timed(|| share = self.share_found());
        Ok(reading.sample(share))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let share = values.at(0, Estimator::Typical);
        BTreeMap::from([(Figure::Core(self.core_type, CoreFigure::NextLine), share)])
    }
}
