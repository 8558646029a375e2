//! Stack distances of a stream of accesses: the exact front, and the stack behind it.
//!
//! Either every access comes in and the stack lies behind the front as one with it; or the two are
//! apart: the stack follows a sample of the lines through all of the run, and the front and an
//! exact stack of its own see bursts.

use std::ops::Range;

use corun_profile::EngineKind;

use super::front::{self, FRONT_LINES, Front};
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
    /// Depths of the accesses below the front in turn, with the lines that were known before each,
    /// while somebody wants them.
    depths: Option<Vec<(Depth, u64)>>,
    /// Accesses below the front since somebody began to want their depths.
    below: usize,
    /// What sees bursts, where the stack does without the front.
    burst: Option<Box<Burst>>,
}

/// What lies behind the front in a burst.
#[derive(Debug, Clone)]
struct Burst {
    /// All lines since it began.
    lines: Stack,
    /// What was seen since [`Distances::settle`].
    seen: Histogram,
    /// Is nothing missing before it?
    whole: bool,
    /// How many accesses each stands for.
    weight: u64,
}

/// Where an access was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// In the front, with so many lines more recent.
    Front(usize),
    Below {
        /// The line that left the front for it, if it had been written there.
        written: Option<u64>,
        /// Which of the accesses below the front since [`Distances::want_depths`].
        number: usize,
    },
}

