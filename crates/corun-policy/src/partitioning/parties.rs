//! `parties`: services get more cores or cache ways while their tail latency is near its target, and give some back
//! while it is far below (Chen, Delimitrou and Martinez, PARTIES, ASPLOS 2019).
//!
//! The article's abstract could be read, and the controller that its authors published (`manager/PARTIES.py` of
//! sc2682cornell/PARTIES). The rules are those of the controller; docs/partitioning.md says which, and what is ours.

mod controller;

use std::collections::{BTreeMap, BTreeSet};

use corun_machine::{CpuSet, Machine};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use self::controller::{Division, Rule, Total};
use super::asked::{Division as Ways, InForce};
use super::mask;
use super::members::{Members, is_among, members};
use super::online::{Cache, cache, no_two_partitions};
use crate::{
    Action, ActionKind, Build, BuildOptions, CachePart, Event, Interval, LiveForm, Nanoseconds,
    Needs, Parameter, ParameterKind, Plan, Policy, PolicyEntry, ProcessId, ThreadId, ThreadView,
    View,
};

const INTERVAL_MS: Parameter = Parameter {
    name: "interval-ms",
    kind: ParameterKind::Number,
    default: 100.0,
    min: 1.0,
    max: 1e6,
    summary: "time between readings of the latencies, in ms",
};

const READINGS: Parameter = Parameter {
    name: "readings",
    kind: ParameterKind::WholeNumber,
    default: 5.0,
    min: 1.0,
    max: 1000.0,
    summary: "readings after a change by whose majority it is judged",
};

const UPSIZE: Parameter = Parameter {
    name: "upsize-slack",
    kind: ParameterKind::Number,
    default: 0.05,
    min: -10.0,
    max: 1.0,
    summary: "share of its target that is left below which a service gets more",
};

const DOWNSIZE: Parameter = Parameter {
    name: "downsize-slack",
    kind: ParameterKind::Number,
    default: 0.2,
    min: -10.0,
    max: 1.0,
    summary: "the same above which it gives something back",
};

const REST_S: Parameter = Parameter {
    name: "rest-s",
    kind: ParameterKind::Number,
    default: 10.0,
    min: 0.0,
    max: 1e6,
    summary: "time after a change that was taken back in which a service gives nothing back, in s",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "parties",
    summary: "hands cores and ways to services whose tail latency is near its target, one at a time",
    source: "Chen, Delimitrou and Martinez, PARTIES, ASPLOS 2019, from the authors' controller",
    parameters: &[INTERVAL_MS, READINGS, UPSIZE, DOWNSIZE, REST_S],
    build: Build::Online(|options: &BuildOptions| Box::new(Parties::new(options))),
    live: LiveForm::Untested { why: "nothing tells it the latency of services here yet" },
};

/// The mean slack is of the readings of so long.
const SMOOTHED_MS: f64 = 1000.0;

struct Parties {
    interval: Nanoseconds,
    rule: Rule,
    seed: u64,
    /// The LLC of each program, while there is a service.
    home: BTreeMap<ProcessId, usize>,
    llcs: Vec<ManagedLlc>,
    /// What was asked for of each thread that is held.
    held: BTreeMap<ThreadId, CpuSet>,
}

/// What is kept of an LLC.
#[derive(Default)]
struct ManagedLlc {
    /// The cores under it, each by the CPUs of its hardware threads.
    cores: Vec<CpuSet>,
    division: Option<Division>,
    asked: InForce,
    members: Members,
}

/// A program and its threads.
struct Program<'a> {
    process: ProcessId,
    threads: Vec<&'a ThreadView>,
}

impl Program<'_> {
    fn is_service(&self) -> bool {
        self.threads.iter().any(|one| one.latency.is_some())
    }

    fn slack(&self) -> Option<f64> {
        self.threads.iter().find_map(|one| one.latency)?.slack()
    }
}

impl Parties {
    fn new(options: &BuildOptions) -> Self {
        let interval_ms = options.value(&INTERVAL_MS);
        let readings = |ms: f64| (ms / interval_ms).round();
        Self {
            interval: Nanoseconds((interval_ms * 1e6) as u64),
            rule: Rule {
                upsize: options.value(&UPSIZE),
                downsize: options.value(&DOWNSIZE),
                readings: options.value(&READINGS) as u32,
                smoothed: readings(SMOOTHED_MS).max(1.0) as usize,
                rest: readings(options.value(&REST_S) * 1e3) as u32,
            },
            seed: options.seed,
            home: BTreeMap::new(),
            llcs: Vec::new(),
            held: BTreeMap::new(),
        }
    }

