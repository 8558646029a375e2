//! The machine: a checked tree of objects, and what follows from it (who shares what, and the way
//! from a CPU to memory).

use std::sync::Arc;

use crate::measured::AccessRates;
use crate::spec::{
    BandwidthDomain, CacheType, Calibration, CoreType, Inclusion, MachineSpec, ObjectType,
    PowerModel,
};
use crate::{CpuId, CpuSet, SpecError};

/// Index of an object in [`Machine::objects`]. The root is 0; parents come before children.
pub type ObjectIndex = usize;

/// A cache's geometry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cache {
    /// Level, 1 nearest to the core.
    pub level: u32,
    /// What it holds.
    pub holds: CacheType,
    /// Capacity in bytes.
    pub size_bytes: u64,
    /// Associativity, where known.
    pub ways: Option<u32>,
    /// The fewest ways that a partition of it may have; 1 where the machine does not say.
    pub min_partition_ways: u32,
    /// Does the machine say that the hardware can divide it among programs (it gives `min_partition_ways`)?
    pub can_be_partitioned: bool,
    /// Bytes a line, where known.
    pub line_bytes: Option<u32>,
    /// Relation to the nearer caches.
    pub inclusion: Inclusion,
    /// Load-to-use latency of a hit in ns, where known.
    pub latency_ns: Option<f64>,
    /// Bytes of it that a program alone gets, where that was measured.
    pub effective_bytes: Option<u64>,
    /// How long a line of a stream stays, as a share of the time that a line stays which was used again: 1 (LRU)
    /// where that was not measured.
    pub single_use_life: f64,
    /// The same of a line that was used once, at random, where that was measured.
    pub random_use_life: Option<f64>,
    /// Bytes of the pages that lie in its sets at random; none where programs fill all sets alike.
    pub random_page_bytes: Option<u64>,
    /// What one core alone reaches out of it, where that was measured.
    pub rates: Option<AccessRates>,
}

/// An object of the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// What it is.
    pub kind: ObjectType,
    /// The operating system's number, where it has one.
    pub os_index: Option<u32>,
    /// The object that contains it; none for the root.
    pub parent: Option<ObjectIndex>,
    /// The objects that it contains.
    pub children: Vec<ObjectIndex>,
    /// The CPUs below it.
    pub cpus: CpuSet,
    /// Of a cache: its geometry.
    pub cache: Option<Cache>,
    /// Of a cache: the share of its lines that are still there after so many ms in which nobody on this
    /// machine used them; empty where nobody else shares it.
    pub idle_survival: Vec<(f64, f64)>,
    /// Of a core: index in [`Machine::core_types`].
    pub core_type: Option<usize>,
    /// Of a NUMA node: its memory in MiB, where known.
    pub memory_mib: Option<u64>,
}

/// A CPU (hardware thread) and where it sits. All indices are into the machine's own lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// The operating system's number.
    pub id: CpuId,
    /// Index in [`Machine::cores`].
    pub core: usize,
    /// Index in [`Machine::llcs`].
    pub llc: usize,
    /// Index in [`Machine::nodes`].
    pub node: usize,
    /// Index in [`Machine::packages`].
    pub package: usize,
    /// Index in [`Machine::core_types`].
    pub core_type: usize,
}

/// A core.
#[derive(Debug, Clone, PartialEq)]
pub struct Core {
    /// Its object in the tree.
    pub object: ObjectIndex,
    /// Its hardware threads.
    pub cpus: CpuSet,
    /// Index in [`Machine::core_types`].
    pub core_type: usize,
}

/// A last-level-cache domain: the CPUs whose last cache before memory is the same one.
#[derive(Debug, Clone, PartialEq)]
pub struct Llc {
    /// Its cache object; none where the machine does not say and a package stands in.
    pub object: Option<ObjectIndex>,
    /// Its geometry; none where the machine does not say.
    pub cache: Option<Cache>,
    /// The CPUs that share it.
    pub cpus: CpuSet,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The operating system's number.
    pub os_index: u32,
    /// Its CPUs; none for a memory-only node.
    pub cpus: CpuSet,
    /// Its memory in MiB, where known.
    pub memory_mib: Option<u64>,
}

