mod groups;
mod storm;

use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use corun_linux::{Task, TaskFacts, facts};
use corun_machine::{CpuId, CpuSet, preset};
use corun_policy::{
    Action, ActionKind, CounterKind, Interval, Needs, Plan, Rates, Scope, ScopedRate, ThreadState,
    View,
};
use corun_runtime::RuntimeError;

use super::*;
use crate::backend::LOOKED_AT;
use crate::{
    Decision, PlacementActuator, ProcessSelector, Processes, Reverted, ScannedThread, SourceError,
    Threads, Verdict,
};

/// Holds every thread on CPUs that can be told anew.
struct HoldOn(Arc<Mutex<CpuSet>>);

impl Policy for HoldOn {
    fn name(&self) -> &str {
        "hold-on"
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(Nanoseconds(1)),
            counters: vec![CounterKind::LlcMisses],
            controls: vec![ActionKind::Place],
            ..Needs::default()
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let cpus = self.0.lock().unwrap().clone();
        assert!(!cpus.is_empty(), "a fault of the policy's own");
        let mut plan = Plan::none();
        for thread in view.threads.iter().filter(|thread| thread.allowed != cpus) {
            plan.push(Action::Allow { thread: thread.id, cpus: cpus.clone() }, "told so");
        }
        plan
    }
}

/// Every thread misses ten times a second.
struct TenMisses;

impl Source for TenMisses {
    fn name(&self) -> &'static str {
        "ten"
    }

    fn counters(&self) -> Vec<CounterKind> {
        vec![CounterKind::LlcMisses]
    }

    fn count(&mut self, _: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        for (view, thread) in threads.iter_mut() {
            let misses = 10.0 * thread.elapsed().as_secs_f64();
            view.counts.add(CounterKind::LlcMisses, misses, thread.elapsed(), Scope::Demand);
        }
        Ok(())
    }
}

/// Threads as a test says, under one target.
#[derive(Clone)]
struct Told {
    threads: Arc<Mutex<Vec<TaskFacts>>>,
    targets: Vec<Target>,
}

impl Told {
    fn new(threads: Vec<TaskFacts>) -> Self {
        let whom = ProcessSelector::Descendants(Task { pid: 1, tid: 1, start_ticks: 0 });
        let name = Arc::from("told");
        let target = Target::new(name, whom);
        Self { threads: Arc::new(Mutex::new(threads)), targets: vec![target] }
    }
}

impl Scanner for Told {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError> {
        let threads = self.threads.lock().unwrap().clone();
        let state = ThreadState::Running;
        Ok(threads.into_iter().map(|facts| ScannedThread { facts, state, target: 0 }).collect())
    }

    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.targets.push(target);
        Ok(())
    }
}

fn set(cpus: &str) -> CpuSet {
    cpus.parse().unwrap()
}

fn thread(pid: u32, tid: u32, affinity: &str) -> TaskFacts {
    TaskFacts {
        task: Task { pid, tid, start_ticks: 7 },
        parent: 1,
        name: "told".into(),
        wants_cpu: true,
        cpu: CpuId(0),
        cpu_ns: 0,
        nice: 0,
        is_real_time: false,
        affinity: set(affinity),
    }
}

/// A machine with CPUs 0 to 3, of which `online` says which are on line.
struct Ground {
    folder: tempfile::TempDir,
    cpus: Arc<Mutex<CpuSet>>,
}

impl Ground {
    fn new(cpus: &str) -> Self {
        let own =
            Self { folder: tempfile::tempdir().unwrap(), cpus: Arc::new(Mutex::new(set(cpus))) };
        own.online("0-3");
        own
    }

    fn roots(&self) -> Roots {
        Roots { sys: self.folder.path().join("sys"), ..Roots::default() }
    }

    fn online(&self, cpus: &str) {
        let folder = self.roots().sys.join("devices/system/cpu");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("online"), format!("{cpus}\n")).unwrap();
    }

    fn tell(&self, cpus: &str) {
        *self.cpus.lock().unwrap() = cpus.parse().unwrap_or_default();
    }

    fn host(&self, told: &Told, acting: bool) -> Host {
        let roots = self.roots();
        let mut host = Host::new(
            Arc::new(preset("xeon-x5365-2llc").unwrap()),
            vec![Box::new(HoldOn(self.cpus.clone()))],
            Box::new(told.clone()),
            vec![Box::new(TenMisses)],
            vec![Box::new(PlacementActuator::new(&roots))],
            roots.clone(),
            HostOptions::default(),
        )
        .unwrap();
        if acting {
            let journals = self.folder.path().join("journals");
            host.act_under(Journal::create(&journals, &roots).unwrap());
        }
        host
    }
}

