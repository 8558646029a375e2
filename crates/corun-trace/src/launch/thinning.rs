//! Few micro-traces of many.

use corun_profile::{MicroTrace, Recording};

use crate::engine::{Stratum, balance, reduce};

/// Keeps at most so many micro-traces of a recording, or one a phase. The phases refer to `traces` by
/// their places.
pub(super) fn thin(recording: &mut Recording, traces: &mut Vec<MicroTrace>, most: usize) {
    let mut groups: Vec<Vec<Stratum<u32>>> = Vec::new();
    for phase in &recording.phases {
        let sampled = phase.core.iter().flat_map(|core| &core.micro_traces);
        let stratum = |&(at, share): &(u32, f64)| {
            let weight = (share * phase.instructions as f64).max(1.0);
            traces.get(at as usize).map(|trace| Stratum::new(trace, weight, at))
        };
        groups.push(sampled.filter_map(stratum).collect());
    }
    reduce(&mut groups, most);
    groups.iter_mut().for_each(|group| balance(group));
    let mut kept = Vec::new();
    for (phase, group) in recording.phases.iter_mut().zip(groups) {
        let Some(core) = &mut phase.core else { continue };
        let all: f64 = group.iter().map(|one| one.weight).sum();
        core.micro_traces.clear();
        for one in group {
            core.micro_traces.push((kept.len() as u32, one.weight / all));
            kept.push(std::mem::take(&mut traces[one.kept as usize]));
        }
    }
    *traces = kept;
}
