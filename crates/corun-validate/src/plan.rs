//! Which programs run together, and in which order.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Subjects, by their indices, that run at the same time; one may stand in it more than once.
pub type ProgramGroup = Vec<usize>;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoundPlan {
    /// First rounds: in each everything runs once.
    pub rounds: usize,
    /// Further rounds, at most, of a group whose slowdown could become clear; fewer than `rounds`: nobody gets any.
    pub most_further: usize,
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
    /// The turns of a round in which these subjects run alone and these groups (indices) together. A group runs near
    /// its rarest member alone, the one that stands in the fewest groups, since the slowdown of that member is
    /// against that run and the machine's other users come and go. The order is otherwise each round's own, so that
    /// what changes slowly on the machine hits all alike.
    pub(crate) fn turns(&self, round: usize, subjects: &[usize], groups: &[usize]) -> Vec<Turn> {
        let mut stands_in: BTreeMap<usize, usize> = BTreeMap::new();
        for &member in groups.iter().flat_map(|&group| &self.groups[group]) {
            *stands_in.entry(member).or_default() += 1;
        }
        let mut blocks: BTreeMap<usize, Vec<Turn>> =
            subjects.iter().map(|&subject| (subject, vec![Turn::Solo(subject)])).collect();
        for &group in groups {
            let rarest = self.groups[group].iter().min_by_key(|member| stands_in[member]);
            if let Some(&rarest) = rarest {
                blocks.entry(rarest).or_default().push(Turn::Group(group));
            }
        }
        let mut random = Pcg64::seed_from_u64(self.seed.wrapping_add(round as u64));
        let mut blocks: Vec<Vec<Turn>> = blocks.into_values().collect();
        blocks.shuffle(&mut random);
        blocks.iter_mut().for_each(|block| block.shuffle(&mut random));
        blocks.concat()
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
        let plan = RoundPlan { rounds: 2, groups: vec![vec![0, 1]], seed: 3, ..Default::default() };
        let all: Vec<usize> = (0..8).collect();
        let turns = |round| plan.turns(round, &all, &[0]);
        let place = |turn: &Turn| match turn {
            Turn::Solo(at) => *at,
            Turn::Group(at) => 100 + at,
        };
        let sorted = |round| {
            let mut places: Vec<usize> = turns(round).iter().map(place).collect();
            places.sort_unstable();
            places
        };
        assert_eq!(sorted(0), [0, 1, 2, 3, 4, 5, 6, 7, 100]);
        assert_eq!(sorted(0), sorted(1));
        assert_ne!(turns(0), turns(1));
    }

    /// Beside subject 9, which stands in all groups, each other one runs right before or after it ran alone.
    #[test]
    fn a_group_runs_near_its_rarest_member() {
        let groups = (0..9).map(|one| vec![one, 9]).collect();
        let plan = RoundPlan { rounds: 1, groups, seed: 5, ..Default::default() };
        let all: Vec<usize> = (0..10).collect();
        // Without the groups of 0, 1 and 2.
        let turns = plan.turns(0, &all, &[3, 4, 5, 6, 7, 8]);
        assert_eq!(turns.len(), 16);
        for one in 3..9 {
            let place = |turn| turns.iter().position(|other| *other == turn).unwrap();
            assert_eq!(place(Turn::Solo(one)).abs_diff(place(Turn::Group(one))), 1, "{turns:?}");
        }
    }
}
