//! `dio-power`: as few LLCs as contention allows, so that packages can sleep (Blagodurov et al.,
//! TOCS 2010, section 6, algorithms 3 and 4).

use corun_machine::CpuSet;

use super::dio_2010::{DEVIL, needs};
use crate::placement::running_averages::{HALF_LIFE, RunningAverages};
use crate::placement::spread::{Memory, Spread, cores_with, usable_cpus};
use crate::{Build, BuildOptions, Event, LiveForm, Needs, Plan, Policy, PolicyEntry, View};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "dio-power",
    summary: "spreads intensive threads over LLCs, and no thread over more LLCs than they need",
    source: "Blagodurov et al., TOCS 2010, section 6",
    parameters: &[HALF_LIFE, DEVIL],
    build: Build::Policy(|options: &BuildOptions| Box::new(DioPower::new(options))),
    live: LiveForm::AS_LIVE,
};

struct DioPower {
    devil_mpki: f64,
    running: RunningAverages,
    memory: Memory,
}

const MEASURE: &str = "MPKI";

impl DioPower {
    fn new(options: &BuildOptions) -> Self {
        Self {
            devil_mpki: options.value(&DEVIL),
            running: RunningAverages::of_mpki(options.value(&HALF_LIFE)),
            memory: Memory::default(),
        }
    }

    fn is_devil(&self, mpki: Option<f64>) -> bool {
        mpki.is_some_and(|mpki| mpki >= self.devil_mpki)
    }

    /// For each thread the CPUs of the marked LLCs that it may run on; all that it may where it
    /// may run on none of those.
    fn marked(&self, view: &View<'_>, mpki: &[Option<f64>]) -> Vec<CpuSet> {
        let devils = mpki.iter().filter(|&&mpki| self.is_devil(mpki)).count();
        let marked = marked_cpus(view, devils);
        let of = |thread: &crate::ThreadView| {
            let cpus = thread.may_run_on.intersection(&marked);
            if cpus.is_empty() { thread.may_run_on.clone() } else { cpus }
        };
        view.threads.iter().map(of).collect()
    }
}

/// The usable CPUs of the first LLCs in the machine's order: one for each devil, as many as give every
/// thread a core, and all at most. As printed, algorithm 3 marks one for each devil alone: then
/// threads get no core when there are more than two for each devil, and there is nowhere to put
/// any when there is no devil.
fn marked_cpus(view: &View<'_>, devils: usize) -> CpuSet {
    let usable = usable_cpus(view, |thread| &view.threads[thread].may_run_on);
    let (mut marked, mut cores, mut llcs) = (CpuSet::new(), 0, 0);
    for llc in view.machine.llcs() {
        if llcs >= devils && cores >= view.threads.len() {
            break;
        }
        let cpus = llc.cpus.intersection(&usable);
        cores += cores_with(view.machine, &cpus);
        llcs += usize::from(!cpus.is_empty());
        marked = marked.union(&cpus);
    }
    marked
}

impl Policy for DioPower {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        needs(super::BILLION_CYCLES)
    }

    /// A thread that arrives gets the emptiest place on the LLCs that are marked for those that are
    /// known, and moves nobody.
    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        if !matches!(event, Event::Arrived(_)) {
            return None;
        }
        let averages = self.running.by_thread(view);
        let cpus = self.marked(view, &averages);
        let spread = Spread::within(view, &averages, |thread| &cpus[thread], &mut self.memory)
            .keeping_apart(|thread| self.is_devil(averages[thread]));
        Some(spread.plan_for_newcomers(&spread.arrived(), MEASURE))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.running.measure(view);
        if self.running.is_empty() {
            return Plan::none();
        }
        let averages = self.running.by_thread(view);
        let cpus = self.marked(view, &averages);
        let spread = Spread::within(view, &averages, |thread| &cpus[thread], &mut self.memory)
            .keeping_apart(|thread| self.is_devil(averages[thread]));
        spread.plan(&spread.sorted(&mut self.memory), MEASURE)
    }
}

#[cfg(test)]
mod tests;
