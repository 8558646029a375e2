//! The containers of a machine that threads are spread over.

use corun_machine::{CpuId, CpuSet, Machine, ObjectIndex, ObjectType};

/// The machine's tree, cut down to the CPUs that may be used and to the containers that branch: a
/// container with one child is the same entity as that child (as Blagodurov et al. 2010, section
/// 4.1, count private caches to their core). Parents come before children.
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// The CPUs in tree order; a leaf is a place in this list.
    pub(super) cpus: Vec<CpuId>,
    /// The leaf of each CPU by its number.
    leaves: Vec<Option<usize>>,
    /// For each leaf its node.
    pub(super) leaf_nodes: Vec<usize>,
    /// For each leaf the index of its LLC.
    llcs: Vec<usize>,
    /// How many levels there are; the root is level 0.
    pub(super) levels: usize,
}

/// An entity of the tree.
pub(super) struct Node {
    pub(super) parent: Option<usize>,
    /// Its place among its parent's children.
    pub(super) position: usize,
    pub(super) children: Vec<usize>,
    /// Its depth in the machine's tree: entities of one depth form a level.
    pub(super) level: usize,
    /// Cores below it, at least 1: what its thread count is measured against.
    pub(super) cores: usize,
    /// Its leaves are contiguous: the first one and how many.
    pub(super) first_leaf: usize,
    pub(super) leaf_count: usize,
    /// Nodes of one shape are identical: the same kinds, caches and core types all the way down.
    pub(super) shape: usize,
}

/// What makes containers identical, of one object: kind, cache level and size, core type.
type Traits = (ObjectType, Option<(u32, u64)>, Option<usize>);

struct Builder<'a> {
    machine: &'a Machine,
    usable: &'a CpuSet,
    tree: Tree,
    shapes: Vec<(Vec<Traits>, Vec<usize>)>,
}

impl Tree {
    pub(super) fn new(machine: &Machine, usable: &CpuSet) -> Self {
        let tree = Tree {
            nodes: Vec::new(),
            cpus: Vec::new(),
            leaves: Vec::new(),
            leaf_nodes: Vec::new(),
            llcs: Vec::new(),
            levels: 1,
        };
        let mut builder = Builder { machine, usable, tree, shapes: Vec::new() };
        if !usable.is_empty() {
            builder.add(0, 0, None);
        }
        builder.tree
    }

    /// The leaf of a CPU.
    pub(super) fn leaf(&self, cpu: CpuId) -> Option<usize> {
        self.leaves.get(cpu.0 as usize).copied().flatten()
    }

    /// The leaves of those CPUs of the set that are in the tree, ascending.
    pub(super) fn leaves_of(&self, cpus: &CpuSet) -> Vec<usize> {
        (0..self.cpus.len()).filter(|&leaf| cpus.contains(self.cpus[leaf])).collect()
    }

    /// Index of a leaf's LLC in [`Machine::llcs`].
    pub(super) fn llc(&self, leaf: usize) -> usize {
        self.llcs[leaf]
    }

    /// The node of a leaf and all above it, root last.
    pub(super) fn upwards(&self, leaf: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(self.leaf_nodes[leaf]), |&node| self.nodes[node].parent)
    }
}

impl Builder<'_> {
    fn usable_children(&self, object: ObjectIndex) -> Vec<ObjectIndex> {
        let objects = self.machine.objects();
        let used = |&child: &ObjectIndex| !objects[child].cpus.is_disjoint(self.usable);
        objects[object].children.iter().copied().filter(used).collect()
    }

    fn traits(&self, object: ObjectIndex) -> Traits {
        let object = &self.machine.objects()[object];
        let cache = object.cache.map(|cache| (cache.level, cache.size_bytes));
        (object.kind, cache, object.core_type)
    }

    /// Adds an object with all below it; `depth` is the object's own.
    fn add(&mut self, object: ObjectIndex, depth: usize, parent: Option<(usize, usize)>) -> usize {
        let index = self.tree.nodes.len();
        self.tree.levels = self.tree.levels.max(depth + 1);
        self.tree.nodes.push(Node {
            parent: parent.map(|(node, _)| node),
            position: parent.map_or(0, |(_, position)| position),
            children: Vec::new(),
            level: depth,
            cores: 0,
            first_leaf: self.tree.cpus.len(),
            leaf_count: 0,
            shape: 0,
        });
        let (mut bottom, mut bottom_depth) = (object, depth);
        let mut traits = vec![self.traits(bottom)];
        let mut below = self.usable_children(bottom);
        while let [only] = below[..] {
            (bottom, bottom_depth) = (only, bottom_depth + 1);
            traits.push(self.traits(bottom));
            below = self.usable_children(bottom);
        }
        if below.is_empty() {
            self.add_leaf(index, bottom);
        }
        for (position, child) in below.into_iter().enumerate() {
            let child = self.add(child, bottom_depth + 1, Some((index, position)));
            self.tree.nodes[index].children.push(child);
        }
        self.close(index, traits);
        index
    }

    fn add_leaf(&mut self, node: usize, object: ObjectIndex) {
        let first = self.machine.objects()[object].cpus.first();
        let cpu = first.and_then(|id| self.machine.cpu_index(id)).map(|i| self.machine.cpus()[i]);
        if let Some(cpu) = cpu {
            let number = cpu.id.0 as usize;
            self.tree.leaves.resize(self.tree.leaves.len().max(number + 1), None);
            self.tree.leaves[number] = Some(self.tree.cpus.len());
            self.tree.cpus.push(cpu.id);
            self.tree.llcs.push(cpu.llc);
            self.tree.leaf_nodes.push(node);
        }
    }

    /// Fills in what follows from the children.
    fn close(&mut self, index: usize, traits: Vec<Traits>) {
        let children = &self.tree.nodes[index].children;
        let is_core = traits.iter().any(|one| one.0 == ObjectType::Core);
        let cores: usize = children.iter().map(|&child| self.tree.nodes[child].cores).sum();
        let shapes = children.iter().map(|&child| self.tree.nodes[child].shape).collect();
        let key = (traits, shapes);
        let known = self.shapes.iter().position(|shape| *shape == key);
        let shape = known.unwrap_or(self.shapes.len());
        if known.is_none() {
            self.shapes.push(key);
        }
        let leaves = self.tree.cpus.len();
        let node = &mut self.tree.nodes[index];
        node.cores = if is_core { 1 } else { cores.max(1) };
        node.leaf_count = leaves - node.first_leaf;
        node.shape = shape;
    }
}
