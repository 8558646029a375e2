//! Outstanding misses: how many chains of dependent misses gain from each other.

use std::collections::BTreeMap;

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::analysis::parallelism::{in_flight, most_in_flight};
use crate::bench::{Sample, pin, timed};
use crate::estimate::{Estimator, Values};
use crate::figure::{CoreFigure, Figure};
use crate::kernel::Chain;
use crate::rounds::{CurveKind, CurveShape, Experiment};

/// How many chains are followed at a time.
pub(crate) const CHAINS: [usize; 12] = [1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 64];
/// Pointers of a sample: of each chain at least, and of all together.
const LEAST_STEPS: u64 = 600;
const STEPS: u64 = 6000;

/// Where the misses of an experiment go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissesTo {
    Llc,
    Memory,
}

/// The misses that a core of a type can have outstanding.
pub(crate) struct Parallelism {
    core_type: usize,
    cpu: CpuId,
    to: MissesTo,
    /// Places at equal distances on one long chain. All numbers of chains go on from where the ones
    /// before ended, so that nothing of what they visited is in a cache.
    places: Vec<Chain>,
    /// How many chains are followed at a time, by point.
    counts: Vec<usize>,
}

impl Parallelism {
    /// `places` are the places on the chain, as many as there can be chains at a time.
    pub(crate) fn new(core_type: usize, cpu: CpuId, to: MissesTo, places: Vec<Chain>) -> Self {
        let counts = CHAINS.iter().copied().filter(|&count| count <= places.len()).collect();
        Self { core_type, cpu, to, places, counts }
    }

    /// Cycles a miss, by chains.
    fn times(&self, values: &Values<'_>) -> Vec<(f64, f64)> {
        let estimator = match self.to {
            // Others who use the cache turn hits into misses.
            MissesTo::Llc => Estimator::Floor,
            MissesTo::Memory => Estimator::Typical,
        };
        let time = |(point, &count): (usize, &usize)| (count as f64, values.at(point, estimator));
        self.counts.iter().enumerate().map(time).collect()
    }
}

impl Experiment for Parallelism {
    fn name(&self) -> &'static str {
        "outstanding misses"
    }

    fn points(&self) -> usize {
        self.counts.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        if self.to == MissesTo::Llc {
            // The caches hold what they hold of the set in the long run.
            let lap = self.places[0].lines() as u64;
            self.places[0].follow(lap);
        }
        let chains = &mut self.places[..self.counts[point]];
        let count = chains.len() as u64;
        let steps = LEAST_STEPS.max(STEPS / count);
        let mut followed = 0;
        let reading = timed(|| followed = Chain::follow_together(chains, steps) * count);
        Ok(reading.sample(reading.cycles() / followed as f64))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let what = match self.to {
            MissesTo::Llc => CoreFigure::OutstandingLlcHits,
            MissesTo::Memory => CoreFigure::OutstandingMisses,
        };
        let most = most_in_flight(&self.times(values));
        most.map(|most| (Figure::Core(self.core_type, what), most)).into_iter().collect()
    }

    fn curves(&self, values: &Values<'_>) -> Vec<CurveShape> {
        let kind = match self.to {
            MissesTo::Llc => CurveKind::LlcParallelism,
            MissesTo::Memory => CurveKind::MemoryParallelism,
        };
        let points = in_flight(&self.times(values));
        vec![CurveShape { kind, core_type: self.core_type, points }]
    }
}
