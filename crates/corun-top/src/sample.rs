//! A host over threads that a test makes up: no machine, no clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use corun_linux::{Roots, Task, TaskFacts};
use corun_live::{
    Host, HostOptions, LiveError, PlacementActuator, ProcessSelector, Rule, ScannedThread, Scanner,
    Source, SourceError, Target, Threads,
};
use corun_machine::{CpuId, CpuSet, preset};
use corun_policy::{
    BuildOptions, CounterKind, Nanoseconds, Rates, Scope, ScopedRate, SoloFigures, ThreadState,
    WaysCurve, WaysPoint, build,
};

use crate::frame::{Collector, Frame};

/// A thread that is made up.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) program: usize,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) name: &'static str,
    pub(crate) cpu: u32,
    /// Share of the time that it is on its CPU.
    pub(crate) share: f64,
    /// Misses per 1000 instructions; none: nothing is counted of it.
    pub(crate) mpki: Option<f64>,
}

/// Three programs on two packages: one of two threads, one streams, one of which nothing is known.
pub(crate) fn threads() -> Vec<Made> {
    let made = |program, pid, tid, name, cpu, share, mpki| Made {
        program,
        pid,
        tid,
        name,
        cpu,
        share,
        mpki,
    };
    vec![
        made(0, 100, 100, "solver", 0, 1.0, Some(0.5)),
        made(0, 100, 101, "solver-worker", 1, 0.5, Some(1.5)),
        made(1, 200, 200, "stream", 0, 0.75, Some(30.25)),
        made(1, 201, 201, "stream", 5, 0.875, Some(28.0)),
        made(2, 300, 300, "\u{1b}[2Jodd", 6, 0.0, None),
    ]
}

/// Looks so often, a second apart; the frame of the last look.
pub(crate) fn frame(policy: Option<&str>, threads: &[Made], looks: u64) -> Frame {
    frame_by(&mut Collector::new(false), policy, threads, looks)
}

/// The same by a collector of the test's own.
pub(crate) fn frame_by(
    collector: &mut Collector,
    policy: Option<&str>,
    threads: &[Made],
    looks: u64,
) -> Frame {
    let mut host = host(policy, threads);
    let mut frame = Frame::default();
    for look in 1..=looks {
        let tick = host.tick_at(Nanoseconds(look * 1_000_000_000)).unwrap();
        frame = collector.frame(&host, policy, &tick);
    }
    frame
}

fn host(policy: Option<&str>, threads: &[Made]) -> Host {
    let machine = Arc::new(preset("xeon-x5365").unwrap());
    let nowhere = Roots { sys: "/nonexistent".into(), ..Roots::default() };
    let policies = policy.map(|name| build(name, &BuildOptions::default()).unwrap());
    let made = Arc::new(Mutex::new(threads.to_vec()));
    let target = |name: &str| Target::new(name, ProcessSelector::Rule(Rule::default()));
    let targets = vec![target("solver"), target("stream"), target("odd")];
    let follow = MadeUp { made: made.clone(), targets, looks: 0, online: machine.cpu_set() };
    Host::new(
        machine,
        policies.into_iter().collect(),
        Box::new(follow),
        vec![Box::new(Counts { made })],
        vec![Box::new(PlacementActuator::new(&nowhere))],
        nowhere,
        HostOptions::default(),
    )
    .unwrap()
}

struct MadeUp {
    made: Arc<Mutex<Vec<Made>>>,
    targets: Vec<Target>,
    looks: u64,
    online: CpuSet,
}

impl Scanner for MadeUp {
    fn targets(&self) -> &[Target] {
        &self.targets
    }

    fn scan(&mut self) -> Result<Vec<ScannedThread>, LiveError> {
        self.looks += 1;
        let facts = |one: &Made| TaskFacts {
            task: Task { pid: one.pid, tid: one.tid, start_ticks: 1 },
            parent: 1,
            name: one.name.to_owned(),
            wants_cpu: one.share > 0.0,
            cpu: CpuId(one.cpu),
            cpu_ns: (one.share * 1e9 * self.looks as f64) as u64,
            nice: 0,
            is_real_time: false,
            affinity: self.online.clone(),
        };
        let made = self.made.lock().unwrap();
        let state = |one: &Made| match one.share > 0.0 {
            true => ThreadState::Running,
            false => ThreadState::Sleeping,
        };
        let followed =
            |one| ScannedThread { facts: facts(one), state: state(one), target: one.program };
        Ok(made.iter().map(followed).collect())
    }

    fn add(&mut self, target: Target) -> Result<(), LiveError> {
        self.targets.push(target);
        Ok(())
    }

    fn online(&self) -> Option<CpuSet> {
        Some(self.online.clone())
    }
}

struct Counts {
    made: Arc<Mutex<Vec<Made>>>,
}

impl Source for Counts {
    fn name(&self) -> &'static str {
        "made up"
    }

    fn counters(&self) -> Vec<CounterKind> {
        vec![
            CounterKind::Instructions,
            CounterKind::Cycles,
            CounterKind::LlcMisses,
            CounterKind::LlcOccupancy,
        ]
    }

    fn count(&mut self, _now: Nanoseconds, threads: &mut Threads) -> Result<(), SourceError> {
        let made = self.made.lock().unwrap();
        let by_tid: BTreeMap<u32, &Made> = made.iter().map(|one| (one.tid, one)).collect();
        for (view, thread) in threads.iter_mut() {
            let one = by_tid[&thread.task().tid];
            let Some(mpki) = one.mpki else { continue };
            let instructions = 2e9 * one.share;
            let misses =
                ScopedRate { per_s: mpki * instructions / 1000.0, scope: Scope::DemandAndPrefetch };
            let rates = Rates {
                instructions_per_s: Some(instructions),
                cycles_per_s: Some(2.5e9 * one.share),
                llc_misses: Some(misses),
                ..Rates::default()
            };
            view.counts.add_rates(&rates, thread.elapsed());
            view.llc_occupancy_bytes = Some(f64::from(one.tid) * 8192.0);
            if one.program == 1 {
                view.solo = Some(SoloFigures {
                    llc_mpki: 27.5,
                    llc_apki: 40.0,
                    instructions_per_s: 2e9,
                    memory_bytes_per_s: 1e9,
                    numa_penalty: None,
                    speedup_factor: None,
                });
                let point = WaysPoint { slowdown: 1.0, llc_mpkc: 22.0, ..WaysPoint::default() };
                view.by_ways = WaysCurve::new(vec![point; 4]).map(Arc::new);
            }
        }
        Ok(())
    }
}
