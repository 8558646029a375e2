//! Memory of zeros that several experiments run over, each going on where the one before ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::CalibrateError;
use crate::chains::memory_error;
use crate::kernel::{LINE_BYTES, Pages, Zeros};

/// Zeros that are far larger than the caches. Each use takes the next lines, so that nothing of them
/// is in a cache any more.
#[derive(Debug)]
pub(crate) struct Region {
    zeros: Mutex<Zeros>,
    next_line: AtomicUsize,
}

impl Region {
    /// So many bytes in huge pages, on the node of the CPU that this runs on.
    ///
    /// # Errors
    /// When there is not so much memory.
    pub(crate) fn new(bytes: usize) -> Result<Self, CalibrateError> {
        let zeros = Zeros::new(bytes, Pages::Huge).map_err(|source| memory_error(bytes, source))?;
        Ok(Self { zeros: Mutex::new(zeros), next_line: AtomicUsize::new(0) })
    }

    /// The memory, for one user at a time.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Zeros> {
        // Zeros stay zeros, whatever happened to the thread before.
        self.zeros.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first of so many lines that were not used for the longest time, out of `lines`; fewer are
    /// left where there are not so many.
    pub(crate) fn next_lines(&self, span: usize, lines: usize) -> usize {
        let at = self.next_line.load(Ordering::Relaxed);
        let first = if at + span <= lines { at } else { 0 };
        self.next_line.store(first + span, Ordering::Relaxed);
        first
    }

    /// The same in bytes.
    pub(crate) fn next_bytes(&self, bytes: usize, lines: usize) -> usize {
        self.next_lines(bytes.div_ceil(LINE_BYTES), lines) * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Access;

    #[test]
    fn lines_are_used_by_turns() {
        let region = Region::new(1 << 20).unwrap();
        let lines = region.lock().lines();
        assert!(lines >= 1 << 14);
        assert_eq!(region.next_lines(10_000, lines), 0);
        assert_eq!(region.next_lines(5000, lines), 10_000);
        assert_eq!(region.next_lines(5000, lines), 0);
        assert_eq!(region.next_bytes(128, lines), 5000 * 64);
    }

    #[test]
    fn a_stream_reaches_the_end_of_memory_that_it_fills_in_whole_parts() {
        // 3 MiB are whole pages and whole steps of a stream, so that nothing lies behind the last part.
        const PART_BYTES: usize = 1 << 20;
        let region = Region::new(3 * PART_BYTES).unwrap();
        let lines = region.lock().lines();
        for part in [0, 1, 2, 0] {
            let first = region.next_bytes(PART_BYTES, lines);
            assert_eq!(first, part * PART_BYTES);
            let done = region.lock().stream(Access::Read, first, PART_BYTES);
            // 682 steps of 24 lines.
            assert_eq!(done, 682 * 1536);
        }
    }
}
