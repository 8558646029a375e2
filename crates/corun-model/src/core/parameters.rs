//! A core's parameters as the replay of micro-traces needs them, in cycles.

use corun_machine::{CoreType, ExecutionLatencies};
use corun_profile::{Marks, MicroOp, OPERATIONS, Operation};

use super::sampled::LINE_BYTES;

/// Kinds of execution unit.
pub(crate) const UNITS: usize = 12;
/// Integer units.
pub(crate) const INTEGER: usize = 0;
/// Units that load.
pub(crate) const LOAD: usize = 1;
/// Units that store.
pub(crate) const STORE: usize = 2;
/// Floating-point and vector units.
pub(crate) const FLOAT: usize = 3;
/// The unit that multiplies and divides integers.
pub(crate) const MULTIPLY: usize = 4;
/// Ways of vector registers from and to the first level.
pub(crate) const VECTOR_LOAD: usize = 5;
pub(crate) const VECTOR_STORE: usize = 6;
/// Dividers of integers and of floating-point numbers.
const DIVIDE: usize = 7;
const FLOAT_DIVIDE: usize = 8;
/// Those of the floating-point and vector units that add and compare, and those that multiply, fused
/// with an addition or not.
pub(crate) const FLOAT_ADD: usize = 9;
pub(crate) const FLOAT_MULTIPLY: usize = 10;
/// Those of them that move elements of vectors.
pub(crate) const SHUFFLE: usize = 11;

/// What the replay asks of a core.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CoreParameters {
    /// Instructions that enter and leave the reorder buffer a cycle.
    pub(crate) width: u32,
    /// Instructions fetched a cycle.
    pub(crate) fetch_width: u32,
    /// Entries of the reorder buffer; 0: the core issues in order.
    pub(crate) reorder_buffer: usize,
    /// Loads and stores in flight.
    pub(crate) loads: usize,
    pub(crate) stores: usize,
    /// Units of each kind.
    pub(crate) units: [u8; UNITS],
    /// Cycles from operands to result by operation.
    pub(crate) latency: [u32; OPERATIONS.len()],
    /// From a mispredicted branch's result to the next instruction's dispatch.
    pub(crate) refill: u32,
    /// Instructions that fetching runs ahead of dispatch, and the branch predictor ahead of fetching.
    pub(crate) fetch_queue: usize,
    pub(crate) predictor_ahead: usize,
    /// Load-to-use cycles of a hit in the first level.
    pub(crate) load: u32,
    /// The same of a vector register.
    pub(crate) vector_load: u32,
    /// From a store's data to the load that gets it from the store buffer.
    pub(crate) forward: u32,
    /// The same where both address the stack by a constant.
    pub(crate) stack_forward: u32,
    /// The same of vector registers, however they are addressed, where it differs.
    pub(crate) vector_forward: Option<u32>,
    /// Misses of the first level outstanding to the LLC and to memory.
    pub(crate) outstanding: [usize; 2],
    /// Does a comparison with the conditional branch behind it count as one instruction?
    pub(crate) fuses: bool,
    /// Share of the mispredicted branches behind which both directions soon meet again, of those of which the recording
    /// does not say where; 0 where the core does nothing behind a mispredicted branch.
    pub(crate) meets_again: f64,
    /// Lines that a prefetcher runs ahead of a stream; 0: there is none.
    pub(crate) prefetch_lines: usize,
}

/// Fitted: of 0, 1/4, 1/2, 3/4 and 1 what gives the least error of the time alone of every second of 46
/// programs by name, timed on a Zen 5 core (19 % against 22 % for 0); of the others 16 % against 28 %.
const MEETS_AGAIN: f64 = 0.75;

/// A share of the latency that chains of loads hide without a prefetcher too: pages that stay open in
/// the memory's banks.
const LEAST_HIDDEN: f64 = 0.1;

/// Does anything run ahead of a stream? Not where a chain of loads in order was measured to wait for all of them.
pub(crate) fn has_stream_prefetcher(core: &CoreType) -> bool {
    let Some(prefetching) = &core.prefetching else { return true };
    let in_order = prefetching.hidden_by_stride.iter().find(|(stride, _)| *stride == 1);
    in_order.is_none_or(|(_, hidden)| *hidden >= LEAST_HIDDEN)
}

