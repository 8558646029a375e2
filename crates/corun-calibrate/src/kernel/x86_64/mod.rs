//! The kernels in x86-64 machine code.
#![allow(unsafe_code)] // Inline assembly: a compiler would change what is to be timed.

mod branches;
mod code;
mod streams;
mod throughput;

use std::arch::asm;

use super::{ExecutionChain, InstructionMix, VectorWidth};

pub(super) use branches::{REPEATED_BRANCHES, branches, repeated_branches};
pub(super) use code::{LOOP_END_BYTES, NOTHING, branch_over, loop_end, publish};
pub(super) use streams::stream;
pub(super) use throughput::{SIDE_BY_SIDE, throughput};

/// Additions of one iteration of [`dependent_adds`].
pub(super) const DEPENDENT_ADDS: u64 = 64;
/// Operations of one iteration of [`execution_chain`].
pub(super) const CHAINED_OPERATIONS: u64 = 16;
/// Instructions of one iteration of [`independent_instructions`]; the two that close the loop are
/// one to the core.
pub(super) const INDEPENDENT_INSTRUCTIONS: u64 = 129;
/// The most instructions that [`two_misses_apart`] can put between two loads.
pub(super) const MAX_FILLERS: u64 = 1024;
/// Instructions beside the fillers between two loads of [`two_misses_apart`].
pub(super) const NOT_FILLERS: u64 = 2;

/// The widest vectors that this core has instructions for.
pub(super) fn widest_vectors() -> VectorWidth {
    if is_x86_feature_detected!("avx512f") {
        VectorWidth::Bits512
    } else if is_x86_feature_detected!("avx") {
        VectorWidth::Bits256
    } else {
        VectorWidth::Bits128
    }
}

/// Whether this core can do what the chain asks for.
pub(super) fn has(chain: ExecutionChain) -> bool {
    chain != ExecutionChain::FpMultiplyAdd || is_x86_feature_detected!("fma")
}

/// Additions that each wait for the one before.
pub(super) fn dependent_adds(iterations: u64) {
    // SAFETY: touches its own registers alone.
    unsafe {
        asm!(
            "2:",
            ".rept 64",
            "add {sum}, {one}",
            ".endr",
            "dec {n}",
            "jnz 2b",
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
                    "dec rcx",
                    "jnz 2b",
                    inout("rcx") iterations => _,
                    in("rsi") data.as_ptr(),
                    in("rdi") 1u64,
                    out("r8") _, out("r9") _, out("r10") _, out("r11") _,
                    out("r12") _, out("r13") _, out("r14") _, out("r15") _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                    options(readonly, nostack),
                );
            }
        }};
    }
    match mix {
        InstructionMix::Adds => mix!(
            "add r8, rdi",
            "add r9, rdi",
            "add r10, rdi",
            "add r11, rdi",
            "add r12, rdi",
            "add r13, rdi",
            "add r14, rdi",
            "add r15, rdi"
        ),
        InstructionMix::AddsAndLoads => mix!(
            "add r8, rdi",
            "add r9, rdi",
            "mov r12, [rsi]",
            "add r10, rdi",
            "mov r13, [rsi + 8]",
            "add r11, rdi",
            "mov r14, [rsi + 16]",
            "add r15, rdi"
        ),
        InstructionMix::AddsLoadsAndVectors => mix!(
            "add r8, rdi",
            "mov r12, [rsi]",
            "pshufd xmm0, xmm4, 27",
            "add r9, rdi",
            "mov r13, [rsi + 8]",
            "pshufd xmm1, xmm4, 27",
            "por xmm2, xmm4",
            "por xmm3, xmm4"
        ),
    }
}

