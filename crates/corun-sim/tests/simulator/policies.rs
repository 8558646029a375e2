//! Policies over the simulated machine.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use corun_machine::{CpuId, CpuSet};
use corun_policy::{
    Action, ActionKind, BuildOptions, CachePart, Event, Interval, Nanoseconds, Plan, Scope,
    ThreadId, ThreadState, View,
};
use corun_profile::Method;
use corun_runtime::RuntimeError;

use super::fixture::*;
use corun_sim::ActionError;
use corun_sim::{AppSpec, Experiment, Hooks, SimError, SimulationSettings};

fn two_calm(method: Method) -> (Arc<corun_model::Model>, Experiment) {
    let model = model(machine(1, 2, 2, 1));
    let apps = vec![AppSpec::new(calm(&model, SECOND)), AppSpec::new(calm(&model, SECOND))];
    let experiment = experiment(&model, apps, method);
    (model, experiment)
}

/// The error of a run in which a policy takes one action at 10 ms.
fn refused(controls: &[ActionKind], action: Action) -> SimError {
    let (_, experiment) = two_calm(Method::FirstRun);
    let policy = deciding(10_000_000, controls, move |_| {
        let mut plan = Plan::none();
        plan.push(action.clone(), "wrong");
        plan
    });
    run_under(&experiment, policy).unwrap_err()
}

#[test]
fn needs_are_checked_before_the_start() {
    let (_, experiment) = two_calm(Method::FirstRun);
    let with = |change: fn(&mut corun_policy::Needs)| {
        let mut needs = needs(SECOND, &[ActionKind::Place]);
        change(&mut needs);
        let policy = Scripted {
            name: "wants",
            needs,
            decide: |_: &View<'_>| Plan::none(),
            event: |_: &Event, _: &View<'_>| None,
        };
        run_under(&experiment, policy).unwrap_err().to_string()
    };
    let interval = with(|needs| needs.interval = Interval::Cycles(0));
    assert!(interval.contains("zero length"), "{interval}");
}

#[test]
fn each_kind_of_action_has_one_owner() {
    let (_, experiment) = two_calm(Method::FirstRun);
    let policy = || Box::new(deciding(SECOND, &[ActionKind::Place], |_| Plan::none()));
    let error =
        corun_sim::run(&experiment, vec![policy(), policy()], Hooks::default()).unwrap_err();
    assert!(
        matches!(error, SimError::Runtime(RuntimeError::TwoOwners { kind: ActionKind::Place, .. })),
        "{error}"
    );
    let other = Box::new(deciding(SECOND, &[ActionKind::Partition], |_| Plan::none()));
    corun_sim::run(&experiment, vec![policy(), other], Hooks::default()).unwrap();
}

#[test]
fn wrong_actions_stop_the_run() {
    let place = [ActionKind::Place];
    let nobody = refused(&place, Action::Swap { first: ThreadId(0), second: ThreadId(77) });
    let text = nobody.to_string();
    assert!(text.contains("0.010000 s") && text.contains("`scripted`"), "{text}");
    assert!(text.contains("no thread 77"), "{text}");
    let source = |error| match error {
        SimError::Action { source, .. } => source,
        other => panic!("{other}"),
    };
    let allow = |list: &str| Action::Allow { thread: ThreadId(0), cpus: list.parse().unwrap() };
    assert!(matches!(source(refused(&place, allow("9"))), ActionError::Outside { .. }));
    assert!(matches!(source(refused(&place, allow(""))), ActionError::Nowhere(_)));
    let slow = Action::SetWeight { thread: ThreadId(0), weight: 0.0, until: None };
    assert!(matches!(source(refused(&place, slow.clone())), ActionError::NotAnnounced(_)));
    assert!(matches!(source(refused(&[ActionKind::SetWeight], slow)), ActionError::Weight(_)));
    let part = |mask, thread| CachePart { mask, threads: vec![ThreadId(thread)] };
    let partition = |parts| Action::Partition { llc: 0, parts };
    let kinds = [ActionKind::Partition];
    let none = refused(&kinds, partition(vec![part(0, 0)]));
    assert!(matches!(source(none), ActionError::Mask { mask: 0, .. }));
    let cap = Action::CapBandwidth { threads: vec![ThreadId(0)], mb_per_s: Some(0.0) };
    assert!(matches!(source(refused(&[ActionKind::CapBandwidth], cap)), ActionError::Cap(_)));
    let wide = refused(&kinds, partition(vec![part(1 << 16, 0)]));
    assert!(matches!(source(wide), ActionError::Mask { ways: 16, .. }));
    let twice = refused(&kinds, partition(vec![part(1, 0), part(2, 0)]));
    assert!(matches!(source(twice), ActionError::TwoParts { .. }));
    let nowhere = refused(&kinds, Action::Partition { llc: 9, parts: vec![] });
    assert!(matches!(source(nowhere), ActionError::UnknownLlc(9)));
}