#[test]
fn a_dry_run_shows_the_plan_as_done_and_changes_nothing() {
    let told = Told::new(vec![thread(4_000_000, 4_000_000, "0-3")]);
    let mut host = Ground::new("2").host(&told, false);
    let round = host.tick().unwrap();
    assert_eq!(round.arrived, 1);
    assert!(
        matches!(&round.decisions[0].verdict, Verdict::Proposed(changes) if changes.len() == 1)
    );
    assert_eq!(host.views()[0].allowed, set("2"));
    assert!(host.tick().unwrap().decisions.is_empty(), "it repeats itself");
    let misses_per_s = host.views()[0].rates.llc_misses.unwrap().per_s;
    assert!((misses_per_s - 10.0).abs() < 1e-9, "{misses_per_s}");
    assert!(host.undo().is_empty());
}

/// Nothing here holds CPUs idle, which CAMPS can do without. CPUs 0 and 1 are the big cores.
#[test]
fn camps_runs_where_no_cpu_can_be_held_idle() {
    let ground = Ground::new("0-5");
    ground.online("0-5");
    let threads = (0..6).map(|one| thread(4_000_000 + one, 4_000_000 + one, "0-5"));
    let machine = Arc::new(preset("juno-2b4s").unwrap());
    let model = Arc::new(corun_model::Model::new(machine.clone(), Default::default()).unwrap());
    let host = |policy: Box<dyn Policy>| {
        Host::new(
            machine.clone(),
            vec![policy],
            Box::new(Told::new(threads.clone().collect())),
            vec![Box::new(crate::ModelledSource::new(model.clone(), Default::default(), 1e9))],
            vec![Box::new(PlacementActuator::new(&ground.roots()))],
            ground.roots(),
            HostOptions::default(),
        )
    };
    let build = |name| corun_policy::build(name, &Default::default()).unwrap();
    let round = host(build("camps")).unwrap().tick().unwrap();
    let of = |one: &Decision| (one.policy.clone(), one.action.kind());
    let found: Vec<_> = round.decisions.iter().map(of).collect();
    assert!(!found.is_empty());
    assert!(found.iter().all(|one| *one == ("camps".to_owned(), ActionKind::Place)), "{found:?}");
    // One that cannot do without what is lacking is refused.
    let refused = host(build("vbsc")).err().unwrap();
    assert!(matches!(
        refused,
        LiveError::Runtime(RuntimeError::Control { kind: ActionKind::OrderSlots, .. })
    ));
}

/// Three threads of `sort` under an LLC of 4 MiB, two of which take turns on CPU 0.
#[test]
fn modelled_threads_that_take_turns_hold_no_more_than_there_is() {
    let machine = Arc::new(preset("xeon-x5365-2llc").unwrap());
    let model = Arc::new(corun_model::Model::new(machine.clone(), Default::default()).unwrap());
    let library = corun_profile::Library::shipped().unwrap();
    let sort = Arc::new(model.load(library.get("sort").unwrap()).unwrap());
    let ground = Ground::new("0-3");
    let held = |cpus: &[u32]| {
        let on = |(one, &cpu): (u32, &u32)| TaskFacts {
            cpu: CpuId(cpu),
            ..thread(4_000_000 + one, 4_000_000 + one, "0-3")
        };
        let told = Told::new((0..).zip(cpus).map(on).collect());
        let programs = [("told".to_owned(), sort.clone())].into();
        let mut host = Host::new(
            machine.clone(),
            vec![Box::new(HoldOn(ground.cpus.clone()))],
            Box::new(told),
            vec![Box::new(crate::ModelledSource::new(model.clone(), programs, 1e9))],
            vec![Box::new(PlacementActuator::new(&ground.roots()))],
            ground.roots(),
            HostOptions::default(),
        )
        .unwrap();
        host.tick().unwrap();
        let of_each = host.views().iter().map(|view| view.llc_occupancy_bytes.unwrap());
        of_each.collect::<Vec<f64>>()
    };
    let llc_bytes = f64::from(4 << 20);
    let together = held(&[0, 0, 1]);
    assert!(together.iter().sum::<f64>() <= llc_bytes, "{together:?}");
    // The two that take turns hold what one does that has the CPU to itself.
    let apart = held(&[0, 1]);
    assert!((together[0] + together[1] - apart[0]).abs() < 1.0, "{together:?}, {apart:?}");
    assert!((together[2] - apart[1]).abs() < 1.0, "{together:?}, {apart:?}");
}