/// Operations that each wait for the result of the one before.
pub(super) fn execution_chain(chain: ExecutionChain, iterations: u64) {
    macro_rules! general {
        ($($line:literal),+ ; rax = $rax:expr, rsi = $rsi:expr, r9 = $r9:expr) => {{
            let mut cell = [0u64; 256];
            // Its own address, for the chain that goes by what it loads.
            cell[0] = (&raw const cell) as u64;
            // SAFETY: reads and writes `cell` (r10 stays below its bytes) and, below the stack pointer, what an `asm!` that is
            // not `nostack` may use.
            unsafe {
                asm!(
                    "2:",
                    ".rept 16",
                    $($line,)+
                    ".endr",
                    "dec rcx",
                    "jnz 2b",
                    inout("rcx") iterations => _,
                    inout("rax") $rax => _,
                    in("rsi") $rsi,
                    in("r9") $r9,
                    inout("rdi") cell.as_mut_ptr() => _,
                    inout("xmm0") 1.5f64 => _,
                    in("r8") cell.as_ptr(),
                    inout("r10") 0u64 => _,
                    out("rdx") _,
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
                    "dec rcx",
                    "jnz 2b",
                    inout("rcx") iterations => _,
                    inout("xmm0") 1.234_567_890_123f64 => _,
                    in("xmm1") $operand,
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
            general!("imul rax, rsi"; rax = 3u64, rsi = 5u64, r9 = 0u64);
        }
        ExecutionChain::IntegerDivide => general!(
            "xor edx, edx", "div rsi", "add rax, r9";
            rax = DIVIDEND, rsi = DIVISOR, r9 = REST
        ),
        ExecutionChain::FpAdd => float!("addsd xmm0, xmm1", 1e-9f64),
        ExecutionChain::FpMultiply => float!("mulsd xmm0, xmm1", 1.000_000_000_1f64),
        ExecutionChain::FpDivide => float!("divsd xmm0, xmm1", 1.000_000_000_1f64),
        ExecutionChain::FpMultiplyAdd => {
            float!("vfmadd213sd xmm0, xmm1, xmm1", 0.333_333_333_3f64);
        }
        ExecutionChain::VectorAdd => float!("paddq xmm0, xmm1", 1.0f64),
        ExecutionChain::Transfer => {
            general!("movq xmm0, rax", "movq rax, xmm0"; rax = 1u64, rsi = 0u64, r9 = 0u64)
        }
        ExecutionChain::VectorLoad => {
            general!("movq xmm0, [rdi]", "movq rdi, xmm0"; rax = 1u64, rsi = 0u64, r9 = 0u64)
        }
        ExecutionChain::VectorForward => {
            general!("movsd [rdi], xmm0", "movsd xmm0, [rdi]"; rax = 1u64, rsi = 0u64, r9 = 0u64)
        }
        // Another address each time, so that the core must compute and compare it.
        ExecutionChain::StoreForward => general!(
            "mov [rdi + r10], rax", "mov rax, [r8 + r10]", "add rax, rsi", "add r10d, 8", "and r10d, 2047";
            rax = 1u64, rsi = 1u64, r9 = 0u64
        ),
        ExecutionChain::StackForward => general!(
            "mov [rsp - 64], rax", "mov rax, [rsp - 64]", "add rax, rsi"; rax = 1u64, rsi = 1u64, r9 = 0u64
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
            "mov {at}, [{at}]",
            ".endr",
            "dec {n}",
            "jnz 2b",
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
            "mov {at}, [{at}]",
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
            "mov {a}, [{a}]",
            "mov {b}, [{b}]",
            ".endr",
            "dec {n}",
            "jnz 2b",
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
            "mov {a}, [{head}]",
            "mov {b}, [{head} + 8]",
            "mov {a}, [{a}]",
            "mov {b}, [{b}]",
            "mov [{head}], {a}",
            "mov [{head} + 8], {b}",
            "mov {a}, [{head} + 16]",
            "mov {b}, [{head} + 24]",
            "mov {a}, [{a}]",
            "mov {b}, [{b}]",
            "mov [{head} + 16], {a}",
            "mov [{head} + 24], {b}",
            "add {head}, 32",
            "cmp {head}, {end}",
            "jb 3b",
            "dec {n}",
            "jnz 2b",
            first = in(reg) heads.as_mut_ptr(),
            end = in(reg) heads.as_mut_ptr_range().end,
            head = out(reg) _,
            a = out(reg) _,
            b = out(reg) _,
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
            "imul {x}, {a}",
            "add {x}, {c}",
            "mov {y}, {x}",
            "shr {y}, 33",
            "and {y}, {mask}",
            "shl {y}, 6",
            "mov {y}, [{base} + {y}]",
            "dec {n}",
            "jnz 2b",
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
            "mov {x}, [{at}]",
            "add {at}, {stride}",
            "add {at}, {x}",
            "dec {n}",
            "jnz 2b",
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
            "mov {at}, [{head}]",
            "add {at}, {x}",
            "mov {x}, [{at}]",
            "add {at}, 64",
            "mov [{head}], {at}",
            "add {head}, 8",
            "cmp {head}, {end}",
            "jb 3b",
            "dec {n}",
            "jnz 2b",
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
            "mov {at}, [{at}]",
            "mov {k}, {lines}",
            "3:",
            "mov {x}, [{stream}]",
            "add {stream}, 64",
            "dec {k}",
            "jnz 3b",
            "dec {n}",
            "jnz 2b",
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
    // SAFETY: the caller's promise; the jumps lead to the first byte of a filler, or behind the
    // last, since all fillers have the same length.
    unsafe {
        asm!(
            "lea r10, [rip + 4f]",
            "sub r10, {skip}",
            "lea r11, [rip + 6f]",
            "sub r11, {skip}",
            "2:",
            "mov {a}, [{a}]",
            "jmp r10",
            ".rept 128",
            "paddq xmm0, xmm7",
            "add r8, 1",
            "paddq xmm1, xmm7",
            ".byte 0x0f, 0x1f, 0x40, 0x00", // a nop
            "paddq xmm2, xmm7",
            "add r9, 1",
            "paddq xmm3, xmm7",
            ".byte 0x0f, 0x1f, 0x40, 0x00",
            ".endr",
            "4:",
            "mov {b}, [{b}]",
            "jmp r11",
            ".rept 128",
            "paddq xmm0, xmm7",
            "add r8, 1",
            "paddq xmm1, xmm7",
            ".byte 0x0f, 0x1f, 0x40, 0x00",
            "paddq xmm2, xmm7",
            "add r9, 1",
            "paddq xmm3, xmm7",
            ".byte 0x0f, 0x1f, 0x40, 0x00",
            ".endr",
            "6:",
            "dec {n}",
            "jnz 2b",
            a = inout(reg) heads[0],
            b = inout(reg) heads[1],
            skip = in(reg) fillers * FILLER_BYTES,
            n = inout(reg) iterations => _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            in("xmm7") 0f64,
            options(readonly, nostack),
        );
    }
}
