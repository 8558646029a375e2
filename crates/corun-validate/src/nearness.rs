//! Whether CPUs share a cache just now.
//!
//! The processors of a virtual machine are threads of its host, which moves them as it likes: two of them that are said to
//! share a last-level cache can be under two. Nothing here tells that but the time of a cache line from one to
//! the other.

use std::io;

use corun_calibrate::line_transfer_ns;
use corun_machine::CpuId;
use serde::{Deserialize, Serialize};

use crate::once::RunError;

/// Of the fastest transfer that is known of the machine or was seen, one under the same cache takes at most so many times. On a Zen 5: 40 to 63 ns
/// under one, 172 to 243 between two.
const NEAR: f64 = 2.5;

/// Does who transfers a line in `ns` share a cache, where the fastest took `least_ns`?
pub(crate) fn is_near(ns: f64, least_ns: f64) -> bool {
    ns <= NEAR * least_ns
}

/// How often groups shared a cache.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct CacheUse {
    /// Nanoseconds of the fastest transfer of a cache line between members' CPUs; 0 where none was timed.
    pub line_transfer_ns: f64,
    /// Timed runs of groups, repeated ones included.
    pub runs: usize,
    /// Of these, runs before or after which a line took so long that the CPUs did not share a cache.
    pub apart_runs: usize,
}

impl CacheUse {
    /// Of the transfers, in ns, of all runs of groups, beside the fastest that is known.
    pub(crate) fn of(transfers_ns: &[f64], least_ns: f64) -> Self {
        let Some(fastest) = transfers_ns.iter().copied().reduce(f64::min) else {
            return Self::default();
        };
        let apart_runs = transfers_ns.iter().filter(|&&ns| !is_near(ns, least_ns)).count();
        Self { line_transfer_ns: fastest, runs: transfers_ns.len(), apart_runs }
    }
}

/// Nanoseconds for which a cache line takes from the first of these CPUs to the farthest of the others; 0 where there is none.
pub(crate) fn farthest_transfer_ns(cpus: &[u32]) -> Result<f64, RunError> {
    let Some((&first, others)) = cpus.split_first() else { return Ok(0.0) };
    let refused = |error| RunError::System {
        what: "timing a cache line between CPUs",
        source: io::Error::other(error),
    };
    let mut farthest = 0.0f64;
    for &other in others.iter().filter(|&&other| other != first) {
        let pair = [first, other].map(CpuId);
        farthest = farthest.max(line_transfer_ns(pair).map_err(refused)?);
    }
    Ok(farthest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_shared_where_a_line_takes_little_longer_than_the_fastest() {
        assert!(is_near(40.0, 40.0) && is_near(63.0, 40.0));
        assert!(!is_near(172.0, 40.0));
    }

    #[test]
    fn a_line_takes_its_time_to_another_cpu_and_none_to_the_same() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cpus: Vec<u32> = (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|&cpu| allowed.is_set(cpu))
            .map(|cpu| cpu as u32)
            .take(2)
            .collect();
        let found = farthest_transfer_ns(&cpus).unwrap();
        assert_eq!(found > 0.0, cpus.len() == 2, "{found}");
        assert_eq!(farthest_transfer_ns(&[cpus[0], cpus[0]]).unwrap(), 0.0);
        assert_eq!(farthest_transfer_ns(&[]).unwrap(), 0.0);
    }
}