/// A physical package.
#[derive(Debug, Clone, PartialEq)]
pub struct Package {
    /// The operating system's number.
    pub os_index: u32,
    /// Its CPUs.
    pub cpus: CpuSet,
}

/// A machine: built by [`Machine::from_spec`], never changed after.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    spec: MachineSpec,
    pub(crate) objects: Arc<[Object]>,
    pub(crate) cpus: Arc<[Cpu]>,
    pub(crate) cores: Vec<Core>,
    pub(crate) llcs: Vec<Llc>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) packages: Vec<Package>,
    pub(crate) warnings: Vec<String>,
}

/// A machine's tree and CPUs, kept to see later whether a machine has the same.
#[derive(Debug, Clone)]
pub struct Topology {
    objects: Arc<[Object]>,
    cpus: Arc<[Cpu]>,
}

impl Topology {
    /// Are these the tree and the CPUs of this machine? Of the same machine, and of its clones, that is known without
    /// a look at either.
    #[inline]
    pub fn is_of(&self, machine: &Machine) -> bool {
        let shared =
            Arc::ptr_eq(&self.objects, &machine.objects) && Arc::ptr_eq(&self.cpus, &machine.cpus);
        shared || (self.cpus == machine.cpus && self.objects == machine.objects)
    }
}

impl Machine {
    /// The tree and the CPUs, to be kept.
    #[inline]
    pub fn topology(&self) -> Topology {
        Topology { objects: Arc::clone(&self.objects), cpus: Arc::clone(&self.cpus) }
    }

    /// The name by which the machine is asked for.
    #[inline]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// One line for people.
    #[inline]
    pub fn title(&self) -> &str {
        &self.spec.title
    }

    /// What the machine was built from; writing it out gives a machine file.
    #[inline]
    pub fn spec(&self) -> &MachineSpec {
        &self.spec
    }

    /// The tree, parents before children; the root is the first.
    #[inline]
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The on-line CPUs by ascending number. "CPU index" elsewhere means a place in this list.
    #[inline]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The place of a CPU in [`Machine::cpus`].
    #[inline]
    pub fn cpu_index(&self, id: CpuId) -> Option<usize> {
        // On most machines all numbers are there.
        let dense = id.0 as usize;
        if self.cpus.get(dense).is_some_and(|cpu| cpu.id == id) {
            return Some(dense);
        }
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()
    }

    /// The set of all on-line CPUs.
    #[inline]
    pub fn cpu_set(&self) -> CpuSet {
        self.objects[0].cpus.clone()
    }

    /// The cores in tree order.
    #[inline]
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The LLC domains in tree order.
    #[inline]
    pub fn llcs(&self) -> &[Llc] {
        &self.llcs
    }

    /// The NUMA nodes by ascending number; a machine without any has one with all CPUs.
    #[inline]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The packages in tree order.
    #[inline]
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The kinds of core.
    #[inline]
    pub fn core_types(&self) -> &[CoreType] {
        &self.spec.core_types
    }

    /// The index of the fastest kind of core, the first of equals: capacities are relative to it.
    pub fn fastest_core_type(&self) -> usize {
        let mut fastest = 0;
        for (index, one) in self.core_types().iter().enumerate() {
            if one.capacity > self.core_types()[fastest].capacity {
                fastest = index;
            }
        }
        fastest
    }

    /// The bandwidth domains, in the order of the file.
    #[inline]
    pub fn bandwidth_domains(&self) -> &[BandwidthDomain] {
        &self.spec.bandwidth_domains
    }

