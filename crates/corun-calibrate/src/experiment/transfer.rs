//! Transfers of a cache line: two threads that answer each other through it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::bench::{Sample, together, wall_time};
use crate::estimate::{Estimator, Values};
use crate::figure::{Distance, Figure};
use crate::rounds::Experiment;

/// Times that the line goes there and back.
const ROUND_TRIPS: u32 = 4000;

/// A number on a cache line of its own.
#[repr(align(128))]
struct Line(AtomicU32);

/// Transfers between CPUs at several distances.
pub(crate) struct Transfer {
    pairs: Vec<(Distance, [CpuId; 2])>,
}

impl Transfer {
    pub(crate) fn new(pairs: Vec<(Distance, [CpuId; 2])>) -> Self {
        Self { pairs }
    }
}

/// Waits for a number and answers with the next; the first speaker begins.
fn answer(line: &Line, first: bool) {
    let offset = u32::from(!first);
    for trip in 0..ROUND_TRIPS {
        let turn = 2 * trip + offset;
        while line.0.load(Ordering::Acquire) != turn {}
        line.0.store(turn + 1, Ordering::Release);
    }
}

impl Experiment for Transfer {
    fn name(&self) -> &'static str {
        "cache lines from core to core"
    }

    fn points(&self) -> usize {
        self.pairs.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        let (_, cpus) = self.pairs[point];
        let line = Line(AtomicU32::new(0));
        let both = together(&cpus, |place| wall_time(|| answer(&line, place == 0)))?;
        // Each trip there and back is two transfers.
        let one_way = both[0].0 / f64::from(2 * ROUND_TRIPS);
        Ok(Sample::new(one_way, both.iter().any(|(_, disturbed)| *disturbed)))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let figure = |(point, (distance, _)): (usize, &(Distance, _))| {
            (Figure::LineTransfer(*distance), values.at(point, Estimator::Floor))
        };
        self.pairs.iter().enumerate().map(figure).collect()
    }
}
