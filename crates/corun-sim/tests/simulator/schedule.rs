//! The fair scheduler and the memory of caches.

use std::collections::BTreeSet;
use std::sync::Arc;

use corun_machine::{CpuSet, Machine};
use corun_model::{Outcome, Running, Scratch};
use corun_policy::{Action, ActionKind, Nanoseconds, Plan};
use corun_profile::{Io, Method};

use super::fixture::*;
use corun_sim::{AppSpec, Experiment, SimulationSettings, run_pinned};

#[test]
fn two_on_a_cpu_get_half_each() {
    let model = model(machine(1, 1, 1, 1));
    let apps = vec![AppSpec::new(calm(&model, 4 * SECOND)), AppSpec::new(calm(&model, 4 * SECOND))];
    let result = run(&experiment(&model, apps, Method::Window));
    for app in &result.apps {
        assert!((app.cpu_share - 0.5).abs() < 1e-3, "{app:?}");
        assert!((app.slowdown.unwrap() - 2.0).abs() < 0.01, "{app:?}");
        assert_eq!(app.migrations, 0);
    }
}

#[test]
fn weights_divide_a_cpu() {
    let model = model(machine(1, 1, 1, 1));
    let light = AppSpec::new(calm(&model, 600 * SECOND));
    let heavy = AppSpec { weight: 3.0, ..light.clone() };
    let result = run(&experiment(&model, vec![light, heavy], Method::Window));
    assert!((result.apps[0].cpu_share - 0.25).abs() < 1e-3, "{:?}", result.apps);
    assert!((result.apps[1].cpu_share - 0.75).abs() < 1e-3, "{:?}", result.apps);
}

#[test]
fn slices_cost_what_the_caches_forget() {
    let model = model(machine(1, 1, 1, 1));
    let apps = |program: fn(&corun_model::Model, u64) -> _| {
        vec![AppSpec::new(program(&model, SECOND)), AppSpec::new(program(&model, SECOND))]
    };
    let progress = |apps, slice| {
        let settings =
            SimulationSettings { slice: Nanoseconds(slice), ..SimulationSettings::default() };
        let experiment = Experiment { settings, ..experiment(&model, apps, Method::Window) };
        run(&experiment)
            .apps
            .iter()
            .map(|app| app.progress_runs * app.solo_completion_s)
            .sum::<f64>()
    };
    // Programs that use no cache make 60 s of progress in 60 s; others less, and the less the
    // shorter the slices.
    assert!((progress(apps(calm), 3_000_000) - 60.0).abs() < 1e-6);
    let long = progress(apps(sensitive), 30_000_000);
    let short = progress(apps(sensitive), 3_000_000);
    assert!(long < 59.9 && short < long - 1.0 && short > 20.0, "{short} {long}");
}

#[test]
fn three_on_two_cpus_take_turns() {
    let model = model(machine(1, 1, 2, 1));
    let apps = (0..3).map(|_| AppSpec::new(calm(&model, 4 * SECOND))).collect();
    let result = run(&experiment(&model, apps, Method::Window));
    for app in &result.apps {
        assert!((app.cpu_share - 2.0 / 3.0).abs() < 0.05, "{app:?}");
    }
}

#[test]
fn threads_spread_before_they_share() {
    // Two packages of two LLCs of two cores of two threads.
    let machine = machine(2, 2, 2, 2);
    let model = model(machine.clone());
    let apps: Vec<AppSpec> = (0..4).map(|_| AppSpec::new(sensitive(&model, 2 * SECOND))).collect();
    let mut seen = BTreeSet::new();
    for seed in 0..8 {
        let one = Experiment { seed, ..experiment(&model, apps.clone(), Method::FirstRun) };
        let result = run(&one);
        let llcs: BTreeSet<usize> =
            result.placements[..4].iter().map(|place| machine.cpus()[place.cpu].llc).collect();
        assert_eq!(llcs.len(), 4, "{:?}", result.placements);
        assert!(result.apps.iter().all(|app| app.migrations == 0));
        seen.insert(result.placements.iter().map(|place| place.cpu).collect::<Vec<_>>());
    }
    assert!(seen.len() > 4, "seeds do not matter: {seen:?}");
}

#[test]
fn who_shares_with_whom_depends_on_the_seed() {
    let machine = machine(1, 2, 2, 1);
    let model = model(machine.clone());
    let apps: Vec<AppSpec> = [hungry, hungry, calm, calm]
        .map(|program| AppSpec::new(program(&model, 4 * SECOND)))
        .into();
    let slowdowns: BTreeSet<String> = (0..12)
        .map(|seed| {
            let one = Experiment { seed, ..experiment(&model, apps.clone(), Method::Restart3) };
            format!("{:.3}", run(&one).apps[0].slowdown.unwrap())
        })
        .collect();
    assert!(slowdowns.len() > 1, "{slowdowns:?}");
}