#[test]
fn only_changes_are_logged() {
    let (_, experiment) = two_calm(Method::FirstRun);
    let policy = deciding(10_000_000, &[ActionKind::Place], |view| {
        let mut plan = Plan::none();
        for (place, thread) in view.threads.iter().enumerate() {
            let cpus = CpuSet::from_iter([CpuId(2 * place as u32)]);
            plan.push(Action::Allow { thread: thread.id, cpus }, format!("place {place}"));
        }
        plan
    });
    let result = run_under(&experiment, policy).unwrap();
    assert_eq!(result.log.len(), 2, "{:?}", result.log);
    assert_eq!(result.log[1].reason, "place 1");
    assert_eq!(result.log[1].policy, "scripted");
}

#[test]
fn counters_are_rates_over_the_interval() {
    let model = model(machine(1, 2, 1, 1));
    let program = streaming(&model, 2 * SECOND);
    let best = program.phases[0].best;
    let speed = program.phases[0].best_instructions_per_s;
    let one = experiment(&model, vec![AppSpec::new(program)], Method::FirstRun);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let mut needs = needs(0, &[ActionKind::Place]);
    // 2e7 cycles at 2 GHz: 10 ms.
    needs.interval = Interval::Cycles(20_000_000);
    let policy = Scripted {
        name: "looks",
        needs,
        decide: move |view: &View<'_>| {
            sink.lock().unwrap().push((view.now, view.threads[0].clone()));
            Plan::none()
        },
        event: |_: &Event, _: &View<'_>| None,
    };
    run_under(&one, policy).unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].0, Nanoseconds(10_000_000));
    assert_eq!(seen[1].0, Nanoseconds(20_000_000));
    let thread = &seen[1].1;
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-6;
    let counters = &thread.rates;
    assert!(near(counters.instructions_per_s.unwrap(), speed));
    assert!(near(counters.cycles_per_s.unwrap(), 2e9));
    assert!(near(counters.llc_mpki().unwrap(), best.llc_mpki));
    assert!(near(counters.memory_bytes_per_s.unwrap(), best.bytes_per_s));
    assert_eq!(counters.llc_misses.unwrap().scope, Scope::DemandAndPrefetch);
    assert!(near(counters.cpu_share.unwrap(), 1.0));
    let per_1000 = |per_s: Option<f64>| 1000.0 * per_s.unwrap() / speed;
    let mix = one.apps[0].program.phases[0].mix.unwrap();
    assert!(near(per_1000(counters.l1_accesses_per_s), mix.l1_accesses_pki));
    assert!(near(per_1000(counters.branches_per_s), mix.branches_pki));
    assert_eq!(thread.state, ThreadState::Running);
    assert!(thread.cpu.is_some());
    assert!(near(thread.solo.unwrap().llc_mpki, best.llc_mpki));
    assert!(near(thread.solo.unwrap().instructions_per_s, speed));
    assert!(thread.llc_occupancy_bytes.unwrap() > 0.9 * 4.0 * MIB as f64);
    assert_eq!(thread.pages_by_node, [1.0]);
}

#[test]
fn events_come_in_order_and_restarts_are_new_threads() {
    let (_, experiment) = two_calm(Method::Restart3);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let policy = Scripted {
        name: "hears",
        needs: needs(SECOND, &[ActionKind::Place]),
        decide: |_: &View<'_>| Plan::none(),
        event: move |event: &Event, view: &View<'_>| {
            assert!(view.threads.windows(2).all(|pair| pair[0].id < pair[1].id));
            if let Event::Exited(id) = event {
                assert!(view.thread(*id).is_none());
            }
            sink.lock().unwrap().push(event.clone());
            None
        },
    };
    run_under(&experiment, policy).unwrap();
    let seen = seen.lock().unwrap();
    let id = ThreadId;
    assert_eq!(seen[..2], [Event::Arrived(id(0)), Event::Arrived(id(1))]);
    assert_eq!(seen[2], Event::Switched { on: vec![id(0), id(1)], off: vec![] });
    let rest: Vec<&Event> = seen[3..7].iter().collect();
    let expected =
        [Event::Exited(id(0)), Event::Exited(id(1)), Event::Arrived(id(2)), Event::Arrived(id(3))];
    assert_eq!(rest, expected.iter().collect::<Vec<_>>());
}

