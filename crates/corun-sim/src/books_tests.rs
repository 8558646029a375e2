//! What the engine's own books hold at any time of any experiment.

use proptest::prelude::*;

use crate::engine::{Engine, one_hot};
use crate::thread::State;

use self::fixture::SECOND;
use self::scenario::{build, scenarios};

// Most of the fixture serves the tests of tests/simulator alone.
#[allow(dead_code)]
#[path = "../tests/simulator/fixture.rs"]
mod fixture;
#[allow(dead_code)]
#[path = "../tests/simulator/scenario.rs"]
mod scenario;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

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
}