#[test]
fn an_idle_core_is_used_before_a_sibling() {
    // Four threads fill two cores; when two end, the others move apart.
    let model = model(machine(1, 1, 2, 2));
    let short = AppSpec { restart: Some(false), ..AppSpec::new(calm(&model, SECOND)) };
    let long = AppSpec::new(calm(&model, 8 * SECOND));
    for seed in 0..6 {
        let apps = vec![short.clone(), short.clone(), long.clone(), long.clone()];
        let one = Experiment { seed, ..experiment(&model, apps, Method::FirstRun) };
        let result = run(&one);
        // 1e9 instructions beside a sibling at 0.6, 7e9 alone, and little more.
        for app in &result.apps[2..] {
            let expected = (1.0 / 0.6 + 7.0) / 8.0;
            assert!((app.slowdown.unwrap() / expected - 1.0).abs() < 0.02, "{seed}: {app:?}");
        }
    }
}

#[test]
fn a_swap_costs_a_refill_and_no_more() {
    let machine = machine(1, 2, 1, 1);
    let model = model(machine.clone());
    let program = sensitive(&model, 2 * SECOND);
    let apps = vec![AppSpec::new(program.clone()), AppSpec::new(program.clone())];
    let experiment = experiment(&model, apps, Method::FirstRun);
    let still = run_pinned(&experiment, &[0, 1], Default::default()).unwrap();
    let mut decisions = 0;
    let swap_once = deciding(100_000_000, &[ActionKind::Place], move |view| {
        let mut plan = Plan::none();
        decisions += 1;
        if decisions == 3 {
            let (first, second) = (view.threads[0].id, view.threads[1].id);
            plan.push(Action::Swap { first, second }, "to see what it costs");
        }
        plan
    });
    let moved = run_under(&experiment, swap_once).unwrap();
    assert_eq!(moved.log.len(), 1);
    assert_eq!(moved.log[0].at, Nanoseconds(300_000_000));
    for (still, moved) in still.apps.iter().zip(&moved.apps) {
        assert_eq!(moved.migrations, 1);
        assert_eq!(moved.llc_migrations, 1);
        let cost = moved.completion_s[0] - still.completion_s[0];
        // At most each of the 4 MiB's lines once at the full latency; at least a tenth of that.
        let lines = 4.0 * 1024.0 * 1024.0 / 64.0;
        assert!(cost < lines * 100e-9, "{cost} s");
        assert!(cost > 0.1 * lines * 100e-9 / 2.0, "{cost} s");
    }
}

#[test]
fn a_short_absence_costs_little() {
    // A thread that waits 20 us while a streamer runs beside it finds most of its lines again.
    let model = model(machine(1, 1, 2, 1));
    let program = sensitive(&model, 2 * SECOND);
    let rate = |wait_ms: f64| {
        let io = Some(Io { cpu_ms: 10.0, wait_ms });
        let apps = vec![
            AppSpec { io, ..AppSpec::new(program.clone()) },
            AppSpec::new(streaming(&model, 2 * SECOND)),
        ];
        let result =
            run_pinned(&experiment(&model, apps, Method::Window), &[0, 1], Default::default())
                .unwrap();
        result.apps[0].instructions / result.apps[0].cpu_s
    };
    let streamer = streaming(&model, 2 * SECOND);
    let running: Vec<Running<'_>> = [&*program, &*streamer]
        .into_iter()
        .enumerate()
        .map(|(cpu, program)| Running::local(program, 0, cpu))
        .collect();
    let mut steady: Vec<Outcome> = Vec::new();
    model.solve(&running, &mut Scratch::new(), &mut steady);
    let (short, long) = (rate(0.02), rate(20.0));
    assert!(short > 0.98 * steady[0].instructions_per_s, "{short} of {:?}", steady[0]);
    assert!(long < short, "{long} {short}");
}

#[test]
fn woken_threads_come_back_where_they_were() {
    let model = model(machine(2, 2, 2, 1));
    let io = Some(Io { cpu_ms: 2.0, wait_ms: 5.0 });
    let app = AppSpec { io, ..AppSpec::new(calm(&model, SECOND)) };
    let apps = vec![app.clone(), app.clone(), app];
    let result = run(&experiment(&model, apps, Method::FirstRun));
    for app in &result.apps {
        assert_eq!(app.migrations, 0, "{app:?}");
    }
}

#[test]
fn allowed_sets_hold() {
    let machine = machine(1, 2, 2, 1);
    let model = model(machine.clone());
    let held: CpuSet = "2-3".parse().unwrap();
    let app = AppSpec { may_run_on: Some(held), ..AppSpec::new(calm(&model, 2 * SECOND)) };
    let apps = vec![app.clone(), app.clone(), app];
    let result = run(&experiment(&model, apps, Method::Window));
    assert!(result.placements.iter().all(|place| place.cpu >= 2));
    let share: f64 = result.apps.iter().map(|app| app.cpu_share).sum();
    assert!((share - 2.0).abs() < 1e-6, "{share}");
}

