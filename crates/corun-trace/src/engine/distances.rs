//! Stack distances of a stream of accesses: the exact front, and the stack below it.

use corun_profile::EngineKind;

use super::front::{FRONT_LINES, Found, Front};
use super::histogram::Histogram;
use super::options::{EngineOptions, SamplingRate};
use super::stack::{Depth, Stack};

/// Accesses below the front that wait until they are looked up together: the memory that holds
/// their entries answers them side by side.
const WAITING: usize = 32;

/// An LRU stack that counts distances.
#[derive(Debug, Clone)]
pub(crate) struct Distances {
    front: Front,
    stack: Stack,
    /// Is every position to be told from all others?
    exact: bool,
    waiting: Vec<(u64, u16)>,
}

/// An access of a line that the front did not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BelowFront {
    /// The line that left the front for it, if it had been written there.
    pub(crate) written: Option<u64>,
}

impl Distances {
    pub(crate) fn new(options: &EngineOptions) -> Self {
        Self {
            front: Front::new(),
            stack: Stack::new(options),
            exact: options.kind == EngineKind::Exact,
            waiting: Vec::with_capacity(WAITING),
        }
    }

    /// The same, following at most this many lines. Nothing may wait.
    pub(crate) fn limited(&self, lines: usize) -> Self {
        let stack = self.stack.limited(lines);
        Self { stack, exact: false, ..self.clone() }
    }

    pub(crate) fn front(&self) -> &Front {
        &self.front
    }

    /// Puts a line on top and counts how deep it lay, now or before [`Self::settle`] returns, with
    /// the same histogram until then; `None` when that was in the front.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        line: u64,
        store: bool,
        histogram: &mut Histogram,
    ) -> Option<BelowFront> {
        match self.front.access(line, store) {
            Found::At(distance) => {
                histogram.add_front(distance);
                None
            }
            Found::Below { slot, evicted } => {
                self.waiting.push((line, slot as u16));
                if self.waiting.len() == WAITING {
                    self.settle(histogram);
                }
                let written = evicted.and_then(|(line, dirty)| dirty.then_some(line));
                Some(BelowFront { written })
            }
        }
    }

    /// Counts what waits.
    pub(crate) fn settle(&mut self, histogram: &mut Histogram) {
        self.stack.touch(&self.waiting);
        for &(line, slot) in &self.waiting {
            let depth = self.stack.exchange(usize::from(slot), line);
            histogram.add_below();
            let weight = self.stack.rate().one_in();
            match depth {
                Depth::Unsampled => {}
                Depth::Cold => histogram.add_cold(weight),
                Depth::Lines(lines) if self.exact => {
                    histogram.add_exact(FRONT_LINES as u64 + lines)
                }
                Depth::Lines(lines) => histogram.add_deep(FRONT_LINES as u64 + lines, weight),
            }
        }
        self.waiting.clear();
    }

    /// The share of the lines that is followed now.
    pub(crate) fn rate(&self) -> SamplingRate {
        self.stack.rate()
    }
}
