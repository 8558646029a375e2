//! Services against what queueing theory says of them: programs that never miss have threads of one constant speed, so
//! that one thread with exponential requests is an M/M/1 queue.

use std::sync::{Arc, Mutex};

use corun_model::Model;
use corun_policy::{ActionKind, Nanoseconds, Plan, View};
use corun_profile::{Method, Service};

use super::fixture::*;
use corun_sim::{
    AppSpec, Experiment, Hooks, Progress, RunResult, ServiceResult, SimError, meets_targets,
};

/// Instructions of a request: at the 2 GHz and the IPC of a calm program some 0.2 to 0.5 ms.
const REQUEST: f64 = 1e6;

/// Seconds that a request takes alone on a CPU, on average.
fn service_s(model: &Model) -> f64 {
    let program = calm(model, SECOND);
    REQUEST / program.phases[0].best_instructions_per_s
}

/// A service at this share of what its threads can do.
fn service(model: &Model, threads: u32, load: f64, variation: Option<f64>) -> AppSpec {
    let requests_per_s = load * f64::from(threads) / service_s(model);
    let service = Service {
        requests_per_s,
        instructions: REQUEST,
        variation,
        percentile: 99.0,
        target_ms: 5.0,
        warm_up_s: 1.0,
    };
    AppSpec { threads, service: Some(service), ..AppSpec::new(calm(model, SECOND)) }
}

fn window(model: &Arc<Model>, apps: Vec<AppSpec>, seconds: u64) -> Experiment {
    let mut one = experiment(model, apps, Method::Window);
    one.settings.window = Nanoseconds(seconds * SECOND);
    one
}

fn of(run: &RunResult) -> ServiceResult {
    run.apps[0].service.unwrap()
}

/// Of an M/M/1 queue the latency is exponential with the mean s / (1 - rho); the 99th percentile is ln 100 times it.
#[test]
fn one_thread_with_exponential_requests_is_an_m_m_1_queue() {
    let model = model(machine(1, 1, 2, 1));
    let result = of(&run(&window(&model, vec![service(&model, 1, 0.7, None)], 100)));
    let mean_ms = service_s(&model) * 1e3 / 0.3;
    let (found, tail) = (result.mean_latency_ms.unwrap(), result.latency_ms.unwrap());
    assert!((found / mean_ms - 1.0).abs() < 0.03, "{found} {mean_ms}");
    assert!((tail / (mean_ms * 100f64.ln()) - 1.0).abs() < 0.05, "{tail} {mean_ms}");
    let saturated = result.saturated_per_s.unwrap() * service_s(&model);
    assert!((saturated - 1.0).abs() < 0.01, "{saturated}");
    assert!((result.answered_per_s / result.requests_per_s - 1.0).abs() < 0.01, "{result:?}");
}

/// Pollaczek and Khinchine: where all requests are alike the mean wait is rho s / (2 (1 - rho)). Of two threads the mean
/// wait of an M/M/2 queue is rho^2 s / (1 - rho^2).
#[test]
fn requests_that_are_alike_wait_half_as_long_and_two_threads_share_a_queue() {
    let model = model(machine(1, 1, 2, 1));
    let (s, rho) = (service_s(&model) * 1e3, 0.7);
    for (threads, variation, wait_ms) in [
        (1, Some(0.0), rho * s / (2.0 * (1.0 - rho))),
        (2, None, rho * rho * s / (1.0 - rho * rho)),
    ] {
        let one = window(&model, vec![service(&model, threads, rho, variation)], 100);
        let mean_ms = of(&run(&one)).mean_latency_ms.unwrap();
        assert!((mean_ms / (s + wait_ms) - 1.0).abs() < 0.03, "{threads}: {mean_ms} {s} {wait_ms}");
    }
}

#[test]
fn a_service_that_is_asked_too_much_answers_what_it_can_and_misses_its_target() {
    let model = model(machine(1, 1, 2, 1));
    let result = of(&run(&window(&model, vec![service(&model, 1, 1.5, None)], 20)));
    let saturated = result.saturated_per_s.unwrap();
    assert!((result.answered_per_s / saturated - 1.0).abs() < 0.001, "{result:?}");
    // A third of what came in 20 s still waits: the last answers took over 6 s.
    assert!(!result.is_met() && result.latency_ms.unwrap() > 5000.0, "{result:?}");
}

/// Whether a target is met is known sooner than all else, and is the same.
#[test]
fn a_target_that_is_missed_ends_a_simulation_early() {
    let model = model(machine(1, 1, 2, 1));
    let mut met = Vec::new();
    for load in [0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.5] {
        for seed in 1..=3 {
            let one = window(&model, vec![service(&model, 1, load, None)], 10);
            let one = Experiment { seed, ..one };
            let mut reached = 0;
            let mut watch = |progress: Progress| reached = progress.simulated.0;
            let hooks = Hooks { cancel: None, progress: Some(&mut watch) };
            let is_met = meets_targets(&one, Vec::new(), hooks).unwrap();
            assert_eq!(is_met, of(&run(&one)).is_met(), "{load} {seed}");
            met.push(is_met);
            // A queue that grows without end is found out soon after the warm-up of a second.
            assert!(load < 1.5 || reached < 2 * SECOND, "{reached}");
        }
    }
    assert!(met.contains(&true) && met.contains(&false), "{met:?}");
    let calm = AppSpec { instructions: Some(1_000_000), ..AppSpec::new(calm(&model, SECOND)) };
    let none = window(&model, vec![calm], 1);
    assert!(meets_targets(&none, Vec::new(), Hooks::default()).unwrap());
}

