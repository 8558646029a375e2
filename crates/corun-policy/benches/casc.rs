//! How long CASC's bucketization takes: 100 threads on 32 CPUs, with the check of who is held where.
//! The target is 100 us.

use corun_machine::{Machine, MachineSpec};
use corun_policy::{
    Action, BuildOptions, Count, Counts, Event, Nanoseconds, Plan, Policy, ProcessId, ThreadId,
    ThreadState, ThreadView, View, casc_observed,
};
use divan::Bencher;

const MACHINE: &str = "
version = 1
name = '32-cpus'
[[core_type]]
name = 'core'
clock_mhz = 1000
threads = 4
[[object]]
kind = 'cache'
level = 2
size_kib = 3072
[[object.object]]
kind = 'core'
count = 8
";

const CPUS: usize = 32;
const THREADS: usize = 100;

fn main() {
    divan::main();
}

/// A host whose threads miss as often as they are said to, whoever runs beside them.
struct Host {
    machine: Machine,
    threads: Vec<ThreadView>,
    now: Nanoseconds,
}

impl Host {
    fn new() -> Self {
        let spec: MachineSpec = toml::from_str(MACHINE).expect("the text above is a machine file");
        let machine = Machine::from_spec(spec).expect("its tree is sound");
        let cpus = machine.cpu_set();
        let thread = |id: usize| {
            let none = Some(Count::default());
            let (thread, process) = (ThreadId(id as u64), ProcessId(id as u64));
            ThreadView {
                counts: Counts { llc_references: none, llc_misses: none, ..Counts::default() },
                ..ThreadView::new(thread, process, format!("program{id}"), &cpus)
            }
        };
        let threads = (0..THREADS).map(thread).collect();
        Self { machine, threads, now: Nanoseconds(1_000_000) }
    }

    fn view(&self) -> View<'_> {
        View { machine: &self.machine, threads: &self.threads, now: self.now }
    }

    fn obey(&mut self, plan: Option<Plan>) {
        for step in plan.iter().flat_map(|plan| &plan.steps) {
            if let Action::Allow { thread, cpus } = &step.action {
                self.threads[thread.0 as usize].allowed = cpus.clone();
            }
        }
    }

    fn tell(&mut self, policy: &mut dyn Policy, event: &Event) {
        let plan = policy.on_event(event, &self.view());
        self.obey(plan);
    }

    /// These run together for 3 ms.
    fn run(&mut self, policy: &mut dyn Policy, runs: impl Fn(usize) -> bool) {
        let switched = Event::Switched { on: vec![], off: vec![] };
        for (place, thread) in self.threads.iter_mut().enumerate() {
            let running = runs(place);
            thread.state = if running { ThreadState::Running } else { ThreadState::Runnable };
        }
        self.tell(policy, &switched);
        self.now.0 += 3_000_000;
        for (place, thread) in self.threads.iter_mut().enumerate().filter(|(at, _)| runs(*at)) {
            let pcmr = (place * 7919 % 101) as f64;
            let counts = &mut thread.counts;
            counts.llc_references.get_or_insert_default().total += 1000.0;
            counts.llc_misses.get_or_insert_default().total += 10.0 * pcmr;
        }
        self.tell(policy, &switched);
    }

    /// Measures all: groups of the first 33 without one each, then the others one by one.
    fn measure(&mut self, policy: &mut dyn Policy) {
        self.tell(policy, &Event::Arrived(ThreadId(0)));
        // Threads are not measured right after their start.
        self.now.0 += 1_000_000;
        for out in 0..=CPUS {
            self.run(policy, |place| place <= CPUS && place != out);
        }
        for new in CPUS + 1..THREADS {
            self.run(policy, |place| place < CPUS - 1 || place == new);
        }
    }
}

/// A thread that nobody knows ends: bucketization over all others, and who has to be held anew.
#[divan::bench]
fn bucketize_100_threads_on_32_cpus(bencher: Bencher) {
    let mut host = Host::new();
    let (mut policy, findings) = casc_observed(&BuildOptions::default());
    host.measure(policy.as_mut());
    let known = findings.lock().expect("nobody panicked").pcmr.len();
    assert_eq!(known, THREADS, "threads whose PCMR is known");
    let event = Event::Exited(ThreadId(THREADS as u64));
    bencher.bench_local(|| policy.on_event(&event, &host.view()));
}
