//! How much of its core a thread gets at this moment.

use std::time::Instant;

use corun_metrics::median;

use crate::kernel::{InstructionMix, dependent_adds, independent_instructions};

/// Looks, of which the median counts: one that was interrupted does not.
const LOOKS: usize = 9;
/// Some 5 and 20 us.
const DEPENDENT_ADDS: u64 = 1 << 14;
const INDEPENDENT_ADDS: u64 = 1 << 18;

/// Independent additions a cycle that the core of the calling thread's CPU does now. It takes less
/// than a millisecond.
///
/// A cycle is the time of a dependent addition, so that the clock does not matter. A core does fewer
/// while its other hardware thread is busy, also where that belongs to another virtual machine, of
/// which nothing else can be seen from here.
pub fn additions_per_cycle() -> f64 {
    let look = || {
        let dependent = ns_each(|| dependent_adds(DEPENDENT_ADDS));
        let independent =
            ns_each(|| independent_instructions(InstructionMix::Adds, INDEPENDENT_ADDS));
        dependent / independent
    };
    let mut looks: Vec<f64> = (0..LOOKS).map(|_| look()).collect();
    looks.sort_by(f64::total_cmp);
    median(&looks).unwrap_or(f64::NAN)
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

    /// No core does less than one or more than a few tens, whoever runs beside it.
    #[test]
    fn additions_come_in_a_number_that_a_core_can_have() {
        let found = additions_per_cycle();
        assert!(found > 0.3 && found < 40.0, "{found}");
    }
}
