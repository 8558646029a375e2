//! Core types with what was measured of them.

use std::collections::BTreeMap;

use corun_machine::{CoreType, Tlb};

use super::{rounded, set_rate, whole};
use crate::estimate::FigureRange;
use crate::figure::{CodeSource, CoreFigure, Figure};
use crate::kernel::{ExecutionChain, Throughput};

/// Sets a figure of a core type.
pub(super) fn place(one: &mut CoreType, what: CoreFigure, value: f64) {
    match what {
        CoreFigure::ClockMhz => one.clock_mhz = value,
        CoreFigure::ClockAloneMhz => one.clock_alone_mhz = Some(value),
        CoreFigure::ClockBurstMhz => one.clock_burst_mhz = Some(value),
        CoreFigure::SmtYield => one.smt_yield = Some(value),
        CoreFigure::DispatchWidth => one.dispatch_width = value,
        CoreFigure::AdditionsPerCycle => {
            one.execution.get_or_insert_default().additions_per_cycle = Some(value);
        }
        CoreFigure::ReorderBuffer => one.reorder_buffer = whole(value),
        CoreFigure::BranchPenaltyCycles => one.branch_penalty_cycles = value.max(0.0),
        // A predictor can be better than the large one of recordings, and worse than the small one.
        CoreFigure::LargePredictorShare => {
            one.large_predictor_share = Some(value.clamp(0.0, 1.0));
        }
        CoreFigure::OutstandingMisses => one.outstanding_misses = whole(value),
        CoreFigure::OutstandingLlcHits => one.outstanding_llc_hits = Some(whole(value)),
        CoreFigure::PageWalkCycles => one.page_walk_cycles = Some(value),
        CoreFigure::MemoryPageWalkCycles => one.memory_page_walk_cycles = Some(value),
        CoreFigure::MemoryPageWalkPages => one.memory_page_walk_pages = Some(whole(value)),
        CoreFigure::LoadCycles => {
            one.execution.get_or_insert_default().load_cycles = Some(value);
        }
        CoreFigure::Execution(chain) => {
            let execution = one.execution.get_or_insert_default();
            // What a core hides wholly may come out below nothing.
            *match chain {
                ExecutionChain::IntegerMultiply => &mut execution.integer_multiply_cycles,
                ExecutionChain::IntegerDivide => &mut execution.integer_divide_cycles,
                ExecutionChain::FpAdd => &mut execution.fp_add_cycles,
                ExecutionChain::FpMultiply => &mut execution.fp_multiply_cycles,
                ExecutionChain::FpMultiplyAdd => &mut execution.fp_multiply_add_cycles,
                ExecutionChain::FpDivide => &mut execution.fp_divide_cycles,
                ExecutionChain::VectorAdd => &mut execution.vector_add_cycles,
                ExecutionChain::Transfer => &mut execution.transfer_cycles,
                ExecutionChain::VectorLoad => &mut execution.vector_load_cycles,
                ExecutionChain::VectorForward => &mut execution.vector_forward_cycles,
                ExecutionChain::StoreForward => &mut execution.store_forward_cycles,
                ExecutionChain::StackForward => &mut execution.stack_forward_cycles,
            } = Some(value.max(0.0));
        }
        CoreFigure::Throughput(operation) => {
            let execution = one.execution.get_or_insert_default();
            *match operation {
                Throughput::FpAdd => &mut execution.fp_adds_per_cycle,
                Throughput::FpMultiply => &mut execution.fp_multiplies_per_cycle,
                Throughput::VectorAdd => &mut execution.vector_adds_per_cycle,
                Throughput::VectorShuffle => &mut execution.vector_shuffles_per_cycle,
            } = Some(value);
        }
        CoreFigure::TakenBranchCycles(kib) => {
            one.fetching.get_or_insert_default().taken_branch_cycles.push((kib, value));
        }
        CoreFigure::LineCrossingCycles => {
            one.fetching.get_or_insert_default().line_crossing_cycles = Some(value.max(0.0));
        }
        CoreFigure::CodeLineCycles(from) => {
            let fetching = one.fetching.get_or_insert_default();
            *match from {
                CodeSource::Private => &mut fetching.private_line_cycles,
                CodeSource::Llc => &mut fetching.llc_line_cycles,
            } = Some(value);
        }
        CoreFigure::HiddenByStride(stride) => {
            let prefetching = one.prefetching.get_or_insert_default();
            prefetching.hidden_by_stride.push((stride, value));
        }
        CoreFigure::HiddenInRandomPages => {
            one.prefetching.get_or_insert_default().hidden_in_random_pages = Some(value);
        }
        CoreFigure::NextLine => {
            one.prefetching.get_or_insert_default().next_line = Some(value);
        }
        CoreFigure::Streams => {
            one.prefetching.get_or_insert_default().streams = Some(whole(value));
        }
        CoreFigure::MemoryRate(rate) => {
            set_rate(one.memory_rates.get_or_insert_default(), rate, value);
        }
        // Made in one go.
        CoreFigure::TlbEntries(_) | CoreFigure::TlbHitCycles(_) | CoreFigure::OwnLoaded(..) => {}
    }
}

/// The levels of a core type's TLB that were told apart.
pub(super) fn tlb(core_type: usize, figures: &BTreeMap<Figure, FigureRange>) -> Vec<Tlb> {
    let value = |what| figures.get(&Figure::Core(core_type, what)).map(|estimate| estimate.value);
    let level = |level| {
        Some(Tlb {
            level,
            page_kib: (rustix::param::page_size() / 1024) as u64,
            entries: whole(value(CoreFigure::TlbEntries(level))?),
            hit_cycles: rounded(value(CoreFigure::TlbHitCycles(level)).unwrap_or(0.0)),
        })
    };
    (1..=2).filter_map(level).collect()
}
