//! When all accesses are seen, and when only those to followed lines.
//!
//! A sampled run begins with a stretch in which all are; so a short one is exact. Then every period
//! has one burst, at a place that chance decides, but the same in every run: a program that does
//! the same in a rhythm of its own is not met at the same point each time. Periods grow with the age
//! of the run, so that a set-up which passes once is met often enough.

use super::sketch::mix;

/// Instructions of the stretch at the beginning.
const BEGINNING: u64 = 1 << 22;
/// It ends before when it has touched this many lines (4 MiB), which bounds its memory.
const BEGINNING_LINES: usize = 1 << 16;
/// Instructions of a burst.
pub(crate) const BURST: u64 = 1 << 16;
/// Instructions from one period's beginning to the next one's, at most.
pub(crate) const PERIOD: u64 = 24 * BURST;
const LEAST_PERIOD: u64 = 3 * BURST;
/// As a share of the run's age: one in this many.
const PERIODS_OF_AGE: u64 = 32;

/// Instructions from one micro-trace's beginning to the next one's outside of bursts: at least, and as a share of the
/// run's age. A run of 3 million instructions has some 250 of them.
const LEAST_CAPTURE_SPACING: u64 = 1 << 13;
const CAPTURES_OF_AGE: u64 = 256;
/// The same in a burst: two of each, both behind its half, which stand for all of it.
const BURST_CAPTURE_SPACING: u64 = BURST / 4;
pub(super) const BURST_CAPTURE_SHARE: u64 = BURST / 2;

/// What is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// All, as long as the run lasts.
    Always,
    /// All, since it began.
    Beginning,
    /// Followed lines alone, until so many instructions have passed.
    Gap(u64),
    /// All, until so many have.
    Burst(u64),
}

/// A change from one to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A burst begins; each of its accesses stands for so many.
    Burst { weight: u64 },
    /// It ends.
    Gap,
}

/// Instructions from one micro-trace's beginning to the next one's, so many after the run began.
pub(crate) fn capture_spacing(now: u64, burst: bool) -> u64 {
    if burst {
        return BURST_CAPTURE_SPACING;
    }
    let spacing = (now / CAPTURES_OF_AGE).clamp(LEAST_CAPTURE_SPACING, PERIOD / 2);
    // A rhythm of the program's own is not met at the same point each time.
    spacing / 2 + mix(now) % spacing
}

/// When what is seen. Counted in instructions since the run began.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    stage: Stage,
    /// The beginning of the period whose burst comes next or is running, and its length.
    period: (u64, u64),
}

impl Schedule {
    /// All is seen at all times.
    pub(crate) fn always() -> Self {
        Self { stage: Stage::Always, period: (0, PERIOD) }
    }

    /// All is seen at the beginning, then bursts are.
    pub(crate) fn bursts() -> Self {
        Self { stage: Stage::Beginning, period: (0, PERIOD) }
    }

    /// Bursts alone are seen from now on.
    pub(crate) fn begin_bursts(&mut self, now: u64) {
        self.begin_period(now);
    }

    /// Is all seen?
    pub(crate) fn sees_all(&self) -> bool {
        !matches!(self.stage, Stage::Gap(_))
    }

    /// Will it always be?
    pub(crate) fn is_always(&self) -> bool {
        self.stage == Stage::Always
    }

    /// Has all been seen since the run began, as it soon will not?
    pub(crate) fn is_beginning(&self) -> bool {
        self.stage == Stage::Beginning
    }

    pub(crate) fn is_burst(&self) -> bool {
        matches!(self.stage, Stage::Burst(_))
    }

    /// Is it the first half of a burst, in which caches refill that were not looked at before it?
    pub(crate) fn is_warming(&self, now: u64) -> bool {
        matches!(self.stage, Stage::Burst(end) if now + BURST / 2 < end)
    }

    /// Instructions until there may be a change.
    pub(crate) fn left(&self, now: u64) -> u64 {
        match self.stage {
            Stage::Always => u64::MAX,
            Stage::Beginning => BEGINNING.saturating_sub(now),
            Stage::Gap(end) | Stage::Burst(end) => end.saturating_sub(now),
        }
    }

    /// So many instructions have passed, and the stretch since the last change has touched so many
    /// lines: what changes?
    pub(crate) fn advance(&mut self, now: u64, lines: usize) -> Option<Change> {
        match self.stage {
            Stage::Beginning if now >= BEGINNING || lines >= BEGINNING_LINES => {
                self.begin_bursts(now);
                Some(Change::Gap)
            }
            Stage::Gap(end) if now >= end => {
                self.stage = Stage::Burst(now + BURST);
                Some(Change::Burst { weight: self.period.1 / BURST })
            }
            Stage::Burst(end) if now >= end => {
                self.begin_period(self.period.0 + self.period.1);
                Some(Change::Gap)
            }
            _ => None,
        }
    }

    fn begin_period(&mut self, begin: u64) {
        let bursts = (begin / PERIODS_OF_AGE / LEAST_PERIOD).next_power_of_two();
        let length = (bursts * LEAST_PERIOD).min(PERIOD);
        self.period = (begin, length);
        self.stage = Stage::Gap(begin + mix(begin) % (length - BURST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_and_then_a_burst_a_period() {
        let (mut schedule, mut seen, mut stands_for, mut bursts) = (Schedule::bursts(), 0, 0, 0);
        // Periods of an eighth of the longest, then of a quarter, of a half, and whole ones.
        let all = 32 * PERIOD + 100 * PERIOD;
        for now in (0..all).step_by(1024) {
            match schedule.advance(now, 0) {
                Some(Change::Burst { weight }) => {
                    (bursts, stands_for) = (bursts + 1, stands_for + weight * BURST)
                }
                Some(Change::Gap) if bursts == 0 => assert_eq!(now, BEGINNING),
                _ => {}
            }
            seen += if schedule.sees_all() { 1024 } else { 0 };
        }
        // What bursts stand for is what passed since the beginning, but for a period at each end.
        assert!(stands_for.abs_diff(all - BEGINNING) <= 2 * PERIOD, "{stands_for}");
        assert!((132..220).contains(&bursts), "{bursts}");
        let expected = BEGINNING + bursts * BURST;
        assert!((expected..expected + bursts * 1024).contains(&seen), "{seen}");
    }

    #[test]
    fn many_lines_end_the_beginning() {
        let mut schedule = Schedule::bursts();
        assert_eq!(schedule.advance(1000, BEGINNING_LINES - 1), None);
        assert_eq!(schedule.advance(1000, BEGINNING_LINES), Some(Change::Gap));
        assert!(schedule.left(1000) < LEAST_PERIOD);
    }
}
