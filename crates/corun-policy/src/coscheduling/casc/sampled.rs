//! Estimates for hosts that do not say when threads are switched: what each thread adds to the miss ratio of
//! all together, with an interval, from looks at the counters.

use std::collections::{BTreeMap, VecDeque};

use crate::{Nanoseconds, ThreadId, View};

/// Looks of a thread that are kept.
const MOST_LOOKS: usize = 512;
/// A thread's first looks are left out: its caches were cold.
pub(super) const COLD: Nanoseconds = Nanoseconds(100_000_000);
/// CPU time and looks that a thread must have been counted for before anything is said of it.
const LEAST_CPU_S: f64 = 0.25;
const LEAST_LOOKS: usize = 10;
/// Standard errors on both sides of an estimate: 95 % of a normal distribution.
const STANDARD_ERRORS: f64 = 1.96;

/// An estimate of a thread's PCMR.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// What the thread adds to the miss ratio of all, in misses per 100 references.
    pub(super) pcmr: f64,
    /// The lower end of its interval.
    pub(super) low: f64,
}

/// A ratio of sums over looks: events for each second on a CPU.
#[derive(Debug, Clone, Default)]
struct PerCpuSecond {
    /// CPU seconds and events.
    looks: VecDeque<(f64, f64)>,
}

impl PerCpuSecond {
    fn add(&mut self, cpu_s: f64, events: f64) {
        if self.looks.len() == MOST_LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back((cpu_s, events));
    }

    fn cpu_s(&self) -> f64 {
        self.looks.iter().map(|look| look.0).sum()
    }

    fn is_enough(&self) -> bool {
        self.looks.len() >= LEAST_LOOKS && self.cpu_s() >= LEAST_CPU_S
    }

    fn value(&self) -> Option<f64> {
        let cpu_s = self.cpu_s();
        (cpu_s > 0.0).then(|| self.looks.iter().map(|look| look.1).sum::<f64>() / cpu_s)
    }

    /// The standard error of [`Self::value`], of a ratio of sums (Cochran, *Sampling Techniques*, 3rd edition,
    /// section 2.11): from published descriptions.
    fn standard_error(&self) -> Option<f64> {
        let (value, count) = (self.value()?, self.looks.len() as f64);
        let squares: f64 =
            self.looks.iter().map(|(cpu_s, events)| (events - value * cpu_s).powi(2)).sum();
        (count > 1.0).then(|| (squares * count / (count - 1.0)).sqrt() / self.cpu_s())
    }
}

/// What was counted of a thread. References and misses may be counted in turns.
#[derive(Debug, Clone, Default)]
struct Counted {
    references: PerCpuSecond,
    misses: PerCpuSecond,
}

/// The recent looks.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    last: Option<Nanoseconds>,
    threads: BTreeMap<ThreadId, Counted>,
}

impl Samples {
    /// Takes in the look that just ended, of threads that are there for long enough; gives the group's miss
    /// ratio, and each thread's share of a CPU, where both counters were counted for all of them.
    pub(super) fn add(
        &mut self,
        view: &View<'_>,
        is_warm: impl Fn(ThreadId) -> bool,
    ) -> Option<(f64, Vec<(ThreadId, f64)>)> {
        let last = self.last.replace(view.now)?;
        let elapsed_s = (view.now.0 - last.0) as f64 * 1e-9;
        let (mut references, mut misses) = (0.0, 0.0);
        let (mut shares, mut is_whole) = (Vec::new(), true);
        for thread in view.threads.iter().filter(|thread| is_warm(thread.id)) {
            let rates = &thread.rates;
            let Some(share) = rates.cpu_share.filter(|&share| share > 0.0) else { continue };
            let cpu_s = share * elapsed_s;
            let counted = self.threads.entry(thread.id).or_default();
            let per_s = (rates.llc_references, rates.llc_misses);
            if let Some(rate) = per_s.0 {
                counted.references.add(cpu_s, rate.per_s * elapsed_s);
                references += rate.per_s;
            }
            if let Some(rate) = per_s.1 {
                counted.misses.add(cpu_s, rate.per_s * elapsed_s);
                misses += rate.per_s;
            }
            is_whole &= per_s.0.is_some() && per_s.1.is_some();
            shares.push((thread.id, share));
        }
        self.threads.retain(|&id, _| view.thread(id).is_some());
        (is_whole && references > 0.0).then(|| (100.0 * misses / references, shares))
    }

    pub(super) fn clear(&mut self) {
        self.threads.clear();
    }

    /// Was every thread that ran counted for long enough?
    pub(super) fn is_enough(&self) -> bool {
        let mut all = self.threads.values();
        !self.threads.is_empty()
            && all.all(|one| one.references.is_enough() && one.misses.is_enough())
    }

    /// The PCMRs of the threads that were counted for long enough. A thread's misses are set against the
    /// references that the mean thread makes in the same CPU time, not against its own: so the mean of the
    /// PCMRs by CPU time is the miss ratio of the group (equation 1), and a thread that hardly refers to the
    /// cache is of no weight however large a part of its few references misses.
    pub(super) fn solve(&self) -> BTreeMap<ThreadId, Estimate> {
        let (mut references, mut cpu_s) = (0.0, 0.0);
        for one in self.threads.values() {
            let own_s = one.references.cpu_s();
            references += one.references.value().unwrap_or(0.0) * own_s;
            cpu_s += own_s;
        }
        if references <= 0.0 {
            return BTreeMap::new();
        }
        let mean = references / cpu_s;
        let estimate = |(&id, one): (&ThreadId, &Counted)| {
            if !(one.references.is_enough() && one.misses.is_enough()) {
                return None;
            }
            let pcmr = 100.0 * one.misses.value()? / mean;
            let half = STANDARD_ERRORS * 100.0 * one.misses.standard_error()? / mean;
            let within = |value: f64| value.clamp(0.0, 100.0);
            Some((id, Estimate { pcmr: within(pcmr), low: within(pcmr - half) }))
        };
        self.threads.iter().filter_map(estimate).collect()
    }
}
