//! Instructions as bytes, of which [`Code`](crate::kernel::Code) is made.

/// An instruction that does nothing, in eight bytes: `nop dword ptr [rax + rax + 0]`.
pub(in crate::kernel) const NOTHING: &[u8] = &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];

/// Bytes of [`loop_end`].
pub(in crate::kernel) const LOOP_END_BYTES: usize = 10;

/// `jmp` to so many bytes behind the instruction's beginning.
pub(in crate::kernel) fn branch_over(bytes: i32) -> [u8; 5] {
    let [a, b, c, d] = (bytes - 5).to_le_bytes();
    [0xe9, a, b, c, d]
}

/// The end of a loop that began so many bytes before: `dec rdi; jnz BEGIN; ret`. The argument of a function is
/// in `rdi`.
pub(in crate::kernel) fn loop_end(bytes_before: i32) -> [u8; LOOP_END_BYTES] {
    // The jump counts from its own end, nine bytes on.
    let [a, b, c, d] = (-bytes_before - 9).to_le_bytes();
    [0x48, 0xff, 0xcf, 0x0f, 0x85, a, b, c, d, 0xc3]
}

/// What is written is what is fetched: x86 sees to that.
pub(in crate::kernel) fn publish(_: &[u8]) {}
