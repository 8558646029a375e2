//! Code that is written to be fetched: it does nothing but lead on.
#![allow(unsafe_code)] // Maps memory, makes it executable and calls it.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;

use super::{LINE_BYTES, machine_code};

/// Bytes from one taken branch to the next.
pub(crate) const BRANCH_BYTES: usize = 32;

/// What code is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CodeKind {
    /// A branch at the beginning of every [`BRANCH_BYTES`], which leads to the next of them.
    TakenBranches,
    /// In every second cache line a run of a few bytes that do nothing and a branch to the next such run.
    RunsWithinLines,
    /// The same, but that each branch stands in the line behind.
    RunsAcrossLines,
    /// Instructions that do nothing, as long as the architecture has them.
    Straight,
}

/// Bytes that do nothing in a run before its branch.
const RUN_BYTES: usize = 8;

impl CodeKind {
    /// Bytes from one step to the next: from a branch to the next, or cache lines.
    fn step_bytes(self) -> usize {
        match self {
            Self::TakenBranches => BRANCH_BYTES,
            Self::RunsWithinLines | Self::RunsAcrossLines => 2 * LINE_BYTES,
            Self::Straight => LINE_BYTES,
        }
    }

    /// Where in each step its branch stands; none in code without.
    fn branch_at(self) -> Option<usize> {
        match self {
            Self::TakenBranches => Some(0),
            Self::RunsWithinLines => Some(LINE_BYTES - RUN_BYTES),
            Self::RunsAcrossLines => Some(LINE_BYTES),
            Self::Straight => None,
        }
    }
}

/// Code of a size, which a loop goes through from one end to the other.
#[derive(Debug)]
pub(crate) struct Code {
    at: NonNull<u8>,
    mapped_bytes: usize,
    /// What one round passes: branches, or cache lines.
    steps: u64,
}

// SAFETY: nobody writes to the memory once it is made.
unsafe impl Send for Code {}

impl Code {
    /// So many bytes of code, rounded up to whole steps, and at least two cache lines.
    ///
    /// # Errors
    /// When there is not so much memory, or the system lets no program make code.
    pub(crate) fn new(kind: CodeKind, bytes: usize) -> io::Result<Self> {
        let bytes = bytes.max(2 * LINE_BYTES).next_multiple_of(kind.step_bytes().max(LINE_BYTES));
        let mapped_bytes = bytes.next_multiple_of(page_size());
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe {
            mmap_anonymous(std::ptr::null_mut(), mapped_bytes, protection, MapFlags::PRIVATE)
        }?;
        let at = NonNull::new(at.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let steps = bytes / kind.step_bytes();
        // From here on it is given back.
        let code = Self { at, mapped_bytes, steps: steps as u64 };
        // SAFETY: so many bytes are ours alone, and can be written to.
        let memory = unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), bytes) };
        write(kind, memory);
        machine_code::publish(memory);
        // SAFETY: the whole of the mapping, which nobody refers to any more.
        unsafe {
            mprotect(at.as_ptr().cast(), mapped_bytes, MprotectFlags::READ | MprotectFlags::EXEC)
        }?;
        Ok(code)
    }

    /// Runs through it until at least so many steps were passed; returns how many were.
    pub(crate) fn run(&self, steps: u64) -> u64 {
        let rounds = steps.div_ceil(self.steps).max(1);
        // SAFETY: the memory holds a function of that type: it counts its argument, which is above 0, down to
        // 0, changes no other register and no memory, and returns.
        unsafe {
            let enter: extern "C" fn(u64) = std::mem::transmute(self.at.as_ptr());
            enter(rounds);
        }
        rounds * self.steps
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, which is used no more.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// Writes a loop that fills the memory.
fn write(kind: CodeKind, memory: &mut [u8]) {
    let bytes = memory.len();
    for unit in memory.chunks_exact_mut(machine_code::NOTHING.len()) {
        unit.copy_from_slice(machine_code::NOTHING);
    }
    let step_bytes = kind.step_bytes();
    if let Some(at) = kind.branch_at() {
        // A branch leads to the run of bytes before the next one.
        let run = at.min(RUN_BYTES);
        let branch = machine_code::branch_over((step_bytes - run) as i32);
        for step in memory.chunks_exact_mut(step_bytes) {
            step[at..at + branch.len()].copy_from_slice(&branch);
        }
    }
    // In the place of the last branch, or of the last bytes that do nothing.
    let end_at = match kind.branch_at() {
        Some(at) => bytes - step_bytes + at,
        None => bytes - machine_code::LOOP_END_BYTES.next_multiple_of(8),
    };
    let end = machine_code::loop_end(end_at as i32);
    memory[end_at..end_at + end.len()].copy_from_slice(&end);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It runs to its end, as often as it is told.
    #[test]
    fn code_leads_to_its_end() {
        for (kind, step_bytes) in [
            (CodeKind::TakenBranches, 32),
            (CodeKind::RunsWithinLines, 128),
            (CodeKind::RunsAcrossLines, 128),
            (CodeKind::Straight, 64),
        ] {
            for bytes in [128, 1000, 4096, 1 << 20, 3 << 20] {
                let code = Code::new(kind, bytes).unwrap();
                let a_round = bytes.next_multiple_of(step_bytes.max(64)) as u64 / step_bytes as u64;
                assert_eq!(code.run(1), a_round);
                assert_eq!(code.run(2 * a_round + 1), 3 * a_round);
            }
        }
    }
}