/// Lines that are on their way when one core reads in order: by Little's law its measured rate times the
/// latency. Where that was not measured, twice the misses outstanding: prefetchers of the level below have
/// places of their own.
fn prefetch_lines(core: &CoreType, memory_latency_ns: f64) -> usize {
    if !has_stream_prefetcher(core) {
        return 0;
    }
    let rate = core.memory_rates.and_then(|rates| rates.read_mb_per_s);
    match rate {
        Some(mb_per_s) => {
            (mb_per_s * 1e-3 * memory_latency_ns / LINE_BYTES).ceil().max(1.0) as usize
        }
        None => 2 * core.outstanding_misses.max(1) as usize,
    }
}

impl CoreParameters {
    pub(crate) fn of(core: &CoreType, l1_latency_cycles: f64, memory_latency_ns: f64) -> Self {
        let width = core.dispatch_width.max(1.0).round() as u32;
        let reorder_buffer = core.reorder_buffer as usize;
        let execution = core.execution.unwrap_or_default();
        let whole = |cycles: f64| cycles.round().max(0.0) as u32;
        let load = whole(execution.load_cycles.unwrap_or(l1_latency_cycles)).max(1);
        let outstanding = core.outstanding_misses.max(1) as usize;
        let forward = execution.store_forward_cycles.unwrap_or(f64::from(load + 1));
        Self {
            width,
            fetch_width: core.fetch_width.map_or(width, |width| width.max(1.0).round() as u32),
            reorder_buffer,
            // Load and store queues are about half and a third of today's reorder buffers (Golden Cove:
            // 192 and 114 of 512; Zen 4: 136 and 64 of 320).
            loads: (reorder_buffer * 2 / 5).max(4),
            stores: core.store_buffer.map_or((reorder_buffer / 5).max(4), |stores| stores as usize),
            units: units(width, &execution),
            latency: latencies(&execution),
            refill: whole(core.branch_penalty_cycles),
            fetch_queue: (4 * width as usize).max(8),
            // Decoupled front ends ask for code some tens of branches ahead (Golden Cove and Zen 4: 64 and
            // more fetch targets).
            predictor_ahead: if reorder_buffer == 0 { 0 } else { 24 * width as usize },
            load,
            vector_load: execution
                .vector_load_cycles
                .map_or(load, |cycles| whole(cycles).max(load)),
            forward: whole(forward),
            stack_forward: whole(execution.stack_forward_cycles.unwrap_or(forward)),
            vector_forward: execution.vector_forward_cycles.map(whole),
            outstanding: [
                core.outstanding_llc_hits.map_or(outstanding, |hits| hits.max(1) as usize),
                outstanding,
            ],
            fuses: core.fuses_branches,
            meets_again: if core.runs_wrong_path { MEETS_AGAIN } else { 0.0 },
            prefetch_lines: prefetch_lines(core, memory_latency_ns),
        }
    }

    /// Load-to-use cycles of a load that hits the first level.
    pub(crate) fn load_of(&self, op: &MicroOp) -> u32 {
        if op.marks.has(Marks::VECTOR) { self.vector_load } else { self.load }
    }

    /// Does an entry of a micro-trace count as an instruction in the pipeline?
    pub(crate) fn counts(&self, op: &MicroOp) -> bool {
        let fused = self.fuses && op.marks.has(Marks::FUSED);
        !fused && !op.marks.has(Marks::PART)
    }

    /// Does it issue in the order of the program?
    pub(crate) fn in_order(&self) -> bool {
        self.reorder_buffer == 0
    }
}