impl Distances {
    pub(crate) fn new(options: &EngineOptions) -> Self {
        Self {
            front: Front::new(),
            stack: Stack::new(options),
            exact: options.kind == EngineKind::Exact,
            waiting: Vec::with_capacity(WAITING),
            depths: None,
            below: 0,
            burst: None,
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

    /// Lets the stack do without the front from now on: its lines are followed by
    /// [`Self::follow`], and in bursts, of which none has begun, by [`Self::access`]. Nothing may
    /// wait.
    pub(crate) fn take_apart(&mut self) {
        self.stack.take_over(self.front.slots());
        self.front.clear();
        self.burst = Some(Box::new(Burst {
            lines: Stack::new(&EngineOptions::exact()),
            seen: Histogram::new(),
            whole: false,
            weight: 1,
        }));
    }

    /// Is the stack without the front?
    pub(crate) fn is_apart(&self) -> bool {
        self.burst.is_some()
    }

    /// A burst begins, of which each access stands for `weight`; `whole`: nothing came before it.
    pub(crate) fn begin_burst(&mut self, weight: u64, whole: bool) {
        let Some(burst) = &mut self.burst else { return };
        self.front.clear();
        burst.lines = Stack::new(&EngineOptions::exact());
        (burst.weight, burst.whole) = (weight, whole);
    }

    /// Lines that the burst has seen; 0 where there are none.
    pub(crate) fn burst_lines(&self) -> usize {
        self.burst.as_ref().map_or(0, |burst| burst.lines.followed())
    }

    /// An access to a line that may be followed, apart from the front.
    #[inline]
    pub(crate) fn follow(&mut self, line: u64, histogram: &mut Histogram) {
        let depth = self.stack.access(line);
        let weight = self.stack.rate().one_in();
        match depth {
            Depth::Unsampled => {}
            Depth::Cold => histogram.add_cold(weight),
            Depth::Lines(lines) => histogram.add_followed(lines, weight),
        }
    }

    /// Tells the depths of accesses below the front from now on.
    pub(crate) fn want_depths(&mut self, histogram: &mut Histogram) {
        self.settle_waiting(histogram);
        (self.depths, self.below) = (Some(Vec::new()), 0);
    }

    /// The depths since [`Self::want_depths`], and whether the first access to a line is the first of
    /// all; no more are told.
    pub(crate) fn take_depths(&mut self, histogram: &mut Histogram) -> (Vec<(Depth, u64)>, bool) {
        self.settle_waiting(histogram);
        let whole =
            self.burst.as_ref().map_or(self.stack.rate() == SamplingRate::ALL, |burst| burst.whole);
        (self.depths.take().unwrap_or_default(), whole)
    }

    /// Puts a line on top and counts how deep it lay, now or before [`Self::settle`] returns, with
    /// the same histogram until then.
    #[inline(always)]
    pub(crate) fn access(&mut self, line: u64, store: bool, histogram: &mut Histogram) -> Found {
        match self.front.access(line, store) {
            front::Found::At(distance) => {
                match &mut self.burst {
                    None => histogram.add_front(distance),
                    Some(burst) => burst.seen.add_front(distance),
                }
                Found::Front(distance)
            }
            front::Found::Below { slot, evicted } => {
                let number = self.below;
                self.below += 1;
                self.waiting.push((line, slot as u16));
                if self.waiting.len() == WAITING {
                    self.settle_waiting(histogram);
                }
                let written = evicted.and_then(|(line, dirty)| dirty.then_some(line));
                Found::Below { written, number }
            }
        }
    }

    /// The kernel writes a line for the program that may be followed, apart from the front: it goes on
    /// top, and how deep it lay counts in `cleared` alone.
    pub(crate) fn clear_followed(&mut self, line: u64, cleared: Option<&mut Histogram>) {
        let depth = self.stack.access(line);
        count_cleared(depth, self.stack.rate(), cleared);
    }

    /// The kernel writes these lines for the program: each goes on top. How deep it lay does not count
    /// in `program`, where the program's own accesses do, but in `cleared`, unless the stack is apart:
    /// then only [`Self::clear_followed`] counts, as bursts may see none of the few moments at which
    /// memory is new. `left` is told of each line that was not in the front, with the line that left the
    /// front for it if it had been written there.
    pub(crate) fn clear(
        &mut self,
        lines: Range<u64>,
        program: &mut Histogram,
        mut cleared: Option<&mut Histogram>,
        mut left: impl FnMut(u64, Option<u64>),
    ) {
        self.settle_waiting(program);
        for line in lines {
            let front::Found::Below { slot, evicted } = self.front.access(line, false) else {
                continue;
            };
            left(line, evicted.and_then(|(line, dirty)| dirty.then_some(line)));
            let (depth, known) = match &mut self.burst {
                None => (self.stack.exchange(slot, line), FRONT_LINES as u64),
                Some(burst) => {
                    let known = burst.lines.followed() as u64;
                    (burst.lines.exchange(slot, line), known)
                }
            };
            self.below += 1;
            if let Some(depths) = &mut self.depths {
                depths.push((behind_front(depth), known));
            }
            if self.burst.is_none() {
                let cleared = cleared.as_deref_mut();
                count_cleared(behind_front(depth), self.stack.rate(), cleared);
            }
        }
    }

    /// Counts all there is.
    pub(crate) fn settle(&mut self, histogram: &mut Histogram) {
        self.settle_waiting(histogram);
        if let Some(burst) = &mut self.burst {
            histogram.take_seen(&mut burst.seen, burst.weight);
        }
    }

    fn settle_waiting(&mut self, histogram: &mut Histogram) {
        match &mut self.burst {
            None => self.count_together(histogram),
            Some(burst) => burst.count(&self.waiting, self.depths.as_mut()),
        }
        self.waiting.clear();
    }

    fn count_together(&mut self, histogram: &mut Histogram) {
        self.stack.touch(&self.waiting);
        for &(line, slot) in &self.waiting {
            let depth = self.stack.exchange(usize::from(slot), line);
            let weight = self.stack.rate().one_in();
            if let Some(depths) = &mut self.depths {
                // Of a line that is not followed only is known that the front does not hold it.
                depths.push((behind_front(depth), FRONT_LINES as u64));
            }
            if weight > 1 {
                // Whether it is followed or not: seen not to be in the front.
                histogram.add_left(FRONT_LINES as u64);
            }
            match depth {
                Depth::Unsampled => {}
                Depth::Cold if self.exact => histogram.add_lasting(),
                Depth::Lines(lines) if self.exact => {
                    histogram.add_exact(FRONT_LINES as u64 + lines);
                }
                Depth::Cold => {
                    histogram.add_cold(weight);
                    if weight == 1 {
                        histogram.add_lasting();
                    }
                }
                Depth::Lines(lines) => {
                    let distance = FRONT_LINES as u64 + lines;
                    histogram.add_followed(distance, weight);
                    if weight == 1 {
                        histogram.add_found(distance);
                    }
                }
            }
        }
    }

    /// The share of the lines that is followed now.
    pub(crate) fn rate(&self) -> SamplingRate {
        self.stack.rate()
    }

    /// Lowers that share to this one if it is higher.
    pub(crate) fn follow_at_most(&mut self, rate: SamplingRate) {
        self.stack.follow_at_most(rate);
    }

    /// The greatest hash of a line that is followed.
    pub(crate) fn threshold(&self) -> u64 {
        self.stack.threshold()
    }
}

impl Burst {
    /// Counts accesses behind the front.
    fn count(&mut self, waiting: &[(u64, u16)], mut depths: Option<&mut Vec<(Depth, u64)>>) {
        self.lines.touch(waiting);
        for &(line, slot) in waiting {
            let before = self.lines.followed() as u64;
            let depth = self.lines.exchange(usize::from(slot), line);
            if let Some(depths) = &mut depths {
                depths.push((behind_front(depth), before));
            }
            match depth {
                Depth::Lines(lines) if self.whole => {
                    self.seen.add_found(FRONT_LINES as u64 + lines);
                }
                Depth::Lines(lines) => {
                    self.seen.add_found_within(FRONT_LINES as u64 + lines, before);
                }
                Depth::Cold if self.whole => self.seen.add_lasting(),
                Depth::Cold | Depth::Unsampled => self.seen.add_left(before),
            }
        }
    }
}

/// Counts a line that the kernel wrote, which stands for those that are not followed.
fn count_cleared(depth: Depth, rate: SamplingRate, cleared: Option<&mut Histogram>) {
    let Some(cleared) = cleared else { return };
    match depth {
        Depth::Unsampled => {}
        Depth::Cold => cleared.add_cold(rate.one_in()),
        Depth::Lines(lines) => cleared.add_followed(lines, rate.one_in()),
    }
}

/// A depth below the front as one from the top.
fn behind_front(depth: Depth) -> Depth {
    match depth {
        Depth::Lines(lines) => Depth::Lines(FRONT_LINES as u64 + lines),
        depth => depth,
    }
}
