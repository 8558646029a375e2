//! What a plan takes that sends every thread of a container somewhere else, where the container is
//! held by its cpuset: prepared only, on a tree of files in the place of `/proc` and the cgroups. In
//! twice as many threads it should take twice as long.

use std::fs;
use std::path::Path;
use std::time::Instant;

use corun_linux::{Roots, Task, TaskFacts};
use corun_live::{
    Host, HostOptions, LiveError, PinScope, PlacementActuator, ProcessSelector, Rule,
    ScannedThread, Scanner, Target, Tick, Verdict,
};
use corun_machine::{CpuId, CpuSet, preset};
use corun_policy::{
    Action, ActionKind, Interval, Nanoseconds, Needs, Plan, Policy, ThreadState, View,
};

const SIZES: [u32; 4] = [128, 256, 512, 1024];
const SECOND: u64 = 1_000_000_000;

fn main() {
    // Whoever runs all benchmarks as tests wants to know only that they start.
    if std::env::args().any(|one| one == "--test") {
        return;
    }
    println!("threads of one cgroup: ms of a look, and of a look with a plan for all of them");
    for threads in SIZES {
        let folder = tempfile::tempdir().expect("a folder");
        let roots = tree(folder.path(), threads);
        let (mut look, mut plan) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..10 {
            let mut host = host(&roots, threads);
            let mut round = |half: u64| {
                let begin = Instant::now();
                let round = host.tick_at(Nanoseconds(half * SECOND / 2)).expect("all is there");
                (round, begin.elapsed().as_secs_f64() * 1e3)
            };
            round(0);
            look = look.min(round(1).1);
            let (decided, ms) = round(2);
            check(&decided, threads);
            plan = plan.min(ms);
        }
        println!("  {threads:>5} {look:>9.2} {plan:>9.2}");
    }
}

/// Everybody is asked for, and what can be done is.
fn check(round: &Tick, threads: u32) {
    assert_eq!(round.decisions.len(), threads as usize);
    let refused = round.decisions.iter().find(|one| matches!(one.verdict, Verdict::Refused(_)));
    assert_eq!(refused, None);
}

/// A container of version 2 with these threads.
fn tree(folder: &Path, threads: u32) -> Roots {
    let roots = Roots::below(folder);
    let write = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    let group = roots.cgroup.join("box.slice");
    write(&roots.sys.join("devices/system/cpu/online"), "0-7\n");
    write(&group.join("cpuset.cpus"), "0-7\n");
    write(&group.join("cpuset.cpus.effective"), "0-7\n");
    let numbers: String = (0..threads).map(|one| format!("{}\n", 100 + one)).collect();
    write(&group.join("cgroup.threads"), &numbers);
    for tid in 100..100 + threads {
        write(&roots.proc.join(format!("100/task/{tid}/cgroup")), "0::/box.slice\n");
    }
    roots
}

fn host(roots: &Roots, threads: u32) -> Host {
    let rule = ProcessSelector::Rule(Rule { pid: Some(100), ..Rule::default() });
    let target = Target { pin: PinScope::Cgroup, ..Target::new("boxed", rule) };
    Host::new(
        preset("xeon-x5365").expect("it is shipped").into(),
        vec![Box::new(Around(0))],
        Box::new(Boxed { targets: vec![target], threads }),
        Vec::new(),
        vec![Box::new(PlacementActuator::new(roots))],
        roots.clone(),
        HostOptions::default(),
    )
    .expect("the policy needs nothing else")
}

/// Sends each thread to the next CPU.
struct Around(u32);

impl Policy for Around {
    fn name(&self) -> &str {
        "around"
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(Nanoseconds(SECOND)),
            controls: vec![ActionKind::Place],
            ..Needs::default()
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.0 += 1;
        let mut plan = Plan::none();
        for (number, thread) in (self.0..).zip(view.threads) {
            let cpus = CpuSet::from_iter([CpuId(number % 8)]);
            plan.push(Action::Allow { thread: thread.id, cpus }, "round and round");
        }
        plan
    }
}

/// Threads that are always there.
struct Boxed {
    targets: Vec<Target>,
    threads: u32,
}

impl Scanner for Boxed {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError> {
        let one = |tid: u32| ScannedThread {
            state: ThreadState::Running,
            facts: TaskFacts {
                task: Task { pid: 100, tid, start_ticks: 7 },
                parent: 1,
                name: "boxed".to_owned(),
                wants_cpu: true,
                cpu: CpuId(0),
                cpu_ns: 0,
                nice: 0,
                is_real_time: false,
                affinity: "0-7".parse().expect("a list of CPUs"),
            },
            target: 0,
        };
        Ok((100..100 + self.threads).map(one).collect())
    }

    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.targets.push(target);
        Ok(())
    }
}
