//! Which misses a stride prefetcher would foresee.
//!
//! A table by instruction, as in Chen and Baer (IEEE Trans. Computers 1995): the last line the
//! instruction missed and the stride to it. A miss is foreseen when it continues the stride that
//! the two misses before it had. Strides of more than a page are not followed, as no hardware
//! prefetcher crosses pages.

const ENTRIES: usize = 4096;
const PAGE_LINES: i64 = 64;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    instruction: u64,
    line: u64,
    stride: i64,
}

/// Strides by instruction.
#[derive(Debug, Clone)]
pub(crate) struct Strides {
    entries: Vec<Entry>,
}

impl Strides {
    pub(crate) fn new() -> Self {
        Self { entries: vec![Entry::default(); ENTRIES] }
    }

    /// The instruction at this address misses this line; was that to be foreseen?
    pub(crate) fn foresees(&mut self, instruction: u64, line: u64) -> bool {
        let at = (instruction.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % ENTRIES;
        let entry = &mut self.entries[at];
        if entry.instruction != instruction {
            *entry = Entry { instruction, line, stride: 0 };
            return false;
        }
        let stride = line.wrapping_sub(entry.line) as i64;
        let foreseen = stride == entry.stride && stride != 0 && stride.abs() <= PAGE_LINES;
        (entry.line, entry.stride) = (line, stride);
        foreseen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_foreseen_from_its_third_miss_on() {
        let mut strides = Strides::new();
        let foreseen: Vec<bool> =
            [10, 12, 14, 16, 11, 9, 7, 5].iter().map(|&line| strides.foresees(7, line)).collect();
        assert_eq!(foreseen, [false, false, true, true, false, false, true, true]);
        let far = [0u64, 1000, 2000, 3000].map(|line| strides.foresees(8, line));
        assert_eq!(far, [false; 4]);
    }
}
