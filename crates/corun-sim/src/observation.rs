//! What policies learn of the simulated machine, and when.

use std::collections::BTreeMap;

use corun_policy::{
    ActionKind, CounterKind, Counts, Nanoseconds, Policy, Scope, ThreadId, ThreadState, Totals,
};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::SimError;

/// A policy's view of the simulated machine, made as poor as that of a real machine.
///
/// Without an observation a policy hears of every event of the scheduler at once, and all counts are exact.
/// With one the machine is looked at in ticks, as `corun run` looks at a real machine: who came and went is
/// known at the next tick, sleeping, waking and switches are no events, and a thread runs if it had a CPU
/// since the tick before. Weights are those of nice values. A thread that comes to a partitioned LLC has all
/// its ways until it is given a part. What is drawn is drawn from the experiment's seed.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Time between two ticks where no policy's interval ends earlier; above 0.
    pub tick_every: Nanoseconds,
    /// A tick comes late by up to this, each delay alike likely.
    pub latest: Nanoseconds,
    /// The shortest next interval that a policy gets when it asks for one.
    pub shortest: Nanoseconds,
    /// Counters that this machine does not have. A policy that needs one does not start.
    pub missing: Vec<CounterKind>,
    /// Actions that nothing on this machine carries out. A policy that cannot do without one does not start.
    pub missing_controls: Vec<ActionKind>,
    /// Do policies see how long the requests of services take?
    pub latencies: bool,
    /// Groups of counters that take turns, a tick each; 1 or more. With 1 all are counted always. The n-th
    /// counter of the table of counters is in group n modulo the number of groups.
    pub groups: u32,
    /// Standard deviation of what is counted in a tick, as a share of it; 0 or more.
    pub noise: f64,
    /// Share of the readings of a thread's counters that fail, 0 to below 1. The next reading that does not
    /// fail gives the counts of the whole time since the last.
    pub failed: f64,
    /// Share of the steps of plans that are not carried out, 0 to 1, as where the kernel refuses or a gate holds them
    /// back. Policies are told ([`Policy::not_in_force`]); the run goes on.
    pub refused: f64,
}

impl Observation {
    /// As `corun run` sees a machine with hardware counters by default: a tick a second, up to 2 ms late; no
    /// shorter interval than 5 ms; no latency of requests; no counter of memory requests that are sent again, which `perf` has no
    /// event for; no idling of CPUs and no order of time slots, which the kernel does for nobody. No noise, no
    /// failure, no turns.
    pub fn as_live() -> Self {
        Self {
            tick_every: Nanoseconds(1_000_000_000),
            latest: Nanoseconds(2_000_000),
            shortest: Nanoseconds(5_000_000),
            missing: vec![CounterKind::MemoryRetries],
            missing_controls: vec![ActionKind::IdleCpu, ActionKind::OrderSlots],
            latencies: false,
            groups: 1,
            noise: 0.0,
            failed: 0.0,
            refused: 0.0,
        }
    }

    /// Does a policy need nothing that is missing? It is made to do without what it can do without.
    pub fn suffices(&self, policy: &mut dyn Policy) -> bool {
        let lacking = policy.needs().controls.into_iter();
        let mut lacking = lacking.filter(|kind| self.missing_controls.contains(kind));
        lacking.all(|kind| policy.do_without(kind))
            && (self.latencies || !policy.goes_by_latency())
            && !policy.needs().counters.iter().any(|kind| self.missing.contains(kind))
    }

    pub(crate) fn check(&self) -> Result<(), SimError> {
        let wrong =
            |field, found: String, expected| Err(SimError::Setting { field, found, expected });
        if self.tick_every.0 == 0 {
            return wrong("observation.tick_every", "0 ns".to_owned(), "a time above 0");
        }
        if self.groups == 0 {
            return wrong("observation.groups", "0".to_owned(), "1 or more");
        }
        if !(self.noise.is_finite() && self.noise >= 0.0) {
            return wrong("observation.noise", self.noise.to_string(), "a share of 0 or more");
        }
        if !(0.0..1.0).contains(&self.failed) {
            return wrong(
                "observation.failed",
                self.failed.to_string(),
                "a share from 0 to below 1",
            );
        }
        if !(0.0..=1.0).contains(&self.refused) {
            return wrong("observation.refused", self.refused.to_string(), "a share from 0 to 1");
        }
        Ok(())
    }
}

/// The weight of the nice value whose weight is nearest by ratio: a real machine knows no others. A step of
/// nice is 1.25, from -20 to 19.
pub(crate) fn weight_of_nice(weight: f64) -> f64 {
    1.25_f64.powi((weight.ln() / 1.25_f64.ln()).round().clamp(-19.0, 20.0) as i32)
}