/// A neighbour on another core takes cache space and bandwidth: requests take longer, and their tail still longer.
#[test]
fn a_neighbour_lengthens_the_tail() {
    let model = model(machine(1, 1, 2, 1));
    let sensitive = sensitive(&model, SECOND);
    let best_s = REQUEST / sensitive.phases[0].best_instructions_per_s;
    let mut app = AppSpec { program: sensitive, ..service(&model, 1, 0.5, None) };
    if let Some(service) = &mut app.service {
        service.requests_per_s = 0.3 / best_s;
    }
    let alone = run(&window(&model, vec![app.clone()], 30));
    let beside = AppSpec::new(streaming(&model, SECOND));
    let together = run(&window(&model, vec![app, beside], 30));
    let (before, after) = (of(&alone), of(&together));
    let slower = before.saturated_per_s.unwrap() / after.saturated_per_s.unwrap();
    let longer = after.latency_ms.unwrap() / before.latency_ms.unwrap();
    assert!(slower > 1.1 && longer > slower, "{slower} {longer}");
    assert!(together.apps[0].slowdown.unwrap() > 1.1, "{:?}", together.apps[0].slowdown);
}

#[test]
fn others_end_beside_a_service_and_arrivals_are_the_same_whatever_runs_beside() {
    let model = model(machine(1, 1, 4, 1));
    let beside = AppSpec::new(calm(&model, 10 * SECOND));
    let one = experiment(
        &model,
        vec![service(&model, 2, 0.5, Some(2.0)), beside.clone()],
        Method::Restart3,
    );
    let first = run(&one);
    assert_eq!(first, run(&one));
    assert_eq!((first.apps[0].completion_s.len(), first.apps[1].completion_s.len()), (0, 3));
    // Nothing that the two share matters to programs that never miss and have CPUs enough.
    let more = experiment(
        &model,
        vec![service(&model, 2, 0.5, Some(2.0)), beside.clone(), beside],
        Method::Restart3,
    );
    let (few, more) = (of(&first), of(&run(&more)));
    assert_eq!(few.counted, more.counted);
    assert!((few.latency_ms.unwrap() / more.latency_ms.unwrap() - 1.0).abs() < 1e-3);
}

#[test]
fn a_killed_service_counts_what_it_answered() {
    let model = model(machine(1, 1, 2, 1));
    let killed = AppSpec { kill: Some(Nanoseconds(3 * SECOND)), ..service(&model, 1, 2.0, None) };
    let beside = AppSpec::new(calm(&model, 10 * SECOND));
    let result = of(&run(&experiment(&model, vec![killed, beside], Method::Restart3)));
    // In 3 s what it can, in the mean of some 21,600 exponential requests.
    let possible_per_s = 1.0 / service_s(&model);
    assert!((result.answered_per_s / possible_per_s - 1.0).abs() < 0.03, "{result:?}");
    assert!(result.counted > 0, "{result:?}");
    assert!(result.latency_ms.unwrap() < 3000.0, "{result:?}");
}

#[test]
fn a_service_alone_never_ends() {
    let model = model(machine(1, 1, 2, 1));
    let one = experiment(&model, vec![service(&model, 1, 0.5, None)], Method::Restart3);
    let error = corun_sim::run(&one, vec![], Default::default()).unwrap_err();
    assert!(matches!(&error, SimError::App { field: "service", .. }), "{error}");
}

/// What a policy sees is of the time since it last decided: once a neighbour is there the latency rises.
#[test]
fn policies_see_the_tail_since_they_last_decided() {
    let model = model(machine(1, 1, 2, 1));
    let late = AppSpec { start: Nanoseconds(10 * SECOND), ..AppSpec::new(calm(&model, SECOND)) };
    let apps = vec![service(&model, 1, 0.5, Some(0.0)), late];
    let seen: Arc<Mutex<Vec<Option<f64>>>> = Arc::default();
    let look = Arc::clone(&seen);
    let watch = move |view: &View<'_>| {
        let service = view.threads.iter().find_map(|thread| thread.latency);
        look.lock().unwrap().push(service.and_then(|one| one.slack()));
        assert_eq!(view.threads.iter().filter(|one| one.latency.is_some()).count(), 1);
        Plan::none()
    };
    let one = window(&model, apps, 20);
    run_under(&one, deciding(SECOND, &[ActionKind::Place], watch)).unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen.len() >= 20, "{seen:?}");
    let known: Vec<f64> = seen[2..].iter().map(|slack| slack.unwrap()).collect();
    // 0.25 to 0.5 ms a request, of 5 ms.
    assert!(known.iter().all(|slack| (0.2..0.98).contains(slack)), "{known:?}");
}
