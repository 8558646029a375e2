//! Threads that wait for each other: on a core of 2000 MHz and one of 1000 MHz, a program that never misses
//! is exactly half as fast on the second.

use std::sync::{Arc, Mutex};

use corun_machine::Machine;
use corun_model::Model;
use corun_policy::{ActionKind, Plan, View};
use corun_profile::{Barrier, Method, Waiting};

use super::fixture::*;
use corun_sim::{AppResult, AppSpec, RunResult, SimError, SimulationSettings, run_pinned};

const EVERY: u64 = 100_000_000;

fn fast_and_slow() -> Arc<Model> {
    let mut spec = machine(1, 1, 1, 1).spec().clone();
    let mut slow = spec.core_types[0].clone();
    (slow.name, slow.clock_mhz, slow.capacity) = ("slow".to_owned(), 1000.0, 0.5);
    spec.core_types.push(slow);
    let cores = &mut spec.objects[0].objects[0].objects[0].objects;
    cores[0].core_type = Some("core".to_owned());
    cores.push(cores[0].clone());
    cores[1].core_type = Some("slow".to_owned());
    model(Arc::new(Machine::from_spec(spec).unwrap()))
}

/// So many threads of 10 times the instructions between two barriers each.
fn threads(model: &Model, count: u32, waiting: Option<Waiting>) -> AppSpec {
    AppSpec {
        threads: count,
        barrier: waiting.map(|waiting| Barrier { every_instructions: EVERY, waiting }),
        ..AppSpec::new(calm(model, 10 * EVERY * u64::from(count)))
    }
}

fn pinned(waiting: Option<Waiting>) -> RunResult {
    let model = fast_and_slow();
    let mut one = experiment(&model, vec![threads(&model, 2, waiting)], Method::FirstRun);
    one.settings = SimulationSettings { wake_ups: 100, ..one.settings };
    run_pinned(&one, &[0, 1], Default::default()).unwrap()
}

/// CPU time and time spun in units of what the fast core takes from one barrier to the next.
fn in_units(run: &AppResult, whole_s: f64) -> (f64, f64) {
    // The slow core sets the pace: 10 times 2 units.
    (run.cpu_s / whole_s * 20.0, run.spin_s / whole_s * 20.0)
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-6 * expected.max(1.0)
}

#[test]
fn without_barriers_the_fast_thread_ends_early() {
    let run = pinned(None);
    let (cpu, spun) = in_units(&run.apps[0], run.apps[0].completion_s[0]);
    assert!(near(cpu, 30.0) && spun == 0.0, "{cpu} {spun}");
}

#[test]
fn the_fast_thread_spins_for_half_the_time_between_barriers() {
    let (run, free) = (pinned(Some(Waiting::Spin)), pinned(None));
    let whole_s = run.apps[0].completion_s[0];
    assert!(near(whole_s, free.apps[0].completion_s[0]), "{whole_s}");
    let (cpu, spun) = in_units(&run.apps[0], whole_s);
    // Nine barriers before the end, at each a unit of waiting; behind the last it runs one unit and ends.
    assert!(near(cpu, 39.0) && near(spun, 9.0), "{cpu} {spun}");
    // What it retired while it waited is no progress.
    assert!(near(run.apps[0].instructions, 20.0 * EVERY as f64), "{:?}", run.apps[0]);
    assert!(run.wake_ups.is_empty());
}

#[test]
fn or_it_sleeps() {
    let run = pinned(Some(Waiting::Sleep));
    let (cpu, spun) = in_units(&run.apps[0], run.apps[0].completion_s[0]);
    assert!(near(cpu, 30.0) && spun == 0.0, "{cpu} {spun}");
    assert_eq!(run.wake_ups.len(), 9);
}

