//! Where a policy has programs, by a run of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::anyhow;
use corun_policy::{Action, CachePart};
use corun_profile::Method;
use corun_sim::{AppSpec, Experiment, Hooks, RunResult};

use crate::policy_spec::PolicySpec;
use crate::scenario::Scenario;
use crate::what_if::Layout;
use crate::{Error, Result};

/// Where a policy has the programs, and with which ways, at the end of the simulator's window, when what it measures
/// on line has settled.
pub(crate) fn decided(
    scenario: &Scenario,
    policy: &PolicySpec,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Layout> {
    let apps = scenario
        .names
        .iter()
        .zip(&scenario.programs)
        .map(|(name, program)| AppSpec { name: name.clone(), ..AppSpec::new(Arc::clone(program)) })
        .collect();
    let experiment = Experiment::new(scenario.model.clone(), apps, Method::Window, seed);
    let hooks = Hooks { cancel: Some(stop), progress: None };
    let result = corun_sim::run(&experiment, policy.build(seed)?, hooks)?;
    let cpus = last_cpus(&result, policy)?;
    let masks = last_masks(scenario, &result, &cpus);
    Ok(Layout { cpus, masks })
}

/// The CPU index that each program's thread came to last.
fn last_cpus(result: &RunResult, policy: &PolicySpec) -> Result<Vec<usize>> {
    let mut cpus: Vec<Option<usize>> = vec![None; result.apps.len()];
    for placement in &result.placements {
        let record = result.threads.iter().find(|record| record.id == placement.thread);
        if let Some(record) = record {
            cpus[record.app] = Some(placement.cpu);
        }
    }
    let never = || Error::failed(anyhow!("a program never came onto a CPU"));
    let cpus = cpus.into_iter().collect::<Option<Vec<usize>>>().ok_or_else(never)?;
    if (1..cpus.len()).any(|place| cpus[..place].contains(&cpus[place])) {
        let message = format!(
            "policy `{}` has two programs on one CPU while others are idle: it moves programs on and on, and corun \
             compare runs it",
            policy.name()
        );
        return Err(Error::failed(anyhow!(message)));
    }
    Ok(cpus)
}

/// The ways that each program's thread had last where its LLC is divided; empty where none is.
fn last_masks(scenario: &Scenario, result: &RunResult, cpus: &[usize]) -> Vec<Option<u64>> {
    let mut parts_of: BTreeMap<usize, &[CachePart]> = BTreeMap::new();
    for entry in &result.log {
        if let Action::Partition { llc, parts } = &entry.action {
            parts_of.insert(*llc, parts);
        }
    }
    let machine = scenario.machine();
    let mask = |(app, &cpu): (usize, &usize)| {
        let parts = parts_of.get(&machine.cpus()[cpu].llc).filter(|parts| !parts.is_empty())?;
        let of_app = |id| result.threads.iter().any(|one| one.id == id && one.app == app);
        let part = parts.iter().find(|part| part.threads.iter().any(|&id| of_app(id)));
        // Who is in no part has all ways.
        let ways = scenario.model.llc_ways(cpu).clamp(1, u64::BITS);
        Some(part.map_or(u64::MAX >> (u64::BITS - ways), |part| part.mask))
    };
    let masks: Vec<Option<u64>> = cpus.iter().enumerate().map(mask).collect();
    if masks.iter().all(Option::is_none) { Vec::new() } else { masks }
}
