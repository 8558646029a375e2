//! What goes on around CPUs while something is measured on them: how far they are from each other, and who else uses their cores.

use corun_machine::{CpuId, Machine};

/// Of CPUs that are timed together so many are looked at, beside the first: who uses its core takes 0.3 ms, how far it is from
/// the first 0.2 ms and the start of two threads.
pub(crate) const LOOKED_AT: usize = 8;

/// Cores that no other thread should use while something is timed on them.
///
/// A hardware thread takes from the other thread of its core up to half of all that a core has. Of a virtual machine's CPUs that
/// other thread often belongs to another one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TimedCores {
    /// Their type, as an index.
    pub(crate) core_type: usize,
    /// A CPU of each.
    pub(crate) cpus: Vec<CpuId>,
}

impl TimedCores {
    /// One core.
    pub(crate) fn one(core_type: usize, cpu: CpuId) -> Self {
        Self { core_type, cpus: vec![cpu] }
    }

    /// Of the cores of these CPUs those of the first one's type, up to a few; none where there is no CPU.
    pub(crate) fn of(machine: &Machine, cpus: &[CpuId]) -> Option<Self> {
        let mut found: Option<(Self, Vec<usize>)> = None;
        for &cpu in cpus {
            let Some(index) = machine.cpu_index(cpu) else { continue };
            let one = machine.cpus()[index];
            let (timed, cores) = found.get_or_insert_with(|| {
                (Self { core_type: one.core_type, cpus: Vec::new() }, Vec::new())
            });
            let is_new = one.core_type == timed.core_type && !cores.contains(&one.core);
            if is_new && cores.len() <= LOOKED_AT {
                cores.push(one.core);
                timed.cpus.push(cpu);
            }
        }
        found.map(|(timed, _)| timed)
    }
}

/// What looks at CPUs have found.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Surroundings {
    /// The slowest transfer of a cache line between CPUs that are to share a cache, in ns; none where none have to.
    pub(crate) transfer_ns: Option<f64>,
    /// Additions a cycle of the core that did the fewest; none where it does not matter.
    pub(crate) additions_per_cycle: Option<f64>,
}

impl Surroundings {
    /// The worst of two looks at the same CPUs.
    pub(crate) fn and(self, other: Self) -> Self {
        let both = |one: Option<f64>, other: Option<f64>, of: fn(f64, f64) -> f64| {
            one.zip(other).map(|(one, other)| of(one, other))
        };
        Self {
            transfer_ns: both(self.transfer_ns, other.transfer_ns, f64::max),
            additions_per_cycle: both(
                self.additions_per_cycle,
                other.additions_per_cycle,
                f64::min,
            ),
        }
    }
}

/// Whether CPUs are as they should be. What is wrong first is worse: CPUs under several caches do not compete for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fit {
    /// They share the cache that they are to share.
    pub(crate) is_near: bool,
    /// No other thread uses their cores.
    pub(crate) is_free: bool,
}

impl Fit {
    /// All is as it should be.
    pub(crate) const GOOD: Self = Self { is_near: true, is_free: true };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_two_looks_counts() {
        let seen =
            |transfer_ns, additions_per_cycle| Surroundings { transfer_ns, additions_per_cycle };
        let both = seen(Some(40.0), Some(3.0)).and(seen(Some(90.0), Some(4.0)));
        assert_eq!(both, seen(Some(90.0), Some(3.0)));
        assert_eq!(seen(None, Some(2.0)).and(seen(None, Some(4.0))), seen(None, Some(2.0)));
    }

    #[test]
    fn what_is_near_is_better_than_what_is_free() {
        let fit = |is_near, is_free| Fit { is_near, is_free };
        assert!(fit(false, true) < fit(true, false) && fit(true, false) < Fit::GOOD);
    }

    #[test]
    fn one_cpu_of_each_core_of_a_type_is_looked_at() {
        // P cores of two threads (CPUs 0 to 15), E cores from 16 on.
        let machine = corun_machine::preset("core-i9-12900k").unwrap();
        let cpus = [0, 1, 2, 16, 4].map(CpuId);
        let timed = TimedCores::of(&machine, &cpus).unwrap();
        assert_eq!((timed.core_type, timed.cpus), (0, [0, 2, 4].map(CpuId).to_vec()));
        assert_eq!(TimedCores::of(&machine, &[]), None);
        let machine = corun_machine::preset("2x-gold-6138-4c").unwrap();
        let all: Vec<CpuId> = (0..64).map(CpuId).collect();
        assert!(TimedCores::of(&machine, &all).unwrap().cpus.len() <= 1 + LOOKED_AT);
    }
}
