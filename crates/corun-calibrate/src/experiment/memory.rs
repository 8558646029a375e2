//! Memory latency: pointer chases in random order within what the TLB reaches, far beyond the caches.

use std::collections::BTreeMap;

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::bench::{Sample, pin, timed};
use crate::estimate::{Estimator, Values};
use crate::figure::Figure;
use crate::kernel::Chain;
use crate::rounds::Experiment;

/// Pointers that a sample follows.
const STEPS: u64 = 20_000;

/// Latency from CPUs of nodes to memory of nodes.
pub(crate) struct MemoryLatency {
    /// From which node, on which CPU, to which node, and a chain through that node's memory.
    ways: Vec<(usize, CpuId, usize, Chain)>,
}

impl MemoryLatency {
    pub(crate) fn new(ways: Vec<(usize, CpuId, usize, Chain)>) -> Self {
        Self { ways }
    }
}

impl Experiment for MemoryLatency {
    fn name(&self) -> &'static str {
        "memory latency"
    }

    fn points(&self) -> usize {
        self.ways.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        let (_, cpu, _, chain) = &mut self.ways[point];
        pin(*cpu)?;
        let mut followed = 0;
        // It goes on where the last sample ended: nothing of that is in a cache.
        let reading = timed(|| followed = chain.follow(STEPS));
        Ok(reading.sample(reading.ns / followed as f64))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let figure = |(point, (from, _, to, _)): (usize, &(usize, CpuId, usize, Chain))| {
            (Figure::MemoryLatency(*from, *to), values.at(point, Estimator::Typical))
        };
        self.ways.iter().enumerate().map(figure).collect()
    }
}