#[test]
fn partitions_protect() {
    let model = model(machine(1, 1, 2, 1));
    let apps =
        vec![AppSpec::new(sensitive(&model, SECOND)), AppSpec::new(streaming(&model, SECOND))];
    let one = experiment(&model, apps, Method::Window);
    let open = run(&one);
    let split = Scripted {
        name: "splits",
        needs: needs(SECOND, &[ActionKind::Partition]),
        decide: |_: &View<'_>| Plan::none(),
        event: |_: &Event, view: &View<'_>| {
            let mut plan = Plan::none();
            let (small, large): (Vec<_>, Vec<_>) =
                view.threads.iter().partition(|thread| thread.program == "streaming");
            let part = |mask, threads: Vec<&corun_policy::ThreadView>| CachePart {
                mask,
                threads: threads.iter().map(|thread| thread.id).collect(),
            };
            let parts = vec![part(0x1, small), part(0xfffe, large)];
            plan.push(Action::Partition { llc: 0, parts }, "15 ways to the sensitive one");
            Some(plan)
        },
    };
    let closed = run_under(&one, split).unwrap();
    let slowdown = |result: &corun_sim::RunResult| result.apps[0].slowdown.unwrap();
    assert!(slowdown(&closed) < slowdown(&open) - 0.05, "{open:?} {closed:?}");
}

/// Ways in common are shared, so each of two has more than the 5 ways of its own and less than 11.
#[test]
fn masks_may_overlap() {
    let model = model(machine(1, 1, 2, 1));
    let apps = vec![AppSpec::new(sensitive(&model, SECOND)); 2];
    let one = experiment(&model, apps, Method::Window);
    let slowdown = |masks: [u64; 2]| {
        let policy = Scripted {
            name: "splits",
            needs: needs(SECOND, &[ActionKind::Partition]),
            decide: |_: &View<'_>| Plan::none(),
            event: move |_: &Event, view: &View<'_>| {
                let part = |(mask, thread): (u64, &corun_policy::ThreadView)| CachePart {
                    mask,
                    threads: vec![thread.id],
                };
                let parts = masks.into_iter().zip(view.threads).map(part).collect();
                let mut plan = Plan::none();
                plan.push(Action::Partition { llc: 0, parts }, "as told");
                Some(plan)
            },
        };
        run_under(&one, policy).unwrap().apps[0].slowdown.unwrap()
    };
    let (apart, common) = (slowdown([0x1f, 0xf800]), slowdown([0x7ff, 0xffe0]));
    let alone = slowdown([0x7ff, 0xf800]);
    assert!(alone < common && common < apart, "{alone} {common} {apart}");
}

#[test]
fn caps_hold_back_traffic() {
    let model = model(machine(1, 1, 2, 1));
    let apps = vec![
        AppSpec::new(sensitive(&model, 500 * SECOND)),
        AppSpec::new(streaming(&model, 500 * SECOND)),
    ];
    let one = experiment(&model, apps, Method::Window);
    let speed = |mb_per_s: Option<f64>| {
        let mut told = false;
        let policy = deciding(SECOND, &[ActionKind::CapBandwidth], move |view| {
            let mut plan = Plan::none();
            if !std::mem::replace(&mut told, true) {
                let threads = vec![view.threads[1].id];
                plan.push(Action::CapBandwidth { threads, mb_per_s }, "as told");
            }
            plan
        });
        let result = run_under(&one, policy).unwrap();
        [0, 1].map(|app| result.apps[app].slowdown.unwrap())
    };
    let (free, capped) = (speed(None), speed(Some(200.0)));
    assert!(capped[1] > 2.0 * free[1], "{free:?} {capped:?}");
    assert!(capped[0] < free[0], "{free:?} {capped:?}");
}

