//! The runs: every policy with every seed, and placements held for a whole run.

use std::sync::atomic::{AtomicBool, Ordering};

use corun_sim::{Experiment, RunResult, run_pinned};
use rayon::prelude::*;

use super::history::History;
use super::setup::ComparisonSetup;
use crate::policy_spec::PolicySpec;
use crate::{Error, Result, check};

/// What long work does beside working.
#[derive(Clone, Copy)]
pub struct ComparisonHooks<'a> {
    /// Set by the caller who wants it to stop.
    pub stop: &'a AtomicBool,
    /// Told after each run, from any thread.
    pub step: &'a (dyn Fn() + Sync),
}

/// A policy's run with a seed.
pub(super) struct PolicyRun {
    pub(super) result: RunResult,
    /// The CPU index on which each program was longest.
    pub(super) cpus: Vec<usize>,
}

impl ComparisonSetup {
    /// The runs of each policy by seed, in the order of the policies. The order in which they are
    /// simulated does not show.
    pub(super) fn all_runs(&self, hooks: ComparisonHooks<'_>) -> Result<Vec<Vec<PolicyRun>>> {
        let jobs: Vec<(&PolicySpec, u64)> = self
            .policies
            .iter()
            .flat_map(|policy| (1..=u64::from(self.seeds)).map(move |seed| (policy, seed)))
            .collect();
        // Once one has failed, those that have not begun are left out.
        let failed = AtomicBool::new(false);
        let results: Vec<Result<PolicyRun>> = jobs
            .par_iter()
            .map(|&(policy, seed)| {
                check(&failed)?;
                let result = self.run_of_policy(policy, seed, hooks.stop);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                (hooks.step)();
                result
            })
            .collect();
        let is_cause = |one: &&Result<PolicyRun>| !matches!(one, Ok(_) | Err(Error::Interrupted));
        if let Some(place) = results.iter().position(|one| is_cause(&one)) {
            return Err(results
                .into_iter()
                .nth(place)
                .and_then(Result::err)
                .unwrap_or(Error::Interrupted));
        }
        let mut results = results.into_iter();
        let mut runs = Vec::with_capacity(self.policies.len());
        for _ in &self.policies {
            let of_policy: Result<Vec<PolicyRun>> =
                results.by_ref().take(self.seeds as usize).collect();
            runs.push(of_policy?);
        }
        Ok(runs)
    }

    /// Where threads were is kept for the first seed.
    fn run_of_policy(
        &self,
        policy: &PolicySpec,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<PolicyRun> {
        check(stop)?;
        let hooks = corun_sim::Hooks { cancel: Some(stop), progress: None };
        let settings = self.experiment(1).settings;
        let experiment = Experiment { settings, ..self.experiment(seed) };
        let mut result = corun_sim::run(&experiment, policy.build(seed)?, hooks)?;
        let cpus = History::new(self.model.machine(), &result).longest_cpus();
        if seed > 1 {
            result.placements_dropped += result.placements.len() as u64;
            result.placements = Vec::new();
        }
        Ok(PolicyRun { result, cpus })
    }

    /// One run of a policy with a seed.
    ///
    /// # Errors
    /// A policy that cannot be built or that asks for what cannot be done; an experiment that does
    /// not end; [`crate::Error::Interrupted`] when the caller wants to stop.
    pub fn run(&self, policy: &PolicySpec, seed: u64, stop: &AtomicBool) -> Result<RunResult> {
        check(stop)?;
        let policies = policy.build(seed)?;
        let hooks = corun_sim::Hooks { cancel: Some(stop), progress: None };
        Ok(corun_sim::run(&self.experiment(seed), policies, hooks)?)
    }

    /// A run with each program held on one CPU (index) from its start.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn held(&self, cpus: &[usize], stop: &AtomicBool) -> Result<RunResult> {
        let hooks = corun_sim::Hooks { cancel: Some(stop), progress: None };
        let experiment = Experiment { observation: None, ..self.experiment(1) };
        Ok(run_pinned(&experiment, cpus, hooks)?)
    }

    /// The experiment with a seed. Where threads were is kept for the first seed, which reports
    /// show.
    pub fn experiment(&self, seed: u64) -> Experiment {
        let mut experiment =
            Experiment::new(self.model.clone(), self.apps.clone(), self.method, seed);
        experiment.observation.clone_from(&self.observation);
        if seed > 1 {
            experiment.settings.placements = 0;
        }
        experiment
    }
}
