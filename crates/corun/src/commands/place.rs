//! `corun place`: one placement, by a policy or a search.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use corun_optimal::{Goal, Limits, PlacementProblem, PlacementResult};
use corun_policy::{BuildOptions, PolicyKind, registry};
use corun_profile::Method;
use corun_sim::{AppSpec, Experiment, Hooks, RunResult};

use super::placement::{Placement, Proof};
use crate::cancel::Cancel;
use crate::cli::PlaceArgs;
use crate::failure::{Failure, Outcome};
use crate::scenario::{Scenario, library, machine, model_options};

/// The best and the worst placement go by these names.
const SEARCHES: [&str; 2] = ["optimal", "worst"];

pub(super) fn run(arguments: &PlaceArgs) -> Outcome<String> {
    let placing = registry().iter().filter(|entry| entry.kind() == PolicyKind::Placement);
    let known: Vec<&str> = SEARCHES.into_iter().chain(placing.map(|entry| entry.name)).collect();
    let policy = arguments.policy.as_str();
    if registry().iter().any(|entry| entry.name == policy) && !known.contains(&policy) {
        let message = format!("policy `{policy}` partitions caches and does not place programs");
        return Err(Failure::input(message).hint(format!("corun partition --policy {policy} ..")));
    }
    if !known.contains(&policy) {
        return Err(Failure::unknown("policy", policy, known));
    }
    let programs = &arguments.programs;
    let machine = machine(&programs.machine)?;
    let library = library(programs.profiles.as_deref())?;
    let options = model_options(&arguments.model);
    let scenario = Scenario::new(machine, &library, &programs.apps, options)?;
    scenario.one_cpu_each()?;
    let cancel = Cancel::on_signal()?;
    let (cpus, proof) = if SEARCHES.contains(&policy) {
        searched(&scenario, arguments, &cancel)?
    } else {
        (decided(&scenario, policy, arguments.seed, &cancel)?, Proof::default())
    };
    cancel.check()?;
    Placement::new(&scenario, &cpus, Some(policy), arguments.objective, proof)
        .write(arguments.format)
}

fn searched(
    scenario: &Scenario,
    arguments: &PlaceArgs,
    cancel: &Cancel,
) -> Outcome<(Vec<usize>, Proof)> {
    let problem = PlacementProblem::new(&scenario.model, &scenario.programs)?;
    let goal = if arguments.policy == "worst" { Goal::Worst } else { Goal::Best };
    let limits = Limits {
        time: arguments.time_limit.map(Duration::from_secs_f64),
        cancel: Some(cancel.flag()),
        ..Limits::default()
    };
    let found = problem.solve(arguments.objective.objective(), goal, &limits)?;
    let PlacementResult { cpu, gap, proven, seconds, .. } = found;
    Ok((cpu, Proof { gap, proven: Some(proven), solver_seconds: Some(seconds) }))
}

/// Where a policy has the programs at the end of the simulator's window, when what it measures
/// on line has settled.
fn decided(scenario: &Scenario, policy: &str, seed: u64, cancel: &Cancel) -> Outcome<Vec<usize>> {
    let apps = scenario
        .names
        .iter()
        .zip(&scenario.programs)
        .map(|(name, program)| AppSpec { name: name.clone(), ..AppSpec::new(Arc::clone(program)) })
        .collect();
    let experiment = Experiment::new(scenario.model.clone(), apps, Method::Window, seed);
    let options = BuildOptions { seed, ..BuildOptions::default() };
    let policy = corun_policy::build(policy, &options).map_err(|error| anyhow!(error))?;
    let hooks = Hooks { cancel: Some(cancel.flag()), progress: None };
    let result = corun_sim::run(&experiment, vec![policy], hooks)?;
    last_cpus(&result)
}

/// The CPU index that each program's thread came to last.
fn last_cpus(result: &RunResult) -> Outcome<Vec<usize>> {
    let mut cpus: Vec<Option<usize>> = vec![None; result.apps.len()];
    for placement in &result.placements {
        let record = result.threads.iter().find(|record| record.id == placement.thread);
        if let Some(record) = record {
            cpus[record.app] = Some(placement.cpu);
        }
    }
    let never = || anyhow!("a program never came onto a CPU");
    let cpus = cpus.into_iter().collect::<Option<Vec<usize>>>().ok_or_else(never)?;
    if (1..cpus.len()).any(|place| cpus[..place].contains(&cpus[place])) {
        return Err(anyhow!("the policy has two programs on one CPU while others are idle").into());
    }
    Ok(cpus)
}
