//! Prefetching: dependent loads over memory in orders that prefetchers know, against random order.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_machine::CpuId;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::CalibrateError;
use crate::analysis::prefetch::{hidden_share, streams};
use crate::bench::{Reading, Sample, pin, timed};
use crate::chains::memory_error;
use crate::estimate::{Estimator, Values};
use crate::figure::{CoreFigure, Figure};
use crate::kernel::{Chain, Chains, LINE_BYTES, Pages};
use crate::region::Region;
use crate::rounds::Experiment;

/// Loads of a sample.
const LOADS: u64 = 6000;
/// Lines of the pages inside which prefetchers stay.
const PAGE_LINES: usize = 4096 / LINE_BYTES;
/// Lines that stay in the nearest cache.
const NEAR_LINES: u64 = 128;
/// Strides in lines.
const STRIDES: [i32; 11] = [1, 2, 3, 4, 8, 16, 32, 64, -1, -2, -4];
/// Numbers of streams.
const STREAMS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Lines between the beginnings of two streams: no power of two, which would crowd in few sets.
const STREAM_GAP: usize = 8192 + 72;

/// The order of the loads of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    /// Lines that hit the nearest cache.
    Near,
    /// At random.
    Random,
    /// Ascending in each page, the pages at random.
    RandomPages,
    /// At a stride of so many lines.
    Stride(i32),
    /// So many ascending streams by turns.
    Streams(u32),
}

/// What the prefetchers of a core type do.
pub(crate) struct Prefetching {
    core_type: usize,
    cpu: CpuId,
    region: Arc<Region>,
    orders: Vec<Order>,
    random: Chain,
    random_pages: Chain,
}

/// Places of the chains in their memory.
const RANDOM: usize = 0;
const RANDOM_PAGES: usize = 1;

impl Prefetching {
    /// `lines` is how many lines the chains in memory have: far more than the caches hold.
    ///
    /// # Errors
    /// When there is not so much memory.
    pub(crate) fn new(
        core_type: usize,
        cpu: CpuId,
        region: Arc<Region>,
        lines: usize,
    ) -> Result<Self, CalibrateError> {
        let pages = (lines / PAGE_LINES).max(1);
        let mut random = Pcg64::seed_from_u64(11);
        let mut chains = Chains::new(pages * PAGE_LINES, Pages::Huge, None)
            .map_err(|source| memory_error(lines * LINE_BYTES, source))?;
        let mut order: Vec<u32> = (0..(pages * PAGE_LINES) as u32).collect();
        order.shuffle(&mut random);
        chains.link(RANDOM, &order);
        let mut first_lines: Vec<u32> = (0..pages).map(|page| (page * PAGE_LINES) as u32).collect();
        first_lines.shuffle(&mut random);
        let in_order = |first: &u32| *first..*first + PAGE_LINES as u32;
        let order: Vec<u32> = first_lines.iter().flat_map(in_order).collect();
        chains.link(RANDOM_PAGES, &order);
        let chains = Arc::new(chains);
        let mut orders = vec![Order::Near, Order::Random, Order::RandomPages];
        orders.extend(STRIDES.map(Order::Stride));
        orders.extend(STREAMS.map(Order::Streams));
        Ok(Self {
            core_type,
            cpu,
            region,
            orders,
            random: chains.chain(RANDOM),
            random_pages: chains.chain(RANDOM_PAGES),
        })
    }

    fn hidden(&self, values: &Values<'_>, order: Order) -> f64 {
        let time = |wanted: Order| {
            let point = self.orders.iter().position(|order| *order == wanted);
            point.map_or(f64::NAN, |point| values.at(point, Estimator::Typical))
        };
        hidden_share(time(order), time(Order::Near), time(Order::Random))
    }
}

impl Experiment for Prefetching {
    fn name(&self) -> &'static str {
        "prefetching"
    }

    fn points(&self) -> usize {
        self.orders.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let zeros = self.region.lock();
        let mut loads = LOADS;
        let reading: Reading = match self.orders[point] {
            Order::Near => {
                let laps = LOADS / NEAR_LINES;
                loads = laps * NEAR_LINES;
                zeros.strided_chase(0, 1, NEAR_LINES);
                timed(|| (0..laps).for_each(|_| zeros.strided_chase(0, 1, NEAR_LINES)))
            }
            Order::Random => timed(|| loads = self.random.follow(LOADS)),
            Order::RandomPages => timed(|| loads = self.random_pages.follow(LOADS)),
            Order::Stride(stride) => {
                let stride = i64::from(stride);
                let span = (stride.unsigned_abs() * LOADS) as usize;
                let from = self.region.next_lines(span, zeros.lines());
                let first = if stride > 0 { from } else { from + span - 1 };
                timed(|| zeros.strided_chase(first, stride, LOADS))
            }
            Order::Streams(streams) => {
                let rounds = LOADS / u64::from(streams);
                loads = rounds * u64::from(streams);
                let span = (streams as usize - 1) * STREAM_GAP + rounds as usize + 1;
                let from = self.region.next_lines(span, zeros.lines());
                timed(|| zeros.chase_streams(from, streams as usize, STREAM_GAP, rounds))
            }
        };
        Ok(reading.sample(reading.ns / loads as f64))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let core = |what| Figure::Core(self.core_type, what);
        let mut figures: BTreeMap<Figure, f64> = STRIDES
            .iter()
            .map(|&stride| {
                let hidden = self.hidden(values, Order::Stride(stride));
                (core(CoreFigure::HiddenByStride(stride)), hidden)
            })
            .collect();
        let pages = self.hidden(values, Order::RandomPages);
        figures.insert(core(CoreFigure::HiddenInRandomPages), pages);
        let by_streams = STREAMS.map(|count| (count, self.hidden(values, Order::Streams(count))));
        if let Some(followed) = streams(&by_streams) {
            figures.insert(core(CoreFigure::Streams), f64::from(followed));
        }
        figures
    }
}
