//! What is kept from one decision to the next.

use std::sync::Arc;

use corun_machine::{CpuSet, Machine, Topology};

use super::tree::Tree;
use super::{Item, Places};

/// What a policy works out once and keeps while it stays true: the tree of the machine, and where
/// the sort puts threads in this order that are in these places. From one interval to the next
/// both are mostly the same. Decisions are the same without.
#[derive(Default)]
pub(crate) struct Memory {
    tree: Option<KnownTree>,
    sorted: Option<(Vec<Item>, Places)>,
    /// The threads of the view in the order of the last sort, where it had all of them.
    order: Vec<usize>,
}

/// A tree and all that it depends on.
struct KnownTree {
    topology: Topology,
    usable: CpuSet,
    tree: Arc<Tree>,
    /// The leaves of sets of CPUs that were asked for. Threads of one node have the same set.
    leaves: Vec<(CpuSet, Arc<[usize]>)>,
}

/// Sets of CPUs whose leaves are kept. Threads that all have sets of their own cost no more than to find them out.
const KEPT_SETS: usize = 16;

impl Memory {
    /// The tree of the machine's usable CPUs.
    pub(super) fn tree(&mut self, machine: &Machine, usable: &CpuSet) -> Arc<Tree> {
        if let Some(known) = &self.tree
            && known.usable == *usable
            && known.topology.is_of(machine)
        {
            return Arc::clone(&known.tree);
        }
        let tree = Arc::new(Tree::new(machine, usable));
        self.sorted = None;
        self.tree = Some(KnownTree {
            topology: machine.topology(),
            usable: usable.clone(),
            tree: Arc::clone(&tree),
            leaves: Vec::new(),
        });
        tree
    }

    /// The leaves of those CPUs of the set that are in the tree that was asked for last, ascending.
    pub(super) fn leaves_of(&mut self, cpus: &CpuSet) -> Arc<[usize]> {
        let Some(known) = &mut self.tree else { return Arc::default() };
        if let Some((_, leaves)) = known.leaves.iter().find(|(set, _)| set == cpus) {
            return Arc::clone(leaves);
        }
        if known.leaves.len() == KEPT_SETS {
            known.leaves.clear();
        }
        let leaves: Arc<[usize]> = known.tree.leaves_of(cpus).into();
        known.leaves.push((cpus.clone(), Arc::clone(&leaves)));
        leaves
    }

    /// So many threads, in the order of the last sort if it had as many: mostly they are sorted already.
    pub(super) fn order(&mut self, threads: usize) -> Vec<usize> {
        let mut order = std::mem::take(&mut self.order);
        if order.len() != threads {
            order.clear();
            order.extend(0..threads);
        }
        order
    }

    /// Notes the order of a sort of so many threads, in the room of the last one.
    pub(super) fn note_order(&mut self, mut room: Vec<usize>, items: &[Item]) {
        let threads = room.len();
        room.clear();
        if items.len() == threads {
            room.extend(items.iter().map(|item| item.thread));
        }
        self.order = room;
    }

    /// The places of items that agree with these in all that places depend on, if the last sort
    /// was of such; else `sort`'s, which are kept. For the tree that was asked for last.
    pub(super) fn sorted(&mut self, items: &[Item], sort: impl FnOnce() -> Places) -> Places {
        let known = self.sorted.as_ref().filter(|(known, _)| {
            known.len() == items.len() && known.iter().zip(items).all(|(a, b)| a.sorts_as(b))
        });
        if let Some((_, places)) = known {
            return places.clone();
        }
        let places = sort();
        self.sorted = Some((items.to_vec(), places.clone()));
        places
    }
}
