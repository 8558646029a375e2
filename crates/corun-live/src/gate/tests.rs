//! Policies that harm on purpose, under counters that are computed or told.

use std::process::{Child, Command};
use std::sync::Mutex;

use corun_linux::{Roots, Task, TaskFacts, affinity, facts};
use corun_machine::{CpuId, Machine, preset};
use corun_policy::{
    ActionKind, CounterKind, Interval, Needs, Plan, Policy, Scope, ThreadState, View,
};

use super::*;
use crate::{
    Host, HostOptions, Journal, LiveError, PlacementActuator, ProcessSelector, Rule, ScannedThread,
    Scanner, Source, SourceError, Target, Tick, Verdict,
};

mod turns;

/// Holds the threads, by their order, on these CPUs, as long as it is told to.
#[derive(Clone, Default)]
struct Holds(Arc<Mutex<Option<Vec<&'static str>>>>, Arc<Mutex<Vec<String>>>);

impl Holds {
    fn tell(&self, cpus: &[&'static str]) {
        *self.0.lock().unwrap() = Some(cpus.to_vec());
    }

    /// What it heard is not in force.
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.1.lock().unwrap())
    }
}

impl Policy for Holds {
    fn name(&self) -> &str {
        "holds"
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(Nanoseconds(1)),
            controls: vec![ActionKind::Place],
            ..Needs::default()
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let mut plan = Plan::none();
        for (thread, cpus) in view.threads.iter().zip(self.0.lock().unwrap().iter().flatten()) {
            let cpus = cpus.parse().unwrap();
            if thread.allowed != cpus {
                plan.push(Action::Allow { thread: thread.id, cpus }, "told so");
            }
        }
        plan
    }

    fn not_in_force(&mut self, action: &Action) {
        self.1.lock().unwrap().push(action.in_words(&|id| format!("thread {}", id.0)));
    }
}

/// Running threads, each of a target of its own, which is named after a profile.
struct Told(Vec<(TaskFacts, Target)>, Vec<Target>);

impl Told {
    fn new(programs: &[(&str, u32)]) -> Self {
        let one = |(place, (name, cpu)): (usize, &(&str, u32))| {
            let pid = 4_000_000 + place as u32;
            let task = Task { pid, tid: pid, start_ticks: 7 };
            let facts = TaskFacts {
                task,
                parent: 1,
                name: "told".into(),
                wants_cpu: true,
                cpu: CpuId(*cpu),
                cpu_ns: 0,
                nice: 0,
                is_real_time: false,
                affinity: "0-7".parse().unwrap(),
            };
            (facts, Target::new(*name, ProcessSelector::Descendants(task)))
        };
        let threads: Vec<_> = programs.iter().enumerate().map(one).collect();
        let targets = threads.iter().map(|(_, target)| target.clone()).collect();
        Self(threads, targets)
    }
}

impl Scanner for Told {
    fn targets(&self) -> &[Target] {
        &self.1
    }

    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError> {
        let state = ThreadState::Running;
        let threads = self.0.iter().enumerate();
        Ok(threads
            .map(|(target, (facts, _))| ScannedThread { facts: facts.clone(), state, target })
            .collect())
    }

    fn add(&mut self, _: Target) -> Result<(), LiveError> {
        unreachable!("no program is added")
    }

    fn online(&self) -> Option<CpuSet> {
        Some("0-7".parse().unwrap())
    }
}

fn gate(machine: &Arc<Machine>, options: GateOptions) -> Gate {
    let model = Arc::new(Model::new(machine.clone(), Default::default()).unwrap());
    Gate::new(model, Library::shipped().unwrap(), options)
}

/// Exchanges the first two threads, once it is told to.
#[derive(Clone, Default)]
struct Swaps(Arc<Mutex<bool>>);

impl Policy for Swaps {
    fn name(&self) -> &str {
        "swaps"
    }