/// Looks at the machine in ticks.
pub(crate) struct Observer {
    what: Observation,
    random: Pcg64Mcg,
    /// When the next tick comes, delay included.
    next_tick: u64,
    ticks: u64,
    threads: BTreeMap<ThreadId, Observed>,
}

/// A thread as it was observed last.
struct Observed {
    /// When its counters were read last, and what they said then.
    read_at: u64,
    totals: Totals,
    /// At the last tick.
    ticked_at: u64,
    cpu_ns: u64,
    counts: Counts,
}

impl Observer {
    pub(crate) fn new(what: Observation, random: Pcg64Mcg) -> Self {
        Self { what, random, next_tick: 0, ticks: 0, threads: BTreeMap::new() }
    }

    pub(crate) fn next_tick(&self) -> u64 {
        self.next_tick
    }

    /// Is a counter among those that this machine has?
    pub(crate) fn counts(&self, kind: CounterKind) -> bool {
        !self.what.missing.contains(&kind)
    }

    /// A tick is over; the next comes at the end of the first interval to end, and no later than
    /// [`Observation::tick_every`] from now, but for its delay.
    pub(crate) fn end_tick(&mut self, now: u64, due: Option<Nanoseconds>) {
        let latest = now.saturating_add(self.what.tick_every.0);
        let planned = due.map_or(latest, |due| due.0.min(latest)).max(now + 1);
        let delay = match self.what.latest.0 {
            0 => 0,
            latest => self.random.random_range(0..=latest),
        };
        self.next_tick = planned.saturating_add(delay);
        self.ticks += 1;
    }

    /// Is the next step of a plan one of those that are not carried out?
    pub(crate) fn refuses(&mut self) -> bool {
        self.what.refused > 0.0 && self.random.random::<f64>() < self.what.refused
    }

    /// Those that are there no longer are forgotten.
    pub(crate) fn retain(&mut self, is_there: impl Fn(ThreadId) -> bool) {
        self.threads.retain(|id, _| is_there(*id));
    }

    /// What is known of a thread now that has done so much since it came: its counts, and its state where it
    /// wants a CPU or does not.
    pub(crate) fn observe(
        &mut self,
        id: ThreadId,
        now: u64,
        totals: Totals,
        wants_cpu: bool,
        has_mix: bool,
    ) -> (Counts, ThreadState) {
        let Self { what, random, ticks, threads, .. } = self;
        let state = |ran| match (wants_cpu, ran) {
            (true, true) => ThreadState::Running,
            (true, false) => ThreadState::Runnable,
            (false, _) => ThreadState::Sleeping,
        };
        let Some(known) = threads.get_mut(&id) else {
            // Its counters are opened now.
            let mut counts = Counts::default();
            counts.cpu_time.get_or_insert_default();
            let cpu_ns = totals.cpu_ns;
            let new = Observed { read_at: now, totals, ticked_at: now, cpu_ns, counts };
            threads.insert(id, new);
            return (counts, state(true));
        };
        let ran_ns = totals.cpu_ns - known.cpu_ns;
        let cpu_time = known.counts.cpu_time.get_or_insert_default();
        cpu_time.total += ran_ns as f64;
        cpu_time.known.0 += now - known.ticked_at;
        (known.cpu_ns, known.ticked_at) = (totals.cpu_ns, now);
        let has_failed = what.failed > 0.0 && random.random::<f64>() < what.failed;
        if !has_failed {
            let elapsed = Nanoseconds(now - known.read_at);
            for (place, &kind) in CounterKind::ALL.iter().enumerate() {
                let turn = place as u64 % u64::from(what.groups);
                let of_mix = matches!(kind, CounterKind::L1Accesses | CounterKind::Branches);
                let is_counted = turn == *ticks % u64::from(what.groups)
                    && !what.missing.contains(&kind)
                    && (has_mix || !of_mix);
                let amounts = totals.of(kind).zip(known.totals.of(kind));
                // The scheduler's counts are exact and need no turns of the hardware's counters.
                let is_exact = kind.is_of_scheduler() && !what.missing.contains(&kind);
                if let (true, Some((after, before))) = (is_counted || is_exact, amounts) {
                    let by = if is_exact { 1.0 } else { noise(what.noise, random) };
                    let amount = (after - before) * by;
                    known.counts.add(kind, amount, elapsed, Scope::DemandAndPrefetch);
                }
            }
            (known.read_at, known.totals) = (now, totals);
        }
        (known.counts, state(ran_ns > 0))
    }
}

/// A draw of the normal distribution with mean 0 and standard deviation 1 (Box and Muller, Annals of Mathematical
/// Statistics 29(2), 1958).
pub(crate) fn standard_normal(random: &mut Pcg64Mcg) -> f64 {
    let (one, other) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
}

