//! How deep the page of an access lies among the pages touched since a stretch began.
//!
//! Only micro-traces hold that. Between them the pages are noted in turn, and go to the stack together before the
//! next depth is asked for: all that the stack knows of a page is when it was touched last.

use super::options::EngineOptions;
use super::stack::{Depth, Stack};

/// Touches noted at most.
const MOST_NOTED: usize = 8192;
/// Pages that are told to have been touched again.
const TOLD_APART: usize = 256;
/// No page.
const NONE: u64 = u64::MAX;

/// An LRU stack of pages.
#[derive(Debug, Clone)]
pub(crate) struct PageDepths {
    stack: Stack,
    /// Pages touched that the stack does not know of yet, the last one at the end, none twice in a row.
    noted: Vec<u64>,
}

impl PageDepths {
    /// No page was touched.
    pub(crate) fn new() -> Self {
        Self { stack: Stack::new(&EngineOptions::exact()), noted: Vec::new() }
    }

    /// Forgets all pages.
    pub(crate) fn clear(&mut self) {
        if self.stack.followed() > 0 {
            self.stack = Stack::new(&EngineOptions::exact());
        }
        self.noted.clear();
    }

    /// A page is touched.
    #[inline(always)]
    pub(crate) fn touch(&mut self, page: u64) {
        if self.noted.last() != Some(&page) {
            self.note(page);
        }
    }

    #[inline]
    fn note(&mut self, page: u64) {
        if self.noted.len() == MOST_NOTED {
            self.catch_up();
        }
        self.noted.push(page);
    }

    /// A page is touched: how deep it lay, and how many pages were known before.
    pub(crate) fn depth(&mut self, page: u64) -> (Depth, u64) {
        if !self.noted.is_empty() {
            self.catch_up();
        }
        let known = self.stack.followed() as u64;
        (self.stack.access(page), known)
    }

    /// Brings the stack up to date.
    #[cold]
    fn catch_up(&mut self) {
        // Backwards, the first touch of a page is its last. One that is taken again changes nothing.
        let mut later = [NONE; TOLD_APART];
        let mut kept = 0;
        for at in (0..self.noted.len()).rev() {
            let page = self.noted[at];
            let last = &mut later[page as usize % TOLD_APART];
            if std::mem::replace(last, page) != page {
                kept += 1;
                let place = self.noted.len() - kept;
                self.noted[place] = page;
            }
        }
        let from = self.noted.len() - kept;
        for page in self.noted.drain(..).skip(from) {
            self.stack.access(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As if each touch had gone to the stack at once.
        #[test]
        fn noted_pages_lie_as_deep_as_others(
            touches in prop::collection::vec((0u64..3, 0u64..700, 0usize..300), 1..60)
        ) {
            let (mut depths, mut stack) = (PageDepths::new(), Stack::new(&EngineOptions::exact()));
            for (kind, from, count) in touches {
                for at in 0..count as u64 {
                    // A few pages, many, or some of which each two share their low bits.
                    let page = match kind {
                        0 => from + at * at % 7,
                        1 => (from + 37 * at) % 700,
                        _ => at % 5 * TOLD_APART as u64 + from % 2,
                    };
                    depths.touch(page);
                    stack.access(page);
                }
                let known = stack.followed() as u64;
                prop_assert_eq!(depths.depth(from), (stack.access(from), known));
            }
        }
    }

    #[test]
    fn no_more_is_noted_than_there_is_room_for() {
        let mut depths = PageDepths::new();
        let pages = 3 * MOST_NOTED as u64;
        (0..pages).for_each(|page| depths.touch(page));
        assert!(depths.noted.len() <= MOST_NOTED);
        assert_eq!(depths.depth(1), (Depth::Lines(pages - 2), pages));
        depths.clear();
        assert_eq!(depths.depth(1), (Depth::Cold, 0));
    }
}
