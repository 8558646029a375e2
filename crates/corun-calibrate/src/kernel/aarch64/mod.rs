//! The kernels in AArch64 machine code.
#![allow(unsafe_code)] // Inline assembly: a compiler would change what is to be timed.

mod branches;
mod code;
mod throughput;

use std::arch::asm;

use super::{Access, ExecutionChain, InstructionMix, PATTERN, VectorWidth};

pub(super) use branches::{REPEATED_BRANCHES, branches, repeated_branches};
pub(super) use code::{LOOP_END_BYTES, NOTHING, branch_over, loop_end, publish};
pub(super) use throughput::{SIDE_BY_SIDE, throughput};

/// Additions of one iteration of [`dependent_adds`].
pub(super) const DEPENDENT_ADDS: u64 = 64;
/// Operations of one iteration of [`execution_chain`].
pub(super) const CHAINED_OPERATIONS: u64 = 16;
/// Instructions of one iteration of [`independent_instructions`].
pub(super) const INDEPENDENT_INSTRUCTIONS: u64 = 130;
/// The most instructions that [`two_misses_apart`] can put between two loads.
pub(super) const MAX_FILLERS: u64 = 1024;
/// Instructions beside the fillers between two loads of [`two_misses_apart`].
pub(super) const NOT_FILLERS: u64 = 2;

/// The widest vectors that this core has instructions for: those of Advanced SIMD, since the width
/// of others is not known before the program runs.
pub(super) fn widest_vectors() -> VectorWidth {
    VectorWidth::Bits128
}

/// Whether this core can do what the chain asks for.
pub(super) fn has(_: ExecutionChain) -> bool {
    true
}

/// Additions that each wait for the one before.
pub(super) fn dependent_adds(iterations: u64) {
    // SAFETY: touches its own registers alone.
    unsafe {
        asm!(
            "2:",
            ".rept 64",
            "add {sum}, {sum}, {one}",
            ".endr",
            "subs {n}, {n}, #1",
            "b.ne 2b",
            sum = inout(reg) 0u64 => _,
            one = in(reg) 1u64,
            n = inout(reg) iterations => _,
            options(nomem, nostack),
        );
    }
}

/// Instructions that hardly wait for each other: what counts is how many are dispatched.
pub(super) fn independent_instructions(mix: InstructionMix, iterations: u64) {
    macro_rules! mix {
        ($($line:literal),+) => {{
            let data = [0u64; 16];
            // SAFETY: reads `data` alone and writes its own registers.
            unsafe {
                asm!(
                    "2:",
                    ".rept 16",
                    $($line,)+
                    ".endr",
                    "subs x2, x2, #1",
                    "b.ne 2b",
                    inout("x2") iterations => _,
                    in("x1") data.as_ptr(),
                    in("x0") 1u64,
                    out("x8") _, out("x9") _, out("x10") _, out("x11") _,
                    out("x12") _, out("x13") _, out("x14") _, out("x15") _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
                    options(readonly, nostack),
                );
            }
        }};
    }
    match mix {
        InstructionMix::Adds => mix!(
            "add x8, x8, x0",
            "add x9, x9, x0",
            "add x10, x10, x0",
            "add x11, x11, x0",
            "add x12, x12, x0",
            "add x13, x13, x0",
            "add x14, x14, x0",
            "add x15, x15, x0"
        ),
        InstructionMix::AddsAndLoads => mix!(
            "add x8, x8, x0",
            "add x9, x9, x0",
            "ldr x12, [x1]",
            "add x10, x10, x0",
            "ldr x13, [x1, #8]",
            "add x11, x11, x0",
            "ldr x14, [x1, #16]",
            "add x15, x15, x0"
        ),
        InstructionMix::AddsLoadsAndVectors => mix!(
            "add x8, x8, x0",
            "ldr x12, [x1]",
            "add v0.2d, v4.2d, v4.2d",
            "add x9, x9, x0",
            "ldr x13, [x1, #8]",
            "add v1.2d, v4.2d, v4.2d",
            "orr v2.16b, v4.16b, v5.16b",
            "orr v3.16b, v4.16b, v5.16b"
        ),
    }
}

