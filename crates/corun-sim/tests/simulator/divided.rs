//! The house's policy on LLCs that can be divided, with threads that it decides nothing about: those that sleep, come,
//! end, or go from one LLC to another. A thread without a part on a divided LLC would end the run.

use std::collections::BTreeSet;
use std::sync::Arc;

use corun_machine::{CpuId, CpuSet, Machine, MachineSpec, ObjectSpec};
use corun_policy::{Action, BuildOptions, Nanoseconds, Policy, build};
use corun_profile::{Io, Method, Service};
use proptest::prelude::*;

use super::fixture::*;
use corun_sim::{AppSpec, Experiment, Observation, RunResult, SimError, SimulationSettings};

/// Cycles between two looks of the policy: 25 ms.
const INTERVAL_CYCLES: f64 = 5e7;

#[derive(Debug, Clone)]
struct App {
    kind: u8,
    threads: u32,
    /// Milliseconds on a CPU and asleep; none: it never sleeps.
    io: Option<(f64, f64)>,
    is_service: bool,
    starts_ms: u64,
    lives_ms: Option<u64>,
    is_short: bool,
    /// CPUs it may run on (bits); 0: all.
    held: u8,
}

#[derive(Debug, Clone)]
struct Scenario {
    shape: (u32, u32, u32, u32),
    apps: Vec<App>,
    objective: f64,
    profiles: f64,
    trials: f64,
    seed: u64,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let app = (
        (0..4u8, 1..4u32, prop::option::weighted(0.5, (1.0..40.0f64, 1.0..60.0f64))),
        (prop::bool::weighted(0.2), prop_oneof![Just(0), 0..300u64]),
        (prop::option::weighted(0.3, 20..300u64), prop::bool::weighted(0.3)),
        prop_oneof![3 => Just(0), 1 => any::<u8>()],
    );
    let app = app.prop_map(|((kind, threads, io), (is_service, starts_ms), life, held)| App {
        kind,
        threads,
        io,
        is_service,
        starts_ms,
        lives_ms: life.0,
        is_short: life.1,
        held,
    });
    let shape = (1..3u32, 1..3u32, 2..5u32, 1..3u32);
    let apps = prop::collection::vec(app, 2..7);
    let numbers = prop::sample::select(vec![0.0, 1.0, 2.0]);
    let (profiles, trials) = (prop::sample::select(vec![0.0, 1.0]), numbers.clone());
    (shape, apps, numbers, profiles, trials, any::<u64>()).prop_map(
        |(shape, apps, objective, profiles, trials, seed)| Scenario {
            shape,
            apps,
            objective,
            profiles,
            trials,
            seed,
        },
    )
}

/// The machine with LLCs that the hardware can divide.
fn divisible(machine: &Machine) -> Arc<Machine> {
    fn mark(objects: &mut [ObjectSpec]) {
        for object in objects {
            object.min_partition_ways = object.ways.map(|_| 1);
            mark(&mut object.objects);
        }
    }
    let mut spec: MachineSpec = machine.spec().clone();
    mark(&mut spec.objects);
    Arc::new(Machine::from_spec(spec).unwrap())
}

fn experiment_of(scenario: &Scenario) -> Experiment {
    let (packages, llcs, cores, threads) = scenario.shape;
    let machine = divisible(&machine(packages, llcs, cores, threads));
    let cpus = machine.cpus().len() as u32;
    let model = model(machine);
    let apps = scenario.apps.iter().map(|app| {
        let length = if app.is_short { SECOND / 20 } else { 10 * SECOND };
        let program = [calm, sensitive, streaming, hungry][usize::from(app.kind)](&model, length);
        let held: CpuSet =
            (0..cpus.min(8)).filter(|bit| app.held >> bit & 1 == 1).map(CpuId).collect();
        let ms = |time: u64| Nanoseconds(time * 1_000_000);
        let service = Service {
            requests_per_s: 200.0,
            instructions: 1e6,
            variation: None,
            percentile: 99.0,
            target_ms: 5.0,
            warm_up_s: 0.0,
        };
        AppSpec {
            threads: app.threads,
            io: app.io.filter(|_| !app.is_service).map(|(cpu_ms, wait_ms)| Io { cpu_ms, wait_ms }),
            service: app.is_service.then_some(service),
            start: ms(app.starts_ms),
            kill: app.lives_ms.map(|lives| ms(app.starts_ms + lives)),
            restart: app.is_short.then_some(true),
            may_run_on: (!held.is_empty()).then_some(held),
            ..AppSpec::new(program)
        }
    });
    let apps = apps.collect();
    let settings =
        SimulationSettings { window: Nanoseconds(SECOND / 2), ..SimulationSettings::default() };
    Experiment { seed: scenario.seed, settings, ..experiment(&model, apps, Method::Window) }
}