/// Two threads of 40 misses per 1000 instructions whose memory is on the second node.
struct AwayFromHome;

impl Source for AwayFromHome {
    fn name(&self) -> &'static str {
        "away"
    }

    fn counters(&self) -> Vec<CounterKind> {
        vec![CounterKind::Instructions, CounterKind::LlcMisses]
    }

    fn count(&mut self, _: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        for (view, thread) in threads.iter_mut() {
            let misses = ScopedRate { per_s: 4e7, scope: Scope::Demand };
            let rates = Rates {
                instructions_per_s: Some(1e9),
                llc_misses: Some(misses),
                ..Rates::default()
            };
            view.counts.add_rates(&rates, thread.elapsed());
            view.pages_by_node = vec![0.1, 0.9];
        }
        Ok(())
    }
}

#[test]
fn n_mass_plans_between_the_nodes_of_a_live_machine() {
    let ground = Ground::new("0-7");
    ground.online("0-7");
    let told =
        Told::new(vec![thread(4_000_000, 4_000_000, "0-7"), thread(4_000_001, 4_000_001, "0-7")]);
    let host = |machine: &str| {
        Host::new(
            Arc::new(preset(machine).unwrap()),
            vec![corun_policy::build("n-mass", &Default::default()).unwrap()],
            Box::new(told.clone()),
            vec![Box::new(AwayFromHome)],
            vec![Box::new(PlacementActuator::new(&ground.roots()))],
            ground.roots(),
            HostOptions { interval: Some(Nanoseconds(1)), ..HostOptions::default() },
        )
    };
    let refused = host("xeon-x5365").err().unwrap().to_string();
    assert!(
        refused.contains("`n-mass` is not for machine `xeon-x5365`: it decides on which"),
        "{refused}"
    );
    let mut host = host("xeon-e5520").unwrap();
    let planned: Vec<Decision> = (0..4).flat_map(|_| host.tick().unwrap().decisions).collect();
    assert!(planned.iter().all(|one| matches!(one.verdict, Verdict::Proposed(_))), "{planned:?}");
    // One at home, one away: 40 MPKI under each cache.
    let mut held: Vec<String> = host.views().iter().map(|one| one.allowed.to_string()).collect();
    held.sort();
    assert_eq!(held, ["0-3", "4-7"]);
    let away = planned.iter().find(|one| one.reason.contains("moved off node 1")).unwrap();
    assert!(away.reason.contains("40.0 MPKI, penalty 1.31 (from its MPKI)"), "{}", away.reason);
    assert!(host.undo().is_empty());
}

#[test]
fn a_thread_is_never_allowed_more_than_its_user_did() {
    let told = Told::new(vec![thread(4_000_000, 4_000_000, "1-2")]);
    let ground = Ground::new("0-3");
    let mut host = ground.host(&told, false);
    assert_eq!(host.tick().unwrap().decisions[0].verdict, Verdict::AsAsked);
    ground.tell("0");
    let refused = host.tick().unwrap().decisions;
    assert!(matches!(&refused[0].verdict, Verdict::Refused(why) if why.0.contains("1-2")));
}

#[test]
fn real_time_threads_are_not_in_care() {
    let told =
        Told::new(vec![TaskFacts { is_real_time: true, ..thread(4_000_000, 4_000_000, "0-3") }]);
    let mut host = Ground::new("2").host(&told, false);
    assert_eq!(
        host.tick().unwrap(),
        Tick {
            now: host.ticked_at.unwrap(),
            decisions: Vec::new(),
            arrived: 0,
            exited: 0,
            left_alone: Vec::new(),
            unread: Vec::new(),
        }
    );
}

