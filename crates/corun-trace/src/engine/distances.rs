//! An LRU stack, whole: its exact front, and what lies below.

use super::front::{FRONT_LINES, Found, Front};
use super::histogram::Histogram;
use super::options::{EngineOptions, SamplingRate};
use super::stack::{Depth, Stack};

/// The stack.
#[derive(Debug, Clone)]
pub(crate) struct Distances {
    front: Front,
    stack: Stack,
}

/// An access of a line that the front did not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BelowFront {
    /// The line that left the front for it, if it had been written there.
    pub(crate) written: Option<u64>,
}

impl Distances {
    pub(crate) fn new(options: &EngineOptions) -> Self {
        Self { front: Front::new(), stack: Stack::new(options) }
    }

    /// The same, following at most this many lines.
    pub(crate) fn limited(&self, lines: usize) -> Self {
        Self { front: self.front.clone(), stack: self.stack.limited(lines) }
    }

    pub(crate) fn front(&self) -> &Front {
        &self.front
    }

    /// The share of the lines that is followed now.
    pub(crate) fn rate(&self) -> SamplingRate {
        self.stack.rate()
    }

    /// Puts a line on top and counts how deep it lay; `None` when that was in the front.
    #[inline]
    pub(crate) fn access(
        &mut self,
        line: u64,
        store: bool,
        histogram: &mut Histogram,
    ) -> Option<BelowFront> {
        match self.front.access(line, store) {
            Found::Group(group) => {
                histogram.add_front(group);
                None
            }
            Found::Below { slot, evicted } => {
                histogram.add_below();
                let depth = self.stack.exchange(slot, line);
                let weight = self.stack.rate().one_in();
                match depth {
                    Depth::Unsampled => {}
                    Depth::Cold => histogram.add_cold(weight),
                    Depth::Lines(lines) => {
                        histogram.add_deep(FRONT_LINES as u64 + lines, weight);
                    }
                }
                let written = evicted.and_then(|(line, dirty)| dirty.then_some(line));
                Some(BelowFront { written })
            }
        }
    }
}
