//! Ordered slots, and the policies for more threads than CPUs.

use std::sync::{Arc, Mutex};

use corun_machine::CpuId;
use corun_policy::{
    Action, ActionKind, BuildOptions, Event, Nanoseconds, Plan, REQUEST_BYTES, View,
};
use corun_profile::{Io, Method};

use super::fixture::*;
use corun_sim::{AppSpec, Experiment, Hooks, SimulationSettings};

const SLOT: Nanoseconds = Nanoseconds(200_000_000);
const MS: u64 = 1_000_000;

/// Who came onto which CPU when, in ms: (time, CPU, thread), while threads have their slots. `told`:
/// when each CPU is told its order, in ms.
fn switches(
    apps: Vec<AppSpec>,
    model: &Arc<corun_model::Model>,
    told: [u64; 2],
) -> Vec<(u64, u32, u64)> {
    let one = experiment(model, apps, Method::Window);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let order = move |view: &View<'_>| {
        let mut plan = Plan::none();
        for (cpu, told) in (0..2).zip(told) {
            if view.now.0 == told * MS {
                let of_cpu = view.threads.iter().filter(|thread| thread.id.0 % 2 == u64::from(cpu));
                let threads = of_cpu.map(|thread| thread.id).collect();
                plan.push(Action::OrderSlots { cpu: CpuId(cpu), threads, slot: SLOT }, "turns");
            }
        }
        plan
    };
    let policy = Scripted {
        name: "orders",
        needs: needs(10 * MS, &[ActionKind::OrderSlots]),
        decide: order,
        event: move |event: &Event, view: &View<'_>| {
            if let Event::Switched { on, .. } = event {
                for id in on {
                    let cpu =
                        view.thread(*id).and_then(|thread| thread.cpu).map_or(99, |cpu| cpu.0);
                    sink.lock().unwrap().push((view.now.0 / MS, cpu, id.0));
                }
            }
            None
        },
    };
    run_under(&one, policy).unwrap();
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[test]
fn cpus_change_threads_together_whenever_they_were_told() {
    let model = model(machine(1, 1, 2, 1));
    let apps = (0..4).map(|_| AppSpec::new(calm(&model, 900 * SECOND))).collect();
    let seen = switches(apps, &model, [10, 330]);
    let late: Vec<_> = seen.iter().filter(|(at, ..)| (500..2000).contains(at)).collect();
    assert_eq!(late.len(), 2 * 7, "{late:?}");
    for pair in late.chunks(2) {
        assert_eq!((pair[0].0, pair[0].0 % 200), (pair[1].0, 0), "{late:?}");
    }
}

/// When a thread that waits 30 ms after each ms on the CPU comes onto CPU 0, in ms: it is the given one of
/// the two there, each with slots of 200 ms.
fn bursts(waits: usize) -> Vec<u64> {
    let model = model(machine(1, 1, 2, 1));
    let mut apps: Vec<AppSpec> = (0..4).map(|_| AppSpec::new(calm(&model, 900 * SECOND))).collect();
    apps[waits].io = Some(Io { cpu_ms: 1.0, wait_ms: 30.0 });
    let seen = switches(apps, &model, [10, 10]);
    let mine = |(at, _, id): &&(u64, u32, u64)| (400..10_000).contains(at) && *id == waits as u64;
    seen.iter().filter(mine).map(|one| one.0).collect()
}

/// The second waits for the first's slot to be used up: whoever wakes meanwhile comes later.
#[test]
fn a_thread_that_wakes_waits_for_those_before_it_in_the_order() {
    let mine = bursts(2);
    // The first runs at 0, 400, 800 .. ms for its slot, and while the second waits.
    assert!(mine.iter().all(|at| at % 400 >= 200), "{mine:?}");
    // Some six bursts in each epoch.
    assert!((5 * 24..=7 * 24).contains(&mine.len()), "{mine:?}");
}

/// The first has used little of its slot whenever it wakes, and takes the CPU from the second.
#[test]
fn a_thread_that_wakes_takes_the_cpu_from_those_behind_it() {
    let mine = bursts(0);
    let early = mine.iter().filter(|&at| at % 400 < 200).count();
    // A burst each 31 ms in the mean, as waits vary, in both halves.
    assert!((290..=330).contains(&mine.len()), "{mine:?}");
    assert!((mine.len() / 3..=mine.len() * 2 / 3).contains(&early), "{early} of {}", mine.len());
}

