//! Simulations that several studies ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_app::{Comparison, ComparisonSetup, Error, PolicySpec, Result};
use corun_machine::{Machine, preset};
use corun_model::{LoadedProgram, Model, ModelOptions};
use corun_policy::{BuildOptions, Policy};
use corun_profile::{
    CurvePoint, InstructionMix, Library, Method, MissRateCurve, Mix, Origin, Phase, Profile,
    ProfileData, Recording,
};
use corun_sim::{AppSpec, Experiment, Hooks, Observation, RunResult};
use rayon::prelude::*;

use crate::harness::StudyInputs;

/// How long a study looks for an optimum, in seconds.
const OPTIMUM_LIMIT_S: f64 = 60.0;

/// The model of a preset, with the usual options.
pub(crate) fn model_of(machine: &str) -> Result<Arc<Model>> {
    Ok(Arc::new(Model::new(Arc::new(preset(machine)?), ModelOptions::default())?))
}

/// The names of the programs of a library that a mix on this machine can be drawn from. A table's program that drew more
/// alone than the machine has cannot be loaded. A recording can: its micro-traces are replayed when a mix draws it.
pub(crate) fn drawable<'a>(model: &Model, library: &'a Library) -> Vec<&'a str> {
    let is_drawable = |profile: &&Profile| {
        matches!(profile.data, ProfileData::Recording(_)) || model.load(profile).is_ok()
    };
    library.iter().filter(is_drawable).map(|profile| profile.name.as_str()).collect()
}

/// The programs of a mix by name, as [`ComparisonSetup::on`] takes them, each loaded by `load`.
///
/// # Errors
/// A name that is not in the library, and what `load` refuses.
pub(crate) fn loaded_by_name(
    library: &Library,
    names: &[&str],
    load: impl Fn(&Profile) -> Result<Arc<LoadedProgram>>,
) -> Result<BTreeMap<String, Arc<LoadedProgram>>> {
    names.iter().map(|&name| Ok((name.to_owned(), load(library.get(name)?)?))).collect()
}

/// A stream: a program of so many misses and data accesses per 1000 instructions that foresees all its misses.
pub(crate) fn stream(mpki: f64, accesses_pki: f64) -> Profile {
    of_curve("stream", &[CurvePoint { bytes: 64, mpki }], accesses_pki, 1.0)
}

/// A program that is nothing but a curve: so many data accesses per 1000 instructions, and a share of the misses
/// that a prefetcher foresees.
pub(crate) fn of_curve(
    name: &str,
    points: &[CurvePoint],
    accesses_pki: f64,
    prefetchable: f64,
) -> Profile {
    let curve = MissRateCurve::new(points.to_vec());
    let phase = Phase {
        instructions: 1_000_000_000,
        threads: 1,
        data_accesses_pki: accesses_pki,
        mix: InstructionMix { loads_pki: accesses_pki, ..InstructionMix::default() },
        prefetchable,
        memory_level_parallelism: 1.0,
        dirty_share: 0.0,
        footprint_bytes: 1 << 40,
        curve: curve.unwrap_or_else(|error| unreachable!("a study's own curve: {error}")),
        core: None,
    };
    let origin = Origin { sampling_rate: 1.0, complete: true, ..Origin::default() };
    let data = ProfileData::Recording(Recording::new(origin, vec![phase]));
    Profile { name: name.to_owned(), data }
}

/// A comparison that a study asks for.
pub(crate) struct ComparedMix<'a> {
    /// Where the mix's profiles are looked up.
    pub(crate) library: &'a Library,
    pub(crate) machine: Machine,
    pub(crate) options: ModelOptions,
    pub(crate) mix: Mix,
    pub(crate) policies: &'a [&'a str],
    pub(crate) seeds: u32,
}

impl ComparedMix<'_> {
    /// The policies beside the best and the worst placement.
    pub(crate) fn compare(self, inputs: &StudyInputs) -> Result<Comparison> {
        let policies = self.policies.iter().map(|name| PolicySpec::parse(name));
        let policies = policies.collect::<Result<_>>()?;
        let Self { library, machine, options, mix, seeds, .. } = self;
        let setup = ComparisonSetup::of(library, machine, options, &mix, None, seeds, policies)?;
        let hooks = corun_app::ComparisonHooks { stop: inputs.cancel.flag(), step: &|| {} };
        Ok(setup.compare(OPTIMUM_LIMIT_S, hooks)?.comparison)
    }
}

/// A policy with some of its parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TunedPolicy {
    /// What the study calls it.
    pub(crate) shown: &'static str,
    pub(crate) policy: &'static str,
    pub(crate) parameters: &'static [(&'static str, f64)],
}