    /// Takes over who is here: each program has an LLC, and each LLC with a service is divided.
    fn follow(&mut self, view: &View<'_>) {
        if self.llcs.is_empty() {
            let llcs = view.machine.llcs().iter();
            self.llcs = llcs.map(|llc| ManagedLlc::of(view.machine, &llc.cpus)).collect();
        }
        let programs = programs(view);
        self.find_homes(&programs, view);
        for (index, llc) in self.llcs.iter_mut().enumerate() {
            let here = |one: &&Program<'_>| self.home.get(&one.process) == Some(&index);
            let services: Vec<ProcessId> = programs
                .iter()
                .filter(|one| here(one) && one.is_service())
                .map(|one| one.process)
                .collect();
            let best_effort = programs.iter().any(|one| here(&one) && !one.is_service());
            let total = cache(view, index).map(|Cache { ways, least_ways, .. }| Total {
                cores: llc.cores.len() as u32,
                ways,
                least_ways,
                best_effort,
            });
            if let (Some(division), Some(total)) = (&mut llc.division, total)
                && division.is_of(&services)
                && division.adapt(total)
            {
                continue;
            }
            let random = Pcg64Mcg::seed_from_u64(self.seed.wrapping_add(index as u64));
            llc.division =
                total.and_then(|total| Division::equal(&services, total, self.rule, random));
        }
    }

    /// A program stays on the LLC that it was given: that with the fewest services, then the fewest threads, of those
    /// where it may run. Services choose first. Without a service nobody is given one.
    fn find_homes(&mut self, programs: &[Program<'_>], view: &View<'_>) {
        if !programs.iter().any(Program::is_service) {
            self.home.clear();
            return;
        }
        self.home.retain(|process, _| programs.iter().any(|one| one.process == *process));
        let mut services = vec![0; self.llcs.len()];
        let mut threads = vec![0; self.llcs.len()];
        for program in programs {
            if let Some(&llc) = self.home.get(&program.process) {
                services[llc] += u32::from(program.is_service());
                threads[llc] += program.threads.len();
            }
        }
        for is_service in [true, false] {
            for program in programs.iter().filter(|one| one.is_service() == is_service) {
                if self.home.contains_key(&program.process) {
                    continue;
                }
                let may = |llc: &usize| {
                    let cpus = &view.machine.llcs()[*llc].cpus;
                    program.threads.iter().all(|one| !one.may_run_on.is_disjoint(cpus))
                };
                let crowd = |&llc: &usize| match is_service {
                    true => (services[llc], threads[llc]),
                    false => (0, threads[llc]),
                };
                let Some(llc) = (0..self.llcs.len()).filter(may).min_by_key(crowd) else {
                    continue;
                };
                services[llc] += u32::from(is_service);
                threads[llc] += program.threads.len();
                self.home.insert(program.process, llc);
            }
        }
    }

    /// The CPUs that a program is to be held on; none where it is held by nobody.
    fn cpus_of(&self, process: ProcessId, machine: &Machine) -> Option<(CpuSet, &str)> {
        let llc = *self.home.get(&process)?;
        let managed = &self.llcs[llc];
        let Some(division) = &managed.division else {
            return Some((machine.llcs()[llc].cpus.clone(), "its LLC"));
        };
        let tenant = division.tenants.iter().find(|one| one.process == process);
        let cores = tenant.map_or(&division.free_cores, |one| &one.cores);
        let cpus = cores.iter().map(|&core| &managed.cores[core as usize]);
        let cpus = cpus.fold(CpuSet::new(), |all, one| all.union(one));
        Some((cpus, &division.changed))
    }

    /// Adds what has to change of where threads are held. `again`: what was asked for and is not so is asked for again.
    fn place(&mut self, view: &View<'_>, again: bool, plan: &mut Plan) {
        let before = std::mem::take(&mut self.held);
        for thread in view.threads {
            let wanted = self.cpus_of(thread.process, view.machine).and_then(|(cpus, why)| {
                let own = cpus.intersection(&thread.may_run_on);
                // Its user holds it where the program has no core.
                let llc = &view.machine.llcs()[self.home[&thread.process]].cpus;
                let cpus = if own.is_empty() { llc.intersection(&thread.may_run_on) } else { own };
                (!cpus.is_empty()).then(|| (cpus, why.to_owned()))
            });
            let known = before.get(&thread.id);
            let (cpus, why) = match (wanted, known) {
                (Some(wanted), _) => wanted,
                // It was held, and nothing holds it any more.
                (None, Some(_)) => (thread.may_run_on.clone(), "no service is left".to_owned()),
                (None, None) => continue,
            };
            let is_asked = known == Some(&cpus);
            if thread.allowed != cpus && (!is_asked || again) {
                let reason = format!("{}: on CPUs {cpus} ({why})", thread.program);
                plan.push(Action::Allow { thread: thread.id, cpus: cpus.clone() }, reason);
            }
            if cpus != thread.may_run_on {
                self.held.insert(thread.id, cpus);
            }
        }
    }

    /// Adds what has to change of who has which ways.
    fn divide(&mut self, view: &View<'_>, plan: &mut Plan) {
        let strays = members(view);
        for (index, llc) in self.llcs.iter_mut().enumerate() {
            llc.members = strays[index]
                .iter()
                .filter(|(process, _)| !self.home.contains_key(process))
                .cloned()
                .collect();
            for thread in view.threads {
                if self.home.get(&thread.process) != Some(&index) {
                    continue;
                }
                match llc.members.iter_mut().find(|(process, _)| *process == thread.process) {
                    Some((_, threads)) => threads.push(thread.id),
                    None => llc.members.push((thread.process, vec![thread.id])),
                }
            }
            llc.ask(index, cache(view, index), view, plan);
        }
    }

    fn plan(&mut self, view: &View<'_>, again: bool) -> Plan {
        let mut plan = Plan::none();
        self.place(view, again, &mut plan);
        self.divide(view, &mut plan);
        plan
    }
}

/// The programs of a view, in the order of their first threads.
fn programs<'a>(view: &View<'a>) -> Vec<Program<'a>> {
    let mut programs: Vec<Program<'a>> = Vec::new();
    let mut seen: BTreeMap<ProcessId, usize> = BTreeMap::new();
    for thread in view.threads {
        let place = *seen.entry(thread.process).or_insert_with(|| {
            programs.push(Program { process: thread.process, threads: Vec::new() });
            programs.len() - 1
        });
        programs[place].threads.push(thread);
    }
    programs
}

