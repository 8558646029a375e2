//! Whether CPUs share a cache just now.
//!
//! The processors of a virtual machine are threads of its host, which moves them as it likes: two of them that are said to
//! share a last-level cache can be under two. Nothing here tells that but the time of a cache line from one to
//! the other.

use std::time::Duration;

use corun_machine::{CpuId, LineTransfer, Machine};

use crate::CalibrateError;
use crate::bench::pin;
use crate::experiment::transfer::line_transfer_ns;
use crate::surroundings::{Fit, LOOKED_AT, Surroundings, TimedCores};
use crate::throughput::{FreeCore, look_at_core};

/// Of the fastest transfer that is known of the machine or was seen, one under the same cache takes at most so many times. On a Zen 5: 22 to 68 ns
/// under one, as cores and lines are near or far in it, and 171 to 243 between two.
const NEAR: f64 = 4.0;

/// Tells by the time of a transfer whether CPUs share a cache. The fastest transfer is the reference, and is not known from
/// the start: what was near by the first transfers can turn out to have been apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nearness {
    fastest_ns: f64,
    limit_ns: f64,
}

impl Nearness {
    /// `known_ns`: a transfer between CPUs that shared the cache, in ns, where one is known of this machine.
    pub fn new(known_ns: Option<f64>) -> Self {
        Self { fastest_ns: known_ns.unwrap_or(f64::INFINITY), limit_ns: f64::INFINITY }
    }

    /// Takes a transfer of so many ns into account.
    pub fn learn(&mut self, ns: f64) {
        self.fastest_ns = self.fastest_ns.min(ns);
    }

    /// A transfer that takes so many ns or more is between two caches, whatever the fastest takes.
    pub(crate) fn limit(&mut self, ns: f64) {
        self.limit_ns = ns;
    }

    /// Do CPUs between which a cache line takes so many ns share the cache, by what is known so far?
    pub fn is_near(&self, ns: f64) -> bool {
        ns <= NEAR * self.fastest_ns && ns < self.limit_ns
    }
}

/// Nanoseconds for which a cache line takes from the first of these CPUs to the farthest of the others; 0 where there is none.
///
/// # Errors
/// When a thread cannot be held on its CPU.
pub fn farthest_transfer_ns(cpus: &[CpuId]) -> Result<f64, CalibrateError> {
    let Some((&first, others)) = cpus.split_first() else { return Ok(0.0) };
    let mut farthest = 0.0f64;
    for &other in others.iter().filter(|&&other| other != first) {
        farthest = farthest.max(line_transfer_ns([first, other])?);
    }
    Ok(farthest)
}

/// Which caches CPUs are to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedCache {
    /// Those of one core: the CPUs are its hardware threads.
    OfCore,
    /// A last-level cache: the CPUs are of different cores.
    Last,
}

/// By what looks are judged.
#[derive(Debug, Clone)]
pub(crate) struct References {
    of_core: Nearness,
    last: Nearness,
    /// By core type.
    cores: Vec<FreeCore>,
}

impl References {
    /// Those of a machine of which so much is known: transfers, and additions a cycle of a free core by core type.
    pub(crate) fn new(known: LineTransfer, additions_per_cycle: &[Option<f64>]) -> Self {
        Self {
            of_core: Nearness::new(known.same_core_ns),
            last: Nearness::new(known.same_llc_ns),
            cores: additions_per_cycle.iter().map(|&known| FreeCore::new(known)).collect(),
        }
    }

    /// Those of a machine of which an earlier calibration is known, or nothing.
    pub(crate) fn of_machine(found: &Machine, known: Option<&Machine>) -> Self {
        let transfers = known.and_then(|known| known.spec().line_transfer).unwrap_or_default();
        let additions = |core_type: usize| {
            let one = known?.spec().core_types.get(core_type)?;
            one.execution.as_ref()?.additions_per_cycle
        };
        let core_types = 0..found.core_types().len();
        Self::new(transfers, &core_types.map(additions).collect::<Vec<_>>())
    }

    /// Of the cores of a type.
    pub(crate) fn core_mut(&mut self, core_type: usize) -> &mut FreeCore {
        &mut self.cores[core_type]
    }

    /// Of the cores of a type.
    pub(crate) fn core(&self, core_type: usize) -> FreeCore {
        self.cores[core_type]
    }

    /// Are CPUs as they should be around which so much was seen?
    pub(crate) fn fit(
        &self,
        seen: Surroundings,
        sharers: Option<&Sharers>,
        cores: Option<&TimedCores>,
    ) -> Fit {
        let nearness = sharers.map(|sharers| self.of(sharers.cache));
        let core = cores.map(|cores| self.core(cores.core_type));
        let is_near = nearness.zip(seen.transfer_ns).is_none_or(|(one, ns)| one.is_near(ns));
        let is_free = core.zip(seen.additions_per_cycle).is_none_or(|(one, a)| one.is_free(a));
        Fit { is_near, is_free }
    }

    pub(crate) fn of(&self, cache: SharedCache) -> Nearness {
        match cache {
            SharedCache::OfCore => self.of_core,
            SharedCache::Last => self.last,
        }
    }

    pub(crate) fn of_mut(&mut self, cache: SharedCache) -> &mut Nearness {
        match cache {
            SharedCache::OfCore => &mut self.of_core,
            SharedCache::Last => &mut self.last,
        }
    }
}

/// What looks how far CPUs are from each other, and how much of its core each gets.
pub(crate) trait Looks {
    /// Nanoseconds of a cache line from the first CPU to the farthest of the others.
    fn farthest_ns(&mut self, cpus: &[CpuId]) -> Result<f64, CalibrateError>;

    /// Additions a cycle of that CPU which does the fewest, one after the other.
    fn additions_per_cycle(&mut self, cpus: &[CpuId]) -> Result<f64, CalibrateError>;

