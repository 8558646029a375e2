//! How much of the tree the search for the optimum visits (thesis, Fig. 5.9), and how near simple
//! policies come to it (Fig. 5.4).

use corun_optimal::partition::{Kind, PartitionObjective, PartitionProblem};
use corun_optimal::{Goal, Limits};
use corun_policy::{BuildOptions, Input, Partition, WaysCurve, build_partitioner};
use serde::Serialize;

use super::OBJECTIVES;
use super::ground::Ground;
use super::space::tree_nodes;
use crate::failure::{Failure, Outcome};
use crate::output::round;
use corun_app::Cancel;

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
    ground: &Ground,
    mixes: u32,
    seed: u64,
    cancel: &Cancel,
) -> Outcome<Vec<Searched>> {
    let mut rows = Vec::new();
    for programs in PROGRAMS.filter(|&programs| programs as u32 <= ground.ways) {
        for (name, objective) in OBJECTIVES {
            let mixes = ground.mixes(programs, mixes, seed);
            rows.push(of_size(ground, programs, &mixes, (name, objective))?);
            cancel.check()?;
        }
    }
    Ok(rows)
}

fn of_size(
    ground: &Ground,
    programs: usize,
    mixes: &[Vec<usize>],
    (name, objective): (&'static str, PartitionObjective),
) -> Outcome<Searched> {
    let count = mixes.len() as f64;
    let mut row = Searched {
        ways: ground.ways,
        programs,
        objective: name,
        tree_nodes: tree_nodes(ground.ways, programs as u32),
        visited: 0.0,
        mean_solver_seconds: 0.0,
        longest_solver_seconds: 0.0,
        all_proven: true,
        worst_of_optimal: vec![1.0; POLICIES.len()],
    };
    for mix in mixes {
        let members = ground.members(mix);
        let problem = PartitionProblem::new(&ground.model, &members, ground.ways, 1, Kind::Strict)
            .map_err(|error| Failure::input(error.to_string()))?;
        let best = problem
            .solve(objective, Goal::Best, &Limits::default())
            .map_err(|error| Failure::input(error.to_string()))?;
        row.visited += best.nodes as f64 / count;
        row.mean_solver_seconds += best.solver_seconds / count;
        row.longest_solver_seconds = row.longest_solver_seconds.max(best.solver_seconds);
        row.all_proven &= best.proven;
        for (policy, worst) in POLICIES.iter().zip(&mut row.worst_of_optimal) {
            let ways = decided(ground, mix, policy)?;
            let clusters: Vec<Vec<usize>> = (0..mix.len()).map(|one| vec![one]).collect();
            let outcomes = problem
                .evaluate(&clusters, &ways)
                .map_err(|error| Failure::input(error.to_string()))?;
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

/// The ways that a policy gives each program.
fn decided(ground: &Ground, mix: &[usize], policy: &str) -> Outcome<Vec<u32>> {
    let mut partitioner = build_partitioner(policy, &BuildOptions::default())
        .map_err(|error| Failure::input(error.to_string()))?;
    let curves: Vec<&WaysCurve> = mix.iter().map(|&program| &ground.curves[program]).collect();
    let input = Input { curves: &curves, ways: ground.ways, least_ways: 1, peak_bytes_per_s: None };
    let mut partition = Partition::default();
    partitioner
        .partition(&input, &mut partition)
        .map_err(|error| Failure::input(error.to_string()))?;
    Ok((0..mix.len()).map(|program| partition.ways(program)).collect())
}