    fn needs(&self) -> Needs {
        Holds::default().needs()
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let mut plan = Plan::none();
        if *self.0.lock().unwrap() {
            let [first, second] = [0, 1].map(|index| view.threads[index].id);
            plan.push(Action::Swap { first, second }, "told so");
        }
        plan
    }
}

/// A host in a dry run.
fn dry_host(
    programs: &[(&str, u32)],
    policy: Box<dyn Policy>,
    sources: Vec<Box<dyn Source>>,
) -> (tempfile::TempDir, Host) {
    dry_host_on(Arc::new(preset("xeon-x5365").unwrap()), programs, policy, sources)
}

fn dry_host_on(
    machine: Arc<Machine>,
    programs: &[(&str, u32)],
    policy: Box<dyn Policy>,
    sources: Vec<Box<dyn Source>>,
) -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().unwrap();
    let roots = Roots { sys: folder.path().join("sys"), ..Roots::default() };
    std::fs::create_dir_all(roots.sys.join("devices/system/cpu")).unwrap();
    std::fs::write(roots.sys.join("devices/system/cpu/online"), "0-7\n").unwrap();
    let actuators: Vec<Box<dyn crate::Actuator>> = vec![Box::new(PlacementActuator::new(&roots))];
    let told = Box::new(Told::new(programs));
    let options = HostOptions::default();
    let host = Host::new(machine, vec![policy], told, sources, actuators, roots, options);
    (folder, host.unwrap())
}

fn at(second: u64) -> Nanoseconds {
    Nanoseconds(second * 1_000_000_000)
}

/// What became of each step of a plan.
fn verdicts(tick: &Tick) -> Vec<String> {
    let verdict = |one: &crate::Decision| match &one.verdict {
        Verdict::Proposed(_) => "made".to_owned(),
        Verdict::Refused(why) => why.0.clone(),
        other => format!("{other:?}"),
    };
    tick.decisions.iter().map(verdict).collect()
}

/// What becomes of a plan that sends threads from some CPUs to others, in a dry run.
fn asked(programs: &[(&str, u32)], from: &[&'static str], to: &[&'static str]) -> Vec<String> {
    asked_with(Finds(&[]), programs, from, to)
}

