//! Where nothing changes the simulator gives what the model gives.

use std::sync::Arc;

use corun_machine::PowerModel;
use corun_model::{Outcome, Running, Scratch};
use corun_policy::Nanoseconds;
use corun_profile::{Io, Method};

use super::fixture::*;
use corun_sim::{AppSpec, RunResult, run_pinned};

#[test]
fn a_program_alone_has_no_slowdown() {
    let model = model(machine(1, 2, 2, 1));
    for program in [sensitive(&model, 20 * SECOND), streaming(&model, 20 * SECOND)] {
        let result = run(&experiment(&model, vec![AppSpec::new(program)], Method::Restart3));
        let app = &result.apps[0];
        assert!((app.slowdown.unwrap() - 1.0).abs() < 1e-9, "{app:?}");
        assert_eq!(app.completion_s.len(), 3);
        assert_eq!(app.migrations, 0);
        assert!((app.cpu_share - 1.0).abs() < 1e-9);
    }
}

#[test]
fn energy_follows_busy_packages_cores_and_bytes() {
    let power =
        PowerModel { idle_w: 100.0, package_active_w: 20.0, core_w: 5.0, w_per_gb_per_s: 3.0 };
    let plain = machine(2, 2, 2, 1);
    let model = model(powered(&plain, power));
    let apps = || {
        vec![AppSpec::new(calm(&model, 30 * SECOND)), AppSpec::new(streaming(&model, 30 * SECOND))]
    };
    let run = |cpus: &[usize]| {
        run_pinned(&experiment(&model, apps(), Method::Window), cpus, Default::default()).unwrap()
    };
    let (together, apart) = (run(&[0, 2]), run(&[0, 4]));
    let bytes = |result: &RunResult| result.energy.unwrap().memory_j / 3.0;
    for (result, packages) in [(&together, 1.0), (&apart, 2.0)] {
        let energy = result.energy.unwrap();
        let seconds = result.simulated_s;
        assert!((energy.idle_j - 100.0 * seconds).abs() < 1e-6);
        assert!((energy.packages_j - packages * 20.0 * seconds).abs() < 1e-6);
        assert!((energy.cores_j - 2.0 * 5.0 * seconds).abs() < 1e-6);
        let power_w = packages * 20.0 + 10.0 + 3.0 * bytes(result) / seconds;
        assert!((result.power_w().unwrap() - power_w).abs() < 1e-6);
        assert!(bytes(result) > 0.0);
    }
    // Half of the time asleep is half of a core's energy.
    let waits = Io { cpu_ms: 10.0, wait_ms: 10.0 };
    let asleep = AppSpec { io: Some(waits), ..AppSpec::new(calm(&model, 30 * SECOND)) };
    let result =
        run_pinned(&experiment(&model, vec![asleep], Method::Window), &[0], Default::default());
    let energy = result.as_ref().unwrap().energy.unwrap();
    let cpu_s = result.as_ref().unwrap().apps[0].cpu_s;
    assert!((energy.cores_j - 5.0 * cpu_s).abs() < 1e-6, "{energy:?} {cpu_s}");
    assert!((energy.packages_j - 20.0 * cpu_s).abs() < 1e-6);
    assert_eq!(
        run_pinned(
            &experiment(&super::fixture::model(plain), apps(), Method::Window),
            &[0, 4],
            Default::default()
        )
        .unwrap()
        .energy,
        None
    );
}

#[test]
fn two_hardware_threads_are_one_busy_core() {
    let power = PowerModel { idle_w: 0.0, package_active_w: 0.0, core_w: 5.0, w_per_gb_per_s: 0.0 };
    let model = model(powered(&machine(1, 1, 2, 2), power));
    let apps = (0..2).map(|_| AppSpec::new(calm(&model, 30 * SECOND))).collect();
    let result =
        run_pinned(&experiment(&model, apps, Method::Window), &[0, 1], Default::default()).unwrap();
    assert!((result.power_w().unwrap() - 5.0).abs() < 1e-9, "{:?}", result.energy);
}

