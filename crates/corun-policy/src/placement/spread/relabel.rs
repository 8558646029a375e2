//! Exchanging identical containers and CPUs, so that few threads move.
//!
//! The sort names containers in an arbitrary order: which of two identical packages gets the
//! heaviest thread makes no difference. The paper is silent; taken literally, two threads of
//! nearly equal miss rate that change ranks would send half of the machine to other CPUs.

use std::collections::BTreeMap;

use super::tree::Tree;
use super::{Item, matching};

/// Leaves for the items, equal to `target` up to exchanges of identical siblings and of items of
/// one class, with the most items where they are now. With nobody anywhere, `target` itself.
pub(super) fn keep_in_place(tree: &Tree, items: &[Item], target: &[usize]) -> Vec<usize> {
    if tree.nodes.is_empty() {
        return Vec::new();
    }
    let mut relabel = Relabel::new(tree, items, target);
    relabel.weigh(0, 0);
    let mut onto = vec![0; tree.cpus.len()];
    relabel.trace(0, 0, &mut onto);
    let leaves: Vec<usize> = target.iter().map(|&leaf| onto[leaf]).collect();
    exchange_within_classes(items, &leaves)
}

/// A target node laid onto a node of the same shape.
type Pair = (usize, usize);

struct Relabel<'a> {
    tree: &'a Tree,
    /// What is gained by laying one leaf onto another; pairs that are absent gain nothing.
    /// Sorted by pair.
    leaf_weights: Vec<(Pair, i64)>,
    /// Pairs of nodes below which some pair of leaves has a weight, as (parents, positions among
    /// their children), sorted.
    touched: Vec<(Pair, Pair)>,
    /// For a touched pair which child is laid onto which.
    chosen: BTreeMap<Pair, Vec<usize>>,
}

/// No exchange is worth what it costs to put a thread where it may not run.
const FORBIDDEN: i64 = -(1 << 40);

