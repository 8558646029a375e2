//! Mixes under policies.

use corun_app::Result;
use corun_sim::{AppSpec, RunResult};
use rayon::prelude::*;

use super::sampling::{Sampling, sampling};
use crate::harness::StudyInputs;
use crate::simulate::{TunedPolicy, run};
use crate::studies::partitioning::PartitionedLlc;

/// A program's length (thesis, section 6.4).
pub(super) const INSTRUCTIONS: u64 = 150_000_000_000;

/// Without a policy: the LLC is whole.
pub(super) const STOCK: TunedPolicy = TunedPolicy::plain("linux-default");

/// With known curves.
pub(super) const STATIC: [TunedPolicy; 6] = [
    TunedPolicy::plain("dunn"),
    TunedPolicy::plain("kpart"),
    TunedPolicy::plain("lfoc"),
    TunedPolicy::plain("fair-clusters"),
    TunedPolicy::plain("corun"),
    TunedPolicy {
        shown: "corun, unfairness",
        policy: "corun",
        parameters: &[("objective", 2.0)],
    },
];

/// By what they measure.
pub(super) const ONLINE: [TunedPolicy; 8] = [
    TunedPolicy::plain("dunn-online"),
    TunedPolicy::plain("kpart-dynaway"),
    TunedPolicy::plain("lfoc-online"),
    TunedPolicy {
        shown: "lfoc-online, full sweeps",
        policy: "lfoc-online",
        parameters: &[("full-sweeps", 1.0)],
    },
    TunedPolicy::plain("fair-clusters-online"),
    TunedPolicy {
        shown: "fair-clusters-online, forgetting",
        policy: "fair-clusters-online",
        parameters: &[("remember", 0.0)],
    },
    TunedPolicy {
        shown: "corun without profiles",
        policy: "corun",
        parameters: &[("profiles", 0.0)],
    },
    TunedPolicy {
        shown: "corun without profiles, unfairness",
        policy: "corun",
        parameters: &[("profiles", 0.0), ("objective", 2.0)],
    },
];

/// Those of them that sample.
pub(super) const SAMPLING: [&str; 5] = [
    "kpart-dynaway",
    "lfoc-online",
    "lfoc-online, full sweeps",
    "fair-clusters-online",
    "fair-clusters-online, forgetting",
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

/// Its place in [`Mixed::policies`], by what the study calls it.
///
/// # Panics
/// When there is no such policy: a mistake in the study.
pub(super) fn place(shown: &str) -> usize {
    let place = policies().position(|policy| policy.shown == shown);
    place.unwrap_or_else(|| unreachable!("{shown} is none of the study's policies"))
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

pub(super) fn app(llc: &PartitionedLlc, program: usize) -> AppSpec {
    let instructions = Some(INSTRUCTIONS);
    AppSpec { instructions, ..AppSpec::new(llc.programs[program].clone()) }
}

pub(super) fn judged(llc: &PartitionedLlc, mix: &[usize], result: &RunResult) -> MixRun {
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