/// Operations that each wait for the result of the one before.
pub(super) fn execution_chain(chain: ExecutionChain, iterations: u64) {
    macro_rules! general {
        ($($line:literal),+ ; x0 = $x0:expr, x1 = $x1:expr, x2 = $x2:expr) => {{
            let mut cell = [0u64; 128];
            // Its own address, for the chain that goes by what it loads.
            cell[0] = (&raw const cell) as u64;
            // SAFETY: reads and writes `cell` (x6 stays below its bytes) and 16 bytes of stack that it takes and gives back.
            unsafe {
                asm!(
                    "sub sp, sp, #16",
                    "2:",
                    ".rept 16",
                    $($line,)+
                    ".endr",
                    "subs x3, x3, #1",
                    "b.ne 2b",
                    "add sp, sp, #16",
                    inout("x3") iterations => _,
                    inout("x0") $x0 => _,
                    in("x1") $x1,
                    in("x2") $x2,
                    inout("x4") cell.as_mut_ptr() => _,
                    inout("v0") 1.5f64 => _,
                    in("x5") cell.as_ptr(),
                    inout("x6") 0u64 => _,
                );
            }
        }};
    }
    macro_rules! float {
        ($line:literal, $operand:expr) => {{
            // SAFETY: touches its own registers alone.
            unsafe {
                asm!(
                    "2:",
                    ".rept 16",
                    $line,
                    ".endr",
                    "subs x3, x3, #1",
                    "b.ne 2b",
                    inout("x3") iterations => _,
                    inout("v0") 1.234_567_890_123f64 => _,
                    in("v1") $operand,
                    options(nomem, nostack),
                );
            }
        }};
    }
    // A quotient of 32 bits; adding the rest restores the dividend.
    const DIVIDEND: u64 = 0x1234_5678_9abc_def1;
    const DIVISOR: u64 = 0x9abc_def1;
    const REST: u64 = DIVIDEND - DIVIDEND / DIVISOR;
    match chain {
        ExecutionChain::IntegerMultiply => {
            general!("mul x0, x0, x1"; x0 = 3u64, x1 = 5u64, x2 = 0u64);
        }
        ExecutionChain::IntegerDivide => general!(
            "udiv x0, x0, x1", "add x0, x0, x2"; x0 = DIVIDEND, x1 = DIVISOR, x2 = REST
        ),
        ExecutionChain::FpAdd => float!("fadd d0, d0, d1", 1e-9f64),
        ExecutionChain::FpMultiply => float!("fmul d0, d0, d1", 1.000_000_000_1f64),
        ExecutionChain::FpDivide => float!("fdiv d0, d0, d1", 1.000_000_000_1f64),
        ExecutionChain::FpMultiplyAdd => {
            float!("fmadd d0, d0, d1, d1", 0.333_333_333_3f64);
        }
        ExecutionChain::VectorAdd => float!("add v0.2d, v0.2d, v1.2d", 1.0f64),
        ExecutionChain::Transfer => {
            general!("fmov d0, x0", "fmov x0, d0"; x0 = 1u64, x1 = 0u64, x2 = 0u64)
        }
        ExecutionChain::VectorLoad => {
            general!("ldr d0, [x4]", "fmov x4, d0"; x0 = 1u64, x1 = 0u64, x2 = 0u64)
        }
        ExecutionChain::VectorForward => {
            general!("str d0, [x4]", "ldr d0, [x4]"; x0 = 1u64, x1 = 0u64, x2 = 0u64)
        }
        // Another address each time, so that the core must compute and compare it.
        ExecutionChain::StoreForward => general!(
            "str x0, [x4, x6]", "ldr x0, [x5, x6]", "add x0, x0, x1", "add x6, x6, #8", "and x6, x6, #1023";
            x0 = 1u64, x1 = 1u64, x2 = 0u64
        ),
        ExecutionChain::StackForward => general!(
            "str x0, [sp]", "ldr x0, [sp]", "add x0, x0, x1"; x0 = 1u64, x1 = 1u64, x2 = 0u64
        ),
    }
}

/// Follows pointers, 16 in an iteration; returns where it got.
///
/// # Safety
/// Each pointer on the way, the first included, must point to the next.
pub(super) unsafe fn chase(start: *const u8, iterations: u64) -> *const u8 {
    let mut at = start;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "2:",
            ".rept 16",
            "ldr {at}, [{at}]",
            ".endr",
            "subs {n}, {n}, #1",
            "b.ne 2b",
            at = inout(reg) at,
            n = inout(reg) iterations => _,
            options(readonly, nostack),
        );
    }
    at
}

/// Follows one pointer; returns where it got.
///
/// # Safety
/// As [`chase`].
pub(super) unsafe fn chase_one(start: *const u8) -> *const u8 {
    let mut at = start;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "ldr {at}, [{at}]",
            at = inout(reg) at,
            options(readonly, nostack),
        );
    }
    at
}

/// Follows two chains of pointers at a time, 8 of each in an iteration.
///
/// # Safety
/// As [`chase`], for both.
pub(super) unsafe fn chase_two(heads: &mut [*const u8; 2], iterations: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "2:",
            ".rept 8",
            "ldr {a}, [{a}]",
            "ldr {b}, [{b}]",
            ".endr",
            "subs {n}, {n}, #1",
            "b.ne 2b",
            a = inout(reg) heads[0],
            b = inout(reg) heads[1],
            n = inout(reg) iterations => _,
            options(readonly, nostack),
        );
    }
}