fn corun(scenario: &Scenario) -> Box<dyn Policy> {
    let parameters = [
        ("interval-cycles", INTERVAL_CYCLES),
        ("objective", scenario.objective),
        ("profiles", scenario.profiles),
        ("trials", scenario.trials),
        ("least-gain-percent", 0.01),
        ("least-estimated-gain-percent", 0.01),
    ];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value)).into();
    build("corun", &BuildOptions { seed: scenario.seed, parameters }).unwrap()
}

fn run_corun(scenario: &Scenario, observation: Option<Observation>) -> Result<RunResult, SimError> {
    let experiment = Experiment { observation, ..experiment_of(scenario) };
    corun_sim::run(&experiment, vec![corun(scenario)], Default::default())
}

/// How often an LLC was divided anew.
fn divisions(result: &RunResult) -> usize {
    let is_division = |action: &Action| matches!(action, Action::Partition { .. });
    result.log.iter().filter(|entry| is_division(&entry.action)).count()
}

/// No way and no thread is in two parts of a division.
fn check_divisions(result: &RunResult) -> Result<(), TestCaseError> {
    for entry in &result.log {
        let Action::Partition { parts, .. } = &entry.action else { continue };
        let mut ways = 0;
        let mut threads = BTreeSet::new();
        for part in parts {
            prop_assert_eq!(ways & part.mask, 0, "{:?}", entry);
            ways |= part.mask;
            prop_assert!(part.threads.iter().all(|thread| threads.insert(*thread)), "{:?}", entry);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_thread_is_left_out_of_the_parts(scenario in scenarios()) {
        let seen = run_corun(&scenario, None);
        prop_assert!(seen.is_ok(), "{}", seen.unwrap_err());
        check_divisions(&seen.unwrap())?;
        for refused in [0.0, 0.2] {
            let observation = Observation {
                tick_every: Nanoseconds(SECOND / 40),
                noise: 0.05,
                failed: 0.05,
                refused,
                ..Observation::as_live()
            };
            let live = run_corun(&scenario, Some(observation));
            prop_assert!(live.is_ok(), "{}", live.unwrap_err());
            check_divisions(&live.unwrap())?;
        }
    }
}

/// Eight threads that mostly sleep, beside three that compete for the cache: it is divided, and not anew with each
/// thread that wakes.
#[test]
fn sleepers_beside_a_divided_cache_neither_end_the_run_nor_divide_it_anew() {
    let app = |kind, threads, io| App {
        kind,
        threads,
        io,
        is_service: false,
        starts_ms: 0,
        lives_ms: None,
        is_short: false,
        held: 0,
    };
    for packages in 1..3 {
        let apps = vec![
            app(0, 8, Some((2.0, 20.0))),
            app(2, 1, None),
            app(2, 1, None),
            app(1, 1, None),
            app(3, 1, None),
        ];
        let shape = (packages, 1, 8 / packages, 1);
        let (objective, profiles, trials, seed) = (2.0, 1.0, 1.0, 1);
        let scenario = Scenario { shape, apps, objective, profiles, trials, seed };
        let result = run_corun(&scenario, None).unwrap();
        let divisions = divisions(&result);
        assert!((1..=10).contains(&divisions), "{packages}: {divisions}");
    }
}
