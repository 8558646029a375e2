//! What one guest thread carries from batch to batch, and when its branches are looked at and
//! micro-traces taken.
//!
//! Mispredictions are a rate and cost much, so they are taken from the first two million events, all that a short run
//! may have, then from stretches of 16,384 events, one in eight, and of a sampled run from its bursts. In the first 4096
//! events of each the predictor learns what it missed, and nothing is counted.

use super::predictor::Predictor;
use super::set_profile::PrivateCaches;
use super::tage::Tage;

/// Events of a quarter of a stretch.
const STEP: u64 = 4096;
/// Steps of a stretch.
const STRETCH: u64 = 4;
/// Those of them in which branches are counted.
const COUNTED_STEPS: u64 = STRETCH - 1;
/// Steps from one stretch's start to the next one's.
const SPACING: u64 = 8 * STRETCH;

/// Events at the beginning that are all looked at.
const BEGINNING: u64 = 16 * SPACING * STEP;

/// How events are looked at beyond what is counted of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attention {
    /// Not at all.
    None,
    Learn,
    /// Branches are counted, and micro-traces may begin.
    Count,
}

/// What one guest thread carries from batch to batch.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Is it the one that the program began with?
    is_first: bool,
    /// How often the engine had begun anew when this thread's part began.
    beginnings: u32,
    /// Its place in the order of the threads' starts, once it has begun.
    pub(super) number: Option<usize>,
    pub(super) block: Option<u32>,
    /// Does that block end with a repeated instruction?
    pub(super) repeats: bool,
    pub(super) code_line: u64,
    /// Instruction and direction of the last data access in the running block.
    pub(super) last_access: Option<(u32, bool)>,
    pub(super) predictor: Predictor,
    pub(super) tage: Tage,
    /// Its caches in front of the profiled ones; made where any are asked for.
    pub(super) private_caches: Option<Box<PrivateCaches>>,
    /// What each branch that is looked at stands for, relative to others: those of a stretch for all up to the next one.
    pub(super) branch_weight: u64,
    /// Events seen of the burst of this number.
    seen: u64,
    burst: u64,
}

impl Default for Thread {
    fn default() -> Self {
        Self::new()
    }
}

impl Thread {
    /// Is it the one that the program began with?
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// The engine has begun anew so many times: where that is news, all else that was known is of no use.
    pub(super) fn begin_anew(&mut self, beginnings: u32) {
        if self.beginnings != beginnings {
            *self = Self { is_first: self.is_first, beginnings, ..Self::new() };
        }
    }

    /// Its place in the order of the threads' starts is known.
    pub(super) fn begin(&mut self, number: usize) {
        self.is_first |= number == 0 && self.beginnings == 0;
        self.number = Some(number);
    }

    /// A thread that has done nothing.
    pub fn new() -> Self {
        Self {
            is_first: false,
            beginnings: 0,
            number: None,
            block: None,
            repeats: false,
            code_line: u64::MAX,
            last_access: None,
            predictor: Predictor::new(),
            tage: Tage::new(),
            private_caches: None,
            branch_weight: 1,
            seen: 0,
            burst: 0,
        }
    }

    /// It is in the burst of this number; what it did before a new one is not known.
    pub(super) fn join_burst(&mut self, number: u64) {
        if self.burst != number {
            (self.burst, self.seen) = (number, 0);
            (self.block, self.repeats, self.last_access) = (None, false, None);
            self.code_line = u64::MAX;
        }
    }

    /// How many of this many next events, at least one, are to be looked at how.
    pub(super) fn next(&mut self, events: usize) -> (usize, Attention) {
        let steps = self.seen / STEP;
        // A burst is short, and all there is for some time.
        let all = self.burst > 0 || self.seen < BEGINNING;
        self.branch_weight = if all { COUNTED_STEPS } else { SPACING };
        let attention = match (steps, steps % SPACING) {
            (0, _) => Attention::Learn,
            (_, 0) if !all => Attention::Learn,
            (_, step) if all || step < STRETCH => Attention::Count,
            _ => Attention::None,
        };
        let left = (STEP - self.seen % STEP) as usize;
        let count = events.min(left);
        self.seen += count as u64;
        (count, attention)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_thread_stays_the_first_when_the_engine_begins_anew() {
        let [mut first, mut second] = [Thread::new(), Thread::new()];
        first.begin(0);
        second.begin(1);
        for thread in [&mut second, &mut first] {
            thread.begin_anew(1);
            assert_eq!(thread.number, None);
        }
        // Whoever comes first is numbered first then.
        second.begin(0);
        first.begin(1);
        assert!(first.is_first() && !second.is_first());
    }

    #[test]
    fn all_of_the_beginning_then_a_stretch_in_eight_with_a_quarter_to_learn() {
        let mut thread = Thread::new();
        let see = |thread: &mut Thread, batches: usize| {
            let mut seen = [0; 3];
            for _ in 0..batches {
                let mut left = 16_384 * 2 + 100;
                while left > 0 {
                    let (count, attention) = thread.next(left);
                    seen[attention as usize] += count;
                    left -= count;
                }
            }
            seen
        };
        let beginning = see(&mut thread, 63);
        assert_eq!(beginning, [0, 4096, 63 * (16_384 * 2 + 100) - 4096]);
        let weight = thread.branch_weight;
        thread.seen = BEGINNING;
        // 256 steps and three quarters of one more: eight stretches and the beginning of a ninth.
        let later = see(&mut thread, 32);
        assert_eq!(later[Attention::Learn as usize], 8 * 4096 + 3200);
        assert_eq!(later[Attention::Count as usize], 8 * 3 * 4096);
        assert_eq!(later.iter().sum::<usize>(), 32 * (16_384 * 2 + 100));
        // What is counted of 32 steps stands for as many as 32 steps of the beginning.
        assert_eq!(3 * thread.branch_weight, 32 * weight);
    }
}
