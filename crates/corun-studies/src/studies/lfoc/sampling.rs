//! What sampling costs: how long it takes, and what the programs lose meanwhile.

use std::collections::BTreeMap;

use corun_model::{CacheGroup, LoadedProgram, Running, Scratch};
use corun_policy::{Action, CachePart};
use corun_sim::RunResult;

use crate::studies::partitioning::PartitionedLlc;

/// Of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sampling {
    pub(super) counted: Counted,
    /// STP lost meanwhile, against the partitions between samplings: over the run, in % of STP.
    pub(super) lost_percent: f64,
}

/// How often a cache was divided in a run, and how long programs were sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::studies) struct Counted {
    /// Divisions that were asked for, those for samples among them.
    pub(in crate::studies) divisions: usize,
    /// Programs' runs that were sampled, resampling counted again.
    pub(in crate::studies) sweeps: usize,
    /// Numbers of ways that were tried in all.
    pub(in crate::studies) steps: usize,
    /// Share of the time in which somebody was sampled, 0 to 1.
    pub(in crate::studies) share: f64,
}

/// A stretch of a run in which the same is asked for.
struct Stretch<'r> {
    seconds: f64,
    parts: &'r [CachePart],
    /// Who is sampled, with how many ways.
    sampled: Option<(&'r str, &'r str)>,
    /// Did a division begin it?
    is_division: bool,
}

/// A run's stretches, from its log.
fn stretches(result: &RunResult) -> Vec<Stretch<'_>> {
    let mut found = Vec::with_capacity(result.log.len() + 1);
    let mut now = Stretch { seconds: 0.0, parts: &[], sampled: None, is_division: false };
    let mut since = 0.0;
    for entry in &result.log {
        let at = entry.at.as_secs_f64();
        let (parts, sampled) = (now.parts, now.sampled);
        found.push(Stretch { seconds: at - since, ..now });
        since = at;
        now = match &entry.action {
            Action::Partition { parts, .. } => {
                let sampling = entry.reason.split_once(": sampling ");
                let sampled = sampling.and_then(|(_, rest)| rest.split_once(" with "));
                Stretch { seconds: 0.0, parts, sampled, is_division: true }
            }
            _ => Stretch { seconds: 0.0, parts, sampled, is_division: false },
        };
    }
    found.push(Stretch { seconds: result.simulated_s - since, ..now });
    found
}

/// From the log: how often the cache was divided, and who was sampled.
pub(in crate::studies) fn counted(result: &RunResult) -> Counted {
    let mut found = Counted::default();
    let (mut decided_s, mut sampled_s) = (0.0, 0.0);
    let mut before: Option<(&str, &str)> = None;
    for stretch in stretches(result) {
        *(if stretch.sampled.is_some() { &mut sampled_s } else { &mut decided_s }) += stretch.seconds;
        found.divisions += usize::from(stretch.is_division);
        if let Some((name, _)) = stretch.sampled {
            // The same again is asked for where another program has ended meanwhile.
            found.steps += usize::from(stretch.sampled != before);
            found.sweeps += usize::from(Some(name) != before.map(|(name, _)| name));
        }
        before = stretch.sampled;
    }
    found.share = sampled_s / (sampled_s + decided_s);
    found
}

/// From the log: what was asked for while somebody was sampled, and otherwise. The STP of each
/// partition is the model's, once the caches have filled; of a program with phases, by all of them
/// as one.
pub(super) fn sampling(llc: &PartitionedLlc, mix: &[usize], result: &RunResult) -> Sampling {
    let app_of: BTreeMap<u64, usize> =
        result.threads.iter().map(|thread| (thread.id.0, thread.app)).collect();
    let mut known: BTreeMap<Vec<u64>, f64> = BTreeMap::new();
    let (mut decided, mut sampled) = ((0.0, 0.0), (0.0, 0.0));
    for stretch in stretches(result) {
        let masks = by_app(stretch.parts, mix.len(), &app_of);
        let stp = *known.entry(masks).or_insert_with_key(|masks| stp(llc, mix, masks));
        let into = if stretch.sampled.is_some() { &mut sampled } else { &mut decided };
        *into = (into.0 + stretch.seconds, into.1 + stretch.seconds * stp);
    }
    let mut found = Sampling { counted: counted(result), ..Sampling::default() };
    if decided.0 > 0.0 {
        let reference = decided.1 / decided.0;
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
