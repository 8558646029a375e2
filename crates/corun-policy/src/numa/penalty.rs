//! How much slower a process runs away from its memory, and how much a link between nodes bears.

use corun_machine::{BandwidthKind, Machine, NumaPenaltyFit};
use corun_model::DEFAULT_MEMORY_LATENCY_NS;

/// The line of Majo and Gross (ISMM 2011, section 4.5) and the machine it was fitted on: what a miss
/// costs more there, in cycles (section 4.1: 90 against 50 ns at 2.267 GHz).
const PAPER: NumaPenaltyFit = NumaPenaltyFit { intercept: 1.05, per_mpki: 0.015 };
const PAPER_EXTRA_CYCLES: f64 = (90.0 - 50.0) * 2.267;

/// Bytes of a cache line where the machine does not say.
const LINE_BYTES: f64 = 64.0;

/// The machine's own fit; else the paper's, its slope by what a remote miss costs more here.
pub(super) fn fit_of(machine: &Machine) -> NumaPenaltyFit {
    machine.calibration().numa_penalty.unwrap_or_else(|| {
        let scale = extra_cycles(machine) / PAPER_EXTRA_CYCLES;
        NumaPenaltyFit { per_mpki: PAPER.per_mpki * scale, ..PAPER }
    })
}

/// Cycles that a miss to another node takes more than a local one, the mean over the pairs of nodes.
fn extra_cycles(machine: &Machine) -> f64 {
    let nodes = machine.nodes().len();
    let (mut sum, mut pairs) = (0.0, 0);
    for from in 0..nodes {
        let local = machine.memory_latency_ns(from, from).unwrap_or(DEFAULT_MEMORY_LATENCY_NS);
        for to in (0..nodes).filter(|&to| to != from) {
            sum += local * (machine.latency_ratio(from, to) - 1.0);
            pairs += 1;
        }
    }
    let clock_ghz = machine.core_types().iter().map(|core| core.clock_mhz * 1e-3);
    if pairs == 0 { 0.0 } else { sum / f64::from(pairs) * clock_ghz.fold(0.0, f64::max) }
}

/// Pressure under one cache, in misses per 1000 instructions, at which the link to memory elsewhere
/// is saturated: the machine's own figure; else the narrowest link's peak over line size and clock,
/// at one instruction a cycle; of a link that both ends use, the half. Infinite where no link is
/// known.
pub(super) fn threshold_mpki(machine: &Machine) -> f64 {
    machine.calibration().link_threshold_mpki.unwrap_or_else(|| {
        let clock_hz =
            machine.core_types().iter().map(|core| core.clock_mhz * 1e6).fold(0.0, f64::max);
        let lines = machine.llcs().iter().filter_map(|llc| llc.cache?.line_bytes);
        let line_bytes = lines.max().map_or(LINE_BYTES, f64::from);
        1000.0 * narrowest_link_bytes_per_s(machine) / (line_bytes * clock_hz)
    })
}

fn narrowest_link_bytes_per_s(machine: &Machine) -> f64 {
    let domains = machine.bandwidth_domains();
    // For each link the nodes whose CPUs go through it.
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); domains.len()];
    for (cpu, at) in machine.cpus().iter().enumerate() {
        for node in (0..machine.nodes().len()).filter(|&node| node != at.node) {
            for domain in machine.memory_path(cpu, node) {
                if !users[domain].contains(&at.node) {
                    users[domain].push(at.node);
                }
            }
        }
    }
    let links = domains
        .iter()
        .zip(&users)
        .filter(|(domain, users)| domain.kind == BandwidthKind::Link && !users.is_empty());
    links
        .map(|(link, users)| link.peak_mb_per_s * 1e6 / users.len() as f64)
        .fold(f64::INFINITY, f64::min)
}
