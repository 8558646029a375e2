//! What threads are to hand in, and what becomes of it: all events, or those of followed lines.

use std::ops::Range;

use corun_profile::EngineKind;

use super::facts::Sums;
use super::pages::{PAGE_LINES, Touch};
use super::sample::spatial_hash;
use super::schedule::{BURST, Change, PERIOD, Schedule};
use super::sieve::MOST_INSTRUCTIONS;
use super::{Engine, Figures, Pace, SamplingRate, Sieve, Thread};
use crate::event::{TraceEvent, Unpacked, line_of};

/// Windows of less have too few bursts: then all is seen at all times.
const LEAST_WINDOW_WITH_GAPS: u64 = 4 * PERIOD;

/// Events a thread collects before it hands them in: 128 KiB, half an L2 cache.
const BATCH: usize = 16 * 1024;
/// The same in a burst, so that it ends about when it should.
const BURST_BATCH: usize = 4 * 1024;
/// The same where there are several threads, so that they are interleaved more finely, and where
/// not all events are collected.
const SMALL_BATCH: usize = 1024;
/// Instructions after which a thread hands in what it has where there are several.
const SHARED_INSTRUCTIONS: u64 = 16 * 1024;

/// What fixed size falls to when accesses to other lines begin to go unseen: a rate a little below 1
/// would cost nearly as much as 1, and small caches are for bursts to tell.
pub(super) fn rate_with_gaps() -> SamplingRate {
    SamplingRate::of_one_in(32)
}

impl Engine {
    /// The same, that leaves accesses to lines that are not followed unseen for most of the time,
    /// as [`Self::pace`] says, if its options sample and its windows are long enough. To be set
    /// before it begins, and after its windows.
    #[must_use]
    pub fn with_gaps(mut self) -> Self {
        self.gaps = self.window_instructions >= LEAST_WINDOW_WITH_GAPS
            && self.options.kind != EngineKind::Exact;
        if self.gaps && self.distances.rate() != SamplingRate::ALL {
            self.distances.take_apart();
            self.distances.begin_burst(1, true);
            self.code.take_apart(self.distances.rate());
            self.code.begin_burst(1, true);
            self.schedule = Schedule::bursts();
        }
        self
    }

    /// Takes in what a thread did since its last batch. Events behind the instruction limit, and
    /// of blocks that were never made known, are dropped.
    pub fn process(&mut self, thread: &mut Thread, events: &[TraceEvent]) {
        self.with_thread(thread, |engine, thread| {
            thread.join_burst(engine.burst.0);
            if let Some(own) = &mut engine.running {
                let whole = engine.schedule.is_beginning();
                own.join_burst(engine.burst.0, engine.burst.1, whole);
            }
            engine.run_all(thread, events);
            engine.burst.1
        });
    }

    /// Takes in what a thread has collected. The thread has to go on at [`Self::pace`].
    pub fn take(&mut self, thread: &mut Thread, sieve: &Sieve) {
        thread.begin_anew(self.beginnings);
        if sieve.takes_all() {
            self.process(thread, &sieve.events);
        } else {
            self.with_thread(thread, |engine, thread| {
                engine.run_gap(thread, sieve);
                0
            });
        }
        self.reschedule();
    }

    /// How threads are to collect events from now on.
    pub fn pace(&self) -> Pace {
        let several = self.threads > 1;
        let all = self.schedule.sees_all();
        let events = match all {
            _ if several => SMALL_BATCH,
            true if self.schedule.is_burst() => BURST_BATCH,
            true => BATCH,
            false => SMALL_BATCH,
        };
        let due = u64::from(self.left()).min(self.schedule.left(self.instructions()));
        let due = if several { due.min(SHARED_INSTRUCTIONS) } else { due };
        let threshold = self.distances.threshold();
        let instructions = due.clamp(1, MOST_INSTRUCTIONS) as u32;
        Pace { all, threshold, instructions, events, number: self.paces }
    }

    /// Lets a thread do something that passes some time, of which each instruction stands for so
    /// many as comes back.
    fn with_thread(
        &mut self,
        thread: &mut Thread,
        step: impl FnOnce(&mut Self, &mut Thread) -> u64,
    ) {
        let number = thread.number.unwrap_or_else(|| self.begin_thread());
        thread.begin(number);
        self.figures.threads.insert(number);
        self.running = self.own.get_mut(number).and_then(Option::take);
        if self.distances.is_apart() {
            let rate = self.distances.rate();
            self.code.take_apart(rate);
            self.running.iter_mut().for_each(|own| own.take_apart(rate));
        }
        let (instructions, accesses) = (self.instructions(), self.data_accesses());
        let weight = step(self, thread);
        if let Some(mut own) = self.running.take() {
            own.data_accesses += self.data_accesses() - accesses;
            own.settle(self.instructions() - instructions, weight);
            self.own[number] = Some(own);
        }
    }

