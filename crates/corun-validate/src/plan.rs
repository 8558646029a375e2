//! Which programs run together, and in which order.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Subjects, by their indices, that run at the same time; one may stand in it more than once.
pub type ProgramGroup = Vec<usize>;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundPlan {
    /// Rounds: in each everything runs once.
    pub rounds: usize,
    /// Groups.
    pub groups: Vec<ProgramGroup>,
    /// Of the order within each round.
    pub seed: u64,
}

/// What a round consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Solo(usize),
    Group(usize),
}

impl RoundPlan {
    /// A round's turns, in an order of its own, so that what changes slowly on the machine hits all
    /// alike.
    pub(crate) fn turns(&self, round: usize, subjects: usize) -> Vec<Turn> {
        let mut turns: Vec<Turn> = (0..subjects).map(Turn::Solo).collect();
        turns.extend((0..self.groups.len()).map(Turn::Group));
        turns.shuffle(&mut Pcg64::seed_from_u64(self.seed.wrapping_add(round as u64)));
        turns
    }
}

/// So many different groups of `size` subjects, drawn evenly, or all there are where they are fewer;
/// in the order of their members. None where a group has fewer than two members or a subject is
/// lacking.
pub fn random_groups(subjects: usize, size: usize, count: usize, seed: u64) -> Vec<ProgramGroup> {
    if size < 2 || subjects < size {
        return Vec::new();
    }
    let mut all: Vec<usize> = (0..subjects).collect();
    let mut random = Pcg64::seed_from_u64(seed);
    let mut groups = std::collections::BTreeSet::new();
    let possible = combinations(subjects, size);
    let wanted = count.min(possible);
    while groups.len() < wanted {
        groups.insert(draw(&mut all, size, &mut random));
    }
    groups.into_iter().collect()
}

fn draw(all: &mut [usize], size: usize, random: &mut impl Rng) -> ProgramGroup {
    let (drawn, _) = all.partial_shuffle(random, size);
    let mut group = drawn.to_vec();
    group.sort_unstable();
    group
}

/// n over k, or as much as a number holds.
fn combinations(n: usize, k: usize) -> usize {
    (0..k.min(n - k)).fold(1usize, |all, step| all.saturating_mul(n - step) / (step + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_different_and_all_that_there_are_at_most() {
        assert_eq!(random_groups(3, 2, 10, 1), [vec![0, 1], vec![0, 2], vec![1, 2]]);
        assert_eq!(random_groups(4, 3, 10, 1).len(), 4);
        let many = random_groups(40, 2, 30, 7);
        assert_eq!(many.len(), 30);
        assert_eq!(many, random_groups(40, 2, 30, 7));
        assert_ne!(many, random_groups(40, 2, 30, 8));
        assert!(many.iter().all(|group| group[0] < group[1] && group[1] < 40));
        assert!(random_groups(1, 2, 3, 1).is_empty() && random_groups(5, 1, 3, 1).is_empty());
    }

    #[test]
    fn every_round_has_each_turn_once_in_an_order_of_its_own() {
        let plan = RoundPlan { rounds: 2, groups: vec![vec![0, 1]], seed: 3 };
        let place = |turn: &Turn| match turn {
            Turn::Solo(at) => *at,
            Turn::Group(at) => 100 + at,
        };
        let sorted = |round| {
            let mut places: Vec<usize> = plan.turns(round, 8).iter().map(place).collect();
            places.sort_unstable();
            places
        };
        assert_eq!(sorted(0), [0, 1, 2, 3, 4, 5, 6, 7, 100]);
        assert_eq!(sorted(0), sorted(1));
        assert_ne!(plan.turns(0, 8), plan.turns(1, 8));
    }
}
