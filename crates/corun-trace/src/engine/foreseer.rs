//! Which accesses a prefetcher would foresee.
//!
//! Two kinds are in today's cores (Intel 64 and IA-32 Optimization Reference Manual, data prefetching;
//! AMD's guides for Zen): one follows the stride of each instruction (Chen and Baer, IEEE Trans.
//! Computers 1995), the other neighbouring lines within a page, whoever touches them.

const INSTRUCTIONS: usize = 4096;
const PAGES: usize = 64;
const PAGE_LINES: u64 = 64;

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    instruction: u64,
    line: u64,
    stride: i64,
    /// The stride came twice in a row.
    steady: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Page {
    /// Its number and 1.
    key: u64,
    line: u64,
    /// Steps of one line in the same direction, at most 3; negative: downwards.
    run: i8,
}

/// Strides by instruction and runs of lines by page.
#[derive(Debug, Clone)]
pub(crate) struct Foreseer {
    entries: Box<[Entry]>,
    pages: Box<[Page]>,
}

impl Foreseer {
    pub(crate) fn new() -> Self {
        Self {
            entries: vec![Entry::default(); INSTRUCTIONS].into(),
            pages: vec![Page::default(); PAGES].into(),
        }
    }

    /// An instruction touches a line; the line that it goes on from where that was to be foreseen.
    /// Nothing where it touches the line that it touched last.
    pub(crate) fn access(&mut self, instruction: u64, line: u64) -> Option<u64> {
        let by_stride = self.by_stride(instruction, line);
        let by_page = self.by_page(line);
        by_stride.or(by_page)
    }

    fn by_stride(&mut self, instruction: u64, line: u64) -> Option<u64> {
        let at = (instruction.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % INSTRUCTIONS;
        let entry = &mut self.entries[at];
        if entry.instruction != instruction {
            *entry = Entry { instruction, line, ..Entry::default() };
            return None;
        }
        let stride = line.wrapping_sub(entry.line) as i64;
        if stride == 0 {
            return None;
        }
        let same = stride == entry.stride && stride.unsigned_abs() <= PAGE_LINES;
        let foreseen = (same && entry.steady).then_some(entry.line);
        (entry.steady, entry.stride, entry.line) = (same, stride, line);
        foreseen
    }

    fn by_page(&mut self, line: u64) -> Option<u64> {
        let key = line / PAGE_LINES + 1;
        let page =
            &mut self.pages[(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % PAGES];
        if page.key != key {
            *page = Page { key, line, run: 0 };
            return None;
        }
        let step = line.wrapping_sub(page.line) as i64;
        let before = page.line;
        match step {
            0 => return None,
            1 => page.run = page.run.max(0) + 1,
            -1 => page.run = page.run.min(0) - 1,
            _ => page.run = 0,
        }
        page.run = page.run.clamp(-3, 3);
        page.line = line;
        (page.run.abs() > 1).then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_is_foreseen_once_it_came_twice() {
        let mut foreseer = Foreseer::new();
        let found: Vec<bool> = [10, 17, 24, 31, 31, 38, 500, 507]
            .iter()
            .map(|&line| foreseer.access(7, line).is_some())
            .collect();
        assert_eq!(found, [false, false, false, true, false, true, false, false]);
    }

    #[test]
    fn neighbours_in_a_page_are_foreseen_whoever_touches_them() {
        let mut foreseer = Foreseer::new();
        let found: Vec<Option<u64>> =
            (0..4).map(|at| foreseer.access(100 + at, 6400 + at)).collect();
        assert_eq!(found, [None, None, Some(6401), Some(6402)]);
        assert_eq!(foreseer.access(9, 6464), None);
    }
}
