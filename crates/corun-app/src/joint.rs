//! The best placement and clustering together.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use corun_model::CacheGroup;
use corun_optimal::{JointError, JointProblem, JointResult, Objective, SearchLimits};

use crate::placement::{PlacementDocument, SearchProof};
use crate::scenario::Scenario;
use crate::{Error, Result, check};

/// The search's answer as a document, after so many seconds at most.
pub(crate) fn joint(
    scenario: &Scenario,
    objective: Objective,
    time_limit_s: Option<f64>,
    name: &str,
    stop: &AtomicBool,
) -> Result<PlacementDocument> {
    let limits = SearchLimits {
        time: time_limit_s.map(Duration::from_secs_f64),
        cancel: Some(stop),
        ..SearchLimits::default()
    };
    let problem = JointProblem::new(&scenario.model, &scenario.programs).map_err(refused)?;
    let found = problem.solve(objective, &limits).map_err(refused)?;
    check(stop)?;
    let groups = groups(scenario, &found);
    let outcomes = scenario.solve_in(&found.cpu, |program| Some(groups[program].0));
    let proof = SearchProof {
        gap: found.proven.then_some(0.0),
        proven: Some(found.proven),
        solver_seconds: Some(found.seconds),
    };
    let cpus = &found.cpu;
    let mut placement =
        PlacementDocument::of(scenario, cpus, &outcomes, Some(name), objective, proof);
    placement.mask = Some(groups.into_iter().map(|(_, mask)| format!("{mask:#x}")).collect());
    Ok(placement)
}

/// Each program's part of its LLC, and the part's mask: clusters stand side by side from way 0.
fn groups(scenario: &Scenario, found: &JointResult) -> Vec<(CacheGroup, u64)> {
    let machine = scenario.machine();
    let mut first = vec![0; machine.llcs().len()];
    let mut groups = vec![(CacheGroup { id: 0, bytes: 0.0 }, 0); found.cpu.len()];
    for (id, cluster) in found.clusters.iter().enumerate() {
        let ways = scenario.model.llc_ways(found.cpu[cluster.programs[0]]);
        let size = machine.llcs()[cluster.llc].cache.map_or(0, |cache| cache.size_bytes);
        let bytes = size as f64 * f64::from(cluster.ways) / f64::from(ways);
        let mask = u64::MAX >> (64 - cluster.ways) << first[cluster.llc];
        first[cluster.llc] += cluster.ways;
        for &program in &cluster.programs {
            groups[program] = (CacheGroup { id: id as u32, bytes }, mask);
        }
    }
    groups
}

fn refused(error: JointError) -> Error {
    match error {
        JointError::Stopped => Error::Interrupted,
        JointError::Objective => {
            Error::input(error.to_string()).hint("--objective antt, stp or max-slowdown")
        }
        _ => Error::input(error.to_string()),
    }
}
