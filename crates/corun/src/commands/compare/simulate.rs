//! The runs: every policy with every seed, and placements held for a whole run.

use corun_sim::{Experiment, Hooks, RunResult, run_pinned};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rayon::prelude::*;

use super::setup::Setup;
use crate::cancel::Cancel;
use crate::failure::Outcome;
use crate::policy_names;

/// A bar on the terminal; nothing where stderr is no terminal.
pub(super) fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} runs {msg} {eta}") {
        bar.set_style(style);
    }
    bar
}

/// The runs of each policy by seed, in the order of the policies. The order in which they are
/// simulated does not show.
pub(super) fn policies(
    setup: &Setup,
    cancel: &Cancel,
    bar: &ProgressBar,
) -> Outcome<Vec<Vec<RunResult>>> {
    let jobs: Vec<(&str, u64)> = setup
        .policies
        .iter()
        .flat_map(|policy| (1..=u64::from(setup.seeds)).map(move |seed| (policy.as_str(), seed)))
        .collect();
    let results: Vec<Outcome<RunResult>> = jobs
        .par_iter()
        .map(|&(policy, seed)| {
            let result = one(&setup.experiment(seed), policy, cancel);
            bar.inc(1);
            result
        })
        .collect();
    let mut results = results.into_iter();
    let mut runs = Vec::with_capacity(setup.policies.len());
    for _ in &setup.policies {
        let of_policy: Outcome<Vec<RunResult>> =
            results.by_ref().take(setup.seeds as usize).collect();
        runs.push(of_policy?);
    }
    Ok(runs)
}

/// A run with each program held on one CPU (index) from its start.
pub(super) fn held(setup: &Setup, cpus: &[usize], cancel: &Cancel) -> Outcome<RunResult> {
    let hooks = Hooks { cancel: Some(cancel.flag()), progress: None };
    Ok(run_pinned(&setup.experiment(1), cpus, hooks)?)
}

fn one(experiment: &Experiment, policy: &str, cancel: &Cancel) -> Outcome<RunResult> {
    cancel.check()?;
    let policies = policy_names::build(policy, experiment.seed)?;
    let hooks = Hooks { cancel: Some(cancel.flag()), progress: None };
    Ok(corun_sim::run(experiment, policies, hooks)?)
}

impl Setup {
    /// The experiment with a seed. Where threads were is kept for the first seed, which the report
    /// shows.
    fn experiment(&self, seed: u64) -> Experiment {
        let mut experiment =
            Experiment::new(self.model.clone(), self.apps.clone(), self.method, seed);
        if seed > 1 {
            experiment.settings.placements = 0;
        }
        experiment
    }
}
