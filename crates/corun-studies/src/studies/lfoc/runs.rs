//! Mixes under policies.

use corun_app::Result;
use corun_sim::{AppSpec, RunResult};
use rayon::prelude::*;

use super::sampling::{Sampling, sampling};
use crate::harness::StudyInputs;
use crate::simulate::{TunedPolicy, run};
use crate::studies::partitioning::PartitionedLlc;

/// A program's length (thesis, section 6.4).
const INSTRUCTIONS: u64 = 150_000_000_000;

/// Without a policy: the LLC is whole.
pub(super) const STOCK: TunedPolicy = TunedPolicy::plain("linux-default");

/// With known curves.
pub(super) const STATIC: [TunedPolicy; 4] = [
    TunedPolicy::plain("dunn"),
    TunedPolicy::plain("kpart"),
    TunedPolicy::plain("lfoc"),
    TunedPolicy::plain("fair-clusters"),
];

/// By what they measure.
pub(super) const ONLINE: [TunedPolicy; 4] = [
    TunedPolicy::plain("dunn-online"),
    TunedPolicy::plain("kpart-dynaway"),
    TunedPolicy::plain("lfoc-online"),
    TunedPolicy {
        shown: "lfoc-online, full sweeps",
        policy: "lfoc-online",
        parameters: &[("full-sweeps", 1.0)],
    },
];

/// A mix under a policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct MixRun {
    pub(super) stp: f64,
    pub(super) unfairness: f64,
    pub(super) sampling: Sampling,
}

/// A mix under all.
#[derive(Debug, Clone)]
pub(super) struct Mixed {
    /// Indices of programs.
    pub(super) mix: Vec<usize>,
    pub(super) stock: MixRun,
    /// As [`STATIC`], then as [`ONLINE`].
    pub(super) policies: Vec<MixRun>,
}

/// All policies, as in [`Mixed::policies`].
pub(super) fn policies() -> impl Iterator<Item = TunedPolicy> {
    STATIC.into_iter().chain(ONLINE)
}

/// Runs every mix under every policy.
pub(super) fn all(
    inputs: &StudyInputs,
    llc: &PartitionedLlc,
    mixes: &[Vec<usize>],
    seed: u64,
) -> Result<Vec<Mixed>> {
    let all: Vec<TunedPolicy> = std::iter::once(STOCK).chain(policies()).collect();
    let pairs: Vec<(usize, TunedPolicy)> =
        (0..mixes.len()).flat_map(|mix| all.iter().map(move |&policy| (mix, policy))).collect();
    let one = |(mix, policy): (usize, TunedPolicy)| {
        let apps: Vec<AppSpec> = mixes[mix].iter().map(|&program| app(llc, program)).collect();
        let result = run(inputs, &llc.model, &apps, policy, seed)?;
        Ok(judged(llc, &mixes[mix], &result))
    };
    let runs: Vec<MixRun> = pairs.into_par_iter().map(one).collect::<Result<_>>()?;
    let of_mix = |(mix, runs): (&Vec<usize>, &[MixRun])| Mixed {
        mix: mix.clone(),
        stock: runs[0],
        policies: runs[1..].to_vec(),
    };
    Ok(mixes.iter().zip(runs.chunks(all.len())).map(of_mix).collect())
}

fn app(llc: &PartitionedLlc, program: usize) -> AppSpec {
    let instructions = Some(INSTRUCTIONS);
    AppSpec { instructions, ..AppSpec::new(llc.programs[program].clone()) }
}

fn judged(llc: &PartitionedLlc, mix: &[usize], result: &RunResult) -> MixRun {
    let slowdowns: Vec<f64> =
        result.apps.iter().map(|app| app.slowdown.unwrap_or(f64::NAN)).collect();
    MixRun {
        stp: corun_metrics::stp(&slowdowns).unwrap_or(f64::NAN),
        unfairness: corun_metrics::unfairness(&slowdowns).unwrap_or(f64::NAN),
        sampling: sampling(llc, mix, result),
    }
}

/// Mean over mixes of a figure of each policy over the same of stock Linux.
pub(super) fn normalised(mixed: &[Mixed], policy: usize, of: fn(&MixRun) -> f64) -> f64 {
    let ratios: Vec<f64> =
        mixed.iter().map(|one| of(&one.policies[policy]) / of(&one.stock)).collect();
    corun_metrics::mean(&ratios).unwrap_or(f64::NAN)
}