/// Every partitioning policy beside a placement policy, and the partition follows the placement.
#[test]
fn partitioning_runs_beside_placement() {
    let model = model(machine(2, 1, 2, 1));
    let apps = vec![
        AppSpec::new(sensitive(&model, SECOND)),
        AppSpec::new(streaming(&model, SECOND)),
        AppSpec::new(hungry(&model, SECOND)),
        AppSpec::new(calm(&model, SECOND)),
    ];
    let mut one = experiment(&model, apps, Method::Window);
    one.settings.window = Nanoseconds(8 * SECOND);
    let options = corun_policy::BuildOptions::default();
    let partitioning = corun_policy::registry()
        .iter()
        .filter(|entry| entry.kind() == corun_policy::PolicyKind::Partitioning)
        // These place, too.
        .filter(|entry| !["dio-lfoc", "parties"].contains(&entry.name));
    for entry in partitioning {
        let policies = ["dio-2010", entry.name]
            .map(|name| corun_policy::build(name, &options).unwrap())
            .into_iter()
            .collect();
        let result = corun_sim::run(&one, policies, Hooks::default()).unwrap();
        let of_kind =
            |kind: ActionKind| result.log.iter().filter(|step| step.action.kind() == kind).count();
        assert!(of_kind(ActionKind::Place) > 0, "{}", entry.name);
        // BALANCER cuts only programs that make far less of their space than the others, and finds none here.
        if entry.name != "balancer" {
            assert!(of_kind(ActionKind::Partition) > 1, "{}", entry.name);
        }
    }
    let alone = |name: &str| {
        let policies = vec![corun_policy::build(name, &options).unwrap()];
        corun_sim::run(&one, policies, Hooks::default()).unwrap().apps[0].slowdown.unwrap()
    };
    assert!(alone("lfoc") < alone("linux-default"), "lfoc confines the streaming program");
}

/// `dio-lfoc` moves nobody while it samples anybody, and does both.
#[test]
fn nobody_is_moved_while_somebody_is_sampled() {
    let model = model(machine(2, 1, 2, 1));
    let apps = vec![
        AppSpec::new(streaming(&model, 60 * SECOND)),
        AppSpec::new(hungry(&model, 60 * SECOND)),
        AppSpec::new(sensitive(&model, 60 * SECOND)),
        AppSpec::new(calm(&model, 60 * SECOND)),
    ];
    let mut one = experiment(&model, apps, Method::Window);
    one.settings.window = Nanoseconds(20 * SECOND);
    let moves = |names: &[&str]| {
        let build = |name| corun_policy::build(name, &corun_policy::BuildOptions::default());
        let policies = names.iter().map(|name| build(name).unwrap()).collect();
        let result = corun_sim::run(&one, policies, Hooks::default()).unwrap();
        let mut sampling = [false; 2];
        let (mut sampled, mut moved, mut moved_meanwhile) = (0, 0, 0);
        for entry in &result.log {
            if let Action::Partition { llc, .. } = &entry.action {
                sampling[*llc] = entry.reason.contains(": sampling ");
                sampled += usize::from(sampling[*llc]);
            } else if entry.at.0 > 0 {
                moved += 1;
                moved_meanwhile += usize::from(sampling.contains(&true));
            }
        }
        assert!(sampled > 0, "{names:?}");
        (moved, moved_meanwhile)
    };
    let (moved, meanwhile) = moves(&["dio-lfoc"]);
    assert!(moved > 0);
    assert_eq!(meanwhile, 0);
    let (_, meanwhile) = moves(&["dio-2010", "lfoc-online"]);
    assert!(meanwhile > 0, "two that know nothing of each other do");
}

#[test]
fn weights_expire_and_cpus_rest() {
    let model = model(machine(1, 1, 1, 1));
    let app = AppSpec::new(calm(&model, 60 * SECOND));
    let apps = vec![app.clone(), app];
    let one = Experiment {
        settings: SimulationSettings {
            window: Nanoseconds(4 * SECOND),
            ..SimulationSettings::default()
        },
        ..experiment(&model, apps, Method::Window)
    };
    let mut told = false;
    let policy = deciding(SECOND, &[ActionKind::SetWeight, ActionKind::IdleCpu], move |view| {
        let mut plan = Plan::none();
        if !std::mem::replace(&mut told, true) {
            let until = Some(Nanoseconds(2 * SECOND));
            let thread = view.threads[0].id;
            plan.push(Action::SetWeight { thread, weight: 9.0, until }, "for a second");
        } else if view.now == Nanoseconds(2 * SECOND) {
            let cpu = CpuId(0);
            plan.push(Action::IdleCpu { cpu, duration: Nanoseconds(SECOND) }, "rest");
        }
        plan
    });
    let result = run_under(&one, policy).unwrap();
    // 1 s at half, 1 s at nine tenths, 1 s at rest, 1 s at half.
    let seconds: Vec<f64> = result.apps.iter().map(|app| app.cpu_s).collect();
    assert!((seconds[0] + seconds[1] - 3.0).abs() < 1e-6, "{seconds:?}");
    assert!((seconds[0] - 1.9).abs() < 0.02, "{seconds:?}");
}

