//! Experiments at random.

use corun_machine::{CpuId, CpuSet};
use corun_policy::Nanoseconds;
use corun_profile::{Io, Method};
use corun_sim::{AppSpec, Experiment, SimulationSettings};
use proptest::prelude::*;

use super::fixture::*;

/// Bursts of programs that wait, and their waits.
pub(super) const CPU_MS: f64 = 4.0;
pub(super) const WAIT_MS: f64 = 7.0;

#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) shape: (u32, u32, u32, u32),
    /// Kind of program, weight, waits?, CPUs it is held on (bits), threads.
    pub(super) apps: Vec<(u8, f64, bool, u8, u32)>,
    pub(super) seed: u64,
}

pub(super) fn scenarios() -> impl Strategy<Value = Scenario> {
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

pub(super) fn build(scenario: &Scenario) -> Experiment {
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
