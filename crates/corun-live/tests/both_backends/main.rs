//! Every policy of the registry decides the same in the simulator, which shows it the machine as poorly as a
//! real one shows itself, and on the live backend in a dry run over what the simulated threads did.

#[path = "../resctrl/caches.rs"]
mod caches;
#[path = "../resctrl/kernel.rs"]
#[expect(dead_code, reason = "the tests of resctrl break what the kernel says, those here do not")]
mod kernel;
#[path = "../resctrl/mount.rs"]
mod mount;
#[path = "../resctrl/mounted.rs"]
#[expect(dead_code, reason = "the tests of resctrl look into it, those here do not")]
mod mounted;
mod replay;
mod resctrl;

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::{Arc, Mutex};

use corun_live::LiveError;
use corun_machine::preset;
use corun_model::{Model, ModelOptions};
use corun_policy::{BuildOptions, LoadedPredictor, Nanoseconds, Predictor, build, registry};
use corun_profile::{Io, Library, Method};
use corun_runtime::RuntimeError;
use corun_sim::{AppSpec, Experiment, Hooks, Observation, SimError, SimulationSettings, run};

use replay::{Asked, Stage, tapped};

const MACHINES: [&str; 4] = ["xeon-x5365", "2x-e5-2650", "juno-2b4s", "xeon-gold-6138"];
const PROGRAMS: [&str; 8] = ["sort", "numpy", "igraph", "xz", "sort", "igraph", "numpy", "xz"];

/// `mlb` waits for memory controllers that send back far more requests than these programs make them, `cpa` for a
/// program whose misses stand out among the others'.
const QUIET: [&str; 2] = ["mlb", "cpa"];

fn seconds(value: f64) -> Nanoseconds {
    Nanoseconds::from_secs_f64(value)
}

/// Programs that come late, are killed, sleep, and have several threads; none comes and goes between two ticks.
fn apps(model: &Model) -> Vec<AppSpec> {
    let library = Library::shipped().unwrap();
    let mut apps: Vec<AppSpec> = PROGRAMS
        .iter()
        .map(|name| {
            let program = Arc::new(model.load(library.get(name).unwrap()).unwrap());
            AppSpec { instructions: Some(1_000_000_000_000), ..AppSpec::new(program) }
        })
        .collect();
    apps[1].threads = 2;
    apps[2].start = seconds(0.7);
    apps[3].kill = Some(seconds(1.9));
    apps[4].io = Some(Io { cpu_ms: 30.0, wait_ms: 20.0 });
    apps[5].important = true;
    apps[6].start = seconds(1.1);
    apps[6].kill = Some(seconds(2.6));
    apps
}

fn observation() -> Observation {
    Observation {
        tick_every: seconds(0.2),
        // Memory requests that are sent again cannot be counted live; the replay can.
        missing: Vec::new(),
        ..Observation::as_live()
    }
}

/// What a policy was shown in the simulator, and what it wanted.
fn simulated(
    model: &Arc<Model>,
    apps: &[AppSpec],
    policy: &str,
    observation: Observation,
) -> Result<Vec<Asked>, RuntimeError> {
    let settings = SimulationSettings { window: seconds(4.0), ..SimulationSettings::default() };
    let experiment = Experiment {
        settings,
        observation: Some(observation),
        ..Experiment::new(model.clone(), apps.to_vec(), Method::Window, 7)
    };
    let log = Arc::new(Mutex::new(Vec::new()));
    match run(&experiment, vec![tapped(policy, &log)], Hooks::default()) {
        Ok(_) => Ok(std::mem::take(&mut *log.lock().unwrap())),
        Err(SimError::Runtime(refused)) => Err(refused),
        Err(error) => panic!("{policy}: {error}"),
    }
}

/// `quiet`: the policies that are asked and never act.
fn all_on_both(observation: &Observation, quiet: &[&str]) {
    let (mut ran, mut acted) = (BTreeSet::new(), BTreeSet::new());
    for name in MACHINES {
        let machine = Arc::new(preset(name).unwrap());
        let model = Arc::new(Model::new(machine.clone(), ModelOptions::default()).unwrap());
        let apps = apps(&model);
        let programs = apps.iter().map(|app| app.program.clone());
        let predictor: Arc<dyn Predictor> = Arc::new(LoadedPredictor::new(model.clone(), programs));
        for entry in registry() {
            let policy = entry.name;
            let there = simulated(&model, &apps, policy, observation.clone());
            let asked = there.as_deref().unwrap_or_default();
            let here = Stage::dry(&machine, &predictor).play(policy, asked, |_| ());
            match (&there, here) {
                (Ok(there), Ok(here)) => {
                    for (place, (there, here)) in there.iter().zip(&here).enumerate() {
                        let at = format!("{policy} on {name}, question {place}");
                        for (there, here) in there.threads.iter().zip(&here.threads) {
                            assert_eq!(there, here, "{at}");
                        }
                        assert_eq!(there.steps, here.steps, "{at}");
                        assert_eq!(there, here, "{at}");
                    }
                    assert_eq!(there.len(), here.len(), "{policy} on {name}");
                }
                (Err(there), Err(LiveError::Runtime(here))) => {
                    assert_eq!(discriminant(there), discriminant(&here), "{policy} on {name}");
                }
                (there, here) => panic!("{policy} on {name}: {there:?}, live {here:?}"),
            }
            if !asked.is_empty() {
                ran.insert(policy);
            }
            if asked.iter().any(|one| !one.steps.is_empty()) {
                acted.insert(policy);
            }
        }
    }
    let mut silent = Vec::new();
    for entry in registry() {
        let policy = build(entry.name, &BuildOptions::default()).unwrap();
        let wanted = policy.needs().controls;
        let cannot = policy.goes_by_latency()
            || observation.missing_controls.iter().any(|kind| wanted.contains(kind));
        // A policy that takes no action is asked nothing.
        let can_act = !cannot && !wanted.is_empty();
        assert!(!can_act || ran.contains(entry.name), "{} never ran", entry.name);
        silent.extend((can_act && !acted.contains(entry.name)).then_some(entry.name));
    }
    assert_eq!(silent, quiet, "policies that were asked and never acted");
}

#[test]
fn every_policy_decides_the_same_in_the_simulator_and_live() {
    all_on_both(&observation(), &QUIET);
}

#[test]
fn so_it_does_where_counters_take_turns_fail_and_are_noisy() {
    let noisy = Observation { groups: 2, noise: 0.05, failed: 0.1, ..observation() };
    all_on_both(&noisy, &QUIET);
}
