//! The kernels that go through memory one line after the other.
#![allow(unsafe_code)] // Inline assembly: a compiler would change what is to be timed.

use std::arch::asm;
use std::arch::x86_64::_mm_set_epi64x;

use crate::kernel::{Access, PATTERN, VectorWidth};

macro_rules! stream_kernel {
    ($name:ident, $step:literal, [$($before:literal),*], [$($line:literal),+], [$($after:literal),*]) => {
        /// # Safety
        /// As [`stream`] demands.
        unsafe fn $name(at: *mut u8, from: *const u8, bytes: u64) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    $($before,)*
                    "2:",
                    $($line,)+
                    concat!("add rdi, ", $step),
                    concat!("add rsi, ", $step),
                    concat!("sub rcx, ", $step),
                    "ja 2b",
                    $($after,)*
                    inout("rdi") at => _,
                    inout("rsi") from => _,
                    inout("rcx") bytes => _,
                    inout("xmm0") _mm_set_epi64x(PATTERN as i64, 0) => _,
                    out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    options(nostack),
                );
            }
        }
    };
}

stream_kernel!(
    read_128,
    128,
    [],
    [
        "movdqa xmm0, [rdi]",
        "movdqa xmm1, [rdi + 16]",
        "movdqa xmm2, [rdi + 32]",
        "movdqa xmm3, [rdi + 48]",
        "movdqa xmm0, [rdi + 64]",
        "movdqa xmm1, [rdi + 80]",
        "movdqa xmm2, [rdi + 96]",
        "movdqa xmm3, [rdi + 112]"
    ],
    []
);
stream_kernel!(
    read_256,
    256,
    [],
    [
        "vmovdqa ymm0, [rdi]",
        "vmovdqa ymm1, [rdi + 32]",
        "vmovdqa ymm2, [rdi + 64]",
        "vmovdqa ymm3, [rdi + 96]",
        "vmovdqa ymm0, [rdi + 128]",
        "vmovdqa ymm1, [rdi + 160]",
        "vmovdqa ymm2, [rdi + 192]",
        "vmovdqa ymm3, [rdi + 224]"
    ],
    ["vzeroupper"]
);
stream_kernel!(
    read_512,
    512,
    [],
    [
        "vmovdqa64 zmm0, [rdi]",
        "vmovdqa64 zmm1, [rdi + 64]",
        "vmovdqa64 zmm2, [rdi + 128]",
        "vmovdqa64 zmm3, [rdi + 192]",
        "vmovdqa64 zmm0, [rdi + 256]",
        "vmovdqa64 zmm1, [rdi + 320]",
        "vmovdqa64 zmm2, [rdi + 384]",
        "vmovdqa64 zmm3, [rdi + 448]"
    ],
    ["vzeroupper"]
);
stream_kernel!(
    write_128,
    128,
    [],
    [
        "movdqa [rdi], xmm0",
        "movdqa [rdi + 16], xmm0",
        "movdqa [rdi + 32], xmm0",
        "movdqa [rdi + 48], xmm0",
        "movdqa [rdi + 64], xmm0",
        "movdqa [rdi + 80], xmm0",
        "movdqa [rdi + 96], xmm0",
        "movdqa [rdi + 112], xmm0"
    ],
    []
);
stream_kernel!(
    write_256,
    256,
    ["vinsertf128 ymm0, ymm0, xmm0, 1"],
    [
        "vmovdqa [rdi], ymm0",
        "vmovdqa [rdi + 32], ymm0",
        "vmovdqa [rdi + 64], ymm0",
        "vmovdqa [rdi + 96], ymm0",
        "vmovdqa [rdi + 128], ymm0",
        "vmovdqa [rdi + 160], ymm0",
        "vmovdqa [rdi + 192], ymm0",
        "vmovdqa [rdi + 224], ymm0"
    ],
    ["vzeroupper"]
);
stream_kernel!(
    write_512,
    512,
    ["vshufi64x2 zmm0, zmm0, zmm0, 0"],
    [
        "vmovdqa64 [rdi], zmm0",
        "vmovdqa64 [rdi + 64], zmm0",
        "vmovdqa64 [rdi + 128], zmm0",
        "vmovdqa64 [rdi + 192], zmm0",
        "vmovdqa64 [rdi + 256], zmm0",
        "vmovdqa64 [rdi + 320], zmm0",
        "vmovdqa64 [rdi + 384], zmm0",
        "vmovdqa64 [rdi + 448], zmm0"
    ],
    ["vzeroupper"]
);
stream_kernel!(
    copy_128,
    64,
    [],
    [
        "movdqa xmm0, [rsi]",
        "movdqa xmm1, [rsi + 16]",
        "movdqa xmm2, [rsi + 32]",
        "movdqa xmm3, [rsi + 48]",
        "movdqa [rdi], xmm0",
        "movdqa [rdi + 16], xmm1",
        "movdqa [rdi + 32], xmm2",
        "movdqa [rdi + 48], xmm3"
    ],
    []
);
stream_kernel!(
    copy_256,
    128,
    [],
    [
        "vmovdqa ymm0, [rsi]",
        "vmovdqa ymm1, [rsi + 32]",
        "vmovdqa ymm2, [rsi + 64]",
        "vmovdqa ymm3, [rsi + 96]",
        "vmovdqa [rdi], ymm0",
        "vmovdqa [rdi + 32], ymm1",
        "vmovdqa [rdi + 64], ymm2",
        "vmovdqa [rdi + 96], ymm3"
    ],
    ["vzeroupper"]
);
stream_kernel!(
    copy_512,
    256,
    [],
    [
        "vmovdqa64 zmm0, [rsi]",
        "vmovdqa64 zmm1, [rsi + 64]",
        "vmovdqa64 zmm2, [rsi + 128]",
        "vmovdqa64 zmm3, [rsi + 192]",
        "vmovdqa64 [rdi], zmm0",
        "vmovdqa64 [rdi + 64], zmm1",
        "vmovdqa64 [rdi + 128], zmm2",
        "vmovdqa64 [rdi + 192], zmm3"
    ],
    ["vzeroupper"]
);
stream_kernel!(
    write_past_caches,
    64,
    [],
    [
        "movntdq [rdi], xmm0",
        "movntdq [rdi + 16], xmm0",
        "movntdq [rdi + 32], xmm0",
        "movntdq [rdi + 48], xmm0"
    ],
    ["sfence"]
);
stream_kernel!(
    read_and_change_a_third,
    192,
    [],
    [
        "movdqa xmm0, [rdi]",
        "movdqa xmm1, [rdi + 32]",
        "movdqa xmm0, [rdi + 64]",
        "movdqa xmm1, [rdi + 96]",
        "movdqa xmm2, [rdi + 128]",
        "movdqa xmm3, [rdi + 160]",
        "movdqa [rdi + 128], xmm2"
    ],
    []
);

