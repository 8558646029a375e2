//! Transfers of a cache line: two threads that answer each other through it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use corun_machine::CpuId;
use corun_metrics::median;

use crate::CalibrateError;
use crate::bench::{Sample, together, wall_time};
use crate::estimate::{Estimator, Values};
use crate::figure::{Distance, Figure};
use crate::rounds::Experiment;

/// Times that the line goes there and back.
const ROUND_TRIPS: u32 = 4000;

/// The same in each of some looks, whose median counts: one that was interrupted does not.
const LOOK_TRIPS: u32 = 200;
const LOOKS: u32 = 15;

/// A number on a cache line of its own.
#[repr(align(128))]
struct Line(AtomicU32);

/// Transfers between two CPUs.
pub(crate) struct Transfer {
    distance: Distance,
    cpus: [CpuId; 2],
}

impl Transfer {
    /// CPUs at a distance.
    pub(crate) fn new(distance: Distance, cpus: [CpuId; 2]) -> Self {
        Self { distance, cpus }
    }
}

/// Nanoseconds in which a cache line goes from one CPU to another now, one way. It takes less than a millisecond where they
/// share a cache.
///
/// # Errors
/// When a thread cannot be held on its CPU.
pub(crate) fn line_transfer_ns(cpus: [CpuId; 2]) -> Result<f64, CalibrateError> {
    let line = Line(AtomicU32::new(0));
    let looks = together(&cpus, |place| {
        let look = |look: u32| {
            let trips = look * LOOK_TRIPS..(look + 1) * LOOK_TRIPS;
            wall_time(|| answer(&line, place == 0, trips)).0 / f64::from(2 * LOOK_TRIPS)
        };
        (0..LOOKS).map(look).collect::<Vec<f64>>()
    })?;
    Ok(median(&looks[0]).unwrap_or(f64::NAN))
}

/// Waits for a number and answers with the next, for so many trips; the first speaker begins.
fn answer(line: &Line, first: bool, trips: Range<u32>) {
    let offset = u32::from(!first);
    for trip in trips {
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
        1
    }

    fn measure(&mut self, _: usize) -> Result<Sample, CalibrateError> {
        let line = Line(AtomicU32::new(0));
        let both =
            together(&self.cpus, |place| wall_time(|| answer(&line, place == 0, 0..ROUND_TRIPS)))?;
        // Each trip there and back is two transfers.
        let one_way = both[0].0 / f64::from(2 * ROUND_TRIPS);
        Ok(Sample::new(one_way, both.iter().any(|(_, disturbed)| *disturbed)))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        [(Figure::LineTransfer(self.distance), values.at(0, Estimator::Floor))].into()
    }
}