#[test]
fn retries_are_counted_by_request() {
    let model = model(machine(1, 1, 2, 1));
    let apps: Vec<AppSpec> =
        (0..2).map(|_| AppSpec::new(streaming(&model, 900 * SECOND))).collect();
    let program = Arc::clone(&apps[0].program);
    let levels = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&levels);
    let watch = deciding(SECOND, &[ActionKind::Place], move |view| {
        let sum = |of: fn(&corun_policy::Rates) -> Option<f64>| {
            view.threads.iter().map(|thread| of(&thread.rates).unwrap()).sum::<f64>()
        };
        let requests = sum(|counters| counters.memory_bytes_per_s) / REQUEST_BYTES;
        sink.lock().unwrap().push(sum(|counters| counters.memory_retries_per_s) / requests);
        Plan::none()
    });
    let settings =
        SimulationSettings { window: Nanoseconds(5 * SECOND), ..SimulationSettings::default() };
    run_under(&Experiment { settings, ..experiment(&model, apps, Method::Window) }, watch).unwrap();
    let running: Vec<corun_model::Running<'_>> =
        (0..2).map(|cpu| corun_model::Running::local(&program, 0, cpu)).collect();
    let mut outcomes = Vec::new();
    model.solve(&running, &mut corun_model::Scratch::new(), &mut outcomes);
    let expected = corun_model::contention_level(&outcomes);
    let levels = levels.lock().unwrap();
    assert!(expected > 0.0 && levels.len() == 5);
    assert!(levels.iter().all(|level| (level / expected - 1.0).abs() < 1e-6), "{levels:?}");
}

/// Streams and calm programs, two a CPU, under a policy: the streams' mean completion time over some
/// seeds, and whether the policy did anything of a kind.
fn crowded(policy: &str, parameters: &[(&str, f64)], did: fn(&Action) -> bool) -> (f64, bool) {
    let model = model(machine(1, 1, 4, 1));
    let streams = (0..4).map(|_| AppSpec::new(streaming(&model, 8 * SECOND)));
    let calm = (0..4).map(|_| AppSpec::new(calm(&model, 60 * SECOND)));
    let mut one = experiment(&model, streams.chain(calm).collect(), Method::FirstRun);
    one.apps.iter_mut().for_each(|app| app.restart = Some(true));
    let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let options = BuildOptions { seed: 1, parameters };
    let (mut sum, mut acted) = (0.0, false);
    for seed in 0..4 {
        one.seed = seed;
        let policy = corun_policy::build(policy, &options).unwrap();
        let result = corun_sim::run(&one, vec![policy], Hooks::default()).unwrap();
        sum += result.apps[..4].iter().map(|app| app.completion_s[0]).sum::<f64>();
        acted |= result.log.iter().any(|entry| did(&entry.action));
    }
    (sum / 16.0, acted)
}

#[test]
fn both_policies_relieve_the_memory() {
    let (default, _) = crowded("linux-default", &[], |_| false);
    let swap = |action: &Action| matches!(action, Action::Swap { .. });
    let (mlb, swapped) = crowded("mlb", &[("interval-s", 1.0)], swap);
    let ordered = |action: &Action| matches!(action, Action::OrderSlots { .. });
    let (vbsc, in_order) = crowded("vbsc", &[], ordered);
    assert!(swapped && in_order);
    assert!(mlb < default && vbsc < default, "{default} {mlb} {vbsc}");
}

#[test]
fn sleeping_threads_and_ends_do_not_break_an_order() {
    let model = model(machine(1, 1, 2, 1));
    let mut apps: Vec<AppSpec> = (0..3).map(|_| AppSpec::new(calm(&model, 16 * SECOND))).collect();
    apps.extend((0..3).map(|_| AppSpec::new(streaming(&model, SECOND))));
    apps[1].start = Nanoseconds(700 * MS);
    apps[2].kill = Some(Nanoseconds(1500 * MS));
    apps[3].io = Some(Io { cpu_ms: 2.0, wait_ms: 5.0 });
    let one = experiment(&model, apps, Method::FirstRun);
    let vbsc = corun_policy::build("vbsc", &BuildOptions::default()).unwrap();
    let result = corun_sim::run(&one, vec![vbsc], Hooks::default()).unwrap();
    for (place, app) in result.apps.iter().enumerate() {
        assert_eq!(app.completion_s.len(), usize::from(place != 2), "{place}");
    }
}
