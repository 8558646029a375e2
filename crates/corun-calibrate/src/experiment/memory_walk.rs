//! What a page walk adds to a load that comes from memory: pointer chases over memory in small pages, in no order
//! against window by window.

use std::collections::BTreeMap;

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::bench::{Sample, pin, timed};
use crate::estimate::{Estimator, Values};
use crate::figure::{CoreFigure, Figure};
use crate::kernel::{Chain, LINE_BYTES};
use crate::rounds::Experiment;

/// Pointers that a sample follows.
const STEPS: u64 = 20_000;
/// Pointers that are followed before, so that the entries of the pages lie where programs that run on find them: other
/// experiments have pushed them out.
const WARM_UP_STEPS: u64 = 60_000;

/// Loads from memory in pages that the TLB has, and in pages that it has not.
pub(crate) struct MemoryWalk {
    core_type: usize,
    cpu: CpuId,
    /// Window by window, and in no order.
    chains: [Chain; 2],
}

impl MemoryWalk {
    pub(crate) fn new(core_type: usize, cpu: CpuId, chains: [Chain; 2]) -> Self {
        Self { core_type, cpu, chains }
    }
}

impl Experiment for MemoryWalk {
    fn name(&self) -> &'static str {
        "page walks over memory"
    }

    fn points(&self) -> usize {
        self.chains.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let chain = &mut self.chains[point];
        chain.follow(WARM_UP_STEPS);
        let mut followed = 0;
        // It goes on where the last sample ended: no line of that is in a cache.
        let reading = timed(|| followed = chain.follow(STEPS));
        Ok(reading.sample(reading.cycles() / followed as f64))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let [near, far] = [0, 1].map(|point| values.at(point, Estimator::Typical));
        let pages = self.chains[0].lines() * LINE_BYTES / rustix::param::page_size();
        let figure = |what| Figure::Core(self.core_type, what);
        BTreeMap::from([
            (figure(CoreFigure::MemoryPageWalkCycles), (far - near).max(0.0)),
            (figure(CoreFigure::MemoryPageWalkPages), pages as f64),
        ])
    }
}
