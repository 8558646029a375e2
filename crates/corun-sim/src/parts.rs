//! The last-level caches of the machine and their partitions.

use corun_machine::Machine;
use corun_policy::ThreadId;
use std::collections::BTreeMap;

use crate::cache::Part;
use crate::timers::NEVER;

/// Line size where the machine does not say, in bytes.
const LINE_BYTES: f64 = 64.0;

/// A part of an LLC: the LLC's index and the part's on it.
pub(crate) type PartId = (usize, usize);

/// All LLCs.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) llcs: Vec<LlcState>,
}

#[derive(Debug)]
pub(crate) struct LlcState {
    pub(crate) parts: Vec<Part>,
    /// Which parts' running sets changed.
    pub(crate) dirty: Vec<bool>,
    /// Who uses which part; empty when the LLC is whole.
    pub(crate) assigned: BTreeMap<ThreadId, usize>,
    /// The masks and threads as they were asked for.
    pub(crate) asked: Vec<(u64, Vec<ThreadId>)>,
    /// The policy that partitioned it.
    pub(crate) owner: usize,
    pub(crate) bytes: f64,
    pub(crate) ways: Option<u32>,
    pub(crate) line_bytes: f64,
    /// Its CPUs by index.
    pub(crate) cpus: Vec<usize>,
}

impl Parts {
    pub(crate) fn new(machine: &Machine) -> Self {
        let state = |domain: &corun_machine::Llc| {
            let cache = domain.cache;
            let bytes = cache.map_or(0.0, |cache| cache.size_bytes as f64);
            let line_bytes = cache.and_then(|cache| cache.line_bytes);
            let line_bytes = line_bytes.map_or(LINE_BYTES, f64::from);
            LlcState {
                parts: vec![Part::new(bytes, line_bytes)],
                dirty: vec![false],
                assigned: BTreeMap::new(),
                asked: Vec::new(),
                owner: 0,
                bytes,
                ways: cache.and_then(|cache| cache.ways),
                line_bytes,
                cpus: domain.cpus.iter().filter_map(|id| machine.cpu_index(id)).collect(),
            }
        };
        Self { llcs: machine.llcs().iter().map(state).collect() }
    }

    /// The part of an LLC that a thread uses; none when the LLC is partitioned without it.
    pub(crate) fn of(&self, llc: usize, thread: ThreadId) -> Option<PartId> {
        let state = &self.llcs[llc];
        if state.asked.is_empty() {
            return Some((llc, 0));
        }
        Some((llc, *state.assigned.get(&thread)?))
    }

    pub(crate) fn part(&self, id: PartId) -> &Part {
        &self.llcs[id.0].parts[id.1]
    }

    pub(crate) fn mark(&mut self, id: PartId) {
        // A part may be gone since it was noted.
        if let Some(dirty) = self.llcs[id.0].dirty.get_mut(id.1) {
            *dirty = true;
        }
    }

    pub(crate) fn next_step(&self) -> u64 {
        let ends = self.llcs.iter().flat_map(|llc| &llc.parts).map(Part::step_end);
        ends.min().unwrap_or(NEVER)
    }

    /// Forgets a thread that is no more.
    pub(crate) fn forget(&mut self, slot: usize) {
        for part in self.llcs.iter_mut().flat_map(|llc| &mut llc.parts) {
            part.forget(slot);
        }
    }

    /// Divides an LLC anew: each distinct mask is a part of its ways. A way that several masks have
    /// counts for each by its share of the threads that may use it: a part does not grow and shrink
    /// with what the others do. No mask: the whole again.
    pub(crate) fn divide(
        &mut self,
        llc: usize,
        asked: Vec<(u64, Vec<ThreadId>)>,
        slot_of: impl Fn(ThreadId) -> Option<usize>,
        owner: usize,
        now: u64,
    ) {
        let state = &mut self.llcs[llc];
        let held: Vec<(usize, f64)> =
            state.parts.iter().flat_map(|part| part.holdings(now)).collect();
        let way_bytes = state.bytes / f64::from(state.ways.unwrap_or(1).max(1));
        let mut masks: Vec<u64> = Vec::new();
        let mut assigned = BTreeMap::new();
        for (mask, threads) in &asked {
            let place = masks.iter().position(|other| other == mask).unwrap_or_else(|| {
                masks.push(*mask);
                masks.len() - 1
            });
            assigned.extend(threads.iter().map(|&thread| (thread, place)));
        }
        let mut users = vec![0.0; masks.len()];
        assigned.values().for_each(|&place: &usize| users[place] += 1.0);
        state.parts = (0..masks.len())
            .map(|place| Part::new(way_bytes * ways_of(place, &masks, &users), state.line_bytes))
            .collect();
        if state.parts.is_empty() {
            state.parts.push(Part::new(state.bytes, state.line_bytes));
        }
        state.dirty = vec![true; state.parts.len()];
        let part_of_slot: BTreeMap<usize, usize> = assigned
            .iter()
            .filter_map(|(&thread, &place)| Some((slot_of(thread)?, place)))
            .collect();
        for (slot, bytes) in held {
            let place = if asked.is_empty() { Some(0) } else { part_of_slot.get(&slot).copied() };
            if let Some(place) = place {
                state.parts[place].give(slot, bytes, now);
            }
        }
        state.assigned = assigned;
        state.asked = asked;
        state.owner = owner;
    }
}

/// Ways of the part at a place, common ones by its share of the users.
fn ways_of(place: usize, masks: &[u64], users: &[f64]) -> f64 {
    let mask = masks[place];
    let share = |way: u32| {
        let has = |mask: u64| mask >> way & 1 == 1;
        let sharers = masks.iter().zip(users).filter(|(mask, _)| has(**mask));
        let (sum, count) = sharers.fold((0.0, 0.0), |(sum, n), (_, users)| (sum + users, n + 1.0));
        if !has(mask) {
            0.0
        } else if count == 1.0 {
            1.0
        } else if sum > 0.0 {
            users[place] / sum
        } else {
            1.0 / count
        }
    };
    (0..u64::BITS).map(share).sum()
}

#[cfg(test)]
mod tests {
    use super::ways_of;

    #[test]
    fn common_ways_count_by_users() {
        // Ways 0-3 of one thread, 2-7 of two: the two common ways are a third and two thirds.
        let (masks, users) = ([0xf, 0xfc], [1.0, 2.0]);
        assert!((ways_of(0, &masks, &users) - (2.0 + 2.0 / 3.0)).abs() < 1e-12);
        assert!((ways_of(1, &masks, &users) - (4.0 + 4.0 / 3.0)).abs() < 1e-12);
        assert_eq!(ways_of(0, &[0x3, 0xfc], &[0.0, 5.0]), 2.0);
        assert_eq!(ways_of(0, &[0x3, 0x3c], &[0.0, 0.0]), 2.0);
    }
}
