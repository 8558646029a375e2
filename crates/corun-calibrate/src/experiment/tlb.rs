//! The data TLB: pointer chases with a line a page against chases through as many lines side by side.

use std::collections::BTreeMap;

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::analysis::ladder::levels;
use crate::bench::{Sample, pin, timed};
use crate::chains::RandomChains;
use crate::estimate::{Estimator, Values};
use crate::figure::{CoreFigure, Figure};
use crate::kernel::Chain;
use crate::rounds::{CurveKind, CurveShape, Experiment};

/// Pointers that a sample follows at least.
const LEAST_STEPS: u64 = 20_000;
/// Cycles of a load without a TLB miss, so that a share of it can be told from none; what it is in
/// truth makes no difference to the result.
const BASE_CYCLES: f64 = 4.0;
/// The level-1 TLB, the level-2 TLB and the page walk.
const LEVELS: usize = 3;
/// Bytes of a page's line and of its entry in the page table. The levels are told from sets of which
/// both hit a private cache: beyond, a page walk takes as long as the caches let it.
const BYTES_A_PAGE: f64 = 72.0;
/// Share of a private cache that is safely one's own: pages lie in its sets by chance, so that some sets are full before half of it is,
/// and another thread of the core that was busy between two looks at it took half.
const OWN_SHARE: f64 = 0.25;
/// Pages up to which levels are told in any case.
const LEAST_PAGES: f64 = 6144.0;

/// Reach and cost of the TLBs of a core type, for the smallest pages.
pub(crate) struct Tlb {
    core_type: usize,
    cpu: CpuId,
    pages: Vec<f64>,
    /// The most pages of sets from which the levels are told.
    most_pages: f64,
    /// By number of lines: one a page, and side by side.
    chains: Vec<[Chain; 2]>,
}

impl Tlb {
    /// The TLBs that chains over as many lines each tell of: one a page, and side by side.
    /// `private_bytes` is the size of the largest private cache.
    pub(crate) fn new(
        core_type: usize,
        cpu: CpuId,
        private_bytes: f64,
        apart: &RandomChains,
        together: &RandomChains,
    ) -> Self {
        let pages = apart.sizes().iter().map(|&pages| pages as f64).collect();
        let pair = |place: usize| [apart.chain(place), together.chain(place)];
        let chains = (0..apart.sizes().len()).map(pair).collect();
        let most_pages = (private_bytes * OWN_SHARE / BYTES_A_PAGE).max(LEAST_PAGES);
        Self { core_type, cpu, pages, most_pages, chains }
    }

    /// Cycles that a line a page adds, by pages.
    fn added(&self, values: &Values<'_>) -> Vec<(f64, f64)> {
        let added = |place: usize| {
            let at = |side: usize| values.at(2 * place + side, Estimator::Floor);
            (at(0) - at(1)).max(0.0)
        };
        self.pages.iter().enumerate().map(|(place, &pages)| (pages, added(place))).collect()
    }
}

impl Experiment for Tlb {
    fn name(&self) -> &'static str {
        "TLB reach"
    }

    fn points(&self) -> usize {
        2 * self.chains.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let chain = &mut self.chains[point / 2][point % 2];
        chain.follow(chain.lines() as u64);
        let steps = LEAST_STEPS.max(chain.lines() as u64);
        let mut followed = 0;
        let reading = timed(|| followed = chain.follow(steps));
        Ok(reading.sample(reading.cycles() / followed as f64))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let points: Vec<(f64, f64)> = self
            .added(values)
            .into_iter()
            .filter(|(pages, _)| *pages <= self.most_pages)
            .map(|(pages, cycles)| (pages, BASE_CYCLES + cycles))
            .collect();
        let found = levels(&points, Some(LEVELS));
        let mut figures = BTreeMap::new();
        let mut add = |what, value| figures.insert(Figure::Core(self.core_type, what), value);
        let [first, between @ .., walk] = &found[..] else { return figures };
        if let Some(entries) = first.capacity {
            add(CoreFigure::TlbEntries(1), entries);
            add(CoreFigure::PageWalkCycles, walk.latency - first.latency);
        }
        if let [second] = between
            && let Some(entries) = second.capacity
        {
            add(CoreFigure::TlbEntries(2), entries);
            add(CoreFigure::TlbHitCycles(2), second.latency - first.latency);
        }
        figures
    }

    fn curves(&self, values: &Values<'_>) -> Vec<CurveShape> {
        let (kind, core_type) = (CurveKind::Tlb, self.core_type);
        vec![CurveShape { kind, core_type, points: self.added(values) }]
    }
}
