//! What is compared of two windows or phases.

use corun_profile::Phase;

use crate::engine::Figures;
use crate::event::LINE_BYTES;

/// Two behaviours less apart than this are one phase.
pub(crate) const SAME_PHASE_DISTANCE: f64 = 0.35;

/// Cache sizes in bytes whose misses are compared, and what a miss there costs at least, in
/// cycles: it goes to the second level, to the last level, or to memory.
const SIZES: [(u64, f64); 5] =
    [(32 << 10, 10.0), (256 << 10, 30.0), (1 << 20, 100.0), (4 << 20, 100.0), (16 << 20, 100.0)];

/// Weight of the greatest difference that the costs of misses make.
const ACCESS_WEIGHT: f64 = 0.5;

/// How a window or a phase behaves: its instruction types and its misses by cache size.
///
/// The instruction types are shares of all instructions: integer, load, store, branch, and
/// floating-point or vector. The access vector has for each of five cache sizes the logarithm of
/// 1 + the cycles that an instruction waits there for misses, on a core that else takes one cycle
/// an instruction. So a difference of 0.1 is 10 % in time on a machine with that cache, whether
/// the program misses seldom or all the time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BehaviourVector {
    types: [f64; 5],
    accesses: [f64; 5],
}

impl BehaviourVector {
    /// That of a window's sums; of no instruction, all zero.
    pub(crate) fn of_figures(figures: &Figures) -> Self {
        let counters = &figures.counters;
        let instructions = counters.instructions.max(1) as f64;
        let share = |count: u64| count as f64 / instructions;
        let misses = figures.histogram.misses();
        let mpki = |bytes: u64| {
            let lines = bytes / LINE_BYTES;
            // The last size at or below: all of these sizes have a point, as far as points go.
            let at = misses.partition_point(|point| point.0 <= lines).saturating_sub(1);
            misses[at].1 as f64 / instructions * 1000.0
        };
        let types = [counters.loads, counters.stores, counters.branches, counters.floats];
        Self::new(types.map(share), SIZES.map(|(bytes, _)| mpki(bytes)))
    }

    /// That of a phase.
    pub(crate) fn of_phase(phase: &Phase) -> Self {
        let mix = &phase.mix;
        let types = [mix.loads_pki, mix.stores_pki, mix.branches_pki, mix.float_pki];
        let mpki = SIZES.map(|(bytes, _)| phase.curve.mpki(bytes as f64).value);
        Self::new(types.map(|pki| pki / 1000.0), mpki)
    }

    /// Of shares of loads, stores, branches and floating point, and of MPKI by size.
    pub(super) fn new([loads, stores, branches, floats]: [f64; 4], mpki: [f64; 5]) -> Self {
        // An instruction that loads and computes counts in both.
        let integers = (1.0 - loads - stores - branches - floats).max(0.0);
        let mut accesses = mpki;
        for (value, (_, cycles)) in accesses.iter_mut().zip(SIZES) {
            *value = (*value / 1000.0 * cycles).ln_1p();
        }
        Self { types: [integers, loads, stores, branches, floats], accesses }
    }

    /// The Manhattan distance, with the access vector at half weight.
    pub(crate) fn distance(&self, other: &Self) -> f64 {
        let manhattan = |some: &[f64; 5], others: &[f64; 5]| -> f64 {
            some.iter().zip(others).map(|(one, other)| (one - other).abs()).sum()
        };
        manhattan(&self.types, &other.types)
            + ACCESS_WEIGHT * manhattan(&self.accesses, &other.accesses)
    }
}
