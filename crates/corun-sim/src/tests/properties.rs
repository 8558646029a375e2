//! What holds for any experiment.

use corun_machine::{CpuId, CpuSet};
use corun_policy::{Action, ActionKind, Nanoseconds, Plan};
use corun_profile::{Io, Method};
use proptest::prelude::*;

use super::fixture::*;
use crate::engine::{Engine, one_hot};
use crate::thread::State;
use crate::{AppSpec, Experiment, SimulationSettings};

/// Bursts of programs that wait, and their waits.
const CPU_MS: f64 = 4.0;
const WAIT_MS: f64 = 7.0;

#[derive(Debug, Clone)]
struct Scenario {
    shape: (u32, u32, u32, u32),
    /// Kind of program, weight, waits?, CPUs it is held on (bits), threads.
    apps: Vec<(u8, f64, bool, u8, u32)>,
    seed: u64,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let app = (
        0..3u8,
        prop_oneof![Just(1.0), 0.3..4.0f64],
        prop::bool::weighted(0.3),
        any::<u8>(),
        1..3u32,
    );
    let shape = (1..3u32, 1..3u32, 1..3u32, 1..3u32);
    (shape, prop::collection::vec(app, 1..10), any::<u64>())
        .prop_map(|(shape, apps, seed)| Scenario { shape, apps, seed })
}

