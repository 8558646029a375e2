//! The processors of a machine: cores that share a cache, and the node they are on.

use corun_machine::{CpuSet, Machine};

/// The paper's processor (section 2): the CPUs that share an LLC. Where an LLC reaches over several
/// nodes, those of one node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Processor {
    /// Index in [`Machine::llcs`].
    pub(super) llc: usize,
    /// Index in [`Machine::nodes`].
    pub(super) node: usize,
    /// Its cores that may be used, at least 1.
    pub(super) cores: usize,
    /// Its CPUs that may be used.
    pub(super) cpus: CpuSet,
}

/// All processors with a usable CPU, by their lowest CPU, and how far apart nodes are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Processors {
    pub(super) list: Vec<Processor>,
    /// Latency from a node (row) to the memory of another, relative to its own.
    distance: Vec<Vec<f64>>,
}

impl Processors {
    pub(super) fn new(machine: &Machine, usable: &CpuSet) -> Self {
        let mut list: Vec<Processor> = Vec::new();
        let mut cores: Vec<Vec<usize>> = Vec::new();
        for cpu in machine.cpus().iter().filter(|cpu| usable.contains(cpu.id)) {
            let known = list.iter().position(|one| (one.llc, one.node) == (cpu.llc, cpu.node));
            let place = known.unwrap_or(list.len());
            if known.is_none() {
                let (llc, node) = (cpu.llc, cpu.node);
                list.push(Processor { llc, node, cores: 0, cpus: CpuSet::new() });
                cores.push(Vec::new());
            }
            list[place].cpus.insert(cpu.id);
            if !cores[place].contains(&cpu.core) {
                cores[place].push(cpu.core);
                list[place].cores += 1;
            }
        }
        let nodes = 0..machine.nodes().len();
        let row = |from| nodes.clone().map(|to| machine.latency_ratio(from, to)).collect();
        Self { list, distance: nodes.clone().map(row).collect() }
    }

    /// How far a processor is from a process's home: 0 on it, and for a process without a home.
    pub(super) fn distance(&self, processor: usize, home: Option<usize>) -> f64 {
        let node = self.list[processor].node;
        home.filter(|&home| home != node).map_or(0.0, |home| self.distance[node][home])
    }

    /// The processors that a thread may use, ascending; none: all.
    pub(super) fn of(&self, may_run_on: &CpuSet) -> Option<Vec<usize>> {
        let everywhere = self.list.iter().all(|one| one.cpus.is_subset(may_run_on));
        let open = |&place: &usize| !self.list[place].cpus.is_disjoint(may_run_on);
        (!everywhere).then(|| (0..self.list.len()).filter(open).collect())
    }
}
