//! Where a policy has programs, by a run of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::anyhow;
use corun_policy::{Action, CachePart, Nanoseconds, ThreadId};
use corun_profile::Method;
use corun_sim::{AppSpec, Experiment, Hooks, Placement, RunResult, ThreadLife};

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
    let mut experiment = Experiment::new(scenario.model.clone(), apps, Method::Window, seed);
    experiment.settings.placements = usize::MAX;
    let hooks = Hooks { cancel: Some(stop), progress: None };
    let result = corun_sim::run(&experiment, policy.build(seed)?, hooks)?;
    let (threads, placements) = (&result.threads, &result.placements);
    let apart = last_apart(threads, placements, result.apps.len(), result.simulated_s);
    let (cpus, until) = apart.ok_or_else(|| never_apart(policy))?;
    let masks = last_masks(scenario, &result, &cpus, until);
    Ok(Layout { cpus, masks })
}

fn never_apart(policy: &PolicySpec) -> Error {
    let message = format!(
        "policy `{}` has two programs on one CPU while others are idle: it moves programs on and on, and corun \
         compare runs it",
        policy.name()
    );
    Error::failed(anyhow!(message))
}

/// The CPU index of each program when all of them last had a CPU to themselves, and when that ended; none where it lasts
/// to the end. A program that has just started again may share a CPU for a moment, and the window may end then. None where
/// there is no such moment in the second half of the window.
fn last_apart(
    threads: &[ThreadLife],
    placements: &[Placement],
    programs: usize,
    window_s: f64,
) -> Option<(Vec<usize>, Option<Nanoseconds>)> {
    let app_of: BTreeMap<ThreadId, usize> =
        threads.iter().map(|record| (record.id, record.app)).collect();
    let mut cpus: Vec<Option<usize>> = vec![None; programs];
    let mut programs_on: BTreeMap<usize, usize> = BTreeMap::new();
    let mut apart = None;
    let mut until = None;
    for placement in placements {
        let Some(&app) = app_of.get(&placement.thread) else { continue };
        if let Some(left) = cpus[app].replace(placement.cpu) {
            let programs = programs_on.entry(left).or_default();
            *programs -= 1;
            if *programs == 0 {
                programs_on.remove(&left);
            }
        }
        *programs_on.entry(placement.cpu).or_default() += 1;
        if programs_on.len() == cpus.len() {
            apart = Some(cpus.iter().copied().flatten().collect());
            until = None;
        } else {
            until.get_or_insert(placement.at);
        }
    }
    let half = window_s / 2.0;
    apart.filter(|_| until.is_none_or(|at| at.as_secs_f64() >= half)).map(|cpus| (cpus, until))
}

/// The ways that each program's thread had on these CPUs, until then, where its LLC is divided; empty where none is.
fn last_masks(
    scenario: &Scenario,
    result: &RunResult,
    cpus: &[usize],
    until: Option<Nanoseconds>,
) -> Vec<Option<u64>> {
    let mut parts_of: BTreeMap<usize, &[CachePart]> = BTreeMap::new();
    for entry in result.log.iter().take_while(|entry| until.is_none_or(|until| entry.at < until)) {
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

#[cfg(test)]
mod tests {
    use corun_policy::ProcessId;

    use super::*;

    fn seconds(count: u64) -> Nanoseconds {
        Nanoseconds(count * 1_000_000_000)
    }

    /// Of two programs, of threads 1 and 2, that came onto these CPUs at these seconds, of 60.
    fn apart(placements: &[(u64, u64, usize)]) -> Option<(Vec<usize>, Option<Nanoseconds>)> {
        let life = |id: u64| ThreadLife {
            id: ThreadId(id),
            process: ProcessId(id),
            app: id as usize - 1,
            index: 0,
            run: 0,
            start: seconds(0),
            end: None,
        };
        let placement = |&(at, thread, cpu): &(u64, u64, usize)| Placement {
            at: seconds(at),
            thread: ThreadId(thread),
            cpu,
        };
        let placements: Vec<Placement> = placements.iter().map(placement).collect();
        last_apart(&[life(1), life(2)], &placements, 2, 60.0)
    }

    #[test]
    fn programs_are_where_all_last_had_a_cpu_to_themselves() {
        let first = [(0, 1, 0), (0, 2, 1)];
        assert_eq!(apart(&first), Some((vec![0, 1], None)));
        // They change places, one after the other.
        let exchanged = [(0, 1, 0), (0, 2, 1), (50, 1, 1), (50, 2, 0)];
        assert_eq!(apart(&exchanged), Some((vec![1, 0], None)));
        // The window ends while the first is on the second's CPU.
        let late = [(0, 1, 0), (0, 2, 1), (59, 1, 1)];
        assert_eq!(apart(&late), Some((vec![0, 1], Some(seconds(59)))));
        // It is there in all of the second half.
        assert_eq!(apart(&[(0, 1, 0), (0, 2, 1), (29, 1, 1)]), None);
        assert_eq!(apart(&[(0, 1, 0)]), None, "one never came onto a CPU");
    }
}
