//! How long a decision takes on a machine of 8 big and 8 small cores with 64 threads, 16 of them of one
//! program, in the usual interval: all counters are new. The goal for `camps` is 20 us.

use corun_machine::{Machine, MachineSpec};
use corun_policy::{
    Action, BuildOptions, Count, Nanoseconds, Plan, ProcessId, Rates, Scope, ScopedRate, ThreadId,
    ThreadState, ThreadView, View, build,
};
use divan::{Bencher, counter::ItemsCount};

const MACHINE: &str = "
version = 1
name = '8-and-8'
[[core_type]]
name = 'big'
clock_mhz = 3000
[[core_type]]
name = 'little'
capacity = 0.5
clock_mhz = 2000
[[bandwidth]]
name = 'memory'
kind = 'memory-controller'
stage = 0
peak_mb_per_s = 40000
[calibration]
low_btr_mb_per_s = 300
high_btr_mb_per_s = 3000
amp_threshold_ms = 200
speedup_on_big = { intercept = 2.0, per_ipc = 0.5, per_mpki = -0.01, per_apki = 0.001 }
speedup_on_small = { intercept = 2.0, per_ipc = 0.5, per_mpki = -0.01, per_apki = 0.001 }
[[object]]
kind = 'cache'
level = 2
size_kib = 4096
line_bytes = 64
[[object.object]]
kind = 'core'
core_type = 'big'
count = 8
[[object]]
kind = 'cache'
level = 2
size_kib = 2048
line_bytes = 64
[[object.object]]
kind = 'core'
core_type = 'little'
count = 8
";

const THREADS: u64 = 64;
/// So many intervals fill the history tables before anything is timed.
const SETTLED: u64 = 200;

fn main() {
    divan::main();
}

fn machine() -> Machine {
    let spec: MachineSpec = toml::from_str(MACHINE).expect("the text above is a machine file");
    Machine::from_spec(spec).expect("its tree is sound")
}

fn threads(machine: &Machine) -> Vec<ThreadView> {
    let cpus = machine.cpu_set();
    let thread = |id: u64| {
        let process = ProcessId(id.saturating_sub(48));
        ThreadView {
            state: ThreadState::Running,
            cpu: Some(machine.cpus()[id as usize % 16].id),
            ..ThreadView::new(ThreadId(id), process, format!("program{id}"), &cpus)
        }
    };
    (0..THREADS).map(thread).collect()
}

/// Each thread's counts of an interval of 50 ms: it goes through 30 phases, more than a table holds.
fn count(threads: &mut [ThreadView], round: u64) {
    for thread in threads {
        let phase = ((round / 3 + thread.id.0) % 30) as f64;
        let big = thread.cpu.is_some_and(|cpu| cpu.0 < 8);
        let instructions = if big { 0.5e9 } else { 0.2e9 + phase * 1e6 };
        let misses = |per_1000: f64| {
            Some(ScopedRate { per_s: per_1000 * instructions / 1000.0, scope: Scope::Demand })
        };
        thread.rates = Rates {
            cpu_share: Some(0.25),
            instructions_per_s: Some(instructions),
            cycles_per_s: Some(0.7e9),
            llc_misses: misses(phase),
            llc_references: misses(3.0 * phase),
            l1_accesses_per_s: Some(instructions * (0.1 + 0.02 * phase)),
            branches_per_s: Some(instructions * 0.1),
            ..Rates::default()
        };
        let ran_ns = 0.0125e9 * round as f64;
        thread.counts.cpu_time = Some(Count::new(ran_ns, Nanoseconds(50_000_000 * round)));
    }
}

fn carry_out(threads: &mut [ThreadView], plan: &Plan) {
    for step in &plan.steps {
        match &step.action {
            Action::Allow { thread, cpus } => {
                let thread = &mut threads[thread.0 as usize];
                if !thread.cpu.is_some_and(|cpu| cpus.contains(cpu)) {
                    thread.cpu = cpus.first();
                }
                thread.allowed = cpus.clone();
            }
            Action::Swap { first, second } => {
                let (first, second) = (first.0 as usize, second.0 as usize);
                let (a, b) = (threads[first].clone(), threads[second].clone());
                (threads[first].cpu, threads[first].allowed) = (b.cpu, b.allowed);
                (threads[second].cpu, threads[second].allowed) = (a.cpu, a.allowed);
            }
            _ => {}
        }
    }
}

#[divan::bench(args = ["camps", "acfs", "equal-progress", "hsp", "rr", "hmp"])]
fn an_interval(bencher: Bencher, name: &str) {
    let machine = machine();
    let mut threads = threads(&machine);
    let mut policy = build(name, &BuildOptions::default()).expect("it is in the registry");
    let mut round = 0;
    let mut step = |threads: &mut Vec<ThreadView>| {
        round += 1;
        count(threads, round);
        Nanoseconds(50_000_000 * round)
    };
    for _ in 0..SETTLED {
        let now = step(&mut threads);
        let plan = policy.decide(&View { machine: &machine, threads: &threads, now });
        carry_out(&mut threads, &plan);
    }
    // The counters are made outside of what is timed; moves are carried out in the next input.
    let state = std::cell::RefCell::new((threads, Plan::none()));
    let step = std::cell::RefCell::new(step);
    bencher
        .counter(ItemsCount::new(THREADS as usize))
        .with_inputs(|| {
            let (threads, plan) = &mut *state.borrow_mut();
            carry_out(threads, &std::mem::take(plan));
            let now = step.borrow_mut()(threads);
            (threads.clone(), now)
        })
        .bench_local_values(|(threads, now)| {
            let plan = policy.decide(&View { machine: &machine, threads: &threads, now });
            state.borrow_mut().1 = plan;
        });
}
