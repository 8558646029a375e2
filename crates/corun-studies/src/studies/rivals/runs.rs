//! Mixes on one LLC under every partitioning policy, and in their best clustering.

use corun_app::{Error, Result};
use corun_optimal::partition::{Kind, PartitionObjective};
use corun_optimal::{Goal, SearchLimits};
use corun_policy::{Partition, Policy};
use corun_profile::Method;
use corun_sim::{AppSpec, Experiment, Hooks, Observation, RunResult};
use rayon::prelude::*;

use super::held::Held;
use crate::harness::StudyInputs;
use crate::simulate::TunedPolicy;
use crate::studies::lfoc::{Counted, by_class, counted};
use crate::studies::partitioning::PartitionedLlc;

/// Without a policy: the LLC is whole.
const STOCK: TunedPolicy = TunedPolicy::plain("linux-default");

/// With known curves.
const STATIC: [TunedPolicy; 13] = [
    TunedPolicy::plain("equal-part"),
    TunedPolicy::plain("ucp"),
    TunedPolicy::plain("ucp-slowdown"),
    TunedPolicy::plain("yu-petrov"),
    TunedPolicy::plain("kpart"),
    TunedPolicy::plain("dunn"),
    TunedPolicy::plain("lfoc"),
    TunedPolicy {
        shown: "lfoc, sensitive-ways=1",
        policy: "lfoc",
        parameters: &[("sensitive-ways", 1.0)],
    },
    TunedPolicy::plain("lfoc-caps"),
    TunedPolicy::plain("lfoc-plus"),
    TunedPolicy {
        shown: "lfoc-plus, sensitive-ways=1",
        policy: "lfoc-plus",
        parameters: &[("sensitive-ways", 1.0)],
    },
    TunedPolicy::plain("fair-clusters"),
    TunedPolicy::plain("overlap-annealing"),
];

/// By what they measure.
const ONLINE: [TunedPolicy; 9] = [
    TunedPolicy::plain("dunn-online"),
    TunedPolicy::plain("kpart-dynaway"),
    TunedPolicy::plain("lfoc-online"),
    TunedPolicy::plain("lfoc-plus-online"),
    TunedPolicy::plain("fair-clusters-online"),
    TunedPolicy::plain("overlap-annealing-online"),
    TunedPolicy::plain("cpa"),
    TunedPolicy::plain("copart"),
    TunedPolicy::plain("balancer"),
];

/// All policies, those with known curves first.
pub(super) fn policies() -> impl Iterator<Item = TunedPolicy> {
    STATIC.into_iter().chain(ONLINE)
}

/// Has the policy known curves?
pub(super) fn knows_curves(place: usize) -> bool {
    place < STATIC.len()
}

/// A mix under a policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MixRun {
    pub(super) unfairness: f64,
    pub(super) stp: f64,
    /// The standard deviation of slowdowns over their mean: CoPart's unfairness.
    pub(super) variation: f64,
    /// Until the last program has ended for the first time, in seconds.
    pub(super) turnaround_s: f64,
    /// The program that suffers most: its slowdown over that under stock Linux.
    pub(super) worst_against_stock: f64,
    /// How often the cache was divided, and how long programs were sampled.
    pub(super) counted: Counted,
}

/// A mix under all.
#[derive(Debug, Clone)]
pub(super) struct MixResult {
    pub(super) programs: usize,
    pub(super) stock: MixRun,
    /// The clustering of the least unfairness by the model, held throughout.
    pub(super) best: MixRun,
    pub(super) is_proven: bool,
    pub(super) by_policy: Vec<MixRun>,
}

/// What every run shares.
pub(super) struct Contest<'a> {
    pub(super) inputs: &'a StudyInputs,
    pub(super) llc: &'a PartitionedLlc,
    pub(super) observation: Observation,
    pub(super) instructions: u64,
}

impl Contest<'_> {
    /// So many mixes of so many programs under all policies.
    pub(super) fn play(&self, programs: usize, count: usize, seed: u64) -> Result<Vec<MixResult>> {
        let mixes = by_class(self.llc, programs, count, seed);
        let one = |mix: &Vec<usize>| {
            let stock = self.run(mix, STOCK.build(seed)?, seed)?;
            let slow = slowdowns(&stock);
            let stock = judged(&stock, &slow);
            let (best, is_proven) = self.best(mix)?;
            let names: Vec<&str> = mix.iter().map(|&one| self.llc.names[one].as_str()).collect();
            let best = self.run(mix, Box::new(Held::new(&names, &best)), seed)?;
            let by_policy = policies().map(|policy| {
                Ok(judged(&self.run(mix, policy.build(seed)?, seed)?, &slow))
            });
            let by_policy = by_policy.collect::<Result<_>>()?;
            Ok(MixResult { programs, stock, best: judged(&best, &slow), is_proven, by_policy })
        };
        mixes.par_iter().map(one).collect()
    }

    fn run(&self, mix: &[usize], policy: Box<dyn Policy>, seed: u64) -> Result<RunResult> {
        self.inputs.cancel.check()?;
        let app = |&program: &usize| AppSpec {
            instructions: Some(self.instructions),
            ..AppSpec::new(self.llc.programs[program].clone())
        };
        let apps = mix.iter().map(app).collect();
        let mut experiment =
            Experiment::new(self.llc.model.clone(), apps, Method::Restart3, seed);
        experiment.settings.placements = 0;
        experiment.observation = Some(self.observation.clone());
        let hooks = Hooks { cancel: Some(self.inputs.cancel.flag()), progress: None };
        Ok(corun_sim::run(&experiment, vec![policy], hooks)?)
    }

    /// The clustering of the least unfairness by the model with nobody restarted.
    fn best(&self, mix: &[usize]) -> Result<(Partition, bool)> {
        let problem = self.llc.problem(mix, Kind::Cluster)?;
        let limits =
            SearchLimits { cancel: Some(self.inputs.cancel.flag()), ..SearchLimits::default() };
        let found = problem
            .solve(PartitionObjective::Unfairness, Goal::Best, &limits)
            .map_err(Error::input)?;
        let mut cluster = vec![0; mix.len()];
        for (place, members) in found.clusters.iter().enumerate() {
            members.iter().for_each(|&one| cluster[one] = place);
        }
        Ok((Partition::of_clusters(&cluster, &found.ways), found.proven))
    }
}

fn slowdowns(run: &RunResult) -> Vec<f64> {
    run.apps.iter().map(|app| app.slowdown.unwrap_or(f64::NAN)).collect()
}

fn judged(run: &RunResult, stock: &[f64]) -> MixRun {
    let slowdowns = slowdowns(run);
    let first = |app: &corun_sim::AppResult| app.completion_s.first().copied().unwrap_or(f64::NAN);
    let worse = slowdowns.iter().zip(stock).map(|(one, stock)| one / stock);
    MixRun {
        unfairness: corun_metrics::unfairness(&slowdowns).unwrap_or(f64::NAN),
        stp: corun_metrics::stp(&slowdowns).unwrap_or(f64::NAN),
        variation: corun_metrics::spread(&slowdowns).unwrap_or(f64::NAN),
        turnaround_s: run.apps.iter().map(first).fold(0.0, f64::max),
        worst_against_stock: worse.fold(0.0, f64::max),
        counted: counted(run),
    }
}
