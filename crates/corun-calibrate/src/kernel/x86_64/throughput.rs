//! Operations of one kind that do not wait for each other, to see how many begin a cycle.
#![allow(unsafe_code)] // Inline assembly: a compiler would change what is to be timed.

use std::arch::asm;

use crate::kernel::Throughput;

/// Operations of one iteration of [`throughput`].
pub(in crate::kernel) const SIDE_BY_SIDE: u64 = 128;

/// Operations on all vector registers in turn.
pub(in crate::kernel) fn throughput(operation: Throughput, iterations: u64) {
    macro_rules! registers {
        ($line:literal) => {{
            // SAFETY: touches its own registers alone.
            unsafe {
                asm!(
                    // Zeros: denormal numbers may be slow.
                    ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                    "xorps xmm\\r, xmm\\r",
                    ".endr",
                    "2:",
                    ".rept 8",
                    ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                    $line,
                    ".endr",
                    ".endr",
                    "dec rcx",
                    "jnz 2b",
                    inout("rcx") iterations => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                    out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
                    out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
                    out("xmm15") _,
                    options(nomem, nostack),
                );
            }
        }};
    }
    match operation {
        Throughput::FpAdd => registers!("addpd xmm\\r, xmm\\r"),
        Throughput::FpMultiply => registers!("mulpd xmm\\r, xmm\\r"),
        Throughput::VectorAdd => registers!("paddq xmm\\r, xmm\\r"),
        Throughput::VectorShuffle => registers!("pshufd xmm\\r, xmm\\r, 0x1b"),
    }
}
