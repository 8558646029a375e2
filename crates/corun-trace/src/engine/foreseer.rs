//! Which accesses a prefetcher would foresee.
//!
//! Two kinds are in today's cores (Intel 64 and IA-32 Optimization Reference Manual, data prefetching;
//! AMD's guides for Zen): one follows the stride of each instruction (Chen and Baer, IEEE Trans.
//! Computers 1995), the other the direction in which a page's lines are touched, whoever touches
//! them.

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

/// A page and the lines of it that were touched.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    /// Its number and 1.
    key: u64,
    /// One bit a line.
    touched: u64,
    low: u8,
    high: u8,
    /// Steps upwards and downwards that went at most [`REACH`] beyond what was touched before.
    ups: u8,
    downs: u8,
}

/// Lines that a stream runs ahead of the last one touched.
const REACH: u8 = 8;
/// Steps after which a page has a stream.
const STEPS: u8 = 2;

impl Page {
    /// A line of the page that was not touched before; the one it goes on from where the page's stream
    /// has come to it.
    fn extend(&mut self, line: u8) -> Option<u8> {
        if line > self.high {
            let (before, near) = (self.high, line - self.high <= REACH);
            let foreseen = near && self.ups >= STEPS;
            self.ups = self.ups.saturating_add(u8::from(near));
            self.high = line;
            return foreseen.then_some(before);
        }
        if line < self.low {
            let (before, near) = (self.low, self.low - line <= REACH);
            let foreseen = near && self.downs >= STEPS;
            self.downs = self.downs.saturating_add(u8::from(near));
            self.low = line;
            return foreseen.then_some(before);
        }
        // The stream passed over it.
        let below = 63 - (self.touched & ((1 << line) - 1)).leading_zeros() as u8;
        (self.ups > STEPS || self.downs > STEPS).then_some(below)
    }
}

/// Strides by instruction and streams by page.
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
    #[inline(always)]
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
        let (first, at) = (line / PAGE_LINES * PAGE_LINES, (line % PAGE_LINES) as u8);
        let key = line / PAGE_LINES + 1;
        let page =
            &mut self.pages[(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % PAGES];
        if page.key != key {
            *page = Page { key, touched: 1 << at, low: at, high: at, ups: 0, downs: 0 };
            return None;
        }
        if page.touched >> at & 1 == 1 {
            return None;
        }
        let from = page.extend(at);
        page.touched |= 1 << at;
        from.map(|from| first + u64::from(from))
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
    fn a_page_has_a_stream_after_two_steps_whoever_makes_them() {
        let mut foreseer = Foreseer::new();
        let mut touch = |lines: &[u64]| -> Vec<Option<u64>> {
            lines.iter().map(|&line| foreseer.access(10_000 + line, line)).collect()
        };
        // With gaps, and back to what was passed over.
        assert_eq!(touch(&[6400, 6403, 6404]), [None; 3]);
        assert_eq!(touch(&[6410, 6410, 6407]), [Some(6404), None, Some(6404)]);
        // Too far ahead, and another page.
        assert_eq!(touch(&[6430, 6464]), [None, None]);
        // Downwards.
        assert_eq!(touch(&[6590, 6589, 6587, 6585]), [None, None, None, Some(6587)]);
    }

    #[test]
    fn lines_in_no_order_make_no_stream() {
        let mut foreseer = Foreseer::new();
        let foreseen = (0..64).filter(|&at| foreseer.access(at, 6400 + at * 37 % 64).is_some());
        assert!(foreseen.count() < 20);
    }
}