/// The same, where these profiles were found.
fn asked_with(
    found: Finds,
    programs: &[(&str, u32)],
    from: &[&'static str],
    to: &[&'static str],
) -> Vec<String> {
    let policy = Holds::default();
    let sources: Vec<Box<dyn Source>> = vec![Box::new(found)];
    let (_folder, mut host) = dry_host(programs, Box::new(policy.clone()), sources);
    policy.tell(from);
    host.tick_at(at(1)).unwrap();
    host.gate_by(gate(&Arc::new(host.machine().clone()), GateOptions::default()));
    policy.tell(to);
    verdicts(&host.tick_at(at(2)).unwrap())
}

/// CPUs 0 and 1 share a cache, as 2 and 3 do.
#[test]
fn a_plan_is_made_where_the_model_expects_a_gain() {
    let programs = [("kernel-triad", 0), ("kernel-chase", 1)];
    assert_eq!(asked(&programs, &["0", "1"], &["0", "4"]), ["made"]);
    let refused = asked(&programs, &["0", "4"], &["0", "1"]);
    assert!(refused[0].starts_with("gate: the model expects -"), "{refused:?}");
    assert!(refused[0].ends_with(" in all, which is a loss"), "{refused:?}");
}

#[test]
fn a_plan_that_piles_threads_on_one_cpu_is_not_made() {
    let programs = [("openssl", 0), ("openssl", 2), ("flac", 4)];
    let refused = asked(&programs, &["0", "2", "4"], &["0", "0", "4"]);
    // Two threads that compute, on one CPU: half the speed each; the third program loses nothing.
    // The geometric mean of 1/2 and 1 is 0.707.
    assert_eq!(refused.len(), 1);
    assert!(refused[0].contains("expects -29.3 % in all"), "{refused:?}");
}

#[test]
fn a_plan_is_not_made_where_one_program_pays_for_the_others() {
    // Two pairs of programs are parted; for that two others share a CPU.
    let programs = [("openssl", 0), ("flac", 0), ("gzip", 2), ("xz", 2), ("lua", 4), ("tcc", 6)];
    let from = ["0", "0", "2", "2", "4", "6"];
    let refused = asked(&programs, &from, &["0", "1", "2", "3", "4", "4"]);
    assert!(refused.iter().all(|why| *why == refused[0]), "{refused:?}");
    assert!(refused[0].contains("gate: the model expects +"), "{refused:?}");
    assert!(
        refused[0].contains("in all, but -50.") || refused[0].contains("but -49."),
        "{refused:?}"
    );
}

#[test]
fn alike_threads_are_not_swapped_and_what_is_so_already_is_no_plan() {
    let programs = [("sort", 0), ("sort", 4)];
    let refused = asked(&programs, &["0", "4"], &["4", "0"]);
    assert!(refused[0].contains("expects +0.0 % in all, which is within the noise"), "{refused:?}");
    assert_eq!(asked(&programs, &["0", "4"], &["0", "4"]), [""; 0]);
}

/// Threads that may run on the same CPUs get each the other's CPU, which the gate has to judge.
#[test]
fn a_swap_of_threads_with_the_same_cpus_is_judged() {
    let swapped = |programs: &[(&str, u32)]| {
        let policy = Swaps::default();
        let (_folder, mut host) = dry_host(programs, Box::new(policy.clone()), Vec::new());
        host.tick_at(at(1)).unwrap();
        host.gate_by(gate(&Arc::new(host.machine().clone()), GateOptions::default()));
        *policy.0.lock().unwrap() = true;
        verdicts(&host.tick_at(at(2)).unwrap())
    };
    let alike = swapped(&[("sort", 0), ("sort", 4)]);
    assert!(alike[0].contains("expects +0.0 % in all, which is within the noise"), "{alike:?}");
    // Each hog gets a cache with a program that hardly uses one, and the other way about.
    let hogs = [("kernel-chase", 0), ("openssl", 4), ("kernel-triad", 1), ("openssl", 5)];
    assert_eq!(swapped(&hogs), ["made"]);
}

/// A trial must not lose its plan to changes by which no thread runs elsewhere, such as another scheduling policy.
#[test]
fn a_plan_that_moves_nobody_leaves_the_one_on_trial() {
    let machine = Arc::new(preset("xeon-x5365").unwrap());
    let (mut gate, table) = (gate(&machine, GateOptions::default()), Threads::new(0));
    let change = || {
        let task = Task { pid: 4_000_000, tid: 4_000_000, start_ticks: 7 };
        vec![Change::SchedulingPolicy { task, before: 0, after: 3 }]
    };
    let expected = Expectation::Unknown { why: "told so".to_owned() };
    let foreseen = Some(Foreseen { expected, turns: BTreeSet::new() });
    gate.carried_out(at(1), Admitted { foreseen, moves: 1 }, Vec::new(), change());
    assert_eq!(gate.trial.since(), Some(at(1)));
    let moves_nobody = gate.admit(at(2), &[], &table, &"0-7".parse().unwrap()).unwrap();
    gate.carried_out(at(2), moves_nobody, Vec::new(), change());
    assert_eq!(gate.trial.since(), Some(at(1)));
}

/// Without a profile the gate cannot tell, and the plan is made on trial.
#[test]
fn a_program_without_a_profile_is_let_through() {
    let made = asked(&[("nobody-knows", 0), ("sort", 4)], &["0", "4"], &["0", "0"]);
    assert_eq!(made, ["made"]);
}

/// Finds these profiles for the threads, by their order, whatever their targets are called.
struct Finds(&'static [&'static str]);

impl Source for Finds {
    fn name(&self) -> &'static str {
        "profiles"
    }

    fn counters(&self) -> Vec<CounterKind> {
        Vec::new()
    }

    fn count(&mut self, _: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        for ((view, _), profile) in threads.iter_mut().zip(self.0) {
            view.profile = Some((*profile).into());
        }
        Ok(())
    }
}

