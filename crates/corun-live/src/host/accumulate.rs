//! Rates over a policy's own interval, from readings taken more often.

use std::collections::BTreeMap;

use corun_policy::{Rates, Scope, ScopedRate, ThreadId};

use crate::{Observed, Reading};

/// A rate's integral and the time for which it was known.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    amount: f64,
    seconds: f64,
}

impl Sum {
    fn add(&mut self, rate: Option<f64>, seconds: f64) {
        if let Some(rate) = rate {
            self.amount += rate * seconds;
            self.seconds += seconds;
        }
    }

    fn rate(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.amount / self.seconds)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    cpu_share: Sum,
    instructions: Sum,
    cycles: Sum,
    references: Sum,
    misses: Sum,
    l1_accesses: Sum,
    branches: Sum,
    bytes: Sum,
    /// Stalled cycles where cycles are known, else the share itself over time.
    stalls: Sum,
    stall_cycles: Sum,
    retries: Sum,
    references_scope: Option<Scope>,
    misses_scope: Option<Scope>,
}

/// What each thread did since a policy's last decision.
#[derive(Debug, Default)]
pub(super) struct Accumulated(BTreeMap<ThreadId, Sums>);

impl Accumulated {
    pub(super) fn add(&mut self, seconds: f64, threads: &[Observed], readings: &[Reading]) {
        for (thread, reading) in threads.iter().zip(readings) {
            self.0.entry(thread.id).or_default().add(&reading.counters, seconds);
        }
    }

    /// The rates since it was closed last.
    pub(super) fn close(&mut self) -> BTreeMap<ThreadId, Rates> {
        std::mem::take(&mut self.0).into_iter().map(|(id, sums)| (id, sums.rates())).collect()
    }
}

impl Sums {
    fn add(&mut self, of: &Rates, seconds: f64) {
        self.cpu_share.add(of.cpu_share, seconds);
        self.instructions.add(of.instructions_per_s, seconds);
        self.cycles.add(of.cycles_per_s, seconds);
        self.references.add(of.llc_references.map(|rate| rate.per_s), seconds);
        self.misses.add(of.llc_misses.map(|rate| rate.per_s), seconds);
        self.l1_accesses.add(of.l1_accesses_per_s, seconds);
        self.branches.add(of.branches_per_s, seconds);
        self.bytes.add(of.memory_bytes_per_s, seconds);
        self.stalls.add(of.memory_stall_share, seconds);
        self.retries.add(of.memory_retries_per_s, seconds);
        let cycles = of.memory_stall_share.and(of.cycles_per_s);
        self.stall_cycles.add(cycles.zip(of.memory_stall_share).map(|(a, b)| a * b), seconds);
        self.references_scope = of.llc_references.map(|rate| rate.scope).or(self.references_scope);
        self.misses_scope = of.llc_misses.map(|rate| rate.scope).or(self.misses_scope);
    }

    fn rates(&self) -> Rates {
        let scoped = |sum: Sum, scope: Option<Scope>| {
            sum.rate().zip(scope).map(|(per_s, scope)| ScopedRate { per_s, scope })
        };
        let by_cycles = self.stall_cycles.rate().zip(self.cycles.rate());
        let by_cycles = by_cycles.filter(|(_, cycles)| *cycles > 0.0);
        Rates {
            cpu_share: self.cpu_share.rate(),
            spin_share: None,
            instructions_per_s: self.instructions.rate(),
            cycles_per_s: self.cycles.rate(),
            llc_references: scoped(self.references, self.references_scope),
            llc_misses: scoped(self.misses, self.misses_scope),
            l1_accesses_per_s: self.l1_accesses.rate(),
            branches_per_s: self.branches.rate(),
            memory_bytes_per_s: self.bytes.rate(),
            memory_stall_share: by_cycles.map(|(a, b)| a / b).or(self.stalls.rate()),
            memory_retries_per_s: self.retries.rate(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 s at 100 and 3 s at 200 instructions a second are 175 a second; what was unknown for a
    /// while is the rate over the time in which it was known.
    #[test]
    fn rates_are_weighed_by_time() {
        let mut sums = Sums::default();
        let counters = |rate, misses| Rates {
            instructions_per_s: Some(rate),
            llc_misses: misses,
            ..Rates::default()
        };
        let misses = ScopedRate { per_s: 8.0, scope: Scope::Demand };
        sums.add(&counters(100.0, None), 1.0);
        sums.add(&counters(200.0, Some(misses)), 3.0);
        let rates = sums.rates();
        assert_eq!(rates.instructions_per_s, Some(175.0));
        assert_eq!(rates.llc_misses, Some(misses));
        assert_eq!(rates.branches_per_s, None);
    }

    /// A quarter of 100 cycles and three quarters of 300 stalled: 250 of 400.
    #[test]
    fn stalls_are_shares_of_all_cycles() {
        let mut sums = Sums::default();
        for (cycles, share) in [(100.0, 0.25), (300.0, 0.75)] {
            let counters = Rates {
                cycles_per_s: Some(cycles),
                memory_stall_share: Some(share),
                ..Rates::default()
            };
            sums.add(&counters, 1.0);
        }
        assert_eq!(sums.rates().memory_stall_share, Some(0.625));
    }
}
