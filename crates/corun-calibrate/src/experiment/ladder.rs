//! The latency ladder: pointer chases in random order over sets of ascending size.

use std::collections::BTreeMap;
use std::time::Instant;

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::analysis::caches::CacheLadder;
use crate::analysis::ladder::{Level, assigned, levels};
use crate::bench::{Sample, pin, timed};
use crate::chains::{AT_ONCE, RandomChains};
use crate::estimate::{Estimator, Values};
use crate::figure::{CacheFigure, CoreFigure, Figure};
use crate::kernel::{Chain, LINE_BYTES};
use crate::rounds::{CurveKind, CurveShape, Experiment};
use corun_metrics::median;

/// Pointers that a sample follows.
const STEPS: u64 = 40_000;
/// Sets up to so many times the LLC are gone through before they are timed, so that the caches hold what
/// they hold of them in the long run.
const WARM_BEYOND_LLC: f64 = 1.3;
/// How often those are gone through that the private caches do not hold. A shared cache that keeps what
/// was used again gives a line that comes from memory for the first time away early: on a Zen 5, half the
/// lines of a set of 4 MiB that was gone through once, and next to none after a few times.
const WARM_PASSES: u64 = 4;

/// Of the lines gone through before, as many as the private caches hold are still there, out of each part of the set some.
/// So many times as many lines are then followed one by one, those right before the timed ones, so that none of these is
/// found where the warming left it.
const PUSHED_OUT: f64 = 2.0;

/// How much larger than the private caches a set is of which hardly anything hits there.
const BEYOND_PRIVATE_CACHES: f64 = 3.0;
/// Loads that are timed together, and how many such pairs: of known hits and misses, and of a set
/// that may be both.
const PAIR: usize = 2;
const FEW_PAIRS: usize = 500;
const MANY_PAIRS: usize = 4000;
/// The part of a miss's further time from which on a pair counts as one with a miss: two hits take
/// less, and the fastest misses more.
const MISS_SHARE: f64 = 0.6;
/// The fewest pairs of hits that tell their latency.
const LEAST_HITS: usize = 200;

