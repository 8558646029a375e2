//! Mixes under policies.

use corun_sim::{AppSpec, RunResult};
use rayon::prelude::*;

use super::sampling::{Sampling, sampling};
use crate::commands::study::paper;
use crate::commands::study::partitioning::ground::Ground;
use crate::commands::study::runs::{Asked, run};
use crate::failure::Outcome;

/// A program's length (thesis, section 6.4).
const INSTRUCTIONS: u64 = 150_000_000_000;

/// Without a policy: the LLC is whole.
pub(super) const STOCK: Asked = Asked::plain("linux-default");

/// With known curves.
pub(super) const STATIC: [Asked; 3] =
    [Asked::plain("dunn"), Asked::plain("kpart"), Asked::plain("lfoc")];

/// By what they measure.
pub(super) const ONLINE: [Asked; 4] = [
    Asked::plain("dunn-online"),
    Asked::plain("kpart-dynaway"),
    Asked::plain("lfoc-online"),
    Asked {
        shown: "lfoc-online, full sweeps",
        policy: "lfoc-online",
        parameters: &[("full-sweeps", 1.0)],
    },
];

/// A mix under a policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) stp: f64,
    pub(super) unfairness: f64,
    pub(super) sampling: Sampling,
}

/// A mix under all.
#[derive(Debug, Clone)]
pub(super) struct Mixed {
    /// Indices of programs.
    pub(super) mix: Vec<usize>,
    pub(super) stock: Run,
    /// As [`STATIC`], then as [`ONLINE`].
    pub(super) policies: Vec<Run>,
}

/// All policies, as in [`Mixed::policies`].
pub(super) fn policies() -> impl Iterator<Item = Asked> {
    STATIC.into_iter().chain(ONLINE)
}

/// Runs every mix under every policy.
pub(super) fn all(
    study: &paper::Ground,
    ground: &Ground,
    mixes: &[Vec<usize>],
    seed: u64,
) -> Outcome<Vec<Mixed>> {
    let asked: Vec<Asked> = std::iter::once(STOCK).chain(policies()).collect();
    let pairs: Vec<(usize, Asked)> =
        (0..mixes.len()).flat_map(|mix| asked.iter().map(move |&asked| (mix, asked))).collect();
    let one = |(mix, asked): (usize, Asked)| {
        let apps: Vec<AppSpec> = mixes[mix].iter().map(|&program| app(ground, program)).collect();
        let result = run(study, &ground.model, &apps, asked, seed)?;
        Ok(judged(ground, &mixes[mix], &result))
    };
    let runs: Vec<Run> = pairs.into_par_iter().map(one).collect::<Outcome<_>>()?;
    let of_mix = |(mix, runs): (&Vec<usize>, &[Run])| Mixed {
        mix: mix.clone(),
        stock: runs[0],
        policies: runs[1..].to_vec(),
    };
    Ok(mixes.iter().zip(runs.chunks(asked.len())).map(of_mix).collect())
}

fn app(ground: &Ground, program: usize) -> AppSpec {
    let instructions = Some(INSTRUCTIONS);
    AppSpec { instructions, ..AppSpec::new(ground.programs[program].clone()) }
}

fn judged(ground: &Ground, mix: &[usize], result: &RunResult) -> Run {
    let slowdowns: Vec<f64> =
        result.apps.iter().map(|app| app.slowdown.unwrap_or(f64::NAN)).collect();
    Run {
        stp: corun_metrics::stp(&slowdowns).unwrap_or(f64::NAN),
        unfairness: corun_metrics::unfairness(&slowdowns).unwrap_or(f64::NAN),
        sampling: sampling(ground, mix, result),
    }
}

/// Mean over mixes of a figure of each policy over the same of stock Linux.
pub(super) fn normalised(mixed: &[Mixed], policy: usize, of: fn(&Run) -> f64) -> f64 {
    let ratios: Vec<f64> =
        mixed.iter().map(|one| of(&one.policies[policy]) / of(&one.stock)).collect();
    corun_metrics::mean(&ratios).unwrap_or(f64::NAN)
}