    /// Changes over between bursts and gaps when it is time to.
    fn reschedule(&mut self) {
        let now = self.instructions();
        if self.gaps && self.schedule.is_always() && self.distances.rate() != SamplingRate::ALL {
            // It was fixed size at rate 1 until now.
            self.end_burst();
            self.distances.follow_at_most(rate_with_gaps());
            self.distances.take_apart();
            self.code.take_apart(self.distances.rate());
            self.schedule.begin_bursts(now);
            self.paces += 1;
            return;
        }
        match self.schedule.advance(now, self.distances.burst_lines()) {
            None => return,
            Some(Change::Gap) => self.end_burst(),
            Some(Change::Burst { weight }) => {
                self.distances.begin_burst(weight, false);
                self.code.begin_burst(weight, false);
                self.burst = (self.burst.0 + 1, weight);
                // Its first half warms up what caches hold.
                self.watching.change_over(now + BURST / 2);
            }
        }
        self.paces += 1;
    }

    /// What the front holds leaves it.
    fn end_burst(&mut self) {
        self.watching.change_over(u64::MAX);
        let front = self.distances.front();
        for line in front.written_lines() {
            self.private_cache.write_back(line, &mut self.observed.traffic);
        }
        front.lines().for_each(|line| self.figures.touched.insert(line));
        self.settle(&mut Sums::default(), self.burst.1);
    }

    /// Takes in what a thread did while only followed lines are seen.
    fn run_gap(&mut self, thread: &mut Thread, sieve: &Sieve) {
        self.figures.touched.bound(self.distances.threshold());
        let mut sums = sieve.sums();
        for event in &sieve.events {
            match event.unpack() {
                Unpacked::Data { word, .. } => self.follow(line_of(word)),
                Unpacked::Page { page, store } => self.page_touched::<false>(page, store),
                Unpacked::Block(id) => self.special_block(thread, id, &mut sums),
            }
        }
        self.settle(&mut sums, 0);
        if !self.is_full() {
            self.end_window();
        }
    }

    fn special_block(&mut self, thread: &mut Thread, id: u32, sums: &mut Sums) {
        let Some(facts) = self.facts.get(id as usize) else { return };
        sums.add(facts);
        let (first, more) = facts.lines();
        let repeats = std::mem::replace(&mut thread.repeats, facts.repeats);
        let before = thread.block.replace(id);
        if repeats && before.is_some_and(|before| self.repeated(before, id)) {
            sums.drop_instruction();
        }
        if self.fetches {
            for line in first..=first + more {
                self.follow(line);
                if spatial_hash(line) <= self.distances.threshold() {
                    self.code.follow(line, &mut self.figures.code);
                }
            }
        }
    }

    /// A page that may be new or not yet written to is touched. Where the kernel has to clear it, its lines are the most
    /// recent ones before the touch: of all accesses where `ALL` are seen, else of those followed.
    #[cold]
    #[inline(never)]
    pub(super) fn page_touched<const ALL: bool>(&mut self, page: u64, store: bool) {
        if !self.options.kernel {
            return;
        }
        let touch = self.pages.touch(page, store);
        self.figures.counters.page_faults += u64::from(touch != Touch::Again);
        self.figures.counters.file_faults += u64::from(touch == Touch::File);
        if touch != Touch::Cleared {
            return;
        }
        let lines = page * PAGE_LINES..(page + 1) * PAGE_LINES;
        if self.distances.is_apart() {
            self.clear_followed(lines.clone());
        }
        if ALL {
            self.clear(lines);
        }
    }

    fn clear_followed(&mut self, lines: Range<u64>) {
        for line in lines {
            let hash = spatial_hash(line);
            if hash <= self.distances.threshold() {
                self.figures.touched.insert_followed(hash);
                self.distances.clear_followed(line, Some(&mut self.figures.cleared));
                if let Some(own) = &mut self.running {
                    own.clear_followed(line);
                }
            }
        }
    }

    fn clear(&mut self, lines: Range<u64>) {
        let Self { distances, figures, private_cache, observed, .. } = self;
        let Figures { histogram, cleared, touched, .. } = figures;
        distances.clear(lines.clone(), histogram, Some(cleared), |line, written| {
            touched.insert(line);
            if let Some(line) = written {
                private_cache.write_back(line, &mut observed.traffic);
            }
            private_cache.clear(line);
        });
        if let Some(own) = &mut self.running {
            own.clear(lines);
        }
    }

    /// An access to a line that may be followed.
    #[inline]
    pub(super) fn follow(&mut self, line: u64) {
        let hash = spatial_hash(line);
        if hash <= self.distances.threshold() {
            self.figures.touched.insert_followed(hash);
            self.distances.follow(line, &mut self.figures.histogram);
            if let Some(own) = &mut self.running {
                own.follow(line);
            }
        }
    }
}
