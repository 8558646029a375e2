//! What threads hold of the caches that they share, remembered while a decision is made.
//!
//! What a thread demands of the memory depends on those alone with whom it shares a cache (the model's stage A), and most
//! changes that a search looks at leave most caches to the same threads.

use corun_model::{CacheGroup, Demand, Member, Model, Scratch};
use rustc_hash::FxHashMap;

/// Figures that are remembered, of one thread each: a bound on the memory.
const MOST_REMEMBERED: usize = 1 << 14;

/// Demands of threads that share a cache, by who they are.
#[derive(Default)]
pub(super) struct SharedCaches {
    /// Sharers, after a word for the capacity: the place of the first one's demand in `demands`.
    places: FxHashMap<Vec<(u64, u32)>, usize>,
    demands: Vec<Demand>,
    /// By thread: the place of its demand.
    of_thread: Vec<usize>,
    /// Working memory: by cache its threads, each with its part of it; and the key of a part.
    on: Vec<Vec<(u32, usize)>>,
    key: Vec<(u64, u32)>,
    found: Vec<Demand>,
}

impl SharedCaches {
    /// Divides the caches among their threads: members, each with its part of its LLC as in [`corun_model::Running::group`].
    pub(super) fn divide(
        &mut self,
        model: &Model,
        threads: &[(Member<'_>, Option<CacheGroup>)],
        scratch: &mut Scratch,
    ) {
        if self.demands.len() > MOST_REMEMBERED {
            self.places.clear();
            self.demands.clear();
        }
        let cpus = model.machine().cpus();
        self.on.resize(model.machine().llcs().len(), Vec::new());
        self.on.iter_mut().for_each(Vec::clear);
        for (index, (member, group)) in threads.iter().enumerate() {
            let part = group.map_or(0, |group| group.id + 1);
            self.on[cpus[member.cpu].llc].push((part, index));
        }
        // Whole caches are in order.
        self.on.iter_mut().for_each(|on| on.sort());
        self.of_thread.clear();
        self.of_thread.resize(threads.len(), 0);
        let mut members = Vec::new();
        for sharers in self.on.iter().flat_map(|on| on.chunk_by(|one, other| one.0 == other.0)) {
            let (first, group) = threads[sharers[0].1];
            let capacity_bytes = group.map_or(model.llc_bytes(first.cpu), |group| group.bytes);
            self.key.clear();
            self.key.push((capacity_bytes.to_bits(), 0));
            self.key.extend(sharers.iter().map(|&(_, thread)| {
                let member = &threads[thread].0;
                let phase = std::ptr::from_ref(member.program.phase(member.phase)).addr();
                // Where threads of a core divide its private caches, it matters who is on which.
                let place = if model.divides_private_caches(member.cpu) {
                    u32::MAX - member.cpu as u32
                } else {
                    model.kind_of_place(member.cpu)
                };
                (phase as u64, place)
            }));
            let known = self.places.get(self.key.as_slice()).copied();
            let first = known.unwrap_or_else(|| {
                members.clear();
                members.extend(sharers.iter().map(|&(_, thread)| threads[thread].0));
                model.share(capacity_bytes, &members, scratch, &mut self.found);
                let first = self.demands.len();
                self.demands.extend_from_slice(&self.found);
                self.places.insert(self.key.clone(), first);
                first
            });
            for (place, &(_, thread)) in (first..).zip(sharers) {
                self.of_thread[thread] = place;
            }
        }
    }

    /// What a thread demands, as it was divided last.
    pub(super) fn demand(&self, thread: usize) -> &Demand {
        &self.demands[self.of_thread[thread]]
    }
}