/// A factor around 1 with this standard deviation, never below 0.
fn noise(deviation: f64, random: &mut Pcg64Mcg) -> f64 {
    if deviation == 0.0 {
        return 1.0;
    }
    (1.0 + deviation * standard_normal(random)).max(0.0)
}

#[cfg(test)]
mod tests {
    use corun_policy::Rates;
    use rand::SeedableRng;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// What a policy with an interval of a second is shown of a thread that retires 1e9 instructions in 2e9
    /// cycles a second, and runs all the time.
    fn rates(what: Observation, seconds: u64) -> Vec<Rates> {
        let mut observer = Observer::new(what, Pcg64Mcg::seed_from_u64(1));
        let mut before = Counts::default();
        let mut shown = Vec::new();
        for second in 0..=seconds {
            let done = second as f64 * 1e9;
            let totals = Totals {
                cpu_ns: second * SECOND,
                instructions: done,
                cycles: 2.0 * done,
                ..Totals::default()
            };
            let (counts, state) =
                observer.observe(ThreadId(1), second * SECOND, totals, true, false);
            assert_eq!(state, ThreadState::Running);
            shown.push(counts.since(&before));
            before = counts;
            observer.end_tick(second * SECOND, None);
        }
        shown
    }

    fn exact() -> Observation {
        Observation { latest: Nanoseconds(0), ..Observation::as_live() }
    }

    #[test]
    fn counting_begins_when_a_thread_is_seen_first() {
        let shown = rates(exact(), 2);
        assert_eq!(shown[0], Rates::default());
        for one in &shown[1..] {
            assert_eq!((one.instructions_per_s, one.cycles_per_s), (Some(1e9), Some(2e9)));
            assert_eq!((one.cpu_share, one.memory_retries_per_s), (Some(1.0), None));
            assert_eq!(one.branches_per_s, None, "of a program whose instructions are not known");
        }
    }

    #[test]
    fn groups_take_turns() {
        // Instructions are the first counter, cycles the second.
        let shown = rates(Observation { groups: 2, ..exact() }, 4);
        let known: Vec<_> =
            shown.iter().map(|one| (one.instructions_per_s, one.cycles_per_s)).collect();
        let (first, second) = ((Some(1e9), None), (None, Some(2e9)));
        assert_eq!(known, [(None, None), second, first, second, first]);
    }

    #[test]
    fn a_reading_that_failed_is_in_the_next_and_the_rate_is_of_the_whole_time() {
        let shown = rates(Observation { failed: 0.5, ..exact() }, 40);
        let known = shown.iter().filter_map(|one| one.instructions_per_s);
        let known: Vec<f64> = known.collect();
        assert!((10..30).contains(&known.len()), "{}", known.len());
        assert!(known.iter().all(|rate| (rate - 1e9).abs() < 1.0), "{known:?}");
        assert!(shown[1..].iter().all(|one| one.cpu_share == Some(1.0)));
    }

    #[test]
    fn noise_has_its_standard_deviation() {
        let shown = rates(Observation { noise: 0.1, ..exact() }, 2000);
        let known: Vec<f64> =
            shown[1..].iter().map(|one| one.instructions_per_s.unwrap() / 1e9).collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let variance =
            known.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / known.len() as f64;
        assert!(
            (mean - 1.0).abs() < 0.01 && (variance.sqrt() - 0.1).abs() < 0.01,
            "{mean} {variance}"
        );
    }

    #[test]
    fn ticks_come_at_the_end_of_the_first_interval_and_late() {
        let late = Observation { latest: Nanoseconds(5), ..exact() };
        let mut observer = Observer::new(late, Pcg64Mcg::seed_from_u64(1));
        let mut delays = std::collections::BTreeSet::new();
        for _ in 0..100 {
            observer.end_tick(10, Some(Nanoseconds(1000)));
            delays.insert(observer.next_tick() - 1000);
        }
        assert_eq!(delays, (0..=5).collect());
        observer.end_tick(10, None);
        assert!((SECOND + 10..=SECOND + 15).contains(&observer.next_tick()));
    }

    #[test]
    fn weights_are_those_of_nice_values() {
        assert_eq!(weight_of_nice(1.0), 1.0);
        assert_eq!(weight_of_nice(1.3), 1.25);
        assert!((weight_of_nice(16.0) - 1.25_f64.powi(12)).abs() < 1e-12);
        assert_eq!(weight_of_nice(1e9), 1.25_f64.powi(20));
        assert_eq!(weight_of_nice(1e-9), 1.25_f64.powi(-19));
    }
}
