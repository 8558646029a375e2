//! The best that the programs still to be placed can reach, by dynamic programming over sets.

use rayon::prelude::*;

use crate::contention::Contention;
use crate::groups::ProgramGroup;
use crate::objective::{Criterion, PartialScore};
use crate::search_space::SearchSpace;

/// Above this many states all LLCs are counted as of one kind.
const MOST_STATES: usize = 1 << 24;

/// Bounds for every set of programs left and LLCs left.
pub(crate) struct Completion {
    pub(crate) criterion: Criterion,
    /// Of each group its own contribution at best.
    pub(crate) parts: Vec<PartialScore>,
    /// Of each orbit what one LLC of it fewer does to the index of the layer.
    pub(crate) strides: Vec<usize>,
    /// The layer with all LLCs free.
    pub(crate) full: usize,
    /// By layer and set.
    best: Vec<Vec<PartialScore>>,
}

impl Completion {
    pub(crate) fn new<C: Contention>(
        space: &SearchSpace<C>,
        criterion: Criterion,
        groups: &[ProgramGroup<C::Share>],
    ) -> Self {
        let sets = 1usize << space.programs;
        let layers: usize = space.orbits.iter().map(|orbit| orbit.llcs.len() + 1).product();
        let is_split = layers.saturating_mul(sets) <= MOST_STATES;
        let part = |group: &ProgramGroup<C::Share>| {
            let part = criterion.of_all(group.spans.iter().copied());
            if !criterion.objective.is_of_power() {
                return part;
            }
            let slots = space.slots_of(space.orbits[group.orbit].llcs[0], &group.assignment);
            criterion.join(part, space.drawn(&criterion, &slots, &group.shares))
        };
        let parts: Vec<PartialScore> = groups.iter().map(part).collect();
        let kinds = if is_split { space.orbits.len() } else { 1 };
        let kind = |orbit: usize| if is_split { orbit } else { 0 };
        let mut counts = vec![0; kinds];
        let mut slots = vec![0; kinds];
        for (orbit, of) in space.orbits.iter().enumerate() {
            counts[kind(orbit)] += of.llcs.len();
            slots[kind(orbit)] = slots[kind(orbit)].max(space.llcs[of.llcs[0]].len());
        }
        // The best group of each set, by kind of LLC and lowest program.
        let mut of_set = vec![vec![PartialScore::IMPOSSIBLE; sets]; kinds];
        for (group, &part) in groups.iter().zip(&parts) {
            let best = &mut of_set[kind(group.orbit)][group.set as usize];
            *best = best.or(part);
        }
        let strides: Vec<usize> =
            (0..kinds).map(|kind| counts[..kind].iter().map(|count| count + 1).product()).collect();
        let table = Table { criterion, programs: space.programs, of_set, strides, counts, slots };
        let strides = (0..space.orbits.len()).map(|orbit| table.strides[kind(orbit)]).collect();
        let full = table.layers() - 1;
        Self { criterion, parts, strides, full, best: table.fill() }
    }

    /// What the programs of `left` contribute at best on the LLCs of `layer`.
    pub(crate) fn best(&self, layer: usize, left: u32) -> PartialScore {
        self.best[layer][left as usize]
    }

    /// The least score of a placement that contains these parts.
    pub(crate) fn score(&self, placed: PartialScore, layer: usize, left: u32) -> Option<f64> {
        let rest = self.best(layer, left);
        rest.is_possible().then(|| self.criterion.score(self.criterion.join(placed, rest)))
    }
}

struct Table {
    criterion: Criterion,
    programs: usize,
    of_set: Vec<Vec<PartialScore>>,
    strides: Vec<usize>,
    counts: Vec<usize>,
    /// CPUs of an LLC of each kind (the most).
    slots: Vec<usize>,
}

impl Table {
    fn layers(&self) -> usize {
        self.counts.iter().map(|count| count + 1).product()
    }

    fn left(&self, layer: usize, kind: usize) -> usize {
        layer / self.strides[kind] % (self.counts[kind] + 1)
    }

    fn capacity(&self, layer: usize) -> usize {
        (0..self.counts.len()).map(|kind| self.left(layer, kind) * self.slots[kind]).sum()
    }

    fn fill(&self) -> Vec<Vec<PartialScore>> {
        let sets = 1usize << self.programs;
        let mut best = vec![vec![PartialScore::IMPOSSIBLE; sets]; self.layers()];
        for of_layer in &mut best {
            of_layer[0] = self.criterion.empty();
        }
        let slack = self.capacity(self.layers() - 1) - self.programs;
        let lists: Vec<Vec<Vec<u32>>> =
            self.of_set.iter().map(|of_set| by_lowest(of_set, self.programs)).collect();
        let mut by_size = vec![Vec::new(); self.programs + 1];
        for set in 1..sets {
            by_size[set.count_ones() as usize].push(set as u32);
        }
        for (size, sets) in by_size.iter().enumerate() {
            for layer in 1..self.layers() {
                let capacity = self.capacity(layer);
                // More room than the whole machine leaves over is never met.
                if capacity < size || capacity - size > slack {
                    continue;
                }
                let found: Vec<PartialScore> =
                    sets.par_iter().map(|&set| self.of(layer, set, &lists, &best)).collect();
                for (&set, part) in sets.iter().zip(found) {
                    best[layer][set as usize] = part;
                }
            }
        }
        best
    }

    fn of(
        &self,
        layer: usize,
        set: u32,
        lists: &[Vec<Vec<u32>>],
        best: &[Vec<PartialScore>],
    ) -> PartialScore {
        let lowest = set & set.wrapping_neg();
        let others = set ^ lowest;
        let mut found = PartialScore::IMPOSSIBLE;
        for kind in 0..self.counts.len() {
            if self.left(layer, kind) == 0 {
                continue;
            }
            let below = &best[layer - self.strides[kind]];
            let mut consider = |group: u32| {
                let rest = below[(set ^ group) as usize];
                let part = self.of_set[kind][group as usize];
                if rest.is_possible() && part.is_possible() {
                    found = found.or(self.criterion.join(part, rest));
                }
            };
            let list = &lists[kind][lowest.trailing_zeros() as usize];
            if list.len() <= 1 << others.count_ones() {
                list.iter().filter(|&&group| group & !set == 0).for_each(|&group| consider(group));
            } else {
                let mut part = others;
                loop {
                    consider(part | lowest);
                    if part == 0 {
                        break;
                    }
                    part = (part - 1) & others;
                }
            }
        }
        found
    }
}

/// The sets with a group, by their lowest program.
fn by_lowest(of_set: &[PartialScore], programs: usize) -> Vec<Vec<u32>> {
    let mut lists = vec![Vec::new(); programs];
    for (set, part) in of_set.iter().enumerate().skip(1) {
        if part.is_possible() {
            lists[set.trailing_zeros() as usize].push(set as u32);
        }
    }
    lists
}
