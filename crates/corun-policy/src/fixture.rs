//! Machines and views for the unit tests.

use corun_machine::{Machine, MachineSpec};

use crate::{Count, Nanoseconds, ProcessId, SoloFigures, ThreadId, ThreadView, View};

/// A machine of one core type with the given `[[object]]` entries.
pub(crate) fn machine(objects: &str) -> Machine {
    machine_of_threads(1, objects)
}

/// The same with so many hardware threads a core.
pub(crate) fn machine_of_threads(threads: u32, objects: &str) -> Machine {
    let text = format!(
        "version = 1\nname = 'test'\n[[core_type]]\nname = 'core'\nclock_mhz = 3000\n\
         threads = {threads}\n{objects}"
    );
    let spec: MachineSpec = toml::from_str(&text).unwrap();
    Machine::from_spec(spec).unwrap()
}

/// 2 packages x 2 LLCs x 2 cores (Blagodurov et al., TOCS 2010, section 5.1).
pub(crate) fn x5365() -> Machine {
    tree(2, 2, 2)
}

/// So many packages, LLCs a package and cores an LLC.
pub(crate) fn tree(packages: u32, llcs: u32, cores: u32) -> Machine {
    machine(&format!(
        "[[object]]\nkind = 'package'\ncount = {packages}\n\
         [[object.object]]\nkind = 'cache'\nlevel = 2\nsize_kib = 4096\ncount = {llcs}\n\
         [[object.object.object]]\nkind = 'core'\ncount = {cores}\n"
    ))
}

/// So many nodes, LLCs a node and cores an LLC; other nodes' memory takes 1.8 times as long.
pub(crate) fn numa(nodes: u32, llcs: u32, cores: u32) -> Machine {
    let latency = |from: u32, to: u32| if from == to { "50.0" } else { "90.0" };
    let row = |from: u32| {
        let row: Vec<&str> = (0..nodes).map(|to| latency(from, to)).collect();
        format!("[{}]", row.join(", "))
    };
    let rows: Vec<String> = (0..nodes).map(row).collect();
    let text = format!(
        "version = 1\nname = 'numa'\nmemory_latency_ns = [{}]\n\
         [[core_type]]\nname = 'core'\nclock_mhz = 3000\n\
         [[object]]\nkind = 'numa-node'\ncount = {nodes}\n\
         [[object.object]]\nkind = 'cache'\nlevel = 3\nsize_kib = 8192\ncount = {llcs}\n\
         [[object.object.object]]\nkind = 'core'\ncount = {cores}\n",
        rows.join(", ")
    );
    let spec: MachineSpec = toml::from_str(&text).unwrap();
    Machine::from_spec(spec).unwrap()
}

/// Threads 0, 1, .. with these solo miss rates, never run, free to run anywhere, no counters.
pub(crate) fn threads(machine: &Machine, solo_mpki: &[Option<f64>]) -> Vec<ThreadView> {
    let solo = |llc_mpki: f64| SoloFigures {
        llc_mpki,
        llc_apki: 2.0 * llc_mpki,
        instructions_per_s: 1e9,
        memory_bytes_per_s: llc_mpki * 64e6,
        numa_penalty: None,
        speedup_factor: None,
    };
    solo_mpki
        .iter()
        .enumerate()
        .map(|(index, &mpki)| {
            let (id, process) = (ThreadId(index as u64), ProcessId(index as u64));
            let program = format!("program{index}");
            ThreadView {
                solo: mpki.map(solo),
                ..ThreadView::new(id, process, program, &machine.cpu_set())
            }
        })
        .collect()
}

/// A count of so many, over a second.
pub(crate) fn count(total: f64) -> Option<Count> {
    Some(Count::new(total, Nanoseconds(1_000_000_000)))
}

/// So many seconds on CPUs.
pub(crate) fn cpu_time(seconds: f64) -> Option<Count> {
    count((seconds * 1e9).round())
}

/// A view of these threads at time 0.
pub(crate) fn view<'a>(machine: &'a Machine, threads: &'a [ThreadView]) -> View<'a> {
    View { machine, threads, now: Nanoseconds(0) }
}