/// A target may be many programs, such as all services: the gate goes by the profile that was found for each process.
#[test]
fn the_gate_goes_by_the_profile_that_was_found_for_a_process() {
    let programs = [("services", 0), ("services", 4)];
    let alike = asked_with(Finds(&["sort", "sort"]), &programs, &["0", "4"], &["4", "0"]);
    assert!(alike[0].contains("expects +0.0 % in all, which is within the noise"), "{alike:?}");
    let apart = Finds(&["kernel-triad", "kernel-chase"]);
    let refused = asked_with(apart, &programs, &["0", "4"], &["0", "1"]);
    assert!(refused[0].ends_with(" in all, which is a loss"), "{refused:?}");
}

/// Each thread does 1e9 instructions a second where it may use several CPUs, and a share of that elsewhere.
struct Suffers(f64);

impl Source for Suffers {
    fn name(&self) -> &'static str {
        "told"
    }

    fn counters(&self) -> Vec<CounterKind> {
        vec![CounterKind::Instructions]
    }

    fn count(&mut self, _: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        for (view, thread) in threads.iter_mut() {
            let held = thread.facts.affinity.iter().count() == 1;
            let per_s = if held { self.0 * 1e9 } else { 1e9 };
            let done = per_s * thread.elapsed().as_secs_f64();
            view.counts.add(CounterKind::Instructions, done, thread.elapsed(), Scope::Demand);
        }
        Ok(())
    }
}

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A real process, which a policy holds on one CPU from the sixth second on.
struct Acting {
    host: Host,
    policy: Holds,
    program: Sleeper,
    _folder: tempfile::TempDir,
    now_s: u64,
}