#[test]
fn pinned_programs_run_as_the_model_says() {
    let model = model(machine(2, 2, 2, 1));
    let programs = [
        sensitive(&model, 30 * SECOND),
        streaming(&model, 30 * SECOND),
        calm(&model, 30 * SECOND),
        sensitive(&model, 30 * SECOND),
        streaming(&model, 30 * SECOND),
    ];
    // Two share an LLC, two another one on the other package, one is alone.
    let cpus = [0, 1, 2, 4, 5];
    // Whoever is alone to the end would run faster: all run for a fixed time.
    let apps = programs.iter().map(|program| AppSpec::new(program.clone())).collect();
    let result =
        run_pinned(&experiment(&model, apps, Method::Window), &cpus, Default::default()).unwrap();
    let running: Vec<Running<'_>> =
        programs.iter().zip(cpus).map(|(program, cpu)| Running::local(program, 0, cpu)).collect();
    let mut expected: Vec<Outcome> = Vec::new();
    model.solve(&running, &mut Scratch::new(), &mut expected);
    for (app, expected) in result.apps.iter().zip(&expected) {
        let simulated = app.slowdown.unwrap();
        let error = (simulated / expected.slowdown - 1.0).abs();
        assert!(error < 1e-6, "{}: {simulated} against {}", app.name, expected.slowdown);
    }
    assert!(expected[0].slowdown > 1.05, "the pair does not interfere: {expected:?}");
}

/// In a cache that resists streams too: occupancies are of bytes held there.
#[test]
fn a_cache_that_resists_streams_comes_to_what_the_model_says() {
    fn visit(object: &mut corun_machine::ObjectSpec) {
        if object.level.is_some() {
            object.single_use_life = Some(0.15);
        }
        object.objects.iter_mut().for_each(visit);
    }
    let slowdown = |resists: bool| {
        let mut spec = machine(1, 1, 2, 1).spec().clone();
        if resists {
            spec.objects.iter_mut().for_each(visit);
        }
        let model = model(Arc::new(corun_machine::Machine::from_spec(spec).unwrap()));
        let programs = [sensitive(&model, 30 * SECOND), streaming(&model, 30 * SECOND)];
        let apps = programs.iter().map(|program| AppSpec::new(program.clone())).collect();
        let result =
            run_pinned(&experiment(&model, apps, Method::Window), &[0, 1], Default::default());
        let result = result.unwrap();
        let running: Vec<Running<'_>> = (programs.iter().enumerate())
            .map(|(cpu, program)| Running::local(program, 0, cpu))
            .collect();
        let mut expected: Vec<Outcome> = Vec::new();
        model.solve(&running, &mut Scratch::new(), &mut expected);
        for (app, expected) in result.apps.iter().zip(&expected) {
            let error = (app.slowdown.unwrap() / expected.slowdown - 1.0).abs();
            assert!(error < 1e-6, "{}: {:?} against {expected:?}", app.name, app.slowdown);
        }
        expected[0].slowdown
    };
    let (lru, resisting) = (slowdown(false), slowdown(true));
    assert!(resisting < lru - 0.01, "{resisting} against {lru}");
}

#[test]
fn phases_add_up() {
    let model = model(machine(1, 1, 2, 1));
    let fast: &[(u64, f64)] = &[(MIB, 0.0), (4 * MIB, 0.0)];
    let slow: &[(u64, f64)] = &[(MIB, 30.0), (4 * MIB, 30.0)];
    let both = program(&model, "both", &[(3 * SECOND, fast), (2 * SECOND, slow)]);
    let rates: Vec<f64> = both.phases.iter().map(|one| one.best_instructions_per_s).collect();
    assert!(rates[0] > 1.5 * rates[1]);
    let result = run(&experiment(&model, vec![AppSpec::new(both.clone())], Method::FirstRun));
    let expected = 3e9 / rates[0] + 2e9 / rates[1];
    let found = result.apps[0].completion_s[0];
    // What is executed in the last nanosecond of a phase beyond its end counts for the next.
    assert!((found / expected - 1.0).abs() < 1e-8, "{found} against {expected}");
    assert!((result.apps[0].instructions - 5e9).abs() < 20.0, "{:?}", result.apps[0]);

    // Stretched to twice its length, every phase is.
    let long = AppSpec { instructions: Some(10 * SECOND), ..AppSpec::new(both) };
    let result = run(&experiment(&model, vec![long], Method::FirstRun));
    assert!((result.apps[0].completion_s[0] / expected / 2.0 - 1.0).abs() < 1e-8);
    assert!((result.apps[0].slowdown.unwrap() - 1.0).abs() < 1e-8);
}

