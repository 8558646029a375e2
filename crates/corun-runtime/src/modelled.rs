//! The model as a source of counts.

use corun_model::{Outcome, PhaseMix};
use corun_policy::{REQUEST_BYTES, Totals};

/// What a thread does in `cpu_ns` nanoseconds on a CPU of so many cycles a second, at the rates that the
/// model gives. `mix` is what the instructions of its phase are; where it is unknown, accesses to the L1 and
/// branches are 0 and must not be shown. What the scheduler counts ([`corun_policy::CounterKind::OF_SCHEDULER`]) is 0:
/// the model knows nothing of it.
pub fn totals_of(outcome: &Outcome, mix: Option<PhaseMix>, clock_hz: f64, cpu_ns: u64) -> Totals {
    let seconds = cpu_ns as f64 * 1e-9;
    let instructions = outcome.instructions_per_s * seconds;
    let cycles = clock_hz * seconds;
    let bytes = outcome.bytes_per_s * seconds;
    let of_mix = |per_1000: fn(PhaseMix) -> f64| instructions * mix.map_or(0.0, per_1000) * 1e-3;
    Totals {
        cpu_ns,
        spin_ns: 0,
        instructions,
        cycles,
        llc_references: instructions * outcome.llc_apki * 1e-3,
        llc_misses: instructions * outcome.llc_mpki * 1e-3,
        l1_accesses: of_mix(|mix| mix.l1_accesses_pki),
        branches: of_mix(|mix| mix.branches_pki),
        memory_bytes: bytes,
        memory_stall_cycles: cycles * outcome.memory_stall_share,
        memory_retries: bytes / REQUEST_BYTES * outcome.memory_retries_per_request,
        ..Totals::default()
    }
}