    /// Lets some time go by in which the host may move CPUs.
    fn wait(&mut self);
}

/// Looks at the CPUs of this machine.
pub(crate) struct ThisMachine;

/// Between two looks at CPUs that are waited for.
const WAIT: Duration = Duration::from_millis(20);

impl Looks for ThisMachine {
    fn farthest_ns(&mut self, cpus: &[CpuId]) -> Result<f64, CalibrateError> {
        farthest_transfer_ns(cpus)
    }

    fn additions_per_cycle(&mut self, cpus: &[CpuId]) -> Result<f64, CalibrateError> {
        let mut fewest = f64::INFINITY;
        for &cpu in cpus {
            pin(cpu)?;
            fewest = fewest.min(look_at_core().additions_per_cycle);
        }
        Ok(fewest)
    }

    fn wait(&mut self) {
        std::thread::sleep(WAIT);
    }
}

/// CPUs that have to share caches while something is measured on them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sharers {
    /// Which caches.
    pub(crate) cache: SharedCache,
    /// By cache, the CPUs that share it, at least two.
    pub(crate) groups: Vec<Vec<CpuId>>,
}

impl Sharers {
    /// The hardware threads of a core; none where there is but one.
    pub(crate) fn of_core(threads: &[CpuId]) -> Option<Self> {
        let groups = vec![threads.to_vec()];
        (threads.len() > 1).then_some(Self { cache: SharedCache::OfCore, groups })
    }

    /// Of these CPUs those that Linux shows under one last-level cache, one of each core; none where no two are. Where Linux shows no
    /// cache, nobody knows who shares one.
    pub(crate) fn of_last_cache(machine: &Machine, cpus: &[CpuId]) -> Option<Self> {
        let mut groups: Vec<(usize, Vec<usize>, Vec<CpuId>)> = Vec::new();
        for &cpu in cpus {
            let Some(index) = machine.cpu_index(cpu) else { continue };
            let found = machine.cpus()[index];
            if machine.llcs()[found.llc].cache.is_none() {
                continue;
            }
            match groups.iter_mut().find(|(llc, ..)| *llc == found.llc) {
                None => groups.push((found.llc, vec![found.core], vec![cpu])),
                Some((_, cores, members)) => {
                    if !cores.contains(&found.core) && members.len() <= LOOKED_AT {
                        cores.push(found.core);
                        members.push(cpu);
                    }
                }
            }
        }
        let groups: Vec<Vec<CpuId>> =
            groups.into_iter().map(|group| group.2).filter(|members| members.len() > 1).collect();
        (!groups.is_empty()).then_some(Self { cache: SharedCache::Last, groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_shared_where_a_line_takes_little_longer_than_the_fastest() {
        let mut nearness = Nearness::new(None);
        assert!(nearness.is_near(180.0), "nothing is known");
        nearness.learn(180.0);
        nearness.learn(40.0);
        nearness.learn(55.0);
        assert!(nearness.is_near(40.0) && nearness.is_near(68.0));
        assert!(!nearness.is_near(172.0));
        assert!(!Nearness::new(Some(40.0)).is_near(172.0));
    }

    #[test]
    fn what_takes_as_long_as_memory_is_not_near() {
        let mut nearness = Nearness::new(None);
        nearness.learn(180.0);
        nearness.limit(120.0);
        assert!(!nearness.is_near(180.0));
        nearness.learn(40.0);
        assert!(nearness.is_near(90.0) && !nearness.is_near(125.0));
    }

    #[test]
    fn who_shares_a_cache_is_told_by_the_topology() {
        // Cores of two threads, eight cores to a cache.
        let machine = corun_machine::preset("epyc-9554").unwrap();
        let cpus: Vec<CpuId> = [0, 1, 2, 5, 16, 32, 34].map(CpuId).to_vec();
        let sharers = Sharers::of_last_cache(&machine, &cpus).unwrap();
        assert_eq!(sharers.cache, SharedCache::Last);
        assert_eq!(sharers.groups, [[0, 2, 5].map(CpuId).to_vec(), [32, 34].map(CpuId).to_vec()]);
        assert_eq!(Sharers::of_last_cache(&machine, &[CpuId(0), CpuId(1)]), None, "one core");
        let all: Vec<CpuId> = (0..64).map(|core| CpuId(2 * core)).collect();
        let groups = Sharers::of_last_cache(&machine, &all).unwrap().groups;
        assert_eq!((groups.len(), groups[0].len()), (8, 8));
        // 32 cores under one.
        let machine = corun_machine::preset("2x-gold-6138-4c").unwrap();
        assert!(Sharers::of_last_cache(&machine, &all).unwrap().groups[0].len() <= 1 + LOOKED_AT);
    }

    #[test]
    fn threads_share_what_their_core_has() {
        let threads = [CpuId(0), CpuId(1)];
        let sharers = Sharers::of_core(&threads).unwrap();
        assert_eq!((sharers.cache, sharers.groups), (SharedCache::OfCore, vec![threads.to_vec()]));
        assert_eq!(Sharers::of_core(&threads[..1]), None);
    }

    #[test]
    fn a_line_takes_its_time_to_another_cpu_and_none_to_the_same() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpus: Vec<CpuId> = (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|&cpu| allowed.is_set(cpu))
            .map(|cpu| CpuId(cpu as u32))
            .take(2)
            .collect();
        let found = farthest_transfer_ns(&cpus).unwrap();
        assert_eq!(found > 0.0, cpus.len() == 2, "{found}");
        assert_eq!(farthest_transfer_ns(&[cpus[0], cpus[0]]).unwrap(), 0.0);
        assert_eq!(farthest_transfer_ns(&[]).unwrap(), 0.0);
    }
}
