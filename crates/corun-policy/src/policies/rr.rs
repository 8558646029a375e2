//! `rr`: the big cores to all threads by turns (the asymmetry-aware round robin of Becchi and Crowley,
//! CF 2006, as García García describes it in his thesis, UCM 2021, section 4.4.4).

use corun_machine::Machine;

use crate::asymmetry::by_thread::ByThread;
use crate::asymmetry::sides::Sides;
use crate::asymmetry::{Cores, INTERVAL, SWAP_EVERY, Side, milliseconds, one_core_type};
use crate::{
    ActionKind, Build, BuildOptions, Event, Interval, Nanoseconds, Needs, Plan, Policy,
    PolicyEntry, View,
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "rr",
    summary: "gives all threads the big cores by turns, whatever they gain by them",
    source: "García García, thesis UCM 2021, section 4.4.4; Becchi and Crowley, CF 2006",
    parameters: &[INTERVAL, SWAP_EVERY],
    build: Build::Policy(|options: &BuildOptions| Box::new(RoundRobin::new(options))),
};

struct RoundRobin {
    interval: Nanoseconds,
    swap_every: Nanoseconds,
    next_swap: Nanoseconds,
    cores: Option<Cores>,
    /// Which side each thread is on, and since when.
    stays: ByThread<(Option<Side>, Nanoseconds)>,
}

impl RoundRobin {
    fn new(options: &BuildOptions) -> Self {
        let swap_every = milliseconds(options.value(&SWAP_EVERY));
        Self {
            interval: milliseconds(options.value(&INTERVAL)),
            swap_every,
            next_swap: swap_every,
            cores: None,
            stays: ByThread::default(),
        }
    }

    fn plan(&mut self, view: &View<'_>, in_turn: bool) -> Plan {
        let Some(cores) = self.cores.take().or_else(|| Cores::of(view.machine)) else {
            return Plan::none();
        };
        self.stays.align(view.threads, |_| (None, view.now));
        let waited =
            |stay: &(Option<Side>, Nanoseconds)| view.now.0.saturating_sub(stay.1.0) as f64;
        let waits: Vec<f64> = self.stays.values().iter().map(waited).collect();
        // Of those on big cores who came last stays: a short stay is a high claim.
        let claim = |(stay, wait): (&(Option<Side>, Nanoseconds), &f64)| {
            if stay.0 == Some(Side::Big) { -wait } else { *wait }
        };
        let claims: Vec<f64> = self.stays.values().iter().zip(&waits).map(claim).collect();
        let mut sides = Sides::new(view, &cores);
        sides.place_new();
        sides.balance(&claims);
        if in_turn && view.now >= self.next_swap {
            self.next_swap = Nanoseconds(view.now.0 + self.swap_every.0);
            swap_longest(&mut sides, &waits);
        }
        for (place, stay) in self.stays.values_mut().iter_mut().enumerate() {
            let side = sides.side(place);
            if stay.0 != side {
                *stay = (side, view.now);
            }
        }
        let plan = sides.plan;
        self.cores = Some(cores);
        plan
    }
}

/// Who has been longest on a big core changes with who has been longest on a small one.
fn swap_longest(sides: &mut Sides<'_>, waits: &[f64]) {
    let longest = |side: Side| sides.highest(side, |one| waits[one]);
    let (Some(big), Some(small)) = (longest(Side::Big), longest(Side::Small)) else { return };
    let why = format!(
        "{}'s turn on a big core, after {:.0} ms on small ones; {} had it for {:.0} ms",
        sides.threads[small].program,
        waits[small] * 1e-6,
        sides.threads[big].program,
        waits[big] * 1e-6,
    );
    sides.swap(big, small, why);
}

impl Policy for RoundRobin {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(self.interval),
            counters: Vec::new(),
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