impl TunedPolicy {
    /// A policy as it is.
    pub(crate) const fn plain(policy: &'static str) -> Self {
        Self { shown: policy, policy, parameters: &[] }
    }

    /// The policy itself.
    pub(crate) fn build(&self, seed: u64) -> Result<Box<dyn Policy>> {
        let parameters =
            self.parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let options = BuildOptions { seed, parameters };
        corun_policy::build(self.policy, &options).map_err(Error::failed)
    }
}

/// Programs of a library, each loaded once for each time that it is named.
pub(crate) fn apps(model: &Model, library: &Library, names: &[&str]) -> Result<Vec<AppSpec>> {
    let load = |name: &&str| Ok(AppSpec::new(Arc::new(model.load(library.get(name)?)?)));
    names.iter().map(load).collect()
}

/// Programs that start again until the longest has ended three times.
pub(crate) fn restarting(model: &Arc<Model>, apps: &[AppSpec], seed: u64) -> Experiment {
    let mut experiment = Experiment::new(model.clone(), apps.to_vec(), Method::Restart3, seed);
    experiment.settings.placements = 0;
    experiment
}

/// The runs of a policy with each of the inputs's seeds, until the longest program has ended three
/// times.
pub(crate) fn by_seed(
    inputs: &StudyInputs,
    model: &Arc<Model>,
    apps: &[AppSpec],
    policy: TunedPolicy,
) -> Result<Vec<RunResult>> {
    let one = |seed: u64| run(inputs, model, apps, policy, seed);
    (1..=u64::from(inputs.seeds)).into_par_iter().map(one).collect()
}

/// The run of a policy with one seed.
pub(crate) fn run(
    inputs: &StudyInputs,
    model: &Arc<Model>,
    apps: &[AppSpec],
    policy: TunedPolicy,
    seed: u64,
) -> Result<RunResult> {
    run_policy(inputs, model, apps, policy.build(seed)?, seed)
}

/// The same of a policy that was built already.
pub(crate) fn run_policy(
    inputs: &StudyInputs,
    model: &Arc<Model>,
    apps: &[AppSpec],
    policy: Box<dyn Policy>,
    seed: u64,
) -> Result<RunResult> {
    run_observed(inputs, model, apps, policy, (seed, None))
}

/// The same of a policy that sees the machine as the observation says; none: exactly.
pub(crate) fn run_observed(
    inputs: &StudyInputs,
    model: &Arc<Model>,
    apps: &[AppSpec],
    policy: Box<dyn Policy>,
    (seed, observation): (u64, Option<&Observation>),
) -> Result<RunResult> {
    inputs.cancel.check()?;
    let mut experiment = restarting(model, apps, seed);
    experiment.observation = observation.cloned();
    let hooks = Hooks { cancel: Some(inputs.cancel.flag()), progress: None };
    Ok(corun_sim::run(&experiment, vec![policy], hooks)?)
}

/// How programs do under a policy, against the default scheduler. Means over these programs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AgainstDefault {
    /// Mean completion time under the default / under the policy, in % above 1.
    pub(crate) mean_gain: f64,
    /// The same of the longest completion time.
    pub(crate) worst_gain: f64,
    /// Standard deviation / mean of the completion times under the default, in %.
    pub(crate) default_deviation: f64,
    /// The same under the policy.
    pub(crate) deviation: f64,
}

/// These programs (by place) in both.
pub(crate) fn against_default(
    default: &[RunResult],
    runs: &[RunResult],
    apps: std::ops::Range<usize>,
) -> AgainstDefault {
    let times = |runs: &[RunResult], app: usize| -> Vec<f64> {
        runs.iter().flat_map(|run| run.apps[app].completion_s.iter().copied()).collect()
    };
    let mean = |all: &[f64]| corun_metrics::mean(all).unwrap_or(f64::NAN);
    let over_apps = |of: &dyn Fn(usize) -> f64| mean(&apps.clone().map(of).collect::<Vec<_>>());
    let gain = |of: &dyn Fn(&[f64]) -> f64| {
        100.0 * (over_apps(&|app| of(&times(default, app)) / of(&times(runs, app))) - 1.0)
    };
    let deviation = |runs: &[RunResult]| {
        100.0 * over_apps(&|app| corun_metrics::spread(&times(runs, app)).unwrap_or(f64::NAN))
    };
    AgainstDefault {
        mean_gain: gain(&mean),
        worst_gain: gain(&|times| times.iter().copied().fold(0.0, f64::max)),
        default_deviation: deviation(default),
        deviation: deviation(runs),
    }
}
