//! Branches that are foreseen, or not.
#![allow(unsafe_code)] // Inline assembly: a compiler would change what is to be timed.

use std::arch::asm;

/// Branches of [`repeated_branches`], one behind the other.
pub(in crate::kernel) const REPEATED_BRANCHES: usize = 64;

/// A high bit of the random sequence.
const RANDOM_BIT: u32 = 40;

/// Branches on a bit of a random sequence, taken half of the time, or, without `random`, never
/// taken. All else is the same. Returns the state of the sequence.
pub(in crate::kernel) fn branches(iterations: u64, random: bool, state: u64) -> u64 {
    let mut state = state;
    // SAFETY: touches its own registers alone.
    unsafe {
        asm!(
            "2:",
            "imul {x}, {a}",
            "add {x}, {c}",
            "test {x}, {mask}",
            "jnz 3f",
            "add {z}, 1",
            "3:",
            "dec {n}",
            "jnz 2b",
            x = inout(reg) state,
            z = inout(reg) 0u64 => _,
            // Knuth's MMIX generator: its high bits are as good as random to a branch predictor.
            a = in(reg) 6_364_136_223_846_793_005u64,
            c = in(reg) 1_442_695_040_888_963_407u64,
            mask = in(reg) u64::from(random) << RANDOM_BIT,
            n = inout(reg) iterations => _,
            options(nomem, nostack),
        );
    }
    state
}

/// Branches whose outcomes are the bytes given, one after the other (0: not taken, 1: taken), so many times over.
///
/// # Panics
/// When there is not a multiple of [`REPEATED_BRANCHES`] of outcomes, or none.
// What is learnt in one call is timed in the next: both must be at the same addresses.
#[inline(never)]
pub(in crate::kernel) fn repeated_branches(outcomes: &[u8], rounds: u64) {
    let whole = !outcomes.is_empty() && outcomes.len().is_multiple_of(REPEATED_BRANCHES);
    assert!(whole, "{} outcomes", outcomes.len());
    let bytes = outcomes.as_ptr_range();
    // SAFETY: reads what `outcomes` holds, and touches its own registers.
    unsafe {
        asm!(
            "2:",
            "mov {at}, {start}",
            "3:",
            ".rept 64",
            "test byte ptr [{at}], 1",
            "jnz 4f",
            "add {sum}, 1",
            "4:",
            "inc {at}",
            ".endr",
            "cmp {at}, {end}",
            "jb 3b",
            "dec {n}",
            "jnz 2b",
            at = out(reg) _,
            start = in(reg) bytes.start,
            end = in(reg) bytes.end,
            sum = inout(reg) 0u64 => _,
            n = inout(reg) rounds => _,
            options(readonly, nostack),
        );
    }
}