#[test]
fn cpus_off_line_are_no_place_and_no_sign_of_others() {
    let told = Told::new(vec![thread(4_000_000, 4_000_000, "0-3")]);
    let ground = Ground::new("0-3");
    let mut host = ground.host(&told, false);
    host.tick().unwrap();
    ground.online("0-2");
    told.threads.lock().unwrap()[0].affinity = set("0-2");
    assert!(host.tick().unwrap().left_alone.is_empty());
    assert_eq!(host.views()[0].may_run_on, set("0-2"));
    ground.online("0-3");
    told.threads.lock().unwrap()[0].affinity = set("0-3");
    assert!(host.tick().unwrap().left_alone.is_empty());
    assert_eq!(host.views()[0].may_run_on, set("0-3"));
}

#[test]
fn a_policy_that_panics_ends_the_host_with_an_error() {
    let told = Told::new(vec![thread(4_000_000, 4_000_000, "0-3")]);
    let ground = Ground::new("2");
    let mut host = ground.host(&told, false);
    host.tick().unwrap();
    ground.tell("");
    assert!(
        matches!(host.tick(), Err(LiveError::Runtime(RuntimeError::Panicked { policy })) if policy == "hold-on")
    );
}

#[test]
fn what_a_policy_lacks_is_said_before_anything_is_done() {
    let ground = Ground::new("2");
    let new = |sources: Vec<Box<dyn Source>>, actuators: Vec<Box<dyn Actuator>>, twice: bool| {
        let policy = || -> Box<dyn Policy> { Box::new(HoldOn(ground.cpus.clone())) };
        let policies = if twice { vec![policy(), policy()] } else { vec![policy()] };
        let (machine, told) = (preset("xeon-x5365-2llc").unwrap(), Told::new(Vec::new()));
        let (roots, options) = (ground.roots(), HostOptions::default());
        Host::new(Arc::new(machine), policies, Box::new(told), sources, actuators, roots, options)
            .err()
            .unwrap()
            .to_string()
    };
    let affinity =
        || -> Vec<Box<dyn Actuator>> { vec![Box::new(PlacementActuator::new(&ground.roots()))] };
    let no_counter = new(Vec::new(), affinity(), false);
    assert!(no_counter.contains("`hold-on` needs the counter `llc-misses`"), "{no_counter}");
    let no_control = new(vec![Box::new(TenMisses)], Vec::new(), false);
    assert!(no_control.contains("`hold-on` needs the action `place`"), "{no_control}");
    let twice = new(vec![Box::new(TenMisses)], affinity(), true);
    assert!(twice.contains("both take the action `place`"), "{twice}");
}

/// A real process that does nothing; it ends with the test.
struct Sleeper(Child);

impl Sleeper {
    /// None where this process may run on one CPU alone, and nothing can be seen to move.
    fn new() -> Option<Self> {
        let own = Sleeper(Command::new("sleep").arg("600").spawn().unwrap());
        (own.facts().affinity.len() > 1).then_some(own)
    }

    fn facts(&self) -> TaskFacts {
        facts(&Roots::default(), self.0.id(), self.0.id()).unwrap()
    }