#[test]
fn pages_move_at_a_price() {
    let model = model(machine(2, 1, 1, 1));
    let far = AppSpec {
        home: Some(1),
        // 150000 pages a second: 0.1 s.
        footprint_bytes: Some(15_000 * 4096),
        may_run_on: Some("0".parse().unwrap()),
        ..AppSpec::new(streaming(&model, SECOND))
    };
    let one = experiment(&model, vec![far], Method::FirstRun);
    let away = run(&one).apps[0].completion_s[0];
    let policy = deciding(10_000_000, &[ActionKind::MovePages], |view| {
        let mut plan = Plan::none();
        plan.push(Action::MovePages { thread: view.threads[0].id, node: 0 }, "home");
        plan
    });
    let result = run_under(&one, policy).unwrap();
    let solo = result.apps[0].solo_completion_s;
    // 0.11 s at the far speed, the rest at home.
    let expected = 0.11 + (1.0 - 0.11 / away) * solo;
    let found = result.apps[0].completion_s[0];
    assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected} {away}");
    assert_eq!(result.log.len(), 1);
}

/// Each of two threads has what it touched first on its own node. All goes to that of the first thread, once.
#[test]
fn pages_of_all_threads_move() {
    let model = model(machine(2, 1, 1, 1));
    let app = AppSpec {
        threads: 2,
        footprint_bytes: Some(15_000 * 4096),
        ..AppSpec::new(streaming(&model, SECOND))
    };
    let seen: Arc<Mutex<Vec<Vec<f64>>>> = Arc::default();
    let sink = Arc::clone(&seen);
    let policy = deciding(10_000_000, &[ActionKind::MovePages], move |view| {
        let shares: Vec<f64> = view.threads.iter().map(|thread| thread.pages_by_node[0]).collect();
        let node = usize::from(shares[0] == 0.0);
        sink.lock().unwrap().push(shares);
        let mut plan = Plan::none();
        plan.push(Action::MovePages { thread: view.threads[0].id, node }, "together");
        plan
    });
    let result = run_under(&experiment(&model, vec![app], Method::FirstRun), policy).unwrap();
    let seen = seen.lock().unwrap();
    let (first, later) = (&seen[0], &seen[20]);
    assert_ne!(first[0], first[1]);
    assert_eq!(later, &[first[0]; 2]);
    assert_eq!(result.log.len(), 1);
}

#[test]
fn slots_are_taken_in_order() {
    let model = model(machine(1, 1, 2, 1));
    let apps = (0..3).map(|_| AppSpec::new(calm(&model, 600 * SECOND))).collect();
    let one = experiment(&model, apps, Method::Window);
    let order = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&order);
    let policy = Scripted {
        name: "orders",
        needs: needs(60 * SECOND, &[ActionKind::OrderSlots]),
        decide: |_: &View<'_>| Plan::none(),
        event: move |event: &Event, view: &View<'_>| {
            let mut plan = Plan::none();
            let threads: Vec<ThreadId> = view.threads.iter().map(|thread| thread.id).collect();
            if let Event::Arrived(_) = event
                && view.now == Nanoseconds(0)
            {
                let slot = Nanoseconds(200_000_000);
                plan.push(Action::OrderSlots { cpu: CpuId(1), threads, slot }, "turns");
            } else if let Event::Switched { .. } = event {
                let here = |thread: &&corun_policy::ThreadView| {
                    thread.state == ThreadState::Running && thread.cpu == Some(CpuId(1))
                };
                let running = view.threads.iter().find(here).map(|thread| thread.id.0);
                sink.lock().unwrap().push((view.now.0, running));
            }
            Some(plan)
        },
    };
    run_under(&one, policy).unwrap();
    let order = order.lock().unwrap();
    let at = |time: u64| order.iter().rfind(|(at, _)| *at <= time).and_then(|(_, id)| *id);
    let first_turns = [0, 200_000_000, 400_000_000, 600_000_000].map(at);
    assert_eq!(first_turns, [Some(0), Some(1), Some(2), Some(0)]);
}