impl Acting {
    /// None where there is one CPU only.
    fn new(source: Suffers) -> Option<Self> {
        let program = Sleeper(Command::new("sleep").arg("1000").spawn().unwrap());
        let pid = program.0.id();
        if affinity(pid).unwrap().iter().count() < 2 {
            eprintln!("skipped: one CPU alone");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::default();
        let task = facts(&roots, pid, pid).unwrap().task;
        let rule = Rule { pid: Some(task.pid), ..Rule::default() };
        let target = Target::new("nobody-knows", ProcessSelector::Rule(rule));
        let machine = Arc::new(preset("xeon-x5365").unwrap());
        let policy = Holds::default();
        let mut host = Host::new(
            machine.clone(),
            vec![Box::new(policy.clone())],
            Box::new(crate::Processes::new(&roots, vec![target]).unwrap()),
            vec![Box::new(source)],
            vec![Box::new(PlacementActuator::new(&roots))],
            roots.clone(),
            HostOptions::default(),
        )
        .unwrap();
        host.act_under(Journal::create(&folder.path().join("journals"), &roots).unwrap());
        host.gate_by(gate(&machine, GateOptions::default()));
        let mut own = Self { host, policy, program, _folder: folder, now_s: 0 };
        for _ in 0..6 {
            assert!(own.tick().decisions.is_empty());
        }
        own.policy.tell(&["0"]);
        Some(own)
    }

    fn tick(&mut self) -> Tick {
        self.now_s += 1;
        self.host.tick_at(Nanoseconds(self.now_s * 1_000_000_000)).unwrap()
    }

    fn may_run_on(&self) -> usize {
        affinity(self.program.0.id()).unwrap().iter().count()
    }
}

#[test]
fn a_plan_that_the_counters_show_to_harm_is_undone_and_the_policy_rests() {
    let Some(mut acting) = Acting::new(Suffers(0.7)) else { return };
    let before = acting.may_run_on();
    let made = acting.tick();
    assert!(matches!(made.decisions[0].verdict, Verdict::Done(_)), "{made:?}");
    assert_eq!(acting.may_run_on(), 1);
    let notes: Vec<String> = (0..6).flat_map(|_| acting.tick().unread).collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    let expected = "gate: the plan of 7.0 s made all programs -30.0 % (the model could not tell: there is no \
                    profile of nobody-knows); the plan is undone";
    assert_eq!(notes[0], expected);
    assert_eq!(acting.may_run_on(), before, "the plan stands");
    // It was told before it was asked again, and again when what it asked for then was refused.
    assert_eq!(acting.policy.told(), ["thread 0 on CPU 0"; 2]);
    // The policy asks again, and rests for a minute.
    let refused = acting.tick();
    let Verdict::Refused(why) = &refused.decisions[0].verdict else { panic!("{refused:?}") };
    assert_eq!(acting.policy.told(), ["thread 0 on CPU 0"]);
    assert!(why.0.starts_with("gate: the policy rests until 73.0 s: the plan of 7.0 s"), "{why}");
    while acting.now_s < 72 {
        acting.tick();
        assert_eq!(acting.may_run_on(), before);
    }
    let again = acting.tick();
    assert!(matches!(again.decisions[0].verdict, Verdict::Done(_)), "{again:?}");
    let undone = acting.host.undo();
    assert!(undone.iter().all(|one| one.outcome.is_ok()), "{undone:?}");
    assert_eq!(acting.may_run_on(), before);
}

#[test]
fn a_plan_that_does_no_harm_stays() {
    for share in [1.0, 1.3, 0.99] {
        let Some(mut acting) = Acting::new(Suffers(share)) else { return };
        for _ in 0..20 {
            assert!(acting.tick().unread.is_empty());
        }
        assert_eq!(acting.may_run_on(), 1);
    }
}

#[test]
fn so_many_migrations_a_second_are_made_in_the_long_run() {
    let mut budget = Budget::full(10.0);
    // A plan of 64 moves is one plan; the next waits until it is paid for.
    assert!(budget.has(at(1), 64));
    budget.take(64);
    assert!(!budget.has(at(6), 1));
    assert!(budget.has(at(7), 4));
    budget.take(4);
    let made: usize = (8..1008)
        .filter(|&s| {
            let may = budget.has(at(s), 20);
            budget.take(if may { 20 } else { 0 });
            may
        })
        .count();
    assert!((499..=501).contains(&made), "{made}");
}

/// A policy that proposes the same plan each second costs the model nothing for a while.
#[test]
fn a_plan_that_was_refused_is_remembered_for_five_seconds() {
    let allow = |thread: u64, cpus: &str| Step {
        action: Action::Allow {
            thread: corun_policy::ThreadId(thread),
            cpus: cpus.parse().unwrap(),
        },
        reason: format!("asked for at {thread}"),
    };
    let asked = [allow(1, "0"), allow(2, "4")];
    let actions = asked.iter().map(|step| step.action.clone()).collect();
    let refused = RefusedPlan { until: at(7), actions, why: "told so".to_owned() };
    assert!(refused.is(&asked, at(2)) && refused.is(&asked, at(6)));
    assert!(!refused.is(&asked, at(7)));
    assert!(!refused.is(&asked[..1], at(2)));
    assert!(!refused.is(&[allow(1, "0"), allow(2, "5")], at(2)));
    // And the gate itself: remembered or asked anew, the answer to the same question is the same.
    let policy = Holds::default();
    let programs = [("openssl", 0), ("openssl", 2), ("flac", 4)];
    let (_folder, mut host) = dry_host(&programs, Box::new(policy.clone()), Vec::new());
    policy.tell(&["0", "2", "4"]);
    host.tick_at(at(1)).unwrap();
    host.gate_by(gate(&Arc::new(host.machine().clone()), GateOptions::default()));
    policy.tell(&["0", "0", "4"]);
    let first = verdicts(&host.tick_at(at(2)).unwrap());
    assert_eq!(verdicts(&host.tick_at(at(3)).unwrap()), first);
    assert_eq!(verdicts(&host.tick_at(at(8)).unwrap()), first);
}
