//! Threads stay on the NUMA node that they are on: their memory is there, because pages lie where they were
//! first touched. A thread that leaves it loads the controller that it loaded before, and the link as well
//! (Blagodurov, Zhuravlev, Dashti and Fedorova, USENIX ATC 2011).

use corun_machine::CpuSet;

use crate::View;

/// The CPUs of each thread of the view: those of the node that it is on. None where threads may cross
/// nodes: on a machine with one node, and where a node has more threads than cores while another has a core
/// to spare.
pub(super) fn cpus(view: &View<'_>) -> Option<Vec<CpuSet>> {
    let machine = view.machine;
    if machine.nodes().len() < 2 {
        return None;
    }
    let node_of = |cpu| Some(machine.cpus()[machine.cpu_index(cpu)?].node);
    let nodes: Vec<Option<usize>> =
        view.threads.iter().map(|thread| node_of(thread.cpu?)).collect();
    let mut cores: Vec<(usize, usize)> =
        machine.cpus().iter().map(|cpu| (cpu.node, cpu.core)).collect();
    cores.sort_unstable();
    cores.dedup();
    // Cores less threads, by node.
    let mut free = vec![0_i64; machine.nodes().len()];
    cores.iter().for_each(|&(node, _)| free[node] += 1);
    nodes.iter().flatten().for_each(|&node| free[node] -= 1);
    if free.iter().any(|&free| free < 0) && free.iter().any(|&free| free > 0) {
        return None;
    }
    let of = |(thread, node): (&crate::ThreadView, &Option<usize>)| {
        let may = &thread.may_run_on;
        let near = node.map(|node| may.intersection(&machine.nodes()[node].cpus));
        near.filter(|near| !near.is_empty()).unwrap_or_else(|| may.clone())
    };
    Some(view.threads.iter().zip(&nodes).map(of).collect())
}
