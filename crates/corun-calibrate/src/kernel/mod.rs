//! Machine code that is timed: each kernel does one thing, so often, and nothing else.
//!
//! The kernels are written by hand for each architecture, with the same names. What is safe about
//! them is decided here: kernels that follow pointers only get [`Chain`]s, kernels that read and
//! write only [`Zeros`].

mod code;
mod memory;

#[cfg(target_arch = "aarch64")]
#[path = "aarch64/mod.rs"]
mod machine_code;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod machine_code;

pub(crate) use code::{Code, CodeKind};
pub(crate) use memory::{
    Chain, Chains, LOADER_CALLS, Pages, SLOTS, Zeros, first_touch, first_touch_of_file,
    map_as_loader,
};

/// Bytes of a cache line on every machine that has kernels.
pub(crate) const LINE_BYTES: usize = 64;
/// A multiple of the bytes that each kind of [`Access`] handles in one step.
pub(crate) const STREAM_STEP_BYTES: usize = 1536;
/// Every other word of what kernels write and regions are filled with. The words between are zero,
/// which loads add to addresses; a line of zeros alone would be cheaper to write and to read than
/// others, since some caches and memory controllers take shortcuts with it.
const PATTERN: u64 = 0x9e37_79b9_7f4a_7c15;
/// The most instructions between two misses that [`Chain::two_misses_apart`] can place.
pub(crate) const MAX_FILLERS: u64 = machine_code::MAX_FILLERS;
/// Instructions between two of its misses that are no fillers.
pub(crate) const NOT_FILLERS: u64 = machine_code::NOT_FILLERS;

/// How a core goes through memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Access {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential writes past the caches.
    NonTemporalWrite,
    /// From one half of the memory to the other.
    Copy,
    /// Sequential reads, every third line changed in place.
    Mixed,
}

/// The width of vector instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VectorWidth {
    /// 16 bytes.
    Bits128,
    /// 32 bytes.
    #[cfg_attr(target_arch = "aarch64", allow(dead_code))]
    Bits256,
    /// 64 bytes.
    #[cfg_attr(target_arch = "aarch64", allow(dead_code))]
    Bits512,
}

/// Instructions that hardly depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstructionMix {
    /// Integer additions.
    Adds,
    /// Five integer additions to three loads that hit the level-1 cache.
    AddsAndLoads,
    /// Two integer additions to two loads and four vector operations.
    AddsLoadsAndVectors,
}

/// Operations of one kind on 16 registers of 128 bits, each of which waits for the last one on its register
/// alone: so many that what is measured is how many the core begins a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Throughput {
    /// Additions in double precision.
    FpAdd,
    /// Multiplications in double precision.
    FpMultiply,
    /// Additions of 64-bit integers.
    VectorAdd,
    /// Shuffles of 32-bit elements.
    VectorShuffle,
}

impl Throughput {
    /// All of them.
    pub(crate) const ALL: [Self; 4] =
        [Self::FpAdd, Self::FpMultiply, Self::VectorAdd, Self::VectorShuffle];

    /// Runs so many operations, rounded up to whole iterations; returns how many there were.
    pub(crate) fn run(self, operations: u64) -> u64 {
        let iterations = operations.div_ceil(machine_code::SIDE_BY_SIDE).max(1);
        machine_code::throughput(self, iterations);
        iterations * machine_code::SIDE_BY_SIDE
    }
}

/// Operations of which each waits for the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExecutionChain {
    /// 64-bit multiplication.
    IntegerMultiply,
    /// 64-bit division with a quotient of 32 bits.
    IntegerDivide,
    /// Addition in double precision.
    FpAdd,
    /// Multiplication in double precision.
    FpMultiply,
    /// Division in double precision.
    FpDivide,
    /// Multiplication and addition in one, in double precision.
    FpMultiplyAdd,
    /// Addition of vectors of 64-bit integers.
    VectorAdd,
    /// A value that goes to a vector register and back: two operations.
    Transfer,
    /// A load of a vector register whose value, a pointer, a transfer makes the next address.
    VectorLoad,
    /// A store of a vector register and a load of the same address.
    VectorForward,
    /// A store and a load of the same address, which is another one each time.
    StoreForward,
    /// A store and a load of the same place on the stack.
    StackForward,
}

impl InstructionMix {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Adds, Self::AddsAndLoads, Self::AddsLoadsAndVectors];
}

impl ExecutionChain {
    /// All of them.
    pub(crate) const ALL: [Self; 12] = [
        Self::IntegerMultiply,
        Self::IntegerDivide,
        Self::FpAdd,
        Self::FpMultiply,
        Self::FpDivide,
        Self::FpMultiplyAdd,
        Self::VectorAdd,
        Self::Transfer,
        Self::VectorLoad,
        Self::VectorForward,
        Self::StoreForward,
        Self::StackForward,
    ];

    /// Whether this core has the instruction.
    pub(crate) fn is_known_here(self) -> bool {
        machine_code::has(self)
    }

    /// Cycles that the chain needs for each operation besides the operation itself: an addition that
    /// makes the next dividend of the quotient, or changes the value that is stored.
    pub(crate) fn added_cycles(self) -> f64 {
        match self {
            Self::IntegerDivide | Self::StoreForward | Self::StackForward => 1.0,
            _ => 0.0,
        }
    }

    /// Runs so many operations, rounded up to whole iterations; returns how many there were.
    pub(crate) fn run(self, operations: u64) -> u64 {
        let iterations = operations.div_ceil(machine_code::CHAINED_OPERATIONS).max(1);
        machine_code::execution_chain(self, iterations);
        let each = if self == Self::Transfer { 2 } else { 1 };
        iterations * machine_code::CHAINED_OPERATIONS * each
    }
}

/// Additions of which each waits for the one before: as many cycles as there are additions. Returns
/// how many there were, at least as many as asked for.
pub(crate) fn dependent_adds(additions: u64) -> u64 {
    let iterations = additions.div_ceil(machine_code::DEPENDENT_ADDS).max(1);
    machine_code::dependent_adds(iterations);
    iterations * machine_code::DEPENDENT_ADDS
}

/// Instructions that do not wait for each other. Returns how many there were, at least as many as
/// asked for.
pub(crate) fn independent_instructions(mix: InstructionMix, instructions: u64) -> u64 {
    let iterations = instructions.div_ceil(machine_code::INDEPENDENT_INSTRUCTIONS).max(1);
    machine_code::independent_instructions(mix, iterations);
    iterations * machine_code::INDEPENDENT_INSTRUCTIONS
}

/// Branches that are taken half of the time at random, or never; all else is the same. `state` is that
/// of the random sequence, which must not come again: a predictor learns even a long one.
pub(crate) fn branches(count: u64, random: bool, state: &mut u64) {
    *state = machine_code::branches(count.max(1), random, *state);
}

/// Outcomes of as many branches as kernels have one behind the other, for one turn after the other.
#[derive(Debug)]
pub(crate) struct Outcomes(Vec<u8>);

impl Outcomes {
    /// Branches whose outcomes are the first of those given, the second, and so on, and then again from the first on.
    pub(crate) const BRANCHES: usize = machine_code::REPEATED_BRANCHES;

    /// For whole turns of the branches.
    pub(crate) fn new(taken: &[bool]) -> Self {
        Self(taken.iter().copied().map(u8::from).collect())
    }

    /// Goes through all outcomes so often; returns how many branches that were.
    pub(crate) fn run(&self, rounds: u64) -> u64 {
        let rounds = rounds.max(1);
        machine_code::repeated_branches(&self.0, rounds);
        rounds * self.0.len() as u64
    }
}
