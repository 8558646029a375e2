//! What sampling costs: how long it takes, and what the programs lose meanwhile.

use std::collections::BTreeMap;

use corun_model::{CacheGroup, LoadedProgram, Running, Scratch};
use corun_policy::{Action, CachePart};
use corun_sim::RunResult;

use crate::studies::partitioning::PartitionedLlc;

/// Of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sampling {
    /// Programs' runs that were sampled, resampling counted again.
    pub(super) sweeps: usize,
    /// Numbers of ways that were tried in all.
    pub(super) steps: usize,
    /// Share of the time in which somebody was sampled, 0 to 1.
    pub(super) share: f64,
    /// STP lost meanwhile, against the partitions between samplings: over the run, in % of STP.
    pub(super) lost_percent: f64,
}

/// From the log: what was asked for while somebody was sampled, and otherwise. The STP of each
/// partition is the model's, once the caches have filled; of a program with phases, by all of them
/// as one.
pub(super) fn sampling(llc: &PartitionedLlc, mix: &[usize], result: &RunResult) -> Sampling {
    let app_of: BTreeMap<u64, usize> =
        result.threads.iter().map(|thread| (thread.id.0, thread.app)).collect();
    let mut known: BTreeMap<Vec<u64>, f64> = BTreeMap::new();
    let mut found = Sampling::default();
    let (mut decided, mut sampled) = ((0.0, 0.0), (0.0, 0.0));
    let mut masks = vec![0; mix.len()];
    let mut is_sampling = false;
    // Who is sampled, with how many ways.
    let mut trial = (String::new(), String::new());
    let mut since = 0.0;
    let ends = result.log.iter().map(|entry| entry.at.as_secs_f64()).chain([result.simulated_s]);
    for (step, at) in ends.enumerate() {
        let stp = *known.entry(masks.clone()).or_insert_with(|| stp(llc, mix, &masks));
        let into = if is_sampling { &mut sampled } else { &mut decided };
        *into = (into.0 + (at - since), into.1 + (at - since) * stp);
        since = at;
        let Some(entry) = result.log.get(step) else { break };
        let Action::Partition { parts, .. } = &entry.action else { continue };
        let sampling = entry.reason.split_once(": sampling ");
        let next = sampling.and_then(|(_, rest)| rest.split_once(" with "));
        is_sampling = next.is_some();
        let (name, ways) = next.unwrap_or_default();
        if is_sampling {
            // The same again is asked for where another program has ended meanwhile.
            found.steps += usize::from((name, ways) != (&trial.0, &trial.1));
            found.sweeps += usize::from(name != trial.0);
        }
        trial = (name.to_owned(), ways.to_owned());
        masks = by_app(parts, mix.len(), &app_of);
    }
    let reference = decided.1 / decided.0;
    found.share = sampled.0 / (sampled.0 + decided.0);
    if decided.0 > 0.0 {
        let lost = sampled.0 * reference - sampled.1;
        found.lost_percent = 100.0 * lost / ((sampled.0 + decided.0) * reference);
    }
    found
}

/// Each program's mask; 0 where it has the whole LLC.
fn by_app(parts: &[CachePart], apps: usize, app_of: &BTreeMap<u64, usize>) -> Vec<u64> {
    let mut masks = vec![0; apps];
    for part in parts {
        for thread in &part.threads {
            if let Some(&app) = app_of.get(&thread.0) {
                masks[app] = part.mask;
            }
        }
    }
    masks
}

fn stp(llc: &PartitionedLlc, mix: &[usize], masks: &[u64]) -> f64 {
    let members = llc.members(mix);
    let group = |mask: u64| {
        let bytes = f64::from(mask.count_ones()) * llc.way_bytes();
        // Masks do not overlap: the lowest way names one.
        (mask != 0).then(|| CacheGroup { id: mask.trailing_zeros(), bytes })
    };
    let running: Vec<Running<'_>> = members
        .iter()
        .zip(masks)
        .map(|(member, &mask)| Running { member: *member, home: &[], group: group(mask) })
        .collect();
    debug_assert!(members.iter().all(|member| member.phase == LoadedProgram::WHOLE));
    let mut out = Vec::new();
    llc.model.solve(&running, &mut Scratch::new(), &mut out);
    out.iter().map(|one| 1.0 / one.slowdown).sum()
}