/// Units by width, as in cores of that width: Bobcat and Atom 2, K10 and A57 3, Core 2 to Skylake 4,
/// Zen 4 and Golden Cove 6, Zen 5 8.
///
/// What the machine says of vector operations that begin a cycle counts instead. Where it says nothing, any
/// vector unit adds and multiplies.
fn units(width: u32, execution: &ExecutionLatencies) -> [u8; UNITS] {
    let mut units = [0; UNITS];
    (units[DIVIDE], units[FLOAT_DIVIDE]) = (1, 1);
    (units[VECTOR_LOAD], units[VECTOR_STORE]) = (if width < 3 { 1 } else { 2 }, 1);
    (units[INTEGER], units[LOAD], units[STORE], units[FLOAT], units[MULTIPLY]) = match width {
        0 | 1 => (1, 1, 1, 1, 1),
        2 => (2, 1, 1, 1, 1),
        3 => (3, 2, 1, 2, 1),
        4 | 5 => (4, 2, 1, 2, 1),
        6 | 7 => (4, 3, 2, 4, 1),
        _ => (6, 4, 2, 4, 3),
    };
    let measured = |rate: Option<f64>| rate.map(|rate| rate.round().clamp(1.0, 16.0) as u8);
    let vector = measured(execution.vector_adds_per_cycle).unwrap_or(units[FLOAT]);
    units[FLOAT_ADD] = measured(execution.fp_adds_per_cycle).unwrap_or(vector);
    units[FLOAT_MULTIPLY] = measured(execution.fp_multiplies_per_cycle).unwrap_or(vector);
    units[SHUFFLE] = measured(execution.vector_shuffles_per_cycle).unwrap_or(vector);
    // Adders and multipliers may be units of their own.
    units[FLOAT] = vector.max(units[FLOAT_ADD]).max(units[FLOAT_MULTIPLY]);
    units
}

fn latencies(execution: &ExecutionLatencies) -> [u32; OPERATIONS.len()] {
    let of = |measured: Option<f64>, usual: f64| measured.unwrap_or(usual).round().max(0.0) as u32;
    let divide = of(execution.integer_divide_cycles, 15.0);
    let divide_double = of(execution.fp_divide_cycles, 14.0);
    let multiply = of(execution.fp_multiply_cycles, 4.0);
    let vector = of(execution.vector_add_cycles, 1.0);
    OPERATIONS.map(|operation| match operation {
        Operation::None | Operation::SystemCall => 0,
        Operation::Integer => 1,
        Operation::Multiply => of(execution.integer_multiply_cycles, 3.0),
        Operation::Divide => divide.saturating_sub(3).max(1),
        Operation::DivideWide => divide,
        Operation::FloatAdd => of(execution.fp_add_cycles, 3.0),
        Operation::FloatMultiply => multiply,
        Operation::FloatFused => of(execution.fp_multiply_add_cycles, 4.0),
        Operation::FloatDivide => divide_double.saturating_sub(3).max(1),
        Operation::FloatDivideDouble => divide_double,
        Operation::FloatFunction => 80,
        Operation::Vector | Operation::Shuffle => vector,
        Operation::VectorMultiply => multiply.max(vector),
        Operation::Transfer => of(execution.transfer_cycles, 3.0),
        Operation::Atomic => 18,
        Operation::Serialise => 30,
    })
}

/// The unit that an operation occupies, and for how many cycles of its latency: divisions are not
/// pipelined.
pub(crate) fn unit(operation: Operation) -> Option<(usize, u32)> {
    Some(match operation {
        Operation::None | Operation::SystemCall | Operation::Serialise => return None,
        Operation::Integer | Operation::Atomic => (INTEGER, 1),
        Operation::Multiply => (MULTIPLY, 1),
        Operation::Divide => (DIVIDE, 6),
        Operation::DivideWide => (DIVIDE, 8),
        Operation::FloatDivide => (FLOAT_DIVIDE, 4),
        Operation::FloatDivideDouble => (FLOAT_DIVIDE, 5),
        Operation::FloatFunction => (FLOAT_DIVIDE, 40),
        _ => (FLOAT, 1),
    })
}

/// Which of the units of its kind an operation needs, where not any will do.
pub(crate) fn particular_unit(operation: Operation) -> Option<usize> {
    match operation {
        Operation::FloatAdd => Some(FLOAT_ADD),
        Operation::FloatMultiply | Operation::FloatFused | Operation::VectorMultiply => {
            Some(FLOAT_MULTIPLY)
        }
        Operation::Shuffle => Some(SHUFFLE),
        _ => None,
    }
}
