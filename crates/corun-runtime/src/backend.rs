//! A machine, as the runtime sees it.

use std::fmt;

use corun_policy::{Action, ActionKind, CounterKind, Event, Nanoseconds, Step};

use crate::{NotAnnounced, RuntimeError, ThreadTable, Verdict};

/// A machine with threads on it: simulated, real, or recorded.
///
/// The runtime calls `scan`, then `count`, then `apply` once for each plan, all at one moment `now`, from one
/// thread. Moments never go back. Between two ticks the table is the runtime's alone.
pub trait Backend: Sized {
    /// What the backend keeps of a thread beside what policies see.
    type Thread;
    /// One change to the machine, as decisions show it.
    type Change;
    /// Why a step is not carried out.
    type Refusal: fmt::Display + From<NotAnnounced>;
    /// Why nothing goes on.
    type Error: From<RuntimeError>;

    /// Brings the table up to date: threads that are new are inserted with ascending ids, threads that ended
    /// are removed, and of all others the view says what they do and where they run and may run.
    ///
    /// # Errors
    /// When it cannot be told at all which threads there are.
    fn scan(
        &mut self,
        now: Nanoseconds,
        table: &mut ThreadTable<Self::Thread>,
    ) -> Result<Scan, Self::Error>;

    /// Brings counts up to date, and what else sources know of threads: occupancy, pages, profiles. What
    /// cannot be counted now keeps its count and the time over which it was counted. Returns for people what
    /// could not be read.
    fn count(&mut self, now: Nanoseconds, table: &mut ThreadTable<Self::Thread>) -> Vec<String>;

    /// Actions of earlier plans that the last `count` took back, each with the index of its policy. The policies are
    /// told ([`corun_policy::Policy::not_in_force`]).
    fn taken_back(&mut self) -> Vec<(usize, Action)> {
        Vec::new()
    }

    /// How often since the last tick it changed which threads are on CPUs, as far as that is known; 0 where a
    /// backend tells switches among its other events, or not at all.
    fn switches(&self) -> usize {
        0
    }

    /// Shows in the table the change of this index, oldest first, as it was right after it: who ran where, and what
    /// had been counted by then. Answers with its moment and event. What a plan changed meanwhile stays.
    fn show_switch(
        &mut self,
        index: usize,
        table: &mut ThreadTable<Self::Thread>,
    ) -> (Nanoseconds, Event) {
        let _ = table;
        unreachable!("there are {} switches, and {index} was asked for", self.switches())
    }

    /// After [`Self::show_switch`]: shows in the table what `count` left there.
    fn show_present(&mut self, _table: &mut ThreadTable<Self::Thread>) {}

    /// Carries out the steps of one policy's plan in order, and shows in the table where threads are held
    /// after it. One verdict for each step; a backend that ends the run at a refusal may stop there and
    /// return fewer.
    fn apply(
        &mut self,
        now: Nanoseconds,
        policy: usize,
        steps: &[Step],
        table: &mut ThreadTable<Self::Thread>,
    ) -> Vec<Verdict<Self::Change, Self::Refusal>>;
}

/// What a scan found beside the threads themselves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scan {
    /// What happened since the last scan, in order.
    pub events: Vec<Event>,
    /// Threads that somebody else moved; they are left alone from now on.
    pub left_alone: Vec<String>,
    /// What could not be read or written, for people.
    pub unread: Vec<String>,
}

/// What a backend gives to policies; checked before they start.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Capabilities {
    /// Counters that are counted.
    pub counters: Vec<CounterKind>,
    /// Actions that are carried out.
    pub controls: Vec<ActionKind>,
    /// Are there figures from stored profiles ([`corun_policy::ThreadView::solo`] and `by_ways`)?
    pub profiles: bool,
    /// Is it known how long the requests of services take ([`corun_policy::ThreadView::latency`])?
    pub latencies: bool,
    /// What counts, for messages: "perf, profiles".
    pub sources: String,
}