/// Follows all chains of pointers by turns, one pointer of each in an iteration. Their number is a
/// multiple of four.
///
/// # Safety
/// As [`chase`], for all.
pub(super) unsafe fn chase_many(heads: &mut [*const u8], iterations: u64) {
    // SAFETY: the caller's promise; writes inside `heads` alone.
    unsafe {
        asm!(
            "2:",
            "mov {head}, {first}",
            "3:",
            "ldp {a}, {b}, [{head}]",
            "ldp {c}, {d}, [{head}, #16]",
            "ldr {a}, [{a}]",
            "ldr {b}, [{b}]",
            "ldr {c}, [{c}]",
            "ldr {d}, [{d}]",
            "stp {a}, {b}, [{head}]",
            "stp {c}, {d}, [{head}, #16]",
            "add {head}, {head}, #32",
            "cmp {head}, {end}",
            "b.lo 3b",
            "subs {n}, {n}, #1",
            "b.ne 2b",
            first = in(reg) heads.as_mut_ptr(),
            end = in(reg) heads.as_mut_ptr_range().end,
            head = out(reg) _,
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
            d = out(reg) _,
            n = inout(reg) iterations => _,
            options(nostack),
        );
    }
}

/// Loads lines at random, independent of each other. Returns the state of the random sequence.
///
/// # Safety
/// `base` must point to `line_mask` + 1 lines, a power of two.
pub(super) unsafe fn random_loads(base: *const u8, line_mask: u64, loads: u64, state: u64) -> u64 {
    let mut state = state;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "2:",
            "madd {x}, {x}, {a}, {c}",
            "and {y}, {mask}, {x}, lsr #33",
            "add {y}, {base}, {y}, lsl #6",
            "ldr {y}, [{y}]",
            "subs {n}, {n}, #1",
            "b.ne 2b",
            x = inout(reg) state,
            y = out(reg) _,
            a = in(reg) 6_364_136_223_846_793_005u64,
            c = in(reg) 1_442_695_040_888_963_407u64,
            mask = in(reg) line_mask,
            base = in(reg) base,
            n = inout(reg) loads => _,
            options(readonly, nostack),
        );
    }
    state
}

/// Loads at a stride, each address depending on the value of the load before, which is zero.
///
/// # Safety
/// All words on the way must be readable and zero.
pub(super) unsafe fn strided_chase(start: *const u8, stride_bytes: i64, loads: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "2:",
            "ldr {x}, [{at}]",
            "add {at}, {at}, {stride}",
            "add {at}, {at}, {x}",
            "subs {n}, {n}, #1",
            "b.ne 2b",
            at = inout(reg) start => _,
            x = out(reg) _,
            stride = in(reg) stride_bytes,
            n = inout(reg) loads => _,
            options(readonly, nostack),
        );
    }
}

/// Loads from several streams by turns, each a line further every time; each address depends on the
/// value of the load before, which is zero.
///
/// # Safety
/// As [`strided_chase`], for all streams and so many rounds.
pub(super) unsafe fn chase_streams(heads: &mut [*const u8], rounds: u64) {
    // SAFETY: the caller's promise; writes inside `heads` alone.
    unsafe {
        asm!(
            "2:",
            "mov {head}, {first}",
            "3:",
            "ldr {at}, [{head}]",
            "add {at}, {at}, {x}",
            "ldr {x}, [{at}], #64",
            "str {at}, [{head}], #8",
            "cmp {head}, {end}",
            "b.lo 3b",
            "subs {n}, {n}, #1",
            "b.ne 2b",
            first = in(reg) heads.as_mut_ptr(),
            end = in(reg) heads.as_mut_ptr_range().end,
            head = out(reg) _,
            at = out(reg) _,
            x = inout(reg) 0u64 => _,
            n = inout(reg) rounds => _,
            options(nostack),
        );
    }
}

/// Follows pointers and, for each, loads so many lines of a stream that nothing waits for. Returns
/// where the chase got.
///
/// # Safety
/// As [`chase`]; and `stream` must point to `steps` x `lines_each` lines.
pub(super) unsafe fn chase_beside_stream(
    start: *const u8,
    stream: *const u8,
    lines_each: u64,
    steps: u64,
) -> *const u8 {
    let mut at = start;
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "2:",
            "ldr {at}, [{at}]",
            "mov {k}, {lines}",
            "3:",
            "ldr {x}, [{stream}], #64",
            "subs {k}, {k}, #1",
            "b.ne 3b",
            "subs {n}, {n}, #1",
            "b.ne 2b",
            at = inout(reg) at,
            stream = inout(reg) stream => _,
            x = out(reg) _,
            k = out(reg) _,
            lines = in(reg) lines_each,
            n = inout(reg) steps => _,
            options(readonly, nostack),
        );
    }
    at
}

