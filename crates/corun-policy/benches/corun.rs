//! What a decision of `corun` takes where programs have stored profiles. The target is 10 ms for 64 threads.
//!
//! `searched` is a decision that searches: threads are where the kernel put them. `nothing_changed` is one after which all
//! stays as it is, as most are. On one node (Xeon X5365, with more threads EPYC 9554) and on two (two Xeon 8480+) LLCs stay whole; with ways, those of the
//! Xeon Gold 6138 are divided, and with more threads than its CPUs those of the EPYC. Of several core types (Core i9-12900K)
//! threads take turns, which are searched each time.

use std::sync::Arc;

use corun_machine::{Machine, preset};
use corun_model::{LoadedProgram, Model, ModelOptions};
use corun_policy::{
    Action, BuildOptions, LoadedPredictor, Nanoseconds, Plan, Policy, Predictor, ProcessId, Rates,
    Scope, ScopedRate, ThreadId, ThreadState, ThreadView, View, build,
};
use corun_profile::{Library, Profile, ProfileData};
use divan::{Bencher, counter::ItemsCount};

/// Programs of two to eight phases.
const PROGRAMS: [&str; 16] = [
    "bzip2",
    "calculix",
    "gawk",
    "git",
    "hmmsearch",
    "igraph",
    "imagemagick",
    "lammps",
    "lua",
    "metis",
    "numpy",
    "perl",
    "postgres",
    "ruby",
    "sort",
    "xalan",
];

const CASES: [&str; 14] = [
    "8-one-node",
    "16-one-node",
    "32-one-node",
    "64-one-node",
    "8-two-nodes",
    "16-two-nodes",
    "32-two-nodes",
    "64-two-nodes",
    "8-ways",
    "16-ways",
    "32-ways",
    "64-ways",
    "8-core-types",
    "16-core-types",
];

fn main() {
    divan::main();
}

/// Threads on a machine, as a policy finds them.
struct Case {
    machine: Arc<Machine>,
    predictor: Arc<dyn Predictor>,
    threads: Vec<ThreadView>,
    divides_ways: bool,
}

impl Case {
    fn of(name: &str) -> Self {
        let (count, what) = name.split_once('-').expect("the names above have a hyphen");
        let count: usize = count.parse().expect("the names above begin with a number");
        let preset_of = match what {
            "two-nodes" => "2x-xeon-8480",
            "ways" if count <= 20 => "xeon-gold-6138",
            "core-types" => "core-i9-12900k",
            "one-node" if count <= 8 => "xeon-x5365",
            _ => "epyc-9554",
        };
        let machine = Arc::new(preset(preset_of).expect("it is shipped"));
        let model =
            Model::new(machine.clone(), ModelOptions::default()).expect("a shipped machine");
        let model = Arc::new(model);
        let library = Library::shipped().expect("it is shipped");
        let load = |name: &&str| {
            let profile = library.get(name).expect("it is shipped");
            Arc::new(model.load(&without_traces(profile)).expect("it is shipped"))
        };
        let programs: Vec<Arc<LoadedProgram>> = PROGRAMS.iter().take(count).map(load).collect();
        let threads = threads(&machine, &programs, count);
        let predictor = Arc::new(LoadedPredictor::new(model, programs));
        Self { machine, predictor, threads, divides_ways: what == "ways" }
    }

    fn policy(&self) -> Box<dyn Policy> {
        let parameters = [("ways".to_owned(), f64::from(u8::from(self.divides_ways)))];
        let options = BuildOptions { seed: 0, parameters: parameters.into_iter().collect() };
        let mut policy = build("corun", &options).expect("it is in the registry");
        policy.predict_by(&self.predictor);
        policy
    }

    fn view(&self) -> View<'_> {
        View {
            machine: &self.machine,
            threads: &self.threads,
            now: Nanoseconds::from_secs_f64(60.0),
        }
    }

    /// Carries out what a plan says of places and pages.
    fn carry_out(&mut self, plan: &Plan) {
        for step in &plan.steps {
            match &step.action {
                Action::Allow { thread, cpus } => {
                    let thread = &mut self.threads[thread.0 as usize];
                    (thread.cpu, thread.allowed) = (cpus.first(), cpus.clone());
                }
                Action::MovePages { thread, node } => {
                    let nodes = self.machine.nodes().len();
                    let share = |other| f64::from(u8::from(other == *node));
                    self.threads[thread.0 as usize].pages_by_node = (0..nodes).map(share).collect();
                }
                _ => {}
            }
        }
    }
}

/// Without what is replayed to load it: the tables are as large, and quickly made.
fn without_traces(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    if let ProfileData::Recording(recording) = &mut profile.data {
        recording.phases.iter_mut().for_each(|phase| phase.core = None);
    }
    profile
}

/// A thread of each program in turn, on the LLCs in turn, each on a core of its own with its pages beside it.
fn threads(machine: &Machine, programs: &[Arc<LoadedProgram>], count: usize) -> Vec<ThreadView> {
    let llcs = machine.llcs().len();
    let mut free: Vec<Vec<usize>> = vec![Vec::new(); llcs];
    for core in machine.cores().iter().rev() {
        let cpu =
            core.cpus.first().and_then(|cpu| machine.cpu_index(cpu)).expect("a core has CPUs");
        free[machine.cpus()[cpu].llc].push(cpu);
    }
    let thread = |index: usize| {
        let cpu = free[index % llcs].pop().expect("there is a core for each");
        let (id, process) = (ThreadId(index as u64), ProcessId(index as u64));
        let name = programs[index % programs.len()].name.clone();
        let here = machine.cpus()[cpu].node;
        let share = |node| f64::from(u8::from(node == here));
        ThreadView {
            profile: Some(name.clone().into()),
            cpu: Some(machine.cpus()[cpu].id),
            state: ThreadState::Running,
            pages_by_node: (0..machine.nodes().len()).map(share).collect(),
            rates: Rates {
                instructions_per_s: Some(2e9),
                cycles_per_s: Some(2e9),
                llc_misses: Some(ScopedRate { per_s: 2e6, scope: Scope::Demand }),
                cpu_share: Some(1.0),
                ..Rates::default()
            },
            ..ThreadView::new(id, process, name, &machine.cpu_set())
        }
    };
    (0..count).map(thread).collect()
}

/// Everything is searched.
#[divan::bench(args = CASES)]
fn searched(bencher: Bencher, name: &str) {
    let case = Case::of(name);
    let count = ItemsCount::new(case.threads.len());
    bencher.counter(count).bench_local(|| case.policy().decide(&case.view()));
}

/// All is as the policy wants it: the usual interval.
#[divan::bench(args = CASES)]
fn nothing_changed(bencher: Bencher, name: &str) {
    let mut case = Case::of(name);
    let mut policy = case.policy();
    let settles = (0..100).any(|_| {
        let plan = policy.decide(&case.view());
        case.carry_out(&plan);
        plan.steps.is_empty()
    });
    assert!(settles, "{name}");
    bencher
        .counter(ItemsCount::new(case.threads.len()))
        .bench_local(|| policy.decide(&case.view()));
}
