//! How much of its core a thread gets at this moment, and at which clock.

use std::time::Instant;

use corun_metrics::median;

use crate::kernel::{InstructionMix, dependent_adds, independent_instructions};

/// How a core is looked at.
struct Looks {
    /// So many times, of which the median counts: one that was interrupted does not.
    times: usize,
    dependent_adds: u64,
    independent_adds: u64,
}

/// Some 25 us each.
const LONG: Looks = Looks { times: 9, dependent_adds: 1 << 14, independent_adds: 1 << 18 };
/// Some 4 us each: so little that a program does not notice it that is running on that CPU.
const SHORT: Looks = Looks { times: 3, dependent_adds: 1 << 12, independent_adds: 1 << 15 };

/// Of the most additions a cycle that were seen, a core that no other thread uses does at least this
/// share: half busy siblings cost a tenth and more, and two looks at a free core differ by a hundredth.
const FREE_SHARE: f64 = 0.93;

/// Tells by additions a cycle whether a thread has its core for itself, of cores of one type. The most that were seen are the
/// reference, and are not known from the start: a core that was free by the first looks can turn out to have been shared.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FreeCore {
    most: f64,
}

impl FreeCore {
    /// `known`: additions a cycle of a free core, where they are known of this machine.
    pub fn new(known: Option<f64>) -> Self {
        Self { most: known.unwrap_or_default() }
    }

    /// Takes a look that found so many additions a cycle into account.
    pub fn learn(&mut self, additions_per_cycle: f64) {
        self.most = self.most.max(additions_per_cycle);
    }

    /// Is a core free that does so many additions a cycle, by what is known so far?
    pub fn is_free(&self, additions_per_cycle: f64) -> bool {
        additions_per_cycle >= FREE_SHARE * self.most
    }

    /// The most additions a cycle that are known; 0 before the first look.
    pub fn additions_per_cycle(&self) -> f64 {
        self.most
    }
}

/// What a core does at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CoreLook {
    /// Independent additions a cycle. A core does fewer while its other hardware thread is busy, also where that belongs
    /// to another virtual machine, of which nothing else can be seen from here.
    pub additions_per_cycle: f64,
    /// The clock: dependent additions in a microsecond.
    pub clock_mhz: f64,
}

/// Looks at the core of the calling thread's CPU. It takes less than a millisecond.
pub fn look_at_core() -> CoreLook {
    look(&LONG)
}

/// The same in some 12 us, less exactly.
pub fn glance_at_core() -> CoreLook {
    look(&SHORT)
}

fn look(looks: &Looks) -> CoreLook {
    let one = |_| {
        let dependent_ns = ns_each(|| dependent_adds(looks.dependent_adds));
        let independent_ns =
            ns_each(|| independent_instructions(InstructionMix::Adds, looks.independent_adds));
        (dependent_ns / independent_ns, 1e3 / dependent_ns)
    };
    let (additions, clocks): (Vec<f64>, Vec<f64>) = (0..looks.times).map(one).unzip();
    let typical = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    CoreLook { additions_per_cycle: typical(&additions), clock_mhz: typical(&clocks) }
}

/// Time of one of what the work counts.
fn ns_each(work: impl FnOnce() -> u64) -> f64 {
    let start = Instant::now();
    let count = work();
    start.elapsed().as_nanos().max(1) as f64 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_free_that_does_nearly_the_most() {
        let mut core = FreeCore::new(None);
        assert!(core.is_free(2.0), "nothing better is known");
        core.learn(2.5);
        core.learn(4.0);
        core.learn(f64::NAN);
        assert_eq!(core.additions_per_cycle(), 4.0);
        // 0.93 of 4.
        assert!(core.is_free(3.73) && !core.is_free(3.71) && !core.is_free(f64::NAN));
        assert!(!FreeCore::new(Some(4.75)).is_free(4.0));
    }

    /// No core does less than one addition a cycle or more than a few tens, or has a clock of 20 GHz, whoever runs beside it.
    #[test]
    fn a_core_does_what_a_core_can_do() {
        for found in [look_at_core(), glance_at_core()] {
            let additions = found.additions_per_cycle;
            assert!(additions > 0.3 && additions < 40.0, "{found:?}");
            assert!(found.clock_mhz > 0.0 && found.clock_mhz < 20_000.0, "{found:?}");
        }
    }
}