/// Two chains of pointers by turns, with so many instructions between a load of one and the next
/// load of the other (Wong, "Measuring Reorder Buffer Capacity", 2013).
///
/// # Safety
/// As [`chase`], for both; `fillers` at most [`MAX_FILLERS`].
pub(super) unsafe fn two_misses_apart(heads: &mut [*const u8; 2], fillers: u64, iterations: u64) {
    const FILLER_BYTES: u64 = 4;
    // SAFETY: the caller's promise; the jumps lead to a filler, or behind the last.
    unsafe {
        asm!(
            "adr x16, 4f",
            "sub x16, x16, {skip}",
            "adr x17, 6f",
            "sub x17, x17, {skip}",
            "2:",
            "ldr {a}, [{a}]",
            "br x16",
            ".rept 128",
            "add v0.2d, v0.2d, v7.2d",
            "add x8, x8, #1",
            "add v1.2d, v1.2d, v7.2d",
            "nop",
            "add v2.2d, v2.2d, v7.2d",
            "add x9, x9, #1",
            "add v3.2d, v3.2d, v7.2d",
            "nop",
            ".endr",
            "4:",
            "ldr {b}, [{b}]",
            "br x17",
            ".rept 128",
            "add v0.2d, v0.2d, v7.2d",
            "add x8, x8, #1",
            "add v1.2d, v1.2d, v7.2d",
            "nop",
            "add v2.2d, v2.2d, v7.2d",
            "add x9, x9, #1",
            "add v3.2d, v3.2d, v7.2d",
            "nop",
            ".endr",
            "6:",
            "subs {n}, {n}, #1",
            "b.ne 2b",
            a = inout(reg) heads[0],
            b = inout(reg) heads[1],
            skip = in(reg) fillers * FILLER_BYTES,
            n = inout(reg) iterations => _,
            out("x8") _, out("x9") _, out("x16") _, out("x17") _,
            out("v0") _, out("v1") _, out("v2") _, out("v3") _,
            in("v7") 0f64,
            options(readonly, nostack),
        );
    }
}

macro_rules! stream_kernel {
    ($name:ident, $step:literal, [$($before:literal),*], [$($line:literal),+]) => {
        /// # Safety
        /// As [`stream`] demands.
        unsafe fn $name(at: *mut u8, from: *const u8, bytes: u64) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    $($before,)*
                    "2:",
                    $($line,)+
                    concat!("add x0, x0, #", $step),
                    concat!("add x1, x1, #", $step),
                    concat!("subs x2, x2, #", $step),
                    "b.hi 2b",
                    inout("x0") at => _,
                    inout("x1") from => _,
                    inout("x2") bytes => _,
                    in("x3") PATTERN,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _,
                    options(nostack),
                );
            }
        }
    };
}

stream_kernel!(
    read,
    128,
    [],
    ["ldp q0, q1, [x0]", "ldp q2, q3, [x0, #32]", "ldp q0, q1, [x0, #64]", "ldp q2, q3, [x0, #96]"]
);
stream_kernel!(
    write,
    128,
    ["movi v0.2d, #0", "ins v0.d[1], x3"],
    ["stp q0, q0, [x0]", "stp q0, q0, [x0, #32]", "stp q0, q0, [x0, #64]", "stp q0, q0, [x0, #96]"]
);
stream_kernel!(
    write_past_caches,
    64,
    ["movi v0.2d, #0", "ins v0.d[1], x3"],
    ["stnp q0, q0, [x0]", "stnp q0, q0, [x0, #32]"]
);
stream_kernel!(
    copy,
    64,
    [],
    ["ldp q0, q1, [x1]", "ldp q2, q3, [x1, #32]", "stp q0, q1, [x0]", "stp q2, q3, [x0, #32]"]
);
stream_kernel!(
    read_and_change_a_third,
    192,
    [],
    [
        "ldr q0, [x0]",
        "ldr q1, [x0, #32]",
        "ldr q0, [x0, #64]",
        "ldr q1, [x0, #96]",
        "ldr q2, [x0, #128]",
        "ldr q3, [x0, #160]",
        "str q2, [x0, #128]"
    ]
);

/// Runs over memory once.
///
/// # Safety
/// From `at` (and `from`) on, so many bytes must be readable and writable, and aligned to lines; the
/// number must be a multiple of [`super::STREAM_STEP_BYTES`].
pub(super) unsafe fn stream(
    access: Access,
    _: VectorWidth,
    at: *mut u8,
    from: *const u8,
    bytes: u64,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match access {
            Access::Read => read(at, from, bytes),
            Access::Write => write(at, from, bytes),
            Access::NonTemporalWrite => write_past_caches(at, from, bytes),
            Access::Copy => copy(at, from, bytes),
            Access::Mixed => read_and_change_a_third(at, from, bytes),
        }
    }
}