    fn hold(&self, cpus: &CpuSet) {
        let mut mask = rustix::thread::CpuSet::new();
        cpus.iter().for_each(|cpu| mask.set(cpu.0 as usize));
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::thread::sched_setaffinity(Some(pid), &mask).unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_thread_moves_and_is_put_back() {
    let Some(sleeper) = Sleeper::new() else {
        return eprintln!("skipped: one CPU alone");
    };
    let before = sleeper.facts().affinity;
    let first = before.first().unwrap().to_string();
    let ground = Ground::new(&first);
    ground.online(&before.to_string());
    let told = Told::new(vec![sleeper.facts()]);
    let mut host = ground.host(&told, true);
    assert!(matches!(host.tick().unwrap().decisions[0].verdict, Verdict::Done(_)));
    assert_eq!(sleeper.facts().affinity, set(&first));
    told.threads.lock().unwrap()[0] = sleeper.facts();
    assert!(host.tick().unwrap().decisions.is_empty());
    let undone = host.undo();
    assert_eq!(
        undone.iter().map(|one| one.outcome.clone()).collect::<Vec<_>>(),
        [Ok(Reverted::Done)]
    );
    assert_eq!(sleeper.facts().affinity, before);
}

#[test]
fn a_thread_that_others_move_is_left_alone() {
    let Some(sleeper) = Sleeper::new() else {
        return eprintln!("skipped: one CPU alone");
    };
    let before = sleeper.facts().affinity;
    let (first, last) = (before.first().unwrap(), before.iter().last().unwrap());
    let ground = Ground::new(&first.to_string());
    ground.online(&before.to_string());
    let told = Told::new(vec![sleeper.facts()]);
    let mut host = ground.host(&told, true);
    host.tick().unwrap();
    let others = CpuSet::from_iter([last]);
    sleeper.hold(&others);
    told.threads.lock().unwrap()[0] = sleeper.facts();
    let round = host.tick().unwrap();
    assert_eq!(round.left_alone.len(), 1);
    assert!(round.decisions.iter().all(|one| matches!(one.verdict, Verdict::Refused(_))));
    let undone = host.undo();
    assert!(matches!(&undone[0].outcome, Ok(Reverted::ChangedByOthers { .. })), "{undone:?}");
    assert_eq!(sleeper.facts().affinity, others);
}

/// The last look is up to a second old.
#[test]
fn an_order_is_not_taken_for_done_where_others_moved_the_thread_since_the_last_look() {
    let Some(sleeper) = Sleeper::new() else {
        return eprintln!("skipped: one CPU alone");
    };
    let before = sleeper.facts().affinity;
    let (first, last) = (before.first().unwrap(), before.iter().last().unwrap());
    let (first, others) = (CpuSet::from_iter([first]), CpuSet::from_iter([last]));
    let ground = Ground::new(&before.to_string());
    ground.online(&before.to_string());
    let mut host = ground.host(&Told::new(vec![sleeper.facts()]), true);
    host.tick().unwrap();
    let thread = host.views()[0].id;
    let hold = Step {
        action: Action::Allow { thread, cpus: first.clone() },
        reason: "asked for".to_owned(),
    };
    assert_eq!(host.carry_out_whole(vec![hold.clone()]), Ok(()));
    assert_eq!(host.carry_out_whole(vec![hold.clone()]), Ok(()));
    sleeper.hold(&others);
    let half = host.carry_out_whole(vec![hold]).unwrap_err().to_string();
    assert!(half.starts_with("nothing was done: the affinity of thread"), "{half}");
    assert_eq!(sleeper.facts().affinity, others);
}

/// A thread of the same process that comes while its maker is held is held as it is; what its user
/// allowed is what he allowed the maker, and undoing gives it that.
#[test]
fn a_thread_that_is_born_held_is_given_back_what_its_maker_had() {
    let Some((sleeper, child)) = Sleeper::new().zip(Sleeper::new()) else {
        return eprintln!("skipped: one CPU alone");
    };
    let before = sleeper.facts().affinity;
    let first = before.first().unwrap();
    let ground = Ground::new(&first.to_string());
    ground.online(&before.to_string());
    let told = Told::new(vec![sleeper.facts()]);
    let mut host = ground.host(&told, true);
    host.tick().unwrap();
    child.hold(&CpuSet::from_iter([first]));
    let born = TaskFacts { parent: sleeper.0.id(), ..child.facts() };
    let mut both = vec![sleeper.facts(), born];
    both.sort_by_key(|facts| facts.task);
    *told.threads.lock().unwrap() = both;
    host.tick().unwrap();
    assert!(host.views().iter().all(|thread| thread.may_run_on == before));
    host.undo();
    assert_eq!(child.facts().affinity, before);
    assert_eq!(sleeper.facts().affinity, before);
}

/// Comparing each of them with all others would be two million looks.
#[test]
fn threads_that_are_born_together_are_looked_at_once_each() {
    const BORN: usize = 2000;
    let told = Told::new(vec![thread(4_000_000, 4_000_000, "0-3")]);
    let mut host = Ground::new("2").host(&told, false);
    host.tick().unwrap();
    let born = (1..=BORN as u32).map(|one| thread(4_000_000, 4_000_000 + one, "0-3"));
    told.threads.lock().unwrap().extend(born);
    LOOKED_AT.set(0);
    assert_eq!(host.tick().unwrap().arrived, BORN);
    assert_eq!(LOOKED_AT.get(), 1 + BORN);
    host.tick().unwrap();
    assert_eq!(LOOKED_AT.get(), 1 + BORN, "nobody is new");
}
