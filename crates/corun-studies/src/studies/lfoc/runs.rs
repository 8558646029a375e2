//! Mixes under policies.

use corun_app::Result;
use corun_sim::{AppSpec, Observation, RunResult};
use rayon::prelude::*;

use super::sampling::{Sampling, sampling};
use crate::harness::StudyInputs;
use crate::simulate::{TunedPolicy, run_observed};
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
    /// As [`ONLINE`], by policies that see the machine as live.
    pub(super) live: Vec<MixRun>,
}

impl Mixed {
    /// Under a policy that sees the machine as live, by its place in [`Mixed::policies`]. None for one with known curves.
    pub(super) fn as_live(&self, policy: usize) -> Option<&MixRun> {
        self.live.get(policy.checked_sub(STATIC.len())?)
    }
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

/// Runs every mix under every policy, those that measure with exact counts and as live.
pub(super) fn all(
    inputs: &StudyInputs,
    llc: &PartitionedLlc,
    mixes: &[Vec<usize>],
    (seed, observation): (u64, &Observation),
) -> Result<Vec<Mixed>> {
    let exact = std::iter::once(STOCK).chain(policies()).map(|policy| (policy, None));
    let live = ONLINE.into_iter().map(|policy| (policy, Some(observation)));
    let all: Vec<(TunedPolicy, Option<&Observation>)> = exact.chain(live).collect();
    let pairs: Vec<_> =
        (0..mixes.len()).flat_map(|mix| all.iter().map(move |&policy| (mix, policy))).collect();
    let one = |(mix, (policy, seen)): (usize, (TunedPolicy, Option<&Observation>))| {
        let apps: Vec<AppSpec> = mixes[mix].iter().map(|&program| app(llc, program)).collect();
        let policy = policy.build(seed)?;
        let result = run_observed(inputs, &llc.model, &apps, policy, (seed, seen))?;
        Ok(judged(llc, &mixes[mix], &result))
    };
    let runs: Vec<MixRun> = pairs.into_par_iter().map(one).collect::<Result<_>>()?;
    let of_mix = |(mix, runs): (&Vec<usize>, &[MixRun])| {
        let (policies, live) = runs[1..].split_at(runs.len() - 1 - ONLINE.len());
        Mixed { mix: mix.clone(), stock: runs[0], policies: policies.to_vec(), live: live.to_vec() }
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

/// By mix, a figure of a policy as live over the same of stock Linux; none for a policy with known curves.
pub(super) fn ratios_as_live(
    mixed: &[Mixed],
    policy: usize,
    of: fn(&MixRun) -> f64,
) -> Option<Vec<f64>> {
    mixed.iter().map(|one| Some(of(one.as_live(policy)?) / of(&one.stock))).collect()
}

/// Mean over mixes of a figure of each policy over the same of stock Linux.
pub(super) fn normalised(mixed: &[Mixed], policy: usize, of: fn(&MixRun) -> f64) -> f64 {
    let ratios: Vec<f64> =
        mixed.iter().map(|one| of(&one.policies[policy]) / of(&one.stock)).collect();
    corun_metrics::mean(&ratios).unwrap_or(f64::NAN)
}