#[test]
fn policies_are_told_who_spins_and_see_what_the_loop_retires() {
    let free = pinned(None);
    let unit_s = free.apps[0].completion_s[0] / 20.0;
    let model = fast_and_slow();
    let one = experiment(&model, vec![threads(&model, 2, Some(Waiting::Spin))], Method::FirstRun);
    type Look = (Option<bool>, Option<f64>, Option<f64>, Option<f64>);
    let seen: Arc<Mutex<Vec<Vec<Look>>>> = Arc::default();
    let look = Arc::clone(&seen);
    let watch = move |view: &View<'_>| {
        let counters = |one: &corun_policy::ThreadView| {
            let rates = one.rates;
            (one.cpu, (one.spins, rates.spin_share, rates.instructions_per_s, rates.branches_per_s))
        };
        let mut now: Vec<_> = view.threads.iter().map(counters).collect();
        now.sort_by_key(|one| one.0);
        look.lock().unwrap().push(now.into_iter().map(|one| one.1).collect());
        Plan::none()
    };
    // A unit and a half: the fast thread has spun for the last third of it.
    let interval_ns = (1.5 * unit_s * 1e9) as u64;
    run_under(&one, deciding(interval_ns, &[ActionKind::Place], watch)).unwrap();
    let seen = seen.lock().unwrap();
    let [fast, slow] = seen[0][..] else { panic!("{seen:?}") };
    let (share, instructions, branches) = (fast.1.unwrap(), fast.2.unwrap(), fast.3.unwrap());
    assert!(fast.0 == Some(true) && (share - 1.0 / 3.0).abs() < 1e-6, "{fast:?}");
    // A loop of three instructions a cycle of 2 GHz, every third a branch.
    let (work, spun) = (EVERY as f64 / (1.5 * unit_s), 6e9 / 3.0);
    assert!((instructions / (work + spun) - 1.0).abs() < 1e-6, "{instructions}");
    assert!((branches / (0.1 * work + spun / 3.0) - 1.0).abs() < 1e-6, "{branches}");
    assert_eq!((slow.0, slow.1), (Some(false), Some(0.0)));
    // After three units the fast one is half-way to its second barrier's end of waiting: it works or
    // spins, but never all the interval.
    assert!(seen.iter().all(|now| now[0].1.unwrap() < 1.0));
}

#[test]
fn threads_that_share_a_cpu_pass_their_barriers_too() {
    let model = fast_and_slow();
    for waiting in [Waiting::Spin, Waiting::Sleep] {
        let apps = vec![threads(&model, 5, Some(waiting)), threads(&model, 1, Some(waiting))];
        let result = run(&experiment(&model, apps, Method::Restart3));
        for (app, threads) in result.apps.iter().zip([5.0, 1.0]) {
            assert!(app.completion_s.len() >= 3, "{waiting:?}: {app:?}");
            let runs = app.instructions / (10.0 * threads * EVERY as f64);
            assert!(near(runs, app.progress_runs), "{waiting:?}: {app:?}");
        }
        assert_eq!(result.apps[1].spin_s, 0.0);
        assert_eq!(result.apps[0].spin_s > 0.0, waiting == Waiting::Spin);
    }
}

#[test]
fn a_killed_program_leaves_nobody_waiting() {
    let model = fast_and_slow();
    let killed = AppSpec {
        kill: Some(corun_policy::Nanoseconds(SECOND / 20)),
        ..threads(&model, 3, Some(Waiting::Sleep))
    };
    let result = run(&experiment(&model, vec![killed, threads(&model, 2, None)], Method::FirstRun));
    assert_eq!(result.apps[0].completion_s.len(), 0);
    assert_eq!(result.apps[1].completion_s.len(), 1);
}

#[test]
fn barriers_that_cannot_be_are_refused() {
    let model = fast_and_slow();
    let short = Barrier { every_instructions: 999, waiting: Waiting::Spin };
    let short = AppSpec { barrier: Some(short), ..threads(&model, 2, None) };
    let io = corun_profile::Io { cpu_ms: 1.0, wait_ms: 1.0 };
    let both = AppSpec { io: Some(io), ..threads(&model, 2, Some(Waiting::Spin)) };
    for app in [short, both] {
        let one = experiment(&model, vec![app], Method::FirstRun);
        let refused = corun_sim::run(&one, vec![], Default::default());
        assert!(matches!(refused, Err(SimError::App { field: "barrier", .. })), "{refused:?}");
    }
}
