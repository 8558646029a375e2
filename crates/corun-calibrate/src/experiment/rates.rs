//! Rates: how many bytes a second one core, or all together, get out of a cache or memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::bench::{Sample, pin, timed, together, wall_time};
use crate::estimate::{Estimator, Values};
use crate::figure::{CacheFigure, CoreFigure, Figure, Rate};
use crate::kernel::{Access, LINE_BYTES, Zeros};
use crate::region::Region;
use crate::rounds::Experiment;

/// Bytes that a sample goes over at least, where they are in a cache.
const CACHED_BYTES: usize = 16 << 20;
/// Bytes of memory that one core goes over in a sample.
const MEMORY_BYTES: usize = 24 << 20;
/// Bytes that a core goes over before it looks at the time.
const CHUNK_BYTES: usize = 3 << 20;
/// Random loads of a sample of one core, and before it looks at the time.
const RANDOM_LOADS: u64 = 100_000;
const RANDOM_CHUNK: u64 = 5_000;
/// How long all cores are at it in a sample.
const TOGETHER: Duration = Duration::from_millis(12);

/// What is done to caches.
const CACHE_ACCESSES: [Access; 3] = [Access::Read, Access::Write, Access::Copy];
/// What is done to memory.
pub(crate) const MEMORY_RATES: [Rate; 6] =
    [Rate::Read, Rate::Write, Rate::NonTemporalWrite, Rate::Copy, Rate::Mixed, Rate::RandomRead];

fn mb_per_s(bytes: u64, ns: f64) -> f64 {
    bytes as f64 / ns * 1e3
}

/// Rates of one core of a type out of each cache and out of memory.
pub(crate) struct CoreRates {
    core_type: usize,
    cpu: CpuId,
    region: Arc<Region>,
    /// Level of a cache, and bytes of a set that hits there.
    caches: Vec<(u32, usize)>,
}

impl CoreRates {
    pub(crate) fn new(
        core_type: usize,
        cpu: CpuId,
        region: Arc<Region>,
        caches: Vec<(u32, usize)>,
    ) -> Self {
        Self { core_type, cpu, region, caches }
    }

    fn of_caches(&self) -> usize {
        self.caches.len() * CACHE_ACCESSES.len()
    }

    fn cached(&self, bytes: usize, access: Access) -> Sample {
        let mut zeros = self.region.lock();
        zeros.stream(access, 0, bytes);
        let laps = CACHED_BYTES.div_ceil(bytes);
        let mut done = 0;
        let reading =
            timed(|| done = (0..laps).map(|_| zeros.stream(access, 0, bytes)).sum::<u64>());
        reading.sample(mb_per_s(done, reading.ns))
    }

    fn out_of_memory(&self, rate: Rate) -> Sample {
        let mut zeros = self.region.lock();
        let mut done = 0;
        let reading = match access_of(rate) {
            Some(access) => {
                let bytes = MEMORY_BYTES.min(zeros.lines() * LINE_BYTES / 2);
                let first = self.region.next_bytes(bytes, zeros.lines());
                timed(|| done = zeros.stream(access, first, bytes))
            }
            None => {
                let mut state = random_state();
                timed(|| {
                    zeros.random_loads(RANDOM_LOADS, &mut state);
                    done = RANDOM_LOADS * LINE_BYTES as u64;
                })
            }
        };
        reading.sample(mb_per_s(done, reading.ns))
    }
}

impl Experiment for CoreRates {
    fn name(&self) -> &'static str {
        "bandwidth of one core"
    }

    fn points(&self) -> usize {
        self.of_caches() + MEMORY_RATES.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        Ok(match point.checked_sub(self.of_caches()) {
            Some(place) => self.out_of_memory(MEMORY_RATES[place]),
            None => {
                let (_, bytes) = self.caches[point / CACHE_ACCESSES.len()];
                self.cached(bytes, CACHE_ACCESSES[point % CACHE_ACCESSES.len()])
            }
        })
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let at = |point| values.at(point, Estimator::Ceiling);
        let mut figures = BTreeMap::new();
        for (cache, (level, _)) in self.caches.iter().enumerate() {
            for (place, &access) in CACHE_ACCESSES.iter().enumerate() {
                let what = CacheFigure::Rate(access.into());
                let figure = Figure::Cache(self.core_type, *level, what);
                figures.insert(figure, at(cache * CACHE_ACCESSES.len() + place));
            }
        }
        for (place, &rate) in MEMORY_RATES.iter().enumerate() {
            let figure = Figure::Core(self.core_type, CoreFigure::MemoryRate(rate));
            figures.insert(figure, at(self.of_caches() + place));
        }
        figures
    }
}

fn access_of(rate: Rate) -> Option<Access> {
    Some(match rate {
        Rate::Read => Access::Read,
        Rate::Write => Access::Write,
        Rate::NonTemporalWrite => Access::NonTemporalWrite,
        Rate::Copy => Access::Copy,
        Rate::Mixed => Access::Mixed,
        Rate::RandomRead => return None,
    })
}

/// The state of a random sequence that no earlier sample had, so that its lines are in no cache.
fn random_state() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64)
}

/// One core's part in what all do: over its own memory until the time is up. Bytes and ns.
pub(crate) fn until(
    zeros: &mut Zeros,
    access: Option<Access>,
    first: usize,
    over: &dyn Fn() -> bool,
) -> u64 {
    let bytes = zeros.lines() * LINE_BYTES;
    let mut at = first;
    let mut done = 0;
    let mut state = random_state();
    while !over() {
        match access {
            Some(access) => {
                if at + CHUNK_BYTES > bytes {
                    at = 0;
                }
                done += zeros.stream(access, at, CHUNK_BYTES.min(bytes));
                at += CHUNK_BYTES;
            }
            None => {
                zeros.random_loads(RANDOM_CHUNK, &mut state);
                done += RANDOM_CHUNK * LINE_BYTES as u64;
            }
        }
    }
    done
}

/// CPUs with memory of their own each.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// The CPUs.
    pub(crate) cpus: Vec<CpuId>,
    /// By CPU, the memory that it goes over.
    pub(crate) regions: Vec<Arc<Region>>,
}

/// What the CPUs of a group reach together.
pub(crate) struct GroupRates {
    group: Group,
    /// What each point measures, and the figure that it is.
    points: Vec<(Rate, Figure)>,
}

impl GroupRates {
    pub(crate) fn new(group: Group, points: Vec<(Rate, Figure)>) -> Self {
        Self { group, points }
    }
}

impl Experiment for GroupRates {
    fn name(&self) -> &'static str {
        "bandwidth of all cores"
    }

    fn points(&self) -> usize {
        self.points.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        let (rate, _) = self.points[point];
        let regions = &self.group.regions;
        let each = together(&self.group.cpus, |place| {
            let mut zeros = regions[place].lock();
            let lines = zeros.lines();
            let first = regions[place].next_bytes(CHUNK_BYTES, lines);
            let start = Instant::now();
            let mut done = 0;
            let (ns, disturbed) = wall_time(|| {
                done = until(&mut zeros, access_of(rate), first, &|| start.elapsed() >= TOGETHER);
            });
            (mb_per_s(done, ns), disturbed)
        })?;
        let disturbed = each.iter().any(|(_, disturbed)| *disturbed);
        Ok(Sample::new(each.iter().map(|(rate, _)| rate).sum(), disturbed))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let figure = |(point, (_, figure)): (usize, &(Rate, Figure))| {
            (*figure, values.at(point, Estimator::Ceiling))
        };
        self.points.iter().enumerate().map(figure).collect()
    }
}
