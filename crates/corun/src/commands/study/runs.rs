//! Simulations that several studies ask for.

use std::sync::Arc;

use anyhow::anyhow;
use corun_model::Model;
use corun_policy::{BuildOptions, Policy};
use corun_profile::{Library, Method};
use corun_sim::{AppSpec, Experiment, Hooks, RunResult};
use rayon::prelude::*;

use super::paper::Ground;
use crate::failure::Outcome;

/// A policy with some of its parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// What the study calls it.
    pub(super) shown: &'static str,
    pub(super) policy: &'static str,
    pub(super) parameters: &'static [(&'static str, f64)],
}

impl Asked {
    /// A policy as it is.
    pub(super) const fn plain(policy: &'static str) -> Self {
        Self { shown: policy, policy, parameters: &[] }
    }

    /// The policy itself.
    pub(super) fn build(&self, seed: u64) -> Outcome<Box<dyn Policy>> {
        let parameters =
            self.parameters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        let options = BuildOptions { seed, parameters };
        Ok(corun_policy::build(self.policy, &options).map_err(|error| anyhow!(error))?)
    }
}

/// Programs of a library, each loaded once for each time that it is named.
pub(super) fn apps(model: &Model, library: &Library, names: &[&str]) -> Outcome<Vec<AppSpec>> {
    let load = |name: &&str| Ok(AppSpec::new(Arc::new(model.load(library.get(name)?)?)));
    names.iter().map(load).collect()
}

/// The runs of a policy with each of the ground's seeds, until the longest program has ended three
/// times.
pub(super) fn by_seed(
    ground: &Ground,
    model: &Arc<Model>,
    apps: &[AppSpec],
    asked: Asked,
) -> Outcome<Vec<RunResult>> {
    let one = |seed: u64| run(ground, model, apps, asked, seed);
    (1..=u64::from(ground.seeds)).into_par_iter().map(one).collect()
}

/// The run of a policy with one seed.
pub(super) fn run(
    ground: &Ground,
    model: &Arc<Model>,
    apps: &[AppSpec],
    asked: Asked,
    seed: u64,
) -> Outcome<RunResult> {
    run_policy(ground, model, apps, asked.build(seed)?, seed)
}

/// The same of a policy that was built already.
pub(super) fn run_policy(
    ground: &Ground,
    model: &Arc<Model>,
    apps: &[AppSpec],
    policy: Box<dyn Policy>,
    seed: u64,
) -> Outcome<RunResult> {
    ground.cancel.check()?;
    let mut experiment = Experiment::new(model.clone(), apps.to_vec(), Method::Restart3, seed);
    experiment.settings.placements = 0;
    let hooks = Hooks { cancel: Some(ground.cancel.flag()), progress: None };
    Ok(corun_sim::run(&experiment, vec![policy], hooks)?)
}

/// How programs do under a policy, against the default scheduler. Means over these programs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AgainstDefault {
    /// Mean completion time under the default / under the policy, in % above 1.
    pub(super) mean_gain: f64,
    /// The same of the longest completion time.
    pub(super) worst_gain: f64,
    /// Standard deviation / mean of the completion times under the default, in %.
    pub(super) default_deviation: f64,
    /// The same under the policy.
    pub(super) deviation: f64,
}

/// These programs (by place) in both.
pub(super) fn against_default(
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
