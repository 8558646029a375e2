//! How much of the tree the search for the optimum visits (thesis, Fig. 5.9), and how near simple
//! policies come to it (Fig. 5.4).

use corun_app::{Cancel, Error, Result};
use corun_optimal::partition::{Kind, PartitionObjective};
use corun_optimal::{Goal, SearchLimits};
use corun_report::round;
use serde::Serialize;

use super::OBJECTIVES;
use super::llc::PartitionedLlc;
use super::space::tree_nodes;

/// Those of Fig. 5.4.
pub(super) const POLICIES: [&str; 3] = ["equal-part", "ucp", "ucp-slowdown"];
/// Programs of a mix, as in Fig. 5.9.
const PROGRAMS: std::ops::RangeInclusive<usize> = 3..=8;

/// The searches of all mixes of a size for one objective.
#[derive(Debug, Serialize)]
pub(super) struct Searched {
    pub(super) ways: u32,
    pub(super) programs: usize,
    pub(super) objective: &'static str,
    /// Nodes of the whole tree.
    pub(super) tree_nodes: u64,
    /// Mean over the mixes of the states and boxes that were visited.
    pub(super) visited: f64,
    /// Mean and longest time of a search.
    pub(super) mean_solver_seconds: f64,
    pub(super) longest_solver_seconds: f64,
    pub(super) all_proven: bool,
    /// By policy, in the order of [`POLICIES`]: the worst of all mixes, 1 is the optimum and less is
    /// worse.
    pub(super) worst_of_optimal: Vec<f64>,
}

pub(super) fn searched(
    llc: &PartitionedLlc,
    mixes: u32,
    seed: u64,
    cancel: &Cancel,
) -> Result<Vec<Searched>> {
    let mut rows = Vec::new();
    for programs in PROGRAMS.filter(|&programs| programs as u32 <= llc.ways) {
        for (name, objective) in OBJECTIVES {
            let mixes = llc.mixes(programs, mixes, seed);
            rows.push(of_size(llc, programs, &mixes, (name, objective))?);
            cancel.check()?;
        }
    }
    Ok(rows)
}

fn of_size(
    llc: &PartitionedLlc,
    programs: usize,
    mixes: &[Vec<usize>],
    (name, objective): (&'static str, PartitionObjective),
) -> Result<Searched> {
    let count = mixes.len() as f64;
    let mut row = Searched {
        ways: llc.ways,
        programs,
        objective: name,
        tree_nodes: tree_nodes(llc.ways, programs as u32),
        visited: 0.0,
        mean_solver_seconds: 0.0,
        longest_solver_seconds: 0.0,
        all_proven: true,
        worst_of_optimal: vec![1.0; POLICIES.len()],
    };
    for mix in mixes {
        let problem = llc.problem(mix, Kind::Strict)?;
        let best =
            problem.solve(objective, Goal::Best, &SearchLimits::default()).map_err(Error::input)?;
        row.visited += best.nodes as f64 / count;
        row.mean_solver_seconds += best.solver_seconds / count;
        row.longest_solver_seconds = row.longest_solver_seconds.max(best.solver_seconds);
        row.all_proven &= best.proven;
        for (policy, worst) in POLICIES.iter().zip(&mut row.worst_of_optimal) {
            let partition = llc.decided(mix, policy, &[])?;
            let ways: Vec<u32> = (0..mix.len()).map(|program| partition.ways(program)).collect();
            let clusters: Vec<Vec<usize>> = (0..mix.len()).map(|one| vec![one]).collect();
            let outcomes = problem.evaluate(&clusters, &ways).map_err(Error::input)?;
            let slowdowns: Vec<f64> = outcomes.iter().map(|one| one.slowdown).collect();
            let bytes_per_s = outcomes.iter().map(|one| one.bytes_per_s).sum();
            let value = objective.value(&slowdowns, bytes_per_s).unwrap_or(f64::NAN);
            let part =
                if objective.highest_is_best() { value / best.value } else { best.value / value };
            *worst = worst.min(part);
        }
    }
    row.visited = round(row.visited, 1);
    row.worst_of_optimal.iter_mut().for_each(|one| *one = round(*one, 4));
    Ok(row)
}