    /// The bandwidth domains that a flow from a CPU to a node's memory passes, nearest to the
    /// core first, as indices in [`Machine::bandwidth_domains`]. `cpu` is a CPU index, `node` a
    /// node index.
    #[inline]
    pub fn memory_path(&self, cpu: usize, node: usize) -> Vec<usize> {
        let domains = self.bandwidth_domains();
        let passes = |domain: &BandwidthDomain| {
            let at = &self.cpus[cpu];
            let from = domain.from_cpus.as_ref().is_none_or(|cpus| cpus.contains(at.id));
            let to = self.nodes[node].os_index;
            let reaches = domain.to_nodes.as_ref().is_none_or(|nodes| nodes.contains(&to));
            from && reaches && !(domain.remote_only && at.node == node)
        };
        let mut path: Vec<usize> = (0..domains.len()).filter(|&i| passes(&domains[i])).collect();
        path.sort_by_key(|&i| (domains[i].stage, i));
        path
    }

    /// Memory latency in ns from a CPU's node to another (node indices), where known.
    #[inline]
    pub fn memory_latency_ns(&self, from_node: usize, to_node: usize) -> Option<f64> {
        self.spec.memory_latency_ns.get(from_node)?.get(to_node).copied()
    }

    /// How much longer a node's memory takes from another node, relative to local (1.0): from
    /// latencies where they are known, else from the kernel's distances, else 1.
    #[inline]
    pub fn latency_ratio(&self, from_node: usize, to_node: usize) -> f64 {
        let ratio = |to: Option<f64>, local: Option<f64>| Some(to? / local?);
        let distance = |to: usize| {
            self.spec.node_distance.get(from_node)?.get(to).map(|&distance| f64::from(distance))
        };
        ratio(
            self.memory_latency_ns(from_node, to_node),
            self.memory_latency_ns(from_node, from_node),
        )
        .or_else(|| ratio(distance(to_node), distance(from_node)))
        .unwrap_or(1.0)
    }

    /// The private cache in front of the LLC that a CPU sees: the largest unified or data cache on
    /// its way to memory that is not its LLC, where there is one.
    pub fn private_cache(&self, cpu: usize) -> Option<&Cache> {
        let llc = self.llcs[self.cpus[cpu].llc].object;
        let mut found: Option<&Cache> = None;
        for index in self.data_caches(self.cores[self.cpus[cpu].core].object) {
            let Some(cache) = &self.objects[index].cache else { continue };
            let larger = found.is_none_or(|largest| cache.size_bytes > largest.size_bytes);
            if Some(index) != llc && larger {
                found = Some(cache);
            }
        }
        found
    }

    /// The unified and data caches that a core sees: those written inside it, then those around
    /// it, from the core outwards.
    pub(crate) fn data_caches(&self, core: ObjectIndex) -> Vec<ObjectIndex> {
        let mut caches = Vec::new();
        let mut inside = self.objects[core].children.clone();
        while let Some(index) = inside.pop() {
            caches.push(index);
            inside.extend(&self.objects[index].children);
        }
        let mut at = self.objects[core].parent;
        while let Some(index) = at {
            caches.push(index);
            at = self.objects[index].parent;
        }
        let holds_data = |cache: &Cache| cache.holds != CacheType::Instruction;
        caches.retain(|&index| self.objects[index].cache.as_ref().is_some_and(holds_data));
        caches
    }

    /// Power figures, where known.
    #[inline]
    pub fn power(&self) -> Option<&PowerModel> {
        self.spec.power.as_ref()
    }

    /// What policies go by that is known of this very machine.
    pub fn calibration(&self) -> Calibration {
        self.spec.calibration.unwrap_or_default()
    }

    /// What had to be assumed while the machine was read, for people.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(crate) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Checks a machine file's content and builds the machine.
    ///
    /// # Errors
    /// [`SpecError`] names the first field that contradicts the schema or the rest of the tree.
    pub fn from_spec(spec: MachineSpec) -> Result<Self, SpecError> {
        crate::check::before(&spec)?;
        let objects = crate::build::objects(&spec)?;
        let machine = crate::derive::machine(spec, objects)?;
        crate::check::after(&machine)?;
        Ok(machine)
    }

    pub(crate) fn new(spec: MachineSpec, objects: Vec<Object>) -> Self {
        Self {
            spec,
            objects: objects.into(),
            cpus: Arc::default(),
            cores: Vec::new(),
            llcs: Vec::new(),
            nodes: Vec::new(),
            packages: Vec::new(),
            warnings: Vec::new(),
        }
    }
}
