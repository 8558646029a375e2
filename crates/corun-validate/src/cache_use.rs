//! How often groups shared a cache.

use corun_calibrate::Nearness;
use serde::{Deserialize, Serialize};

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
    /// Of the transfers, in ns, of all runs of groups.
    pub(crate) fn of(transfers_ns: &[f64], nearness: Nearness) -> Self {
        let Some(fastest) = transfers_ns.iter().copied().reduce(f64::min) else {
            return Self::default();
        };
        let apart_runs = transfers_ns.iter().filter(|&&ns| !nearness.is_near(ns)).count();
        Self { line_transfer_ns: fastest, runs: transfers_ns.len(), apart_runs }
    }
}