fn build(scenario: &Scenario) -> Experiment {
    let (packages, llcs, cores, threads) = scenario.shape;
    let machine = machine(packages, llcs, cores, threads);
    let cpus = machine.cpus().len() as u32;
    let model = model(machine);
    let apps = scenario.apps.iter().map(|&(kind, weight, waits, held, threads)| {
        let program = [calm, sensitive, streaming][kind as usize](&model, SECOND / 4);
        let held: CpuSet = (0..cpus.min(8)).filter(|bit| held >> bit & 1 == 1).map(CpuId).collect();
        AppSpec {
            weight,
            threads,
            io: waits.then_some(Io { cpu_ms: CPU_MS, wait_ms: WAIT_MS }),
            may_run_on: (!held.is_empty()).then_some(held),
            ..AppSpec::new(program)
        }
    });
    let apps = apps.collect();
    let settings =
        SimulationSettings { window: Nanoseconds(SECOND / 2), ..SimulationSettings::default() };
    let one = experiment(&model, apps, Method::Window);
    Experiment { seed: scenario.seed, settings, ..one }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_same_seed_gives_the_same_bytes(scenario in scenarios()) {
        let mut experiment = build(&scenario);
        let text = format!("{:?}", run(&experiment));
        prop_assert_eq!(&text, &format!("{:?}", run(&experiment)));
        // Memory of solutions changes nothing either.
        experiment.settings.memoise = false;
        prop_assert_eq!(&text, &format!("{:?}", run(&experiment)));
    }

    #[test]
    fn cpu_time_adds_up(scenario in scenarios()) {
        let experiment = build(&scenario);
        let cpus = experiment.model.machine().cpus().len() as f64;
        let result = run(&experiment);
        let busy: f64 = result.apps.iter().map(|app| app.cpu_s).sum();
        prop_assert!(busy <= cpus * result.simulated_s * (1.0 + 1e-9));
        let contexts = f64::from(scenario.shape.3);
        for (app, &(_, _, waits, _, threads)) in result.apps.iter().zip(&scenario.apps) {
            // A run of a few bursts may end before the last one's wait, and lengths vary: what is
            // sure is the time on CPUs. Threads that are held on one CPU spare each other the
            // core's caches, which alone they share.
            let working = if waits { CPU_MS / (CPU_MS + WAIT_MS) } else { 1.0 };
            let least = 0.9 * working / if threads > 1 { contexts } else { 1.0 };
            prop_assert!(app.cpu_share <= 1.0 + 1e-9);
            prop_assert!(app.instructions >= 0.0 && app.instructions.is_finite());
            prop_assert!(app.slowdown.is_none_or(|slowdown| slowdown > least), "{:?}", app);
        }
        // Threads that are held nowhere and never wait use all CPUs that they can.
        let free = scenario.apps.iter().all(|&(_, _, waits, held, _)| !waits && held == 0);
        if free {
            let threads: u32 = scenario.apps.iter().map(|app| app.4).sum();
            let usable = f64::from(threads).min(cpus);
            prop_assert!((busy - usable * result.simulated_s).abs() < 1e-6, "{busy}");
        }
    }

    /// A thread is on a CPU, waits for one or is idle, from its start on; after each wake-up it is switched to.
    #[test]
    fn the_schedulers_counts_are_all_of_a_threads_time(scenario in scenarios()) {
        let experiment = build(&scenario);
        let homes = one_hot(experiment.model.machine().nodes().len());
        let mut engine = Engine::new(&experiment, vec![], &homes, vec![]).unwrap();
        while engine.now < SECOND / 4 {
            engine.advance().unwrap();
            for thread in engine.threads.iter().filter(|thread| thread.is_present()) {
                let start = engine.records[thread.id.0 as usize].start.0;
                let counted = thread.counted(engine.now);
                let sum = counted.cpu_ns as f64 + counted.run_queue_wait_ns + counted.idle_ns;
                prop_assert_eq!(sum, (engine.now - start) as f64, "at {}", engine.now);
                let waits = scenario.apps[thread.app].2;
                prop_assert!(waits || (counted.idle_ns, counted.wakeups) == (0.0, 0.0));
                // The first time it comes to a CPU without a wake-up; one more may be under way.
                prop_assert!(counted.wakeups <= counted.context_switches);
            }
        }
    }

    #[test]
    fn no_cpu_stays_idle_while_a_thread_waits_for_it(scenario in scenarios()) {
        let experiment = build(&scenario);
        let machine = experiment.model.machine();
        let homes = one_hot(machine.nodes().len());
        let mut engine = Engine::new(&experiment, vec![], &homes, vec![]).unwrap();
        let cpus = machine.cpus().len();
        // Balancing comes within 1 ms a CPU of the largest domain; between CPUs of the same core
        // group within their own.
        let patience = 2_000_000 * cpus as u64 + 1_000_000;
        let mut since: Option<u64> = None;
        while engine.now < SECOND / 2 {
            engine.advance().unwrap();
            let wasted = engine.threads.iter().any(|thread| {
                thread.state == State::Runnable
                    && thread.allowed.ones().any(|cpu| engine.cpus[cpu].is_free(engine.now))
            });
            since = if wasted { since.or(Some(engine.now)) } else { None };
            let waited = since.map_or(0, |since| engine.next_time() - since);
            prop_assert!(waited <= patience, "{} ns at {}:\n{}", waited, engine.now, engine.dump());
            for (index, cpu) in engine.cpus.iter().enumerate() {
                let mut here = cpu.queue.iter().chain(&cpu.running);
                let right = here.all(|&slot| {
                    let thread = &engine.threads[slot];
                    thread.cpu == index && thread.allowed.contains(index)
                });
                prop_assert!(right, "at {}:\n{}", engine.now, engine.dump());
            }
        }
    }

    #[test]
    fn caches_hold_no_more_than_they_can(scenario in scenarios()) {
        let experiment = build(&scenario);
        let homes = one_hot(experiment.model.machine().nodes().len());
        let mut engine = Engine::new(&experiment, vec![], &homes, vec![]).unwrap();
        while engine.now < SECOND / 10 {
            engine.advance().unwrap();
            for llc in &engine.parts.llcs {
                // Waiting threads' lines are evicted when a step ends or is cut short.
                let mut part = llc.parts[0].clone();
                part.advance(engine.now);
                let held: f64 = part.holdings(engine.now).iter().map(|(_, bytes)| bytes).sum();
                prop_assert!(held <= llc.bytes * (1.0 + 1e-9), "{held} of {}", llc.bytes);
            }
        }
    }

    #[test]
    fn restless_policies_keep_the_books_right(scenario in scenarios()) {
        let experiment = build(&scenario);
        let mut turn = 0;
        let restless = deciding(7_000_000, &[ActionKind::Place], move |view| {
            let mut plan = Plan::none();
            turn += 1;
            for (place, thread) in view.threads.iter().enumerate() {
                let cpus: Vec<CpuId> = thread.may_run_on.iter().collect();
                let cpu = cpus[(place + turn) % cpus.len()];
                let cpus = CpuSet::from_iter([cpu]);
                plan.push(Action::Allow { thread: thread.id, cpus }, "round and round");
            }
            plan
        });
        let result = run_under(&experiment, restless).unwrap();
        let busy: f64 = result.apps.iter().map(|app| app.cpu_s).sum();
        let cpus = experiment.model.machine().cpus().len() as f64;
        prop_assert!(busy <= cpus * result.simulated_s * (1.0 + 1e-9));
        for placement in &result.placements {
            prop_assert!(placement.at.0 <= SECOND / 2);
        }
    }
}

#[test]
fn different_seeds_differ() {
    let texts: Vec<String> = (0..2)
        .map(|seed| {
            let scenario = Scenario {
                shape: (1, 2, 2, 1),
                apps: vec![(1, 1.0, false, 0, 1), (2, 1.0, true, 0, 1), (1, 1.0, false, 0, 4)],
                seed,
            };
            format!("{:?}", run(&build(&scenario)))
        })
        .collect();
    assert_ne!(texts[0], texts[1]);
}
