//! Instructions as bytes, of which [`Code`](crate::kernel::Code) is made.
#![allow(unsafe_code)] // Inline assembly: no other way to the caches of instructions.

use std::arch::asm;

/// An instruction that does nothing: `nop`.
pub(in crate::kernel) const NOTHING: &[u8] = &0xd503_201fu32.to_le_bytes();

/// Bytes of [`loop_end`].
pub(in crate::kernel) const LOOP_END_BYTES: usize = 16;

/// `b` to so many bytes behind the instruction's beginning, a multiple of four.
pub(in crate::kernel) fn branch_over(bytes: i32) -> [u8; 4] {
    (0x1400_0000 | ((bytes / 4) as u32 & 0x03ff_ffff)).to_le_bytes()
}

/// The end of a loop that began so many bytes before: `subs x0, x0, #1; b.eq RET; b BEGIN; RET: ret`. The argument
/// of a function is in `x0`.
pub(in crate::kernel) fn loop_end(bytes_before: i32) -> [u8; LOOP_END_BYTES] {
    let mut end = [0; LOOP_END_BYTES];
    let back = u32::from_le_bytes(branch_over(-bytes_before - 8));
    let words = [0xf100_0400, 0x5400_0040, back, 0xd65f_03c0];
    for (place, word) in end.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    end
}

/// Makes what is written be fetched: from the data caches to where instructions come from, and out of the
/// caches of instructions, line by line of the least size that an AArch64 has.
pub(in crate::kernel) fn publish(code: &[u8]) {
    const LEAST_LINE_BYTES: usize = 16;
    // SAFETY: Linux lets programs do so with addresses of their own; memory stays as it is.
    unsafe {
        for line in code.chunks(LEAST_LINE_BYTES) {
            asm!("dc cvau, {at}", at = in(reg) line.as_ptr(), options(nostack, preserves_flags));
        }
        asm!("dsb ish", options(nostack, preserves_flags));
        for line in code.chunks(LEAST_LINE_BYTES) {
            asm!("ic ivau, {at}", at = in(reg) line.as_ptr(), options(nostack, preserves_flags));
        }
        asm!("dsb ish", "isb", options(nostack, preserves_flags));
    }
}