/// Times in ns of so many pairs of loads, each with the time of looking at the clock.
fn pairs(chain: &mut Chain, count: usize) -> Vec<f64> {
    let time = |_| {
        let start = Instant::now();
        (0..PAIR).for_each(|_| chain.follow_one());
        start.elapsed().as_nanos() as f64
    };
    (0..count).map(time).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The ladder of a core type's cores.
pub(crate) struct Ladder {
    core_type: usize,
    cpu: CpuId,
    /// Levels of the caches that Linux shows, nearest first, with their sizes in bytes.
    caches: Vec<(u32, f64)>,
    sizes: Vec<f64>,
    chains: Vec<Chain>,
    /// Of sets beyond the private caches and up to the LLC: places at equal distances; else none.
    warming: Vec<Vec<Chain>>,
    /// As many lines push out of the private caches what is there.
    pushing_lines: u64,
    /// Sets whose loads are timed in pairs: those of the cache before the last one, of the last one,
    /// and of memory.
    pair_sets: [usize; 3],
}

impl Ladder {
    pub(crate) fn new(
        core_type: usize,
        cpu: CpuId,
        caches: Vec<(u32, f64)>,
        random: &RandomChains,
    ) -> Self {
        let bytes = |&lines: &usize| (lines * LINE_BYTES) as f64;
        let sizes: Vec<f64> = random.sizes().iter().map(bytes).collect();
        let chains = (0..sizes.len()).map(|size| random.places(size, 1).remove(0)).collect();
        let lines = |bytes: f64| (bytes / LINE_BYTES as f64) as usize;
        let private = caches.len().checked_sub(2).map_or(sizes[0], |place| caches[place].1);
        let pair_sets = [private / 3.0, private * BEYOND_PRIVATE_CACHES, f64::MAX]
            .map(|bytes| random.of_at_least(lines(bytes)));
        let llc = caches.last().map_or(0.0, |cache| cache.1);
        let warming = (0..sizes.len()).map(|size| match sizes[size] {
            bytes if bytes > private && bytes <= llc * WARM_BEYOND_LLC => {
                random.places(size, AT_ONCE)
            }
            _ => Vec::new(),
        });
        let warming = warming.collect();
        let pushing_lines = lines(PUSHED_OUT * private) as u64;
        Self { core_type, cpu, caches, sizes, chains, warming, pushing_lines, pair_sets }
    }

    /// Brings into the shared cache what it holds of a set in the long run, and leaves in the private ones what they hold
    /// of it when it is gone through one by one.
    fn warm(&mut self, set: usize) {
        let lines = self.chains[set].lines() as u64;
        match &mut self.warming[set][..] {
            [] => {
                self.chains[set].follow(lines);
            }
            places => {
                let part = lines.div_ceil(places.len() as u64);
                Chain::follow_together(places, WARM_PASSES * part);
                self.chains[set].follow(self.pushing_lines.min(lines));
            }
        }
    }

    /// The mean latency of a set.
    fn mean_latency(&mut self, point: usize) -> Sample {
        let llc = self.caches.last().map_or(0.0, |cache| cache.1);
        if self.sizes[point] <= llc * WARM_BEYOND_LLC {
            self.warm(point);
        }
        let chain = &mut self.chains[point];
        let mut followed = 0;
        let reading = timed(|| followed = chain.follow(STEPS));
        reading.sample(reading.cycles() / followed as f64)
    }

    /// How many cycles more a hit in the last cache takes than one in the cache before.
    ///
    /// Pairs of loads are timed one by one: of a set that the last cache holds if others leave it
    /// room, of one that the cache before holds, and of memory. A pair with a miss takes longer than
    /// one that hits the cache before, by a memory latency or more. The clock may be coarse (10 ns on
    /// some), but its steps fall anywhere, so that means are right.
    fn last_hit(&mut self) -> Sample {
        let [near, set, far] = self.pair_sets;
        let mut more_ns = f64::NAN;
        let reading = timed(|| {
            let far = median(&pairs(&mut self.chains[far], FEW_PAIRS)).unwrap_or(f64::NAN);
            // Each set comes into its cache right before: one pushes the other out.
            let lines = self.chains[near].lines() as u64;
            self.chains[near].follow(2 * lines);
            let near = mean(&pairs(&mut self.chains[near], FEW_PAIRS));
            self.warm(set);
            let mut times = pairs(&mut self.chains[set], MANY_PAIRS);
            let miss = near + MISS_SHARE * (far - near) / PAIR as f64;
            times.retain(|ns| *ns < miss);
            if times.len() >= LEAST_HITS {
                more_ns = (mean(&times) - near) / PAIR as f64;
            }
        });
        reading.sample(more_ns * reading.cycles_per_ns)
    }

    fn found(&self, values: &Values<'_>) -> Vec<(Level, u32)> {
        let points = 0..self.sizes.len();
        let typical = values.of(points.clone(), Estimator::Typical);
        let floor = values.of(points, Estimator::Floor);
        let caches: Vec<f64> = self.caches.iter().map(|cache| cache.1).collect();
        let last_hit_more = values.at(self.sizes.len(), Estimator::Typical);
        let ladder =
            CacheLadder { sizes: &self.sizes, floor: &floor, typical: &typical, last_hit_more };
        let found = ladder.levels(&caches).unwrap_or_else(|| {
            let points: Vec<(f64, f64)> = self.sizes.iter().copied().zip(typical).collect();
            levels(&points, None)
        });
        assigned(&found, &self.caches)
    }
}

impl Experiment for Ladder {
    fn name(&self) -> &'static str {
        "latency ladder"
    }

    fn points(&self) -> usize {
        self.sizes.len() + 1
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        Ok(if point < self.sizes.len() { self.mean_latency(point) } else { self.last_hit() })
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let mut figures = BTreeMap::new();
        for (place, (level, cache)) in self.found(values).into_iter().enumerate() {
            let mut add = |what, value| {
                figures.insert(Figure::Cache(self.core_type, cache, what), value);
            };
            add(CacheFigure::LatencyCycles, level.latency);
            if let Some(held) = level.capacity {
                add(CacheFigure::EffectiveKib, held / 1024.0);
            }
            if place == 0 {
                figures.insert(Figure::Core(self.core_type, CoreFigure::LoadCycles), level.latency);
            }
        }
        figures
    }

    fn curves(&self, values: &Values<'_>) -> Vec<CurveShape> {
        let typical = values.of(0..self.sizes.len(), Estimator::Typical);
        vec![CurveShape {
            kind: CurveKind::Ladder,
            core_type: self.core_type,
            points: self.sizes.iter().copied().zip(typical).collect(),
        }]
    }
}
