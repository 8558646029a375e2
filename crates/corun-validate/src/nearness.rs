//! Whether CPUs share a cache just now.
//!
//! The processors of a virtual machine are threads of its host, which moves them as it likes: two of them that are said to
//! share a last-level cache can be under two. Nothing here tells that but the time of a cache line from one to
//! the other.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::once::{RunError, bind};

/// Of the fastest transfer that is known of the machine or was seen, one under the same cache takes at most so many times. On a Zen 5: 40 to 63 ns
/// under one, 172 to 243 between two.
const NEAR: f64 = 2.5;

/// Looks, whose median counts, and trips there and back in each.
const LOOKS: u32 = 15;
const TRIPS: u32 = 200;

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

/// A number on cache lines of its own.
#[repr(align(128))]
struct Line(AtomicU32);

/// Nanoseconds for which a cache line takes from the first of these CPUs to the farthest of the others; 0 where there is none.
pub(crate) fn line_transfer_ns(cpus: &[u32]) -> Result<f64, RunError> {
    let Some((&first, others)) = cpus.split_first() else { return Ok(0.0) };
    let mut farthest = 0.0f64;
    for &other in others.iter().filter(|&&other| other != first) {
        farthest = farthest.max(between(first, other)?);
    }
    Ok(farthest)
}

fn between(one: u32, other: u32) -> Result<f64, RunError> {
    let line = Line(AtomicU32::new(0));
    let bound_answer = |cpu, offset| {
        let bound = bind(cpu);
        // Also where it is not bound: the other one waits.
        let looks = answer(&line, offset);
        bound.map(|()| looks)
    };
    let (looks, answered) = thread::scope(|scope| {
        let answering = scope.spawn(|| bound_answer(other, 1));
        let asking = scope.spawn(|| bound_answer(one, 0));
        (asking.join(), answering.join())
    });
    answered.unwrap_or(Err(RunError::Stopped))?;
    let looks = looks.unwrap_or(Err(RunError::Stopped))?;
    Ok(corun_metrics::median(&looks).unwrap_or(f64::INFINITY))
}

/// Waits for a number and answers with the next; who has the offset 0 begins. Nanoseconds a transfer, by look.
fn answer(line: &Line, offset: u32) -> Vec<f64> {
    let look = |look: u32| {
        let begun = Instant::now();
        for trip in 0..TRIPS {
            let turn = 2 * (look * TRIPS + trip) + offset;
            while line.0.load(Ordering::Acquire) != turn {
                spin_loop();
            }
            line.0.store(turn + 1, Ordering::Release);
        }
        begun.elapsed().as_nanos() as f64 / f64::from(2 * TRIPS)
    };
    (0..LOOKS).map(look).collect()
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
        let found = line_transfer_ns(&cpus).unwrap();
        assert_eq!(found > 0.0, cpus.len() == 2, "{found}");
        assert_eq!(line_transfer_ns(&[cpus[0], cpus[0]]).unwrap(), 0.0);
        assert_eq!(line_transfer_ns(&[]).unwrap(), 0.0);
    }
}
