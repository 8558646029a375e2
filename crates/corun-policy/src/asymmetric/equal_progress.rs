//! `equal-progress`: the big cores to the threads with the highest slowdown so far (Van Craeynest, Akram,
//! Heirman, Jaleel and Eeckhout, "Fairness-aware scheduling on single-ISA heterogeneous multi-cores",
//! PACT 2013, the history-based variant by sampling, as García García describes it in his thesis, UCM
//! 2021, sections 4.2 and 4.4.4).

use crate::asymmetric::by_thread::ByThread;
use crate::asymmetric::policy::{Sharing, SharingPolicy};
use crate::asymmetric::progress::time_on_cpus_s;
use crate::asymmetric::sides::Sides;
use crate::asymmetric::speedup::side_of;
use crate::asymmetric::{Clock, Cores, INTERVAL, SWAP_EVERY, Side, milliseconds};
use crate::{
    Build, BuildOptions, CounterKind, LiveForm, Nanoseconds, PolicyEntry, ThreadView, View,
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: EqualProgress::NAME,
    summary: "big cores for the threads with the highest slowdown so far, by sampled speeds",
    source: "Van Craeynest et al., PACT 2013; García García, thesis UCM 2021, sections 4.2 and 4.4.4",
    parameters: &[INTERVAL, SWAP_EVERY],
    build: Build::Policy(|options: &BuildOptions| {
        Box::new(SharingPolicy::new(options, EqualProgress::new(options)))
    }),
    live: LiveForm::AS_LIVE,
};

/// What was seen of a thread, by side.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    ran_s: [f64; 2],
    /// Instructions a second of CPU time, when it was there last.
    speed: [Option<f64>; 2],
    counted_s: f64,
}

impl Seen {
    /// The ratio of the two latest samples.
    fn speedup(&self, cores: &Cores) -> f64 {
        let [big, small] = self.speed;
        let ratio = big.zip(small).map(|(big, small)| big / small);
        ratio.filter(|ratio| ratio.is_finite() && *ratio > 0.0).unwrap_or(cores.capacity_ratio)
    }

    /// Time so far over what it would have taken on a big core, by the speedup factor of now.
    fn slowdown(&self, cores: &Cores) -> f64 {
        let [big_s, small_s] = self.ran_s;
        let alone_s = big_s + small_s / self.speedup(cores);
        if alone_s > 0.0 { (big_s + small_s) / alone_s } else { 1.0 }
    }

    fn count(&mut self, thread: &ThreadView, cores: &Cores, interval_s: f64) {
        let counters = &thread.rates;
        let ran_s = time_on_cpus_s(thread, &mut self.counted_s, interval_s);
        let Some(side) = side_of(thread, cores) else { return };
        self.ran_s[side as usize] += ran_s;
        if let (Some(rate), Some(share)) = (counters.instructions_per_s, counters.cpu_share)
            && share > 0.0
            && rate > 0.0
        {
            self.speed[side as usize] = Some(rate / share);
        }
    }
}

struct EqualProgress {
    swaps: Clock,
    last: Nanoseconds,
    seen: ByThread<Seen>,
    /// By thread, so far.
    slowdowns: Vec<f64>,
}

impl EqualProgress {
    fn new(options: &BuildOptions) -> Self {
        Self {
            swaps: Clock::new(milliseconds(options.value(&SWAP_EVERY))),
            last: Nanoseconds(0),
            seen: ByThread::default(),
            slowdowns: Vec::new(),
        }
    }

    fn publish(&mut self, cores: &Cores) {
        self.slowdowns.clear();
        self.slowdowns.extend(self.seen.values().iter().map(|seen| seen.slowdown(cores)));
    }
}

impl Sharing for EqualProgress {
    const NAME: &'static str = "equal-progress";

    fn counters(&self) -> Vec<CounterKind> {
        vec![CounterKind::Instructions]
    }

    fn align(&mut self, view: &View<'_>, cores: &Cores) {
        let new = |thread: &ThreadView| Seen {
            counted_s: thread.counts.cpu_s().unwrap_or(0.0),
            ..Seen::default()
        };
        self.seen.align(view.threads, new);
        self.publish(cores);
    }

    fn measure(&mut self, view: &View<'_>, cores: &Cores) {
        let interval_s = view.now.0.saturating_sub(self.last.0) as f64 * 1e-9;
        self.last = view.now;
        for (thread, seen) in view.threads.iter().zip(self.seen.values_mut()) {
            seen.count(thread, cores, interval_s);
        }
        self.publish(cores);
    }

    fn claims(&self, _view: &View<'_>) -> Vec<f64> {
        self.slowdowns.clone()
    }

    /// The least slowed down on a big core changes with the most slowed down on a small one.
    fn swap(&mut self, view: &View<'_>, sides: &mut Sides<'_>) {
        if !self.swaps.strikes(view.now) {
            return;
        }
        let slowdowns = &self.slowdowns;
        let least = sides.highest(Side::Big, |one| -slowdowns[one]);
        let most = sides.highest(Side::Small, |one| slowdowns[one]);
        let (Some(least), Some(most)) = (least, most) else { return };
        if slowdowns[most] <= slowdowns[least] {
            return;
        }
        let why = format!(
            "{} is slowed down {:.2} times so far, {} {:.2} times: they swap",
            sides.threads[most].program,
            slowdowns[most],
            sides.threads[least].program,
            slowdowns[least],
        );
        sides.swap(least, most, why);
    }
}

#[cfg(test)]
mod tests;
