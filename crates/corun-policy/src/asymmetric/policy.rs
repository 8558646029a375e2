//! The frame of the policies that share out big cores: when they look, count, place and swap. What each
//! goes by is its [`Sharing`].

use corun_machine::Machine;

use super::sides::Sides;
use super::{Cores, INTERVAL, milliseconds, one_core_type};
use crate::{
    ActionKind, BuildOptions, CounterKind, Event, Interval, Nanoseconds, Needs, Plan, Policy,
    ThreadId, View,
};

/// What a policy shares big cores out by.
pub(crate) trait Sharing: Send {
    /// The policy's name in the registry.
    const NAME: &'static str;

    fn counters(&self) -> Vec<CounterKind> {
        Vec::new()
    }

    /// Does it need each thread's figures from a stored profile?
    fn solo_figures(&self) -> bool {
        false
    }

    /// Controls beside that of placing.
    fn controls(&self) -> Vec<ActionKind> {
        Vec::new()
    }

    fn do_without(&mut self, _control: ActionKind) -> bool {
        false
    }

    /// Brings what it knows of threads in line with those that there are.
    fn align(&mut self, view: &View<'_>, cores: &Cores);

    /// An interval is over: takes in what was counted.
    fn measure(&mut self, _view: &View<'_>, _cores: &Cores) {}

    fn slept(&mut self, _id: ThreadId, _view: &View<'_>) {}

    fn woke(&mut self, _id: ThreadId, _view: &View<'_>) {}

    /// Before anything else: who has a place whatever the claims.
    fn reserve(&self, _sides: &mut Sides<'_>) {}

    /// By thread how much it should be on a big core, for filling and relieving them; all alike unless
    /// told.
    fn claims(&self, view: &View<'_>) -> Vec<f64> {
        vec![0.0; view.threads.len()]
    }

    /// An interval is over, new threads are placed and sides balanced: who changes sides with whom.
    fn swap(&mut self, _view: &View<'_>, _sides: &mut Sides<'_>) {}

    /// Who goes where. `counted`: an interval is over.
    fn share(&mut self, view: &View<'_>, sides: &mut Sides<'_>, counted: bool) {
        self.reserve(sides);
        sides.place_new();
        sides.balance(&self.claims(view));
        if counted {
            self.swap(view, sides);
        }
    }

    /// The plan is made: where everybody is to be.
    fn planned(&mut self, _view: &View<'_>, _sides: &Sides<'_>, _counted: bool) {}
}

/// A policy that shares out big cores.
pub(crate) struct SharingPolicy<S> {
    interval: Nanoseconds,
    /// Found when it first decides.
    cores: Option<Cores>,
    pub(crate) sharing: S,
}

impl<S: Sharing> SharingPolicy<S> {
    pub(crate) fn new(options: &BuildOptions, sharing: S) -> Self {
        Self { interval: milliseconds(options.value(&INTERVAL)), cores: None, sharing }
    }

    fn plan(&mut self, view: &View<'_>, counted: bool) -> Plan {
        if self.cores.is_none() {
            self.cores = Cores::of(view.machine);
        }
        let Some(cores) = &self.cores else { return Plan::none() };
        self.sharing.align(view, cores);
        if counted {
            self.sharing.measure(view, cores);
        }
        let mut sides = Sides::new(view, cores);
        self.sharing.share(view, &mut sides, counted);
        self.sharing.planned(view, &sides, counted);
        sides.plan
    }
}

impl<S: Sharing> Policy for SharingPolicy<S> {
    fn name(&self) -> &str {
        S::NAME
    }

    fn needs(&self) -> Needs {
        let mut controls = vec![ActionKind::Place];
        controls.extend(self.sharing.controls());
        Needs {
            interval: Interval::Time(self.interval),
            counters: self.sharing.counters(),
            controls,
            solo_figures: self.sharing.solo_figures(),
            by_ways: false,
        }
    }

    fn do_without(&mut self, control: ActionKind) -> bool {
        self.sharing.do_without(control)
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        one_core_type(machine)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        match event {
            Event::Arrived(_) => Some(self.plan(view, false)),
            Event::Slept(id) => {
                self.sharing.slept(*id, view);
                None
            }
            Event::Woke(id) => {
                self.sharing.woke(*id, view);
                Some(self.plan(view, false))
            }
            Event::Exited(_) | Event::Switched { .. } => None,
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.plan(view, true)
    }
}
