//! Operations of one kind that do not wait for each other, to see how many begin a cycle.
#![allow(unsafe_code)] // Inline assembly: a compiler would change what is to be timed.

use std::arch::asm;

use crate::kernel::Throughput;

/// Operations of one iteration of [`throughput`].
pub(in crate::kernel) const SIDE_BY_SIDE: u64 = 128;

/// Operations on sixteen vector registers in turn.
pub(in crate::kernel) fn throughput(operation: Throughput, iterations: u64) {
    macro_rules! registers {
        () => {
            "v0.2d,v1.2d,v2.2d,v3.2d,v4.2d,v5.2d,v6.2d,v7.2d,\
             v16.2d,v17.2d,v18.2d,v19.2d,v20.2d,v21.2d,v22.2d,v23.2d"
        };
    }
    macro_rules! repeated {
        ($line:literal) => {{
            // SAFETY: touches its own registers alone.
            unsafe {
                asm!(
                    // Zeros: denormal numbers may be slow.
                    concat!(".irp r,", registers!()),
                    "movi \\r, #0",
                    ".endr",
                    "2:",
                    ".rept 8",
                    concat!(".irp r,", registers!()),
                    $line,
                    ".endr",
                    ".endr",
                    "subs x2, x2, #1",
                    "b.ne 2b",
                    inout("x2") iterations => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
                    out("v6") _, out("v7") _, out("v16") _, out("v17") _, out("v18") _,
                    out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _,
                    options(nomem, nostack),
                );
            }
        }};
    }
    match operation {
        Throughput::FpAdd => repeated!("fadd \\r, \\r, \\r"),
        Throughput::FpMultiply => repeated!("fmul \\r, \\r, \\r"),
        Throughput::VectorAdd => repeated!("add \\r, \\r, \\r"),
        Throughput::VectorShuffle => repeated!("zip1 \\r, \\r, \\r"),
    }
}