impl<'a> Relabel<'a> {
    fn new(tree: &'a Tree, items: &[Item], target: &[usize]) -> Self {
        let leaf_weights = leaf_weights(tree, items, target);
        let mut touched = Vec::new();
        let node = |leaf: usize| tree.leaf_nodes[leaf];
        for &((one, other), _) in &leaf_weights {
            let mut pair = (node(one), node(other));
            while let (Some(a), Some(b)) = (tree.nodes[pair.0].parent, tree.nodes[pair.1].parent) {
                let positions = (tree.nodes[pair.0].position, tree.nodes[pair.1].position);
                touched.push(((a, b), positions));
                pair = (a, b);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        Self { tree, leaf_weights, touched, chosen: BTreeMap::new() }
    }

    fn touched(&self, pair: Pair) -> std::ops::Range<usize> {
        let from = self.touched.partition_point(|&(parents, _)| parents < pair);
        let to = self.touched.partition_point(|&(parents, _)| parents <= pair);
        from..to
    }

    /// The weight of a pair below which nothing gains: that of staying what it is, which decides
    /// between equals.
    fn untouched(&self, (one, other): Pair) -> i64 {
        if one == other { self.tree.nodes[one].leaf_count as i64 } else { 0 }
    }

    /// The best that can be had of laying `one` onto `other`; remembers how.
    fn weigh(&mut self, one: usize, other: usize) -> i64 {
        let nodes = &self.tree.nodes;
        if nodes[one].shape != nodes[other].shape {
            return FORBIDDEN;
        }
        let children = (&nodes[one].children, &nodes[other].children);
        let size = children.0.len();
        if size == 0 {
            let leaves = (nodes[one].first_leaf, nodes[other].first_leaf);
            let found = self.leaf_weights.binary_search_by_key(&leaves, |entry| entry.0);
            let gain = found.map_or(0, |index| self.leaf_weights[index].1);
            return gain + self.untouched((one, other));
        }
        let touched = self.touched((one, other));
        if touched.is_empty() {
            return self.untouched((one, other));
        }
        let mut weights = Vec::with_capacity(size * size);
        for &a in children.0 {
            for &b in children.1 {
                let same = nodes[a].shape == nodes[b].shape;
                weights.push(if same { self.untouched((a, b)) } else { FORBIDDEN });
            }
        }
        for index in touched {
            let (_, (a, b)) = self.touched[index];
            weights[a * size + b] = self.weigh(children.0[a], children.1[b]);
        }
        let columns = matching::heaviest(&weights, size);
        let sum = columns.iter().enumerate().map(|(row, &column)| weights[row * size + column]);
        let sum: i64 = sum.sum();
        self.chosen.insert((one, other), columns);
        sum.max(FORBIDDEN)
    }

    /// Writes for each leaf below `one` the leaf below `other` that it is laid onto.
    fn trace(&self, one: usize, other: usize, onto: &mut [usize]) {
        let (one_node, other_node) = (&self.tree.nodes[one], &self.tree.nodes[other]);
        let Some(columns) = self.chosen.get(&(one, other)) else {
            for offset in 0..one_node.leaf_count {
                onto[one_node.first_leaf + offset] = other_node.first_leaf + offset;
            }
            return;
        };
        for (row, &column) in columns.iter().enumerate() {
            self.trace(one_node.children[row], other_node.children[column], onto);
        }
    }
}

/// Items of one class on one leaf, and how many.
type Group = ((usize, usize), i64);

/// How many items of each class are on each leaf, sorted. Sorted lists, because they are built
/// once and then only read.
fn count_by_class_and_leaf(places: impl Iterator<Item = (usize, usize)>) -> Vec<Group> {
    sum_by_key(places.map(|place| (place, 1)).collect())
}

fn sum_by_key(mut entries: Vec<((usize, usize), i64)>) -> Vec<((usize, usize), i64)> {
    entries.sort_unstable_by_key(|entry| entry.0);
    entries.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    entries
}

/// For a pair of leaves how many items stay when the one, as targeted, is laid onto the other, as
/// it is now, in units that outweigh every preference between equals. Sorted by pair.
fn leaf_weights(tree: &Tree, items: &[Item], target: &[usize]) -> Vec<(Pair, i64)> {
    let unit = tree.cpus.len() as i64 + 1;
    let targets =
        count_by_class_and_leaf(items.iter().zip(target).map(|(item, &leaf)| (item.class, leaf)));
    let now = count_by_class_and_leaf(
        items.iter().filter_map(|item| item.at.map(|leaf| (item.class, leaf))),
    );
    let mut weights = Vec::with_capacity(items.len());
    for &((class, leaf), wanted) in &targets {
        let from = now.partition_point(|&((one, _), _)| one < class);
        for &((_, at), there) in now[from..].iter().take_while(|group| group.0.0 == class) {
            weights.push(((leaf, at), unit * wanted.min(there)));
        }
    }
    let bound = items.iter().zip(target).filter(|(item, _)| item.leaves.is_some());
    for (item, &leaf) in bound {
        let barred = (0..tree.cpus.len()).filter(|&other| !item.may_use(other));
        weights.extend(barred.map(|other| ((leaf, other), FORBIDDEN)));
    }
    sum_by_key(weights)
}

/// Gives the leaves of each class to its items anew: first to those that are there already, then
/// to those that had one anyway, then what is left.
fn exchange_within_classes(items: &[Item], leaves: &[usize]) -> Vec<usize> {
    let mut free =
        count_by_class_and_leaf(items.iter().zip(leaves).map(|(item, &leaf)| (item.class, leaf)));
    let mut take = |class: usize, leaf: Option<usize>| {
        let from = match leaf {
            Some(leaf) => free.partition_point(|group| group.0 < (class, leaf)),
            None => free.partition_point(|group| group.0.0 < class),
        };
        let wanted = |group: &&mut Group| group.0.0 == class && leaf.is_none_or(|l| l == group.0.1);
        let mut groups = free[from..].iter_mut().take_while(wanted);
        let group = groups.find(|group| group.1 > 0)?;
        group.1 -= 1;
        Some(group.0.1)
    };
    let mut places: Vec<Option<usize>> =
        items.iter().map(|item| item.at.and_then(|leaf| take(item.class, Some(leaf)))).collect();
    for ((item, place), &leaf) in items.iter().zip(&mut places).zip(leaves) {
        *place = place.or_else(|| take(item.class, Some(leaf)));
    }
    for (item, place) in items.iter().zip(&mut places) {
        *place = place.or_else(|| take(item.class, None));
    }
    places.into_iter().zip(leaves).map(|(place, &leaf)| place.unwrap_or(leaf)).collect()
}
