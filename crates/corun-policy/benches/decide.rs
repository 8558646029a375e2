//! How long a decision takes: 256 threads on 64 cores, 2 packages (each a NUMA node) x 4 LLCs x 8
//! cores. The target is 100 us.

use corun_machine::{CpuSet, Machine, MachineSpec};
use corun_policy::{
    Action, BuildOptions, Nanoseconds, Plan, Policy, ProcessId, Rates, Scope, ScopedRate,
    SoloFigures, ThreadId, ThreadState, ThreadView, View, build,
};
use divan::{Bencher, counter::ItemsCount};

const MACHINE: &str = "
version = 1
name = '64-cores'
[[core_type]]
name = 'core'
clock_mhz = 3000
[[bandwidth]]
name = 'memory'
kind = 'memory-controller'
stage = 0
peak_mb_per_s = 200000
[[object]]
kind = 'package'
count = 2
[[object.object]]
kind = 'numa-node'
[[object.object.object]]
kind = 'cache'
level = 3
size_kib = 32768
count = 4
[[object.object.object.object]]
kind = 'cache'
level = 2
size_kib = 1024
count = 8
[[object.object.object.object.object]]
kind = 'core'
";

fn main() {
    divan::main();
}

fn machine() -> Machine {
    let spec: MachineSpec = toml::from_str(MACHINE).expect("the text above is a machine file");
    Machine::from_spec(spec).expect("its tree is sound")
}

fn threads(machine: &Machine, count: u64) -> Vec<ThreadView> {
    let thread = |id: u64| {
        let mpki = (id * 7919 % 1009) as f64 * 0.05;
        let cpus = machine.cpu_set();
        ThreadView {
            state: ThreadState::Running,
            rates: Rates {
                instructions_per_s: Some(1e9),
                llc_misses: Some(ScopedRate { per_s: mpki * 1e6, scope: Scope::Demand }),
                cpu_share: Some(0.25),
                memory_bytes_per_s: Some(mpki * 64e6),
                ..Rates::default()
            },
            solo: Some(SoloFigures {
                llc_mpki: mpki,
                llc_apki: 2.0 * mpki,
                instructions_per_s: 1e9,
                memory_bytes_per_s: mpki * 64e6,
                numa_penalty: Some(1.0 + mpki * 0.01),
                speedup_factor: None,
            }),
            pages_by_node: if id.is_multiple_of(3) { vec![0.0, 1.0] } else { vec![1.0, 0.0] },
            ..ThreadView::new(ThreadId(id), ProcessId(id), format!("program{id}"), &cpus)
        }
    };
    (0..count).map(thread).collect()
}

fn policy(name: &str) -> Box<dyn Policy> {
    build(name, &BuildOptions::default()).expect("it is in the registry")
}

/// Nobody has a place: every thread gets one, with its reason.
#[divan::bench(args = ["di", "dio", "dio-power", "maximum-local", "n-mass"])]
fn first_placement(bencher: Bencher, name: &str) {
    let machine = machine();
    let threads = threads(&machine, 256);
    let view = View { machine: &machine, threads: &threads, now: Nanoseconds(0) };
    let mut policy = policy(name);
    bencher.counter(ItemsCount::new(256usize)).bench_local(|| policy.decide(&view));
}

/// All are where the sort wants them: the usual interval.
#[divan::bench(args = ["di", "dio", "dio-power", "maximum-local", "n-mass"])]
fn nothing_changed(bencher: Bencher, name: &str) {
    let machine = machine();
    let mut threads = threads(&machine, 256);
    let mut policy = policy(name);
    let view = View { machine: &machine, threads: &threads, now: Nanoseconds(0) };
    let plan = policy.decide(&view);
    hold(&mut threads, &plan);
    let view = View { machine: &machine, threads: &threads, now: Nanoseconds(0) };
    assert!(policy.decide(&view).steps.is_empty());
    bencher.counter(ItemsCount::new(256usize)).bench_local(|| policy.decide(&view));
}

/// All are held, but the miss rates are others than those they were placed by: the worst case.
#[divan::bench(args = ["di", "dio", "dio-power", "mlb"])]
fn all_changed(bencher: Bencher, name: &str) {
    let machine = machine();
    let mut threads = threads(&machine, 256);
    for (index, thread) in threads.iter_mut().enumerate() {
        thread.cpu = Some(machine.cpus()[index % 64].id);
        thread.allowed = CpuSet::from_iter(thread.cpu);
    }
    let view = View { machine: &machine, threads: &threads, now: Nanoseconds(0) };
    let mut policy = policy(name);
    bencher.counter(ItemsCount::new(256usize)).bench_local(|| policy.decide(&view));
}

/// Held by the mapping of other miss rates, from one epoch to the next: all are mapped anew, some
/// move. With 48 threads there are free cores, so that n-mass refines.
#[divan::bench(args = [("maximum-local", 256), ("n-mass", 256), ("n-mass", 48)])]
fn mapped_anew(bencher: Bencher, (name, count): (&str, u64)) {
    let machine = machine();
    let mut before = threads(&machine, count);
    let mut policy = policy(name);
    let plan = policy.decide(&View { machine: &machine, threads: &before, now: Nanoseconds(0) });
    hold(&mut before, &plan);
    let mut after = before.clone();
    for (thread, other) in after.iter_mut().zip(before.iter().rev()) {
        (thread.rates, thread.solo) = (other.rates, other.solo);
    }
    let mut turn = false;
    bencher.counter(ItemsCount::new(count as usize)).bench_local(|| {
        turn = !turn;
        let threads = if turn { &after } else { &before };
        policy.decide(&View { machine: &machine, threads, now: Nanoseconds(0) })
    });
}

fn hold(threads: &mut [ThreadView], plan: &Plan) {
    for step in &plan.steps {
        if let Action::Allow { thread, cpus } = &step.action {
            let thread = &mut threads[thread.0 as usize];
            (thread.cpu, thread.allowed) = (cpus.first(), cpus.clone());
        }
    }
}