#[test]
fn shipped_policies_run() {
    let model = model(machine(1, 2, 2, 1));
    let apps: Vec<AppSpec> = [hungry, hungry, calm, calm]
        .map(|program| AppSpec::new(program(&model, 4 * SECOND)))
        .into();
    let mean = |name: &str, seed| {
        let one = Experiment { seed, ..experiment(&model, apps.clone(), Method::Restart3) };
        let options = BuildOptions { seed, ..BuildOptions::default() };
        let policy = corun_policy::build(name, &options).unwrap();
        let result = corun_sim::run(&one, vec![policy], Hooks::default()).unwrap();
        result.apps.iter().map(|app| app.slowdown.unwrap()).sum::<f64>() / 4.0
    };
    let over_seeds = |name: &str| (0..8).map(|seed| mean(name, seed)).sum::<f64>() / 8.0;
    let (default, random) = (over_seeds("linux-default"), over_seeds("random"));
    let (di, dio) = (over_seeds("di"), over_seeds("dio"));
    assert!(di < default && dio < default && di < random, "{default} {random} {di} {dio}");
}

#[test]
fn a_caller_can_stop_and_watch() {
    let (_, experiment) = two_calm(Method::Window);
    let cancel = AtomicBool::new(true);
    let hooks = Hooks { cancel: Some(&cancel), progress: None };
    let policy = || Box::new(deciding(1_000_000, &[ActionKind::Place], |_| Plan::none()));
    let error = corun_sim::run(&experiment, vec![policy()], hooks).unwrap_err();
    assert_eq!(error, SimError::Cancelled);
    let mut last = 0.0;
    let mut progress = |now: corun_sim::Progress| {
        assert!(now.share >= last && now.share <= 1.0);
        last = now.share;
    };
    let hooks = Hooks { cancel: None, progress: Some(&mut progress) };
    corun_sim::run(&experiment, vec![policy()], hooks).unwrap();
    assert!(last > 0.5);
}

#[test]
fn a_run_that_cannot_end_is_an_error() {
    let (_, mut experiment) = two_calm(Method::Restart3);
    experiment.settings.limit = Nanoseconds(SECOND / 10);
    let error = corun_sim::run(&experiment, vec![], Hooks::default()).unwrap_err();
    assert!(matches!(error, SimError::TimeLimit { .. }), "{error}");
    assert!(error.to_string().starts_with("not ended after 0.1 simulated seconds"), "{error}");
    assert!(error.to_string().ends_with("--instructions"), "{error}");

    let (_, experiment) = two_calm(Method::FirstRun);
    let rest = deciding(10_000_000, &[ActionKind::IdleCpu], |view| {
        let mut plan = Plan::none();
        for cpu in view.machine.cpus() {
            let duration = Nanoseconds(20_000_000);
            plan.push(Action::IdleCpu { cpu: cpu.id, duration }, "rest for ever");
        }
        plan
    });
    let error = run_under(&experiment, rest).unwrap_err().to_string();
    assert!(
        error.contains("stalled") && error.contains("CPU 0: nobody runs, held idle"),
        "{error}"
    );
}

#[test]
fn figures_that_cannot_be_are_refused() {
    let (model, good) = two_calm(Method::FirstRun);
    let with = |change: fn(&mut AppSpec)| {
        let mut app = AppSpec::new(calm(&model, SECOND));
        change(&mut app);
        let one = Experiment { apps: vec![app], ..good.clone() };
        corun_sim::run(&one, vec![], Hooks::default()).unwrap_err().to_string()
    };
    assert!(with(|app| app.threads = 0).contains("threads"));
    assert!(with(|app| app.weight = f64::NAN).contains("weight is NaN"));
    assert!(with(|app| app.instructions = Some(0)).contains("instructions is 0"));
    assert!(with(|app| app.home = Some(4)).contains("home is 4"));
    assert!(with(|app| app.may_run_on = Some("17".parse().unwrap())).contains("may_run_on is 17"));
    let none = Experiment { apps: vec![], ..good };
    assert_eq!(corun_sim::run(&none, vec![], Hooks::default()).unwrap_err(), SimError::NoApps);
}
