//! Algorithms 1 and 2 of Blagodurov et al., TOCS 2010, section 4.1.

use std::cmp::Ordering;

use super::Item;
use super::tree::{Node, Tree};

/// Takes the items in their order and gives each a leaf: at each level the first child, in the
/// level's browsing order, with the fewest threads; the order of a level is reversed whenever all
/// its entities have the same number.
///
/// A thread that is to be apart goes where its LLC has the fewest others such (algorithm 4 of section 6, line 5); two on one
/// CPU are worse.
///
/// Where the paper is silent: counts are compared per core, so that an entity of more cores gets
/// more threads (on the paper's machines all entities of a level have the same number of cores);
/// and a child that leads to an emptier CPU goes first, which matters only where threads are bound
/// to CPUs or entities are unequal.
pub(super) fn distribute(tree: &Tree, items: &[Item]) -> Vec<usize> {
    let mut state = Filling::new(tree);
    items.iter().map(|item| state.place(item)).collect()
}

/// Items with a place keep it; the others are placed as [`distribute`] does, on top of those.
pub(super) fn fill(tree: &Tree, items: &[Item]) -> Vec<usize> {
    let mut state = Filling::new(tree);
    let kept: Vec<Option<usize>> =
        items.iter().map(|item| item.at.filter(|&leaf| item.may_use(leaf))).collect();
    for (item, leaf) in items.iter().zip(&kept) {
        if let Some(leaf) = *leaf {
            state.put(leaf, item.apart);
        }
    }
    items.iter().zip(kept).map(|(item, kept)| kept.unwrap_or_else(|| state.place(item))).collect()
}

struct Filling<'a> {
    tree: &'a Tree,
    /// For each node the threads below it.
    threads: Vec<usize>,
    /// For each node the threads on the emptiest CPU below it.
    least: Vec<usize>,
    /// For each LLC the threads on it that are to be apart.
    apart: Vec<usize>,
    levels: Vec<Level>,
}

#[derive(Clone, Default)]
struct Level {
    /// Browse from the last entity to the first?
    reversed: bool,
    /// Cores and threads of all entities of the level together.
    cores: usize,
    threads: usize,
    /// Threads and cores of the fullest entity.
    fullest: (usize, usize),
}

impl<'a> Filling<'a> {
    fn new(tree: &'a Tree) -> Self {
        let mut levels = vec![Level { fullest: (0, 1), ..Level::default() }; tree.levels];
        for node in &tree.nodes {
            levels[node.level].cores += node.cores;
        }
        let nodes = tree.nodes.len();
        let llcs = (0..tree.cpus.len()).map(|leaf| tree.llc(leaf) + 1).max().unwrap_or(0);
        Self { tree, threads: vec![0; nodes], least: vec![0; nodes], apart: vec![0; llcs], levels }
    }

    /// Finds a leaf for a thread and puts it there.
    fn place(&mut self, item: &Item) -> usize {
        let own = (item.apart || item.leaves.is_some()).then(|| self.least_for(item));
        let least = |node: usize| own.as_ref().map_or((self.least[node], 0), |own| own[node]);
        let mut at = 0;
        while !self.tree.nodes[at].children.is_empty() {
            at = self.emptiest(&self.tree.nodes[at].children, least);
        }
        let leaf = self.tree.nodes[at].first_leaf;
        self.put(leaf, item.apart);
        leaf
    }

    /// [`Filling::least`] as a thread sees it: of the leaves that it may use, and with those on the leaf's LLC that it is to
    /// be apart from.
    fn least_for(&self, item: &Item) -> Vec<(usize, usize)> {
        let mut least = vec![(usize::MAX, 0); self.tree.nodes.len()];
        let see = |leaf: usize| {
            let others = if item.apart { self.apart[self.tree.llc(leaf)] } else { 0 };
            let here = (self.threads[self.tree.leaf_nodes[leaf]], others);
            for node in self.tree.upwards(leaf) {
                least[node] = least[node].min(here);
            }
        };
        match &item.leaves {
            Some(leaves) => leaves.iter().copied().for_each(see),
            None => (0..self.tree.cpus.len()).for_each(see),
        }
        least
    }

    fn emptiest(&self, children: &[usize], least: impl Fn(usize) -> (usize, usize)) -> usize {
        let emptier = |&one: &usize, &other: &usize| {
            let per_core = |node: usize| (self.threads[node], self.tree.nodes[node].cores);
            least(one).cmp(&least(other)).then(compare_shares(per_core(one), per_core(other)))
        };
        // Of equal minima the first one browsed is taken.
        let found = if self.levels[self.tree.nodes[children[0]].level].reversed {
            children.iter().rev().copied().min_by(emptier)
        } else {
            children.iter().copied().min_by(emptier)
        };
        found.unwrap_or(children[0])
    }

    fn put(&mut self, leaf: usize, apart: bool) {
        self.apart[self.tree.llc(leaf)] += usize::from(apart);
        for node in self.tree.upwards(leaf) {
            self.threads[node] += 1;
            let Node { level, cores, children, .. } = &self.tree.nodes[node];
            self.least[node] =
                children.iter().map(|&child| self.least[child]).min().unwrap_or(self.threads[node]);
            let level = &mut self.levels[*level];
            level.threads += 1;
            let share = (self.threads[node], *cores);
            if compare_shares(share, level.fullest) == Ordering::Greater {
                level.fullest = share;
            }
            // All are as full as the fullest.
            if level.fullest.0 * level.cores == level.threads * level.fullest.1 {
                level.reversed = !level.reversed;
            }
        }
    }
}

/// Compares threads per core of two entities, each given as (threads, cores).
fn compare_shares(one: (usize, usize), other: (usize, usize)) -> Ordering {
    (one.0 * other.1).cmp(&(other.0 * one.1))
}