#[test]
fn a_wake_up_waits_for_its_cpu() {
    let model = model(machine(1, 1, 1, 1));
    let waits = Io { cpu_ms: 10.0, wait_ms: 10.0 };
    let app = AppSpec { io: Some(waits), ..AppSpec::new(calm(&model, SECOND)) };
    let settings = SimulationSettings {
        jitter: 0.0,
        window: Nanoseconds(200_000_000),
        wake_ups: 3,
        ..SimulationSettings::default()
    };
    let experiment = Experiment { settings, ..experiment(&model, vec![app], Method::Window) };
    // The CPU is held idle from 15 ms to 115 ms.
    let mut first = true;
    let idle = deciding(15_000_000, &[ActionKind::IdleCpu], move |view| {
        let mut plan = Plan::none();
        if std::mem::take(&mut first) {
            let cpu = view.machine.cpus()[0].id;
            plan.push(Action::IdleCpu { cpu, duration: Nanoseconds(100_000_000) }, "held");
        }
        plan
    });
    let result = run_under(&experiment, idle).unwrap();
    let ms = |time: Nanoseconds| time.0 / 1_000_000;
    let found: Vec<_> = result.wake_ups.iter().map(|one| (ms(one.at), ms(one.waited))).collect();
    // Awake at 20 ms it runs at 115 to 125 ms; then at 135 and at 155 ms at once.
    assert_eq!(found, [(20, 95), (135, 0), (155, 0)]);
    // And at 175 and 195 ms.
    assert_eq!(result.wake_ups_dropped, 2);
}

/// Two big cores of two hardware threads and two small cores under one LLC, as x86 has it: whoever started on a small core is on a
/// big one as soon as one is idle, and stays there. A third is on a small core, not on a big one's second thread.
#[test]
fn an_idle_big_core_takes_a_thread_from_a_small_one_under_its_llc() {
    let mut spec = machine(1, 1, 2, 2).spec().clone();
    let mut small = spec.core_types[0].clone();
    (small.name, small.clock_mhz, small.capacity) = ("small".to_owned(), 1000.0, 0.5);
    small.threads = 1;
    spec.core_types.push(small);
    let cores = &mut spec.objects[0].objects[0].objects[0].objects;
    cores[0].core_type = Some("core".to_owned());
    cores.push(cores[0].clone());
    cores[1].core_type = Some("small".to_owned());
    let model = model(Arc::new(Machine::from_spec(spec).unwrap()));
    let mut started_small = 0;
    for seed in 1..=8 {
        for count in [1, 2, 3_usize] {
            let apps = (0..count).map(|_| AppSpec::new(calm(&model, 4 * SECOND))).collect();
            let result = run(&Experiment { seed, ..experiment(&model, apps, Method::FirstRun) });
            let slowdowns: Vec<f64> = result.apps.iter().map(|app| app.slowdown.unwrap()).collect();
            started_small += result.apps.iter().map(|app| app.migrations).sum::<u64>();
            // Balanced within some 10 ms of 4 s; a small core has half the speed.
            let big = slowdowns.iter().filter(|&&slowdown| slowdown < 1.02).count();
            let small = slowdowns.iter().filter(|&&slowdown| slowdown > 1.3).count();
            assert_eq!((big, small), (count.min(2), count.saturating_sub(2)), "{slowdowns:?}");
        }
    }
    assert!(started_small > 0);
}

/// Two big cores and four small ones, each kind under an LLC of its own: a thread that a small core is too slow for is on a big one
/// soon after one is idle; one that waits for half of the time fits where it is.
#[test]
fn an_idle_big_core_takes_a_thread_that_does_not_fit_its_small_one() {
    let model = model(Arc::new(corun_machine::preset("juno-2b4s").unwrap()));
    let slowdowns = |io: Option<Io>, seed: u64| {
        let app = AppSpec { io, ..AppSpec::new(calm(&model, 4 * SECOND)) };
        let apps = vec![app.clone(), app];
        let result = run(&Experiment { seed, ..experiment(&model, apps, Method::FirstRun) });
        let migrations: u64 = result.apps.iter().map(|app| app.migrations).sum();
        let slowdowns: Vec<f64> = result.apps.iter().map(|app| app.slowdown.unwrap()).collect();
        (slowdowns.into_iter().fold(0.0, f64::max), migrations)
    };
    let busy: Vec<(f64, u64)> = (1..=8).map(|seed| slowdowns(None, seed)).collect();
    assert!(busy.iter().all(|one| one.0 < 1.04), "{busy:?}");
    assert!(busy.iter().any(|one| one.1 > 0), "some started on a small core: {busy:?}");
    let half = Some(Io { cpu_ms: 5.0, wait_ms: 5.0 });
    let waiting: Vec<(f64, u64)> = (1..=8).map(|seed| slowdowns(half, seed)).collect();
    assert!(waiting.iter().all(|one| one.1 == 0), "{waiting:?}");
    assert!(waiting.iter().any(|one| one.0 > 1.3), "some stay on a small core: {waiting:?}");
}
