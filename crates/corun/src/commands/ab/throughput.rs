//! What the programs get done, in instructions a second, where no other metric is given.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_live::ab::SubjectError;
use corun_live::{Host, Target};
use corun_policy::{CounterKind, Nanoseconds};

use super::whose::Whose;
use crate::failure::{Failure, Outcome};
use corun_hosting::Look;

/// Counts instructions beside the policy's own host, whether that is there or not.
pub(super) struct Throughput {
    host: Host,
}

impl Throughput {
    /// Makes ready to count. `every_s`: time between two readings.
    pub(super) fn new(whose: &Whose, every_s: f64) -> Outcome<Self> {
        let counters = vec![CounterKind::Instructions];
        let look = Look { every: Nanoseconds::from_secs_f64(every_s), counters };
        let host = whose.onlooker(&look)?;
        if !host.counters().contains(&CounterKind::Instructions) {
            return Err(Failure::input(
                "no metric, and nothing here counts the programs' instructions",
            )
            .hint("--count done='wc -l < OUTPUT', or whatever prints how much is done so far")
            .hint("--metric NAME=CMD, where CMD prints one number")
            .hint("--prometheus URL --query NAME=PROMQL")
            .hint("corun doctor says why there are no counters"));
        }
        Ok(Self { host })
    }

    /// Counts a program too that was started just now.
    pub(super) fn follow(&mut self, target: Target) -> Result<(), SubjectError> {
        self.host.add(target).map_err(|error| SubjectError(error.to_string()))
    }

    /// Instructions a second of each program since the last call; none at the first, and none of a
    /// program of which nothing is known.
    pub(super) fn measure(&mut self) -> Result<Vec<(String, f64)>, SubjectError> {
        self.host.tick().map_err(|error| SubjectError(error.to_string()))?;
        let mut sums: BTreeMap<usize, f64> = BTreeMap::new();
        for sampled in self.host.threads() {
            if let Some(rate) = sampled.rates.instructions_per_s {
                *sums.entry(sampled.thread.target).or_default() += rate;
            }
        }
        let name = |target: usize| Arc::clone(&self.host.targets()[target].name);
        Ok(sums.into_iter().map(|(target, rate)| (name(target).to_string(), rate)).collect())
    }
}