#[test]
fn stretches_run_in_order() {
    let model = model(machine(1, 1, 1, 1));
    let fast: &[(u64, f64)] = &[(MIB, 0.0), (4 * MIB, 0.0)];
    let slow: &[(u64, f64)] = &[(MIB, 30.0), (4 * MIB, 30.0)];
    let turns = [(0, 2 * SECOND), (1, 3 * SECOND), (0, SECOND)];
    let program = program_by_turns(&model, &[fast, slow], &turns);
    let rates: Vec<f64> = program.phases.iter().map(|one| one.best_instructions_per_s).collect();
    assert!(rates[0] > 1.5 * rates[1]);
    // A B A: all of B and half a second's worth of the second A are done at this time.
    let (first, second) = (2e9 / rates[0], 3e9 / rates[1]);
    let until = |seconds: f64| {
        let apps = vec![AppSpec {
            kill: Some(Nanoseconds((seconds * 1e9) as u64)),
            ..AppSpec::new(program.clone())
        }];
        run(&experiment(&model, apps, Method::FirstRun)).apps[0].instructions
    };
    let close = |found: f64, expected: f64| (found - expected).abs() < 20.0;
    assert!(close(until(first / 2.0), 1e9), "{}", until(first / 2.0));
    assert!(close(until(first + second / 3.0), 3e9), "{}", until(first + second / 3.0));
    let third = first + second + 0.5e9 / rates[0];
    assert!(close(until(third), 5.5e9), "{}", until(third));
    let whole = run(&experiment(&model, vec![AppSpec::new(program.clone())], Method::FirstRun));
    let expected = 3e9 / rates[0] + second;
    assert!((whole.apps[0].completion_s[0] / expected - 1.0).abs() < 1e-8);
    assert!((whole.apps[0].slowdown.unwrap() - 1.0).abs() < 1e-8);
}

#[test]
fn a_phase_that_returns_is_as_one_that_is_written_again() {
    let model = model(machine(1, 2, 2, 1));
    let curves: [&[(u64, f64)]; 2] =
        [&[(MIB, 20.0), (4 * MIB, 2.0)], &[(MIB, 4.0), (2 * MIB, 1.0), (4 * MIB, 0.5)]];
    let turns = [(0, 2 * SECOND), (1, SECOND), (0, 3 * SECOND)];
    let folded = program_by_turns(&model, &curves, &turns);
    let unfolded: Vec<(u64, &[(u64, f64)])> =
        turns.iter().map(|&(phase, length)| (length, curves[phase])).collect();
    let unfolded = program(&model, "by-turns", &unfolded);
    assert_eq!((folded.phases.len(), unfolded.phases.len()), (2, 3));
    let beside = sensitive(&model, 4 * SECOND);
    for method in [Method::Restart3, Method::FirstRun] {
        let [once, again] = [&folded, &unfolded].map(|program| {
            let apps = vec![AppSpec::new(Arc::clone(program)), AppSpec::new(beside.clone())];
            run(&experiment(&model, apps, method))
        });
        for (one, other) in once.apps.iter().zip(&again.apps) {
            assert!(!one.completion_s.is_empty());
            for (found, expected) in one.completion_s.iter().zip(&other.completion_s) {
                assert!((found / expected - 1.0).abs() < 1e-9, "{found} against {expected}");
            }
            assert!((one.slowdown.unwrap() / other.slowdown.unwrap() - 1.0).abs() < 1e-9);
        }
    }
}

#[test]
fn many_short_phases_lose_no_instruction() {
    let model = model(machine(1, 1, 1, 1));
    let curves: [&[(u64, f64)]; 2] = [&[(MIB, 0.3), (4 * MIB, 0.1)], &[(MIB, 3.0), (4 * MIB, 1.0)]];
    let phases: Vec<(u64, &[(u64, f64)])> =
        (0..400).map(|place| (12_345 + place, curves[place as usize % 2])).collect();
    let program = program(&model, "phases", &phases);
    let whole = program.instructions();
    let result = run(&experiment(&model, vec![AppSpec::new(program)], Method::FirstRun));
    let app = &result.apps[0];
    assert!((app.slowdown.unwrap() - 1.0).abs() < 1e-3, "{app:?}");
    // What is executed beyond a phase's end counts for the next: at most the last nanosecond.
    assert!((app.instructions - whole).abs() < 20.0, "{} of {whole}", app.instructions);
}

#[test]
fn the_longest_ends_three_times() {
    let model = model(machine(1, 2, 2, 1));
    let apps = vec![
        AppSpec::new(calm(&model, 10 * SECOND)),
        AppSpec::new(calm(&model, SECOND)),
        AppSpec { restart: Some(false), ..AppSpec::new(calm(&model, 3 * SECOND)) },
    ];
    let result = run(&experiment(&model, apps, Method::Restart3));
    let ends: Vec<usize> = result.apps.iter().map(|app| app.completion_s.len()).collect();
    // Ten runs of the short one fit into one of the long one; the last may end a moment later.
    assert_eq!(ends[0], 3);
    assert!((29..=30).contains(&ends[1]), "{ends:?}");
    assert_eq!(ends[2], 1);
    assert_eq!(result.threads.len(), result.threads.last().unwrap().id.0 as usize + 1);
    for app in &result.apps {
        assert!((app.slowdown.unwrap() - 1.0).abs() < 1e-9, "{app:?}");
    }

    let apps = vec![AppSpec::new(calm(&model, SECOND)), AppSpec::new(calm(&model, 2 * SECOND))];
    let result = run(&experiment(&model, apps, Method::FirstRun));
    assert!(result.apps.iter().all(|app| app.completion_s.len() == 1));
}

