//! `linux-power-saving`: the kernel's former `sched_mc_power_savings`, blind to contention (DEFAULT-MC
//! in Blagodurov et al., TOCS 2010, section 6).

use corun_machine::CpuSet;

use crate::placement::spread::{Memory, Spread, cores_with, usable_cpus};
use crate::{
    ActionKind, Build, BuildOptions, Event, Interval, LiveForm, Nanoseconds, Needs, Plan, Policy,
    PolicyEntry, View,
};

/// Between two looks: the mode acts as the kernel balances, within a second.
const INTERVAL: Nanoseconds = Nanoseconds(1_000_000_000);

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "linux-power-saving",
    summary: "fills one package after the other, as sched_mc_power_savings did; blind to contention",
    source: "Blagodurov et al., TOCS 2010, section 6: DEFAULT-MC",
    parameters: &[],
    build: Build::Policy(|_: &BuildOptions| Box::new(LinuxPowerSaving::default())),
    live: LiveForm::Untested {
        why: "on big and small cores it cost 7 % more in simulation as live than where it sees everything",
    },
};

#[derive(Default)]
struct LinuxPowerSaving {
    memory: Memory,
}

/// The usable CPUs of as few packages, in the machine's order, as have a core for every thread; all where
/// there are more threads than cores, so that nobody waits for a core while one is free.
fn filled(view: &View<'_>) -> CpuSet {
    let usable = usable_cpus(view, |thread| &view.threads[thread].may_run_on);
    let (mut filled, mut cores) = (CpuSet::new(), 0);
    for package in view.machine.packages() {
        if cores >= view.threads.len() {
            break;
        }
        let cpus = package.cpus.intersection(&usable);
        cores += cores_with(view.machine, &cpus);
        filled = filled.union(&cpus);
    }
    filled
}

impl Policy for LinuxPowerSaving {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(INTERVAL),
            controls: vec![ActionKind::Place],
            ..Needs::default()
        }
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        matches!(event, Event::Arrived(_)).then(|| self.decide(view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let filled = filled(view);
        let cpus: Vec<CpuSet> = view
            .threads
            .iter()
            .map(|thread| {
                let cpus = thread.may_run_on.intersection(&filled);
                if cpus.is_empty() { thread.may_run_on.clone() } else { cpus }
            })
            .collect();
        let unknown = vec![None; cpus.len()];
        let spread = Spread::within(view, &unknown, |thread| &cpus[thread], &mut self.memory);
        spread.plan(&spread.arrived(), "MPKI")
    }
}

#[cfg(test)]
mod tests {
    use corun_machine::CpuId;

    use super::*;
    use crate::{Action, fixture};

    fn cpus_of(plan: &Plan) -> Vec<CpuId> {
        let cpu = |step: &crate::Step| match &step.action {
            Action::Allow { cpus, .. } => cpus.first().unwrap(),
            other => panic!("{other:?}"),
        };
        plan.steps.iter().map(cpu).collect()
    }

    #[test]
    fn one_package_is_filled_before_the_next_is_used() {
        let machine = fixture::x5365();
        for (threads, last) in [(4, 3), (5, 7), (8, 7)] {
            let threads = fixture::threads(&machine, &vec![None; threads]);
            let mut policy = LinuxPowerSaving::default();
            let cpus = cpus_of(&policy.decide(&fixture::view(&machine, &threads)));
            assert_eq!(cpus.len(), threads.len());
            assert!(cpus.iter().all(|cpu| cpu.0 <= last), "{cpus:?}");
        }
    }

    /// A container has two cores of each package: four threads have one each.
    #[test]
    fn cores_that_nobody_may_use_give_no_thread_a_core() {
        let machine = fixture::x5365();
        let mut threads = fixture::threads(&machine, &[None; 4]);
        for thread in &mut threads {
            thread.may_run_on = "0-1,4-5".parse().unwrap();
        }
        let mut policy = LinuxPowerSaving::default();
        let mut cpus = cpus_of(&policy.decide(&fixture::view(&machine, &threads)));
        cpus.sort();
        assert_eq!(cpus, [0, 1, 4, 5].map(CpuId));
    }

    #[test]
    fn threads_that_are_packed_stay() {
        let machine = fixture::x5365();
        let mut threads = fixture::threads(&machine, &[None, None]);
        for (thread, cpu) in threads.iter_mut().zip([1, 3]) {
            thread.cpu = Some(CpuId(cpu));
            thread.allowed = CpuSet::from_iter(thread.cpu);
        }
        let mut policy = LinuxPowerSaving::default();
        assert!(policy.decide(&fixture::view(&machine, &threads)).steps.is_empty());
    }
}
