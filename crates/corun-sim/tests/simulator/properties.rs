//! What holds for any experiment.

use corun_machine::{CpuId, CpuSet};
use corun_policy::{Action, ActionKind, Plan};
use proptest::prelude::*;

use super::fixture::*;
use super::scenario::*;

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