impl ManagedLlc {
    /// The cores whose CPUs these are.
    fn of(machine: &Machine, cpus: &CpuSet) -> Self {
        let cores: BTreeSet<usize> = cpus
            .iter()
            .filter_map(|cpu| machine.cpu_index(cpu))
            .map(|index| machine.cpus()[index].core)
            .collect();
        let cores = cores.into_iter().map(|core| machine.cores()[core].cpus.intersection(cpus));
        Self { cores: cores.collect(), ..Self::default() }
    }

    /// A reading of the latencies.
    fn read(&mut self, view: &View<'_>) {
        let Some(division) = &mut self.division else { return };
        let slack = |process: ProcessId| {
            let threads = view.threads.iter().filter(|one| one.process == process);
            Program { process, threads: threads.collect() }.slack()
        };
        let slacks: Vec<Option<f64>> =
            division.tenants.iter().map(|one| slack(one.process)).collect();
        division.read(&slacks);
    }

    /// Adds to the plan what has to change of its ways: those of the services side by side in their order, then
    /// those of all others.
    fn ask(&mut self, index: usize, cache: Option<Cache>, view: &View<'_>, plan: &mut Plan) {
        let mut asked = Ways::default();
        let mut words = Vec::new();
        if let (Some(division), Some(cache)) = (&self.division, cache) {
            let mut first = 0;
            let mut rest: Vec<ThreadId> = Vec::new();
            for (process, threads) in &self.members {
                if !division.tenants.iter().any(|one| one.process == *process) {
                    rest.extend(threads);
                }
            }
            for tenant in &division.tenants {
                let of = self.members.iter().find(|(process, _)| *process == tenant.process);
                let threads = of.map(|(_, threads)| threads.clone()).unwrap_or_default();
                let program = threads.first().and_then(|&id| view.thread(id));
                let program = program.map_or("", |thread| thread.program.as_str());
                let slack = match tenant.slack {
                    Some(slack) => format!("slack {:.0} %", slack * 100.0),
                    None => "slack not known".to_owned(),
                };
                let (cores, ways) = (tenant.cores.len(), tenant.ways);
                words.push(format!("{program} {cores} cores, {ways} ways ({slack})"));
                asked.parts.push(CachePart { mask: mask(first, tenant.ways), threads });
                first += tenant.ways;
            }
            if !rest.is_empty() {
                // Somebody who is only passing has no ways of its own.
                let (first, ways) = match division.free_ways {
                    0 => (0, cache.ways),
                    free => (first, free),
                };
                asked.parts.push(CachePart { mask: mask(first, ways), threads: rest });
            }
            words.push(division.changed.clone());
        }
        let reason = || format!("LLC {index}: {}", words.join(", "));
        self.asked.ask((index, asked), reason, "capped", view, plan);
    }
}

impl Policy for Parties {
    fn name(&self) -> &str {
        "parties"
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(self.interval),
            counters: Vec::new(),
            controls: vec![ActionKind::Place, ActionKind::Partition],
            solo_figures: false,
            by_ways: false,
        }
    }

    fn goes_by_latency(&self) -> bool {
        true
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        no_two_partitions(machine)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        let matters = match event {
            Event::Arrived(_) | Event::Exited(_) => true,
            // Who has no LLC of its own came to another one.
            Event::Switched { .. } => {
                !self.home.is_empty()
                    && view.threads.iter().any(|one| !self.home.contains_key(&one.process))
            }
            Event::Slept(_) | Event::Woke(_) => false,
        };
        matters.then(|| {
            self.follow(view);
            self.plan(view, false)
        })
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.follow(view);
        for llc in &mut self.llcs {
            llc.read(view);
            llc.asked.begin_interval();
        }
        self.plan(view, true)
    }

    fn not_in_force(&mut self, action: &Action) {
        for (index, llc) in self.llcs.iter_mut().enumerate() {
            llc.asked.not_in_force(index, |one| is_among(&llc.members, *one), action);
        }
    }
}

#[cfg(test)]
mod tests;
