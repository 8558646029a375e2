//! What is asked for: programs with their sizes and constraints.

/// A kind of program that asks for room on a node, as often as it comes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Workload {
    /// The name shown.
    pub name: String,
    /// Which program of the fleet's list.
    pub program: usize,
    /// CPUs, each with a thread of the program.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// So many of this workload on a node at most; none: as many as fit.
    pub most_per_node: Option<u32>,
    /// Workloads that must not run on the same node.
    pub never_beside: Vec<usize>,
    /// None of its threads may be predicted to be slower; none: no such bound.
    pub slowdown_bound: Option<f64>,
}