/// Runs over memory once.
///
/// # Safety
/// From `at` (and `from`) on, so many bytes must be readable and writable, and aligned to lines; the
/// number must be a multiple of [`crate::kernel::STREAM_STEP_BYTES`].
pub(in crate::kernel) unsafe fn stream(
    access: Access,
    width: VectorWidth,
    at: *mut u8,
    from: *const u8,
    bytes: u64,
) {
    use VectorWidth::{Bits128, Bits256, Bits512};
    // SAFETY: the caller's promise; the width is one that this core has.
    unsafe {
        match (access, width) {
            (Access::Read, Bits128) => read_128(at, from, bytes),
            (Access::Read, Bits256) => read_256(at, from, bytes),
            (Access::Read, Bits512) => read_512(at, from, bytes),
            (Access::Write, Bits128) => write_128(at, from, bytes),
            (Access::Write, Bits256) => write_256(at, from, bytes),
            (Access::Write, Bits512) => write_512(at, from, bytes),
            (Access::Copy, Bits128) => copy_128(at, from, bytes),
            (Access::Copy, Bits256) => copy_256(at, from, bytes),
            (Access::Copy, Bits512) => copy_512(at, from, bytes),
            (Access::NonTemporalWrite, _) => write_past_caches(at, from, bytes),
            (Access::Mixed, _) => read_and_change_a_third(at, from, bytes),
        }
    }
}