#[test]
fn late_arrivals_and_kills() {
    let model = model(machine(1, 1, 1, 1));
    let program = calm(&model, 4 * SECOND);
    let rate = program.phases[0].best_instructions_per_s;
    let second = |seconds: f64| Nanoseconds::from_secs_f64(seconds);
    let killed = AppSpec {
        start: second(0.25),
        kill: Some(second(0.75)),
        ..AppSpec::new(calm(&model, 4 * SECOND))
    };
    let apps = vec![AppSpec::new(program), killed];
    let result = run(&experiment(&model, apps, Method::FirstRun));
    let [first, second] = &result.apps[..] else { panic!("two programs") };
    // Half a second is shared by halves.
    let alone = 4e9 / rate;
    assert!((first.completion_s[0] - alone - 0.25).abs() < 0.01, "{first:?}");
    assert!(second.completion_s.is_empty() && second.slowdown.is_none());
    assert!((second.cpu_share - 0.5).abs() < 0.02, "{second:?}");
    assert!((first.cpu_s + second.cpu_s - result.simulated_s).abs() < 1e-6);
}

/// Killed in its third run, and in its first, alone on its LLC: it was slowed down by nothing.
#[test]
fn what_a_killed_program_had_done_of_its_run_counts_in_a_window() {
    let model = model(machine(1, 2, 1, 1));
    let program = calm(&model, SECOND);
    let solo_s = 1e9 / program.phases[0].best_instructions_per_s;
    for runs in [2.5, 0.25] {
        let kill = Some(Nanoseconds::from_secs_f64(runs * solo_s));
        let killed = AppSpec { kill, ..AppSpec::new(program.clone()) };
        let apps = vec![AppSpec::new(calm(&model, SECOND)), killed];
        let result = run(&experiment(&model, apps, Method::Window));
        let app = &result.apps[1];
        assert!((app.progress_runs - runs).abs() < 1e-6, "{app:?}");
        assert!((app.slowdown.unwrap() - 1.0).abs() < 1e-6, "{app:?}");
        assert_eq!(app.completion_s.len(), runs as usize);
    }
}

#[test]
fn a_program_that_waits_is_measured_against_itself_alone() {
    let model = model(machine(1, 1, 2, 1));
    let io = Some(Io { cpu_ms: 3.0, wait_ms: 1.0 });
    let app = AppSpec { io, ..AppSpec::new(sensitive(&model, 4 * SECOND)) };
    let result = run(&experiment(&model, vec![app], Method::FirstRun));
    let app = &result.apps[0];
    assert!((app.slowdown.unwrap() - 1.0).abs() < 1e-9, "{app:?}");
    assert!((app.cpu_share - 0.75).abs() < 0.01, "{app:?}");
}

#[test]
fn threads_divide_a_programs_work() {
    let model = model(machine(1, 1, 4, 1));
    let one = AppSpec::new(calm(&model, 8 * SECOND));
    let four = AppSpec { threads: 4, ..one.clone() };
    let time = |app: AppSpec| {
        let result = run(&experiment(&model, vec![app], Method::FirstRun));
        assert!((result.apps[0].slowdown.unwrap() - 1.0).abs() < 1e-9);
        assert!((result.apps[0].instructions - 8e9).abs() < 40.0);
        result.apps[0].completion_s[0]
    };
    assert!((time(one) / time(four) - 4.0).abs() < 1e-6);
}

#[test]
fn the_far_nodes_memory_is_slower() {
    let model = model(machine(2, 1, 1, 1));
    let app = AppSpec::new(streaming(&model, 4 * SECOND));
    let far = AppSpec { home: Some(1), ..app.clone() };
    let run = |app| {
        let experiment = experiment(&model, vec![app], Method::FirstRun);
        run_pinned(&experiment, &[0], Default::default()).unwrap().apps[0].slowdown.unwrap()
    };
    assert!((run(app) - 1.0).abs() < 1e-9);
    assert!(run(far) > 1.2);
}
