//! From sets of CPUs to a tree: what crosses something that counts for more is left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::spec::{CacheType, ObjectSpec, ObjectType};
use crate::{CpuId, CpuSet};

/// Disjoint sets of CPUs that others must not cut.
pub(super) struct Layer {
    of_cpu: BTreeMap<CpuId, usize>,
    sizes: Vec<usize>,
}

impl Layer {
    pub(super) fn new<'a>(sets: impl IntoIterator<Item = &'a CpuSet>) -> Self {
        let mut layer = Self { of_cpu: BTreeMap::new(), sizes: Vec::new() };
        for set in sets {
            layer.of_cpu.extend(set.iter().map(|cpu| (cpu, layer.sizes.len())));
            layer.sizes.push(set.len());
        }
        layer
    }

    /// Does the set cut none: is it inside one of the layer's sets, or does it hold whole ones?
    pub(super) fn fits(&self, set: &CpuSet) -> bool {
        self.inside(set) || self.whole_in(set)
    }

    /// Does the set hold each of the layer's sets whole or not at all?
    pub(super) fn whole_in(&self, set: &CpuSet) -> bool {
        let held: Vec<usize> =
            set.iter().filter_map(|cpu| self.of_cpu.get(&cpu).copied()).collect();
        let whole: BTreeSet<usize> = held.iter().copied().collect();
        whole.iter().map(|&place| self.sizes[place]).sum::<usize>() == held.len()
    }

    /// Is the set inside one of the layer's sets, or apart from all?
    pub(super) fn inside(&self, set: &CpuSet) -> bool {
        let mut places = set.iter().map(|cpu| self.of_cpu.get(&cpu));
        let first = places.next().flatten();
        places.all(|place| place == first)
    }
}

/// A piece of the tree: what it is and the CPUs below it.
pub(super) struct Piece {
    pub(super) cpus: CpuSet,
    pub(super) spec: ObjectSpec,
}

/// Of pieces with the same CPUs, who stands outside.
fn rank(spec: &ObjectSpec) -> (u8, std::cmp::Reverse<u32>, u8) {
    let kind = match spec.kind {
        ObjectType::Machine => 0,
        ObjectType::NumaNode => 1,
        ObjectType::Package => 2,
        ObjectType::Die => 3,
        ObjectType::Cluster => 4,
        ObjectType::Cache => 5,
        ObjectType::Core | ObjectType::Cpu => 6,
    };
    let holds = match spec.holds() {
        CacheType::Unified => 0,
        CacheType::Instruction => 1,
        CacheType::Data => 2,
    };
    (kind, std::cmp::Reverse(spec.level.unwrap_or(0)), holds)
}

/// The children of the machine. A piece that still crosses another is left out.
pub(super) fn nest(mut pieces: Vec<Piece>) -> Vec<ObjectSpec> {
    pieces.sort_by_cached_key(|piece| {
        (std::cmp::Reverse(piece.cpus.len()), piece.cpus.first(), rank(&piece.spec))
    });
    // By CPU the innermost piece so far.
    let mut around: BTreeMap<CpuId, usize> = BTreeMap::new();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); pieces.len()];
    let mut roots = Vec::new();
    for (index, piece) in pieces.iter().enumerate() {
        let mut outer = piece.cpus.iter().map(|cpu| around.get(&cpu).copied());
        let Some(parent) = outer.next() else { continue };
        if outer.any(|other| other != parent) {
            continue;
        }
        parent.map_or(&mut roots, |parent| &mut children[parent]).push(index);
        around.extend(piece.cpus.iter().map(|cpu| (cpu, index)));
    }
    // Children come after their parents, so that from the end all of a piece's own are complete.
    let mut done: Vec<Option<ObjectSpec>> = pieces.iter().map(|_| None).collect();
    let first: Vec<Option<CpuId>> = pieces.iter().map(|piece| piece.cpus.first()).collect();
    for (index, piece) in pieces.into_iter().enumerate().rev() {
        let mut spec = piece.spec;
        children[index].sort_by_key(|&child| first[child]);
        spec.objects = children[index].iter().filter_map(|&child| done[child].take()).collect();
        done[index] = Some(spec);
    }
    roots.sort_by_key(|&root| first[root]);
    roots.into_iter().filter_map(|root| done[root].take()).collect()
}
