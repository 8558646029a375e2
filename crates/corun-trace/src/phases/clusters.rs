//! Windows (or phases of other recordings), as they come, into few phases.

use std::cmp::Ordering;

use super::vector::{BehaviourVector, SAME_PHASE_DISTANCE};
use super::{MOST_PHASES, SHORTEST_PHASE_SHARE};

/// Sums that can be compared and added up.
pub(crate) trait Behaviour: Clone {
    /// What is compared.
    fn vector(&self) -> BehaviourVector;
    /// Its length.
    fn instructions(&self) -> u64;
    /// Adds another's sums.
    fn merge(&mut self, other: &Self);
}

/// Phases so far.
#[derive(Debug, Clone)]
pub(super) struct Clusters<B> {
    phases: Vec<(B, BehaviourVector)>,
}

/// Two phases became one, and those behind it moved up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Union {
    kept: usize,
    gone: usize,
}

impl Union {
    /// What a phase's number is afterwards.
    pub(super) fn number(self, phase: usize) -> usize {
        match phase.cmp(&self.gone) {
            Ordering::Less => phase,
            Ordering::Equal => self.kept,
            Ordering::Greater => phase - 1,
        }
    }
}

impl<B> Default for Clusters<B> {
    fn default() -> Self {
        Self { phases: Vec::new() }
    }
}

impl<B: Behaviour> Clusters<B> {
    /// Takes in what ran next: into the nearest phase, ties to the lowest index, or a new one. Its
    /// phase, and the two that had to become one afterwards, if any.
    pub(super) fn add(&mut self, next: B) -> (usize, Option<Union>) {
        let vector = next.vector();
        if let Some((phase, distance)) = self.nearest(&vector)
            && distance < SAME_PHASE_DISTANCE
        {
            self.join(phase, &next);
            return (phase, None);
        }
        self.phases.push((next, vector));
        let phase = self.phases.len() - 1;
        let full = self.phases.len() > MOST_PHASES;
        (phase, self.nearest_pair().filter(|_| full).map(|(_, pair)| self.unite(pair)))
    }

    /// Takes in the rest of an execution, too short to be a phase, into the nearest; its phase.
    pub(super) fn add_rest(&mut self, rest: B) -> usize {
        match self.nearest(&rest.vector()) {
            None => self.add(rest).0,
            Some((phase, _)) => {
                self.join(phase, &rest);
                phase
            }
        }
    }

    /// Makes one of two phases that have come near to one another, and of the nearest and one that
    /// is shorter than `least` instructions or [`SHORTEST_PHASE_SHARE`] of all; `None` when there
    /// are no more of them.
    pub(super) fn reduce(&mut self, least: u64) -> Option<Union> {
        let (distance, pair) = self.nearest_pair()?;
        if distance < SAME_PHASE_DISTANCE {
            return Some(self.unite(pair));
        }
        let lengths = self.phases.iter().map(|one| one.0.instructions());
        let all: u64 = lengths.clone().sum();
        let (short, length) = lengths.enumerate().min_by_key(|one| one.1)?;
        if length >= least.max((all as f64 * SHORTEST_PHASE_SHARE) as u64) {
            return None;
        }
        self.absorb(short)
    }

    /// Makes one of a phase and the nearest; `None` when it is the only one.
    pub(super) fn absorb(&mut self, phase: usize) -> Option<Union> {
        let near = self.nearest_but(&self.phases[phase].1, Some(phase))?.0;
        Some(self.unite((near.min(phase), near.max(phase))))
    }

    pub(super) fn phases(&self) -> impl Iterator<Item = &B> {
        self.phases.iter().map(|(phase, _)| phase)
    }

    fn nearest(&self, vector: &BehaviourVector) -> Option<(usize, f64)> {
        self.nearest_but(vector, None)
    }

    fn nearest_but(&self, vector: &BehaviourVector, but: Option<usize>) -> Option<(usize, f64)> {
        let distances = self.phases.iter().map(|one| one.1.distance(vector)).enumerate();
        distances
            .filter(|&(phase, _)| Some(phase) != but)
            .min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// The two phases that are nearest to one another, the first of equals, and their distance.
    fn nearest_pair(&self) -> Option<(f64, (usize, usize))> {
        let mut nearest: Option<(f64, (usize, usize))> = None;
        for (one, (_, vector)) in self.phases.iter().enumerate() {
            for (other, (_, after)) in self.phases.iter().enumerate().skip(one + 1) {
                let distance = vector.distance(after);
                if nearest.is_none_or(|least| distance < least.0) {
                    nearest = Some((distance, (one, other)));
                }
            }
        }
        nearest
    }

    fn join(&mut self, phase: usize, next: &B) {
        let (sums, vector) = &mut self.phases[phase];
        sums.merge(next);
        *vector = sums.vector();
    }

    /// Adds the later of two phases to the earlier.
    fn unite(&mut self, (kept, gone): (usize, usize)) -> Union {
        let (sums, _) = self.phases.remove(gone);
        self.join(kept, &sums);
        Union { kept, gone }
    }
}
