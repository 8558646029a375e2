//! Timers: what is to happen at a moment known beforehand.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// What a timer is for. The order is that in which timers of one moment fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A program is killed.
    Kill(usize),
    /// A program arrives.
    Arrive(usize),
    /// A thread's wait is over; the number is that of the wait.
    Wake(usize, u64),
    /// A request of a service arrives.
    Request(usize),
    /// A thread's old weight comes back, unless it was set again since.
    WeightEnds(usize, u64),
    /// A thread's pages have arrived, unless they were sent elsewhere since.
    PagesMoved(usize, u64),
    /// A CPU may be used again.
    IdleEnds(usize),
    /// A domain balances its load.
    Balance(usize),
    /// The window is over.
    WindowEnds,
}

/// Timers in order of time, then kind, then id: nothing depends on who was set first.
#[derive(Debug, Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<(u64, Timer)>>);

impl Timers {
    pub(crate) fn set(&mut self, at: u64, timer: Timer) {
        self.0.push(Reverse((at, timer)));
    }

    /// The time of the next one, or [`NEVER`].
    pub(crate) fn next(&self) -> u64 {
        self.0.peek().map_or(NEVER, |Reverse((at, _))| *at)
    }

    /// Takes the next one if its time has come.
    pub(crate) fn due(&mut self, now: u64) -> Option<Timer> {
        let Reverse((at, timer)) = *self.0.peek()?;
        (at <= now).then(|| {
            self.0.pop();
            timer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_then_kind_then_id() {
        let mut timers = Timers::default();
        for (at, timer) in [
            (5, Timer::Wake(1, 0)),
            (5, Timer::Wake(0, 3)),
            (5, Timer::Kill(9)),
            (4, Timer::WindowEnds),
        ] {
            timers.set(at, timer);
        }
        assert_eq!(timers.next(), 4);
        assert_eq!(timers.due(3), None);
        let order: Vec<Timer> = std::iter::from_fn(|| timers.due(5)).collect();
        let expected = [Timer::WindowEnds, Timer::Kill(9), Timer::Wake(0, 3), Timer::Wake(1, 0)];
        assert_eq!(order, expected);
        assert_eq!(timers.next(), NEVER);
    }
}
