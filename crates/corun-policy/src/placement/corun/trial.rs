//! Trials: a program without a profile gets more or fewer ways for a moment, where what it does with them may
//! change how its LLC is divided.
//!
//! A trial begins while nothing else is worth a change. It has a division that would pay with curves that are as
//! likely as the likely ones, but not surely: the program whose curve makes that least sure gets the ways that the
//! division has for it, the others on the LLC share the rest. A part of an interval fills the cache, another is
//! counted, and the counts are points of the curves of all of them ([`super::curve`]).

use std::collections::BTreeMap;

use crate::Nanoseconds;

/// Parts of an interval in which the cache fills, and in which is counted then.
const SETTLING_PART: f64 = 0.05;
const COUNTING_PART: f64 = 0.1;
/// A program is tried again with the same ways after this time at the earliest.
const AGAIN_S: f64 = 60.0;
/// Most trials of a program in that time.
const MOST_OF_A_PROGRAM: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Settling,
    Counting,
}

/// Which trials there were, and the one that is on.
#[derive(Debug)]
pub(super) struct Trials {
    are_on: bool,
    interval_s: f64,
    stage: Option<Stage>,
    /// When a program had so many ways on trial last.
    tried: BTreeMap<(String, u32), Nanoseconds>,
}

impl Trials {
    pub(super) fn new(are_on: bool) -> Self {
        Self { are_on, interval_s: 0.0, stage: None, tried: BTreeMap::new() }
    }

    /// Are trials made at all?
    pub(super) fn are_on(&self) -> bool {
        self.are_on
    }

    /// May a program be tried with so many ways?
    pub(super) fn may(&self, program: &str, ways: u32, now: Nanoseconds) -> bool {
        let is_recent = |at: &Nanoseconds| now.as_secs_f64() < at.as_secs_f64() + AGAIN_S;
        let own = self.tried.iter().filter(|((name, _), at)| name == program && is_recent(at));
        let recent: Vec<u32> = own.map(|((_, ways), _)| *ways).collect();
        recent.len() < MOST_OF_A_PROGRAM && !recent.contains(&ways)
    }

    /// A trial begins; `interval_s`: the time between two decisions else.
    pub(super) fn begin(&mut self, program: &str, ways: u32, now: Nanoseconds, interval_s: f64) {
        self.tried.retain(|_, at| now.as_secs_f64() < at.as_secs_f64() + AGAIN_S);
        self.tried.insert((program.to_owned(), ways), now);
        (self.stage, self.interval_s) = (Some(Stage::Settling), interval_s);
    }

    /// Does the cache of a trial still fill?
    pub(super) fn is_settling(&self) -> bool {
        self.stage == Some(Stage::Settling)
    }

    /// From now on the trial's counts count.
    pub(super) fn begin_counting(&mut self) {
        self.stage = Some(Stage::Counting);
    }

    /// The trial that is on, if one is, has ended.
    pub(super) fn end(&mut self) {
        self.stage = None;
    }

    /// How long until the next look; none where no trial is on.
    pub(super) fn next_interval(&self) -> Option<Nanoseconds> {
        let part = match self.stage? {
            Stage::Settling => SETTLING_PART,
            Stage::Counting => COUNTING_PART,
        };
        Some(Nanoseconds::from_secs_f64((part * self.interval_s).max(1e-6)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interval of 0.5 s: 25 ms to settle, 50 ms to count. The same ways are not tried again within a minute,
    /// and no more than four numbers of ways.
    #[test]
    fn a_trial_settles_counts_and_ends() {
        let mut trials = Trials::new(true);
        assert_eq!((trials.next_interval(), trials.is_settling()), (None, false));
        let second = |at: f64| Nanoseconds::from_secs_f64(at);
        trials.begin("x", 3, second(1.0), 0.5);
        assert_eq!((trials.next_interval(), trials.is_settling()), (Some(second(0.025)), true));
        trials.begin_counting();
        assert_eq!((trials.next_interval(), trials.is_settling()), (Some(second(0.05)), false));
        trials.end();
        assert_eq!(trials.next_interval(), None);
        assert!(!trials.may("x", 3, second(60.9)) && trials.may("x", 3, second(61.1)));
        assert!(trials.may("x", 4, second(2.0)) && trials.may("y", 3, second(2.0)));
        for ways in 4..7 {
            trials.begin("x", ways, second(2.0), 0.5);
        }
        assert!(!trials.may("x", 9, second(3.0)) && trials.may("y", 9, second(3.0)));
    }
}
