//! Loaded latency: what a dependent load to memory takes beside the traffic of other cores, and
//! beside that of its own core.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corun_machine::CpuId;

use super::rates::Group;
use crate::CalibrateError;
use crate::bench::{Sample, pin, timed, together, wall_time};
use crate::estimate::{Estimator, Values};
use crate::figure::{CoreFigure, CurvePart, Figure};
use crate::kernel::{Access, Chain, LINE_BYTES, STREAM_STEP_BYTES, dependent_adds};
use crate::region::Region;
use crate::rounds::Experiment;

/// Pointers that a sample follows beside others.
const STEPS: u64 = 40_000;
/// Bytes that another core goes over before it pauses.
const BURST_BYTES: usize = 4 * STREAM_STEP_BYTES;
/// Cycles of the pauses between two bursts, and none: from little traffic to all there can be.
const PAUSES: [u64; 8] = [32_000, 16_000, 8000, 4000, 2000, 1000, 500, 0];
/// Lines of a stream for each pointer that is followed on the same core.
const OWN_LINES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Lines of a stream in a sample.
const OWN_STREAM_LINES: u64 = 100_000;

/// Latency beside the traffic of other cores.
pub(crate) struct Loaded {
    /// The CPU whose latency is measured.
    cpu: CpuId,
    chain: Chain,
    /// The CPUs that make traffic.
    others: Group,
}

impl Loaded {
    pub(crate) fn new(cpu: CpuId, chain: Chain, others: Group) -> Self {
        Self { cpu, chain, others }
    }

    fn beside(&mut self, pause: u64) -> Result<Sample, CalibrateError> {
        let stop = AtomicBool::new(false);
        let chain = std::sync::Mutex::new(&mut self.chain);
        let regions = &self.others.regions;
        let cpus: Vec<CpuId> =
            std::iter::once(self.cpu).chain(self.others.cpus.iter().copied()).collect();
        // Bytes, ns, and whether it was disturbed: of the one that is measured, then of the others.
        let each = together(&cpus, |place| match place.checked_sub(1) {
            None => {
                let mut chain = chain.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                // The others are at it when the time is taken.
                chain.follow(STEPS / 4);
                let mut followed = 0;
                let (ns, disturbed) = wall_time(|| followed = chain.follow(STEPS));
                stop.store(true, Ordering::Relaxed);
                (followed as f64 * LINE_BYTES as f64, ns, disturbed)
            }
            Some(other) => traffic(&regions[other], pause, &stop),
        })?;
        let (bytes, ns, _) = each[0];
        let latency_ns = ns / (bytes / LINE_BYTES as f64);
        let mb_per_s: f64 = each.iter().map(|(bytes, ns, _)| bytes / ns * 1e3).sum();
        let disturbed = each.iter().any(|(_, _, disturbed)| *disturbed);
        Ok(Sample { value: latency_ns, beside: mb_per_s, disturbed })
    }
}

/// Bursts of mixed reads and writes with pauses, until it is told to stop. Bytes, ns, and whether it
/// was disturbed.
fn traffic(region: &Region, pause: u64, stop: &AtomicBool) -> (f64, f64, bool) {
    let mut zeros = region.lock();
    let bytes = zeros.lines() * LINE_BYTES;
    let mut at = region.next_bytes(BURST_BYTES, zeros.lines());
    let mut done = 0;
    let (ns, disturbed) = wall_time(|| {
        while !stop.load(Ordering::Relaxed) {
            if at + BURST_BYTES > bytes {
                at = 0;
            }
            done += zeros.stream(Access::Mixed, at, BURST_BYTES);
            at += BURST_BYTES;
            if pause > 0 {
                dependent_adds(pause);
            }
        }
    });
    (done as f64, ns, disturbed)
}

impl Experiment for Loaded {
    fn name(&self) -> &'static str {
        "loaded latency"
    }

    fn points(&self) -> usize {
        // And nobody else at all.
        PAUSES.len() + 1
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        match point.checked_sub(1) {
            Some(place) => self.beside(PAUSES[place]),
            None => {
                pin(self.cpu)?;
                let mut followed = 0;
                let reading = timed(|| followed = self.chain.follow(STEPS));
                let ns = reading.ns / followed as f64;
                Ok(Sample { beside: LINE_BYTES as f64 / ns * 1e3, ..reading.sample(ns) })
            }
        }
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let of_point = |point| {
            [
                (
                    Figure::Loaded(point, CurvePart::MbPerS),
                    values.beside(point, Estimator::Typical),
                ),
                (Figure::Loaded(point, CurvePart::LatencyNs), values.at(point, Estimator::Typical)),
            ]
        };
        (0..self.points()).flat_map(of_point).collect()
    }
}

/// Latency beside the traffic of the same core.
pub(crate) struct OwnLoaded {
    core_type: usize,
    cpu: CpuId,
    chain: Chain,
    region: Arc<Region>,
}

impl OwnLoaded {
    pub(crate) fn new(core_type: usize, cpu: CpuId, chain: Chain, region: Arc<Region>) -> Self {
        Self { core_type, cpu, chain, region }
    }
}

impl Experiment for OwnLoaded {
    fn name(&self) -> &'static str {
        "latency beside own traffic"
    }

    fn points(&self) -> usize {
        OWN_LINES.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let lines_each = OWN_LINES[point];
        let zeros = self.region.lock();
        let steps = (OWN_STREAM_LINES / lines_each).min(10_000);
        let first = self.region.next_lines((steps * lines_each) as usize, zeros.lines());
        let chain = &mut self.chain;
        let reading = timed(|| chain.follow_beside(steps, lines_each, &zeros, first));
        let ns = reading.ns / steps as f64;
        let bytes = (lines_each + 1) * LINE_BYTES as u64;
        Ok(Sample { beside: bytes as f64 / ns * 1e3, ..reading.sample(ns) })
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let of_point = |point| {
            let figure = |part| Figure::Core(self.core_type, CoreFigure::OwnLoaded(point, part));
            [
                (figure(CurvePart::MbPerS), values.beside(point, Estimator::Typical)),
                (figure(CurvePart::LatencyNs), values.at(point, Estimator::Typical)),
            ]
        };
        (0..self.points()).flat_map(of_point).collect()
    }
}
