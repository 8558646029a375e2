//! `equal-progress`: the big cores to the threads with the highest slowdown so far (Van Craeynest, Akram,
//! Heirman, Jaleel and Eeckhout, "Fairness-aware scheduling on single-ISA heterogeneous multi-cores",
//! PACT 2013, the history-based variant by sampling, as García García describes it in his thesis, UCM
//! 2021, sections 4.2 and 4.4.4).

use corun_machine::Machine;

use crate::asymmetry::by_thread::ByThread;
use crate::asymmetry::progress::time_on_cpus_s;
use crate::asymmetry::sides::Sides;
use crate::asymmetry::speedup::side_of;
use crate::asymmetry::{Cores, INTERVAL, SWAP_EVERY, Side, milliseconds, one_core_type};
use crate::{
    ActionKind, Build, BuildOptions, CounterKind, Event, Interval, Nanoseconds, Needs, Plan,
    Policy, PolicyEntry, ThreadView, View,
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "equal-progress",
    summary: "big cores for the threads with the highest slowdown so far, by sampled speeds",
    source: "Van Craeynest et al., PACT 2013; García García, thesis UCM 2021, sections 4.2 and 4.4.4",
    parameters: &[INTERVAL, SWAP_EVERY],
    build: Build::Policy(|options: &BuildOptions| Box::new(EqualProgress::new(options))),
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
        let counters = &thread.counters;
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
    interval: Nanoseconds,
    swap_every: Nanoseconds,
    next_swap: Nanoseconds,
    last: Nanoseconds,
    cores: Option<Cores>,
    seen: ByThread<Seen>,
}

impl EqualProgress {
    fn new(options: &BuildOptions) -> Self {
        let swap_every = milliseconds(options.value(&SWAP_EVERY));
        Self {
            interval: milliseconds(options.value(&INTERVAL)),
            swap_every,
            next_swap: swap_every,
            last: Nanoseconds(0),
            cores: None,
            seen: ByThread::default(),
        }
    }

    fn plan(&mut self, view: &View<'_>, counted: bool) -> Plan {
        let Some(cores) = self.cores.take().or_else(|| Cores::of(view.machine)) else {
            return Plan::none();
        };
        let new = |thread: &ThreadView| Seen {
            counted_s: thread.counted.cpu_s.unwrap_or(0.0),
            ..Seen::default()
        };
        self.seen.align(view.threads, new);
        if counted {
            let interval_s = view.now.0.saturating_sub(self.last.0) as f64 * 1e-9;
            self.last = view.now;
            for (thread, seen) in view.threads.iter().zip(self.seen.values_mut()) {
                seen.count(thread, &cores, interval_s);
            }
        }
        let slowdowns: Vec<f64> =
            self.seen.values().iter().map(|seen| seen.slowdown(&cores)).collect();
        let mut sides = Sides::new(view, &cores);
        sides.place_new();
        sides.balance(&slowdowns);
        if counted && view.now >= self.next_swap {
            self.next_swap = Nanoseconds(view.now.0 + self.swap_every.0);
            swap(&mut sides, &slowdowns);
        }
        let plan = sides.plan;
        self.cores = Some(cores);
        plan
    }
}

/// The least slowed down on a big core changes with the most slowed down on a small one.
fn swap(sides: &mut Sides<'_>, slowdowns: &[f64]) {
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

impl Policy for EqualProgress {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(self.interval),
            counters: vec![CounterKind::Instructions],
            controls: vec![ActionKind::Place],
            solo_figures: false,
            by_ways: false,
        }
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        one_core_type(machine)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        matches!(event, Event::Arrived(_) | Event::Woke(_)).then(|| self.plan(view, false))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.plan(view, true)
    }
}

#[cfg(test)]
mod tests;
