//! Turns the threads' events into one program's figures, in one pass and bounded memory.
//!
//! All threads share one LRU stack, as if they shared one cache. Each thread's events arrive in
//! batches, so what threads did at the same time is interleaved batch by batch and not access by
//! access.

mod capture;
mod code;
mod distances;
mod facts;
mod figures;
mod foreseer;
mod front;
mod histogram;
mod options;
mod own;
mod pacing;
mod page_depths;
mod pages;
mod parallelism;
mod predictor;
mod private_cache;
mod ranks;
mod reconvergence;
mod repeated_branches;
mod sample;
mod schedule;
mod set_profile;
mod sieve;
mod sketch;
mod stack;
mod strata;
mod stride;
mod survival;
mod tage;
mod thread;
mod touched;
mod watching;

pub use figures::{Counters, Figures, KernelWork, Observed, ThreadSet, Traffic};
pub use histogram::Histogram;
pub use options::{BadRate, DEFAULT_TRACKED_LINES, EngineOptions, SamplingRate};
pub use own::{MOST_OWN_THREADS, OwnFigures};
pub use parallelism::parallelism;
pub(crate) use private_cache::PRIVATE_CACHE_BYTES;
pub use repeated_branches::{MispredictedShares, mispredicted_of_repeated};
pub use set_profile::{CacheShape, SetCaches, ShapeError};
pub use sieve::{BlockTag, Pace, Sieve};
pub use strata::{Strata, Stratum, balance, reduce};
pub use thread::Thread;
pub use touched::Touched;

use corun_profile::{StackDistanceProfile, Stretch};
use rustc_hash::FxHashSet;

use self::capture::Place;
use self::code::CodeDistances;
use self::distances::{Distances, Found};
use self::facts::{Facts, Sums};
use self::pacing::rate_with_gaps;
use self::pages::{PAGE_BYTES, PageSet};
use self::private_cache::PrivateCache;
use self::sample::spatial_hash;
use self::schedule::Schedule;
use self::set_profile::SetProfiles;
use self::stride::Strides;
use self::thread::Attention;
use self::watching::Watching;
use crate::block::Block;
use crate::event::{TraceEvent, Unpacked, line_of};
use crate::phases::{Behaviour, Execution};

/// Instructions of a window, unless asked otherwise.
pub const DEFAULT_WINDOW: u64 = 10_000_000;

/// The engine.
#[derive(Debug, Clone)]
pub struct Engine {
    blocks: Vec<Block>,
    facts: Vec<Facts>,
    /// Has any block whose accesses are counted as they happen?
    undecoded: bool,
    /// Sums of the window that runs.
    figures: Figures,
    phases: Execution<Figures>,
    window_instructions: u64,
    /// Instructions of the windows before.
    passed: u64,
    /// Loads and stores of the windows before.
    passed_accesses: u64,
    /// Instructions of the running window at which it ends, or all does.
    stop: u64,
    /// The stack that all threads share.
    distances: Distances,
    /// That of code alone.
    code: CodeDistances,
    /// Pages of data that were touched, and where code lies, in pieces of 64 KiB.
    pages: PageSet,
    code_pieces: FxHashSet<u64>,
    /// What is looked at in bursts.
    watching: Watching,
    /// Threads that have begun.
    threads: usize,
    /// Threads by themselves, where there are several; the running one's is in `running`.
    own: Vec<Option<Box<OwnFigures>>>,
    running: Option<Box<OwnFigures>>,
    fetches: bool,
    private_cache: PrivateCache,
    strides: Strides,
    last_code_miss: u64,
    limit: u64,
    set_profiles: Option<SetProfiles>,
    options: EngineOptions,
    /// May accesses to lines that are not followed go unseen?
    gaps: bool,
    schedule: Schedule,
    /// Bursts that have begun, and how much of the run the last one stands for.
    burst: (u64, u64),
    /// What was looked at since the figures were brought up to date.
    observed: Observed,
    /// Times that what threads are to collect has changed.
    paces: u32,
    /// How often it began anew.
    beginnings: u32,
}

impl Engine {
    /// An engine that stops at `limit` instructions.
    pub fn new(options: EngineOptions, limit: Option<u64>) -> Self {
        let mut engine = Self {
            blocks: Vec::new(),
            facts: Vec::new(),
            undecoded: false,
            figures: Figures::default(),
            phases: Execution::default(),
            window_instructions: DEFAULT_WINDOW,
            passed: 0,
            passed_accesses: 0,
            stop: 0,
            distances: Distances::new(&options),
            code: CodeDistances::new(&options),
            pages: PageSet::default(),
            code_pieces: FxHashSet::default(),
            watching: Watching::new(),
            threads: 0,
            own: Vec::new(),
            running: None,
            fetches: options.fetches,
            private_cache: PrivateCache::new(),
            strides: Strides::new(),
            last_code_miss: 0,
            limit: limit.unwrap_or(u64::MAX),
            set_profiles: None,
            options,
            gaps: false,
            schedule: Schedule::always(),
            burst: (0, 1),
            observed: Observed::default(),
            paces: 0,
            beginnings: 0,
        };
        engine.stop = engine.window_end();
        engine
    }

    /// The same with windows of this many instructions (at least 1); to be set before it begins.
    #[must_use]
    pub fn with_window(mut self, instructions: u64) -> Self {
        self.window_instructions = instructions.max(1);
        self.stop = self.window_end();
        self
    }

    fn window_end(&self) -> u64 {
        self.window_instructions.min(self.limit.saturating_sub(self.passed))
    }

    /// The kernel did so much for the program.
    pub fn add_kernel_work(&mut self, work: &KernelWork) {
        if self.options.kernel {
            self.figures.counters.add_kernel_work(work);
        }
    }

    /// The program gives back memory from the address `begin` up to `end`, or maps anonymous memory there.
    pub fn memory_given_back(&mut self, begin: u64, end: u64) {
        self.pages.forget(begin / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
    }

    /// It gives back what memory holds that stays mapped.
    pub fn memory_discarded(&mut self, begin: u64, end: u64) {
        self.pages.discard(begin / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
    }

    /// It moves memory, with what it holds, to the address `to`.
    pub fn memory_moved(&mut self, begin: u64, end: u64, to: u64) {
        self.pages.move_pages(begin / PAGE_BYTES, end.div_ceil(PAGE_BYTES), to / PAGE_BYTES);
    }

    /// A file was mapped before the program began.
    pub(crate) fn file_was_mapped(&mut self, begin: u64, end: u64) {
        self.pages.has_file(begin / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
    }

    /// The program maps a file.
    pub fn file_mapped(&mut self, begin: u64, end: u64) {
        self.pages.map_file(begin / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
    }

    /// Begins anew, as for a fork of the process: the blocks stay known, and where memory is.
    pub fn restart(&mut self, options: EngineOptions) {
        self.pages.fork();
        self.forget(options);
    }

    /// Forgets what was done, and begins anew with the blocks and pages that it knows.
    pub fn forget(&mut self, options: EngineOptions) {
        let (blocks, facts) = (std::mem::take(&mut self.blocks), std::mem::take(&mut self.facts));
        let set_profiles = self.set_profiles.as_ref().map(SetProfiles::emptied);
        let pages = std::mem::take(&mut self.pages);
        let mut fresh = Self::new(options, None).with_window(self.window_instructions);
        if self.gaps {
            fresh = fresh.with_gaps();
        }
        *self = Self {
            blocks,
            facts,
            pages,
            undecoded: self.undecoded,
            set_profiles,
            paces: self.paces + 1,
            beginnings: self.beginnings + 1,
            ..fresh
        };
    }

    /// Stops at this many instructions.
    pub(crate) fn set_limit(&mut self, instructions: u64) {
        self.limit = instructions;
        self.stop = self.window_end();
    }

    /// Also takes the stack-distance profiles of these caches.
    #[must_use]
    pub(crate) fn with_set_profiles(mut self, caches: &SetCaches) -> Self {
        self.set_profiles =
            (!caches.llcs.is_empty()).then(|| SetProfiles::new(caches, self.fetches));
        self
    }

    /// The stack-distance profiles so far, one an LLC that was asked for.
    pub(crate) fn set_profiles(&self) -> Vec<StackDistanceProfile> {
        let instructions = self.instructions();
        self.set_profiles.as_ref().map_or_else(Vec::new, |one| one.profiles(instructions))
    }

    /// Makes a block known; its number.
    pub fn add_block(&mut self, block: Block) -> u32 {
        self.facts.push(Facts::new(&block));
        // Code is mapped from files, which the kernel does in pieces.
        let fresh = self.options.kernel && self.code_pieces.insert(block.start >> 16);
        self.figures.counters.page_faults += u64::from(fresh);
        self.figures.counters.file_faults += u64::from(fresh);
        self.undecoded |= block.ops.is_empty();
        self.blocks.push(block);
        self.blocks.len() as u32 - 1
    }

    /// What a thread needs to know of a block that is known.
    ///
    /// # Panics
    /// There is no such block.
    pub fn tag(&self, id: u32) -> BlockTag {
        let block = &self.blocks[id as usize];
        let (first, last) = block.lines();
        let rate = self.distances.rate();
        let rate = if rate == SamplingRate::ALL { rate_with_gaps() } else { rate };
        let threshold = rate.threshold();
        let followed = self.fetches && (first..=last).any(|line| spatial_hash(line) <= threshold);
        BlockTag::new(id, block, followed)
    }

    /// The block of that number.
    pub(crate) fn known_block(&self, id: u32) -> Option<&Block> {
        self.blocks.get(id as usize)
    }

    /// The sums of each phase so far, in the order of their first appearance, and which ran when.
    /// A phase has at least two windows, so a run shorter than that is one phase.
    pub fn phases(&self) -> (Vec<Figures>, Vec<Stretch>) {
        self.phases.clone().finish(self.last_window(), self.window_instructions.saturating_mul(2))
    }

    /// The sums so far.
    pub fn figures(&self) -> Figures {
        let mut sums = self.last_window();
        self.phases.phases().for_each(|phase| sums.merge(phase));
        sums
    }

    fn last_window(&self) -> Figures {
        let mut last = self.figures.clone();
        if self.schedule.sees_all() {
            let front = self.distances.front();
            // Written lines that the front still holds go back to the private cache some day.
            last.observed.traffic.dirty += self.burst.1 * front.dirty_lines();
            front.lines().for_each(|line| last.touched.insert(line));
        }
        last
    }

    /// The threads by themselves, in the order of their start, where there were several: the
    /// first [`MOST_OWN_THREADS`].
    pub fn threads(&self) -> impl Iterator<Item = &OwnFigures> {
        self.own.iter().flatten().map(AsRef::as_ref)
    }

    /// Instructions so far.
    pub fn instructions(&self) -> u64 {
        self.passed + self.figures.counters.instructions
    }

    /// Share of the lines that is followed now, 0 to 1.
    pub fn sampling_rate(&self) -> f64 {
        self.distances.rate().share()
    }

    /// Was the instruction limit reached?
    pub fn is_full(&self) -> bool {
        self.instructions() >= self.limit
    }

    fn run_all(&mut self, thread: &mut Thread, mut events: &[TraceEvent]) {
        while !events.is_empty() {
            let (count, attention) = thread.next(events.len());
            let attention = self.attend(thread, attention);
            let (some, rest) = events.split_at(count);
            let taken = self.dispatch(thread, some, attention);
            if let Some(profiles) = &mut self.set_profiles {
                profiles.process(&mut thread.private_caches, &self.blocks, &some[..taken]);
            }
            if taken < count {
                return;
            }
            events = rest;
        }
    }

    /// Uses the vector instructions there are: the baseline lacks even counting bits. How many of
    /// the events lie before the instruction limit.
    #[allow(unsafe_code)]
    fn dispatch(
        &mut self,
        thread: &mut Thread,
        events: &[TraceEvent],
        attention: Attention,
    ) -> usize {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
            // SAFETY: every processor with these two has the others.
            return unsafe { self.run_with_avx2(thread, events, attention) };
        }
        self.run_with(thread, events, attention)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn run_with_avx2(
        &mut self,
        thread: &mut Thread,
        events: &[TraceEvent],
        attention: Attention,
    ) -> usize {
        self.run_with(thread, events, attention)
    }

    #[inline(always)]
    fn run_with(
        &mut self,
        thread: &mut Thread,
        events: &[TraceEvent],
        attention: Attention,
    ) -> usize {
        match attention {
            Attention::None => self.run::<false>(thread, events, false),
            _ => self.run::<true>(thread, events, attention == Attention::Count),
        }
    }

    #[inline(always)]
    fn run<const WATCH: bool>(
        &mut self,
        thread: &mut Thread,
        events: &[TraceEvent],
        count: bool,
    ) -> usize {
        let mut sums = Sums::default();
        let mut left = self.left();
        for (at, event) in events.iter().enumerate() {
            match event.unpack() {
                Unpacked::Block(id) => {
                    if sums.instructions() >= left {
                        self.settle(&mut sums, self.burst.1);
                        if self.is_full() {
                            return at;
                        }
                        self.end_window();
                        thread.number.into_iter().for_each(|one| self.figures.threads.insert(one));
                        left = self.left();
                    }
                    if WATCH {
                        self.watch(thread, id, count);
                    }
                    self.block::<WATCH>(thread, id, &mut sums);
                }
                Unpacked::Page { page, store } => self.page_touched::<true>(page, store),
                Unpacked::Data { word, index, store } => {
                    if self.undecoded {
                        self.count_access(thread, index, store);
                    }
                    let line = line_of(word);
                    let (place, missed) = self.access(line, store);
                    if missed {
                        self.data_missed(thread, line, index);
                    }
                    if WATCH {
                        self.watch_access(thread, word, index, store, place);
                    }
                }
            }
        }
        self.settle(&mut sums, self.burst.1);
        events.len()
    }

    /// Instructions until the window ends or a check is due.
    fn left(&self) -> u32 {
        let left = self.stop.saturating_sub(self.figures.counters.instructions);
        u32::try_from(left).unwrap_or(u32::MAX / 2)
    }

    /// Brings the figures up to date; `weight`: how many instructions each of those that passed
    /// stands for, 0 where only followed lines were seen.
    fn settle(&mut self, sums: &mut Sums, weight: u64) {
        let Figures { counters, histogram, cleared, .. } = &mut self.figures;
        let instructions = sums.instructions();
        histogram.add_time(u64::from(instructions), weight);
        // What is followed alone counts in it.
        cleared.add_time(u64::from(instructions), 0);
        sums.settle(counters);
        if weight > 0 {
            self.distances.settle(histogram);
        }
        self.code.settle(&mut self.figures.code, u64::from(instructions), weight);
        let mut seen = std::mem::take(&mut self.observed);
        if self.schedule.is_warming(self.instructions()) {
            seen.forget_misses();
        }
        self.figures.observed.add(&seen, self.burst.1);
    }

    /// A thread begins; its number. The second lets each have its own distances.
    fn begin_thread(&mut self) -> usize {
        let number = self.threads;
        self.threads += 1;
        if number == 1 {
            let sums = (self.instructions(), self.data_accesses());
            let shared = (&self.distances, self.burst.0);
            let first = OwnFigures::alone(sums, self.figures().histogram, shared);
            self.own.push(Some(Box::new(first)));
            // From now on they hand in less at a time.
            self.paces += 1;
        }
        if (1..MOST_OWN_THREADS).contains(&number) {
            self.own.push(Some(Box::new(OwnFigures::new())));
        }
        number
    }

    fn data_accesses(&self) -> u64 {
        let Counters { loads, stores, .. } = self.figures.counters;
        self.passed_accesses + loads + stores
    }

    #[cold]
    fn end_window(&mut self) {
        if self.figures.counters.instructions < self.stop {
            return;
        }
        if self.schedule.sees_all() {
            self.distances.front().lines().for_each(|line| self.figures.touched.insert(line));
        }
        self.passed_accesses = self.data_accesses();
        let window = std::mem::take(&mut self.figures);
        self.passed += window.counters.instructions;
        self.phases.add(window);
        self.stop = self.window_end();
    }

    #[inline(always)]
    fn block<const WATCH: bool>(&mut self, thread: &mut Thread, id: u32, sums: &mut Sums) {
        let Some(facts) = self.facts.get(id as usize) else { return };
        sums.add(facts);
        let (line, more) = facts.lines();
        let repeats = std::mem::replace(&mut thread.repeats, facts.repeats);
        let before = thread.block.replace(id);
        thread.last_access = None;
        let repeats = repeats && before.is_some_and(|before| self.repeated(before, id));
        if repeats {
            sums.drop_instruction();
        }
        if WATCH {
            self.watch_block(thread, repeats);
        }
        if self.fetches && (line != thread.code_line || more > 0) {
            self.fetch::<WATCH>(thread, line, more);
        }
    }

    /// Does this block begin with the repeated instruction that ended the one before?
    #[cold]
    fn repeated(&self, before: u32, id: u32) -> bool {
        self.blocks[before as usize].last == self.blocks[id as usize].start
    }

    #[inline(always)]
    fn fetch<const WATCH: bool>(&mut self, thread: &mut Thread, first: u64, more: u64) {
        for line in first..=first + more {
            if line == thread.code_line {
                continue;
            }
            let before = std::mem::replace(&mut thread.code_line, line);
            self.code.access(line, &mut self.figures.code);
            let (place, missed) = self.access(line, false);
            if WATCH {
                self.watch_fetch(thread, line, place, line == before.wrapping_add(1));
            }
            if missed {
                self.observed.private_misses += 1;
                // Code runs on: the line after the last one missed is foreseen.
                self.observed.foreseen_misses += u64::from(line == self.last_code_miss + 1);
                self.last_code_miss = line;
            }
        }
    }

    #[cold]
    fn count_access(&mut self, thread: &mut Thread, index: u32, store: bool) {
        let decoded = thread.block.is_some_and(|id| !self.blocks[id as usize].ops.is_empty());
        if !decoded && thread.last_access != Some((index, store)) {
            thread.last_access = Some((index, store));
            self.figures.counters.loads += u64::from(!store);
            self.figures.counters.stores += u64::from(store);
        }
    }

    /// A data access misses in the private cache.
    fn data_missed(&mut self, thread: &mut Thread, line: u64, index: u32) {
        let Some(block) = thread.block.and_then(|id| self.blocks.get(id as usize)) else { return };
        self.observed.private_misses += 1;
        let instruction = block.start.wrapping_mul(4096) + u64::from(index);
        self.observed.foreseen_misses += u64::from(self.strides.foresees(instruction, line));
    }

    /// Puts a line on top of the stack. Where it lay, and whether it misses in the private cache.
    #[inline(always)]
    fn access(&mut self, line: u64, store: bool) -> (Place, bool) {
        if let Some(own) = &mut self.running {
            own.access(line, store);
        }
        if self.distances.is_apart() {
            self.follow(line);
        }
        match self.distances.access(line, store, &mut self.figures.histogram) {
            Found::Front(distance) => (Place::Front(distance), false),
            Found::Below { written, number } => (Place::Below(number), self.below(line, written)),
        }
    }

    fn below(&mut self, line: u64, written: Option<u64>) -> bool {
        self.figures.touched.insert(line);
        if let Some(line) = written {
            self.private_cache.write_back(line, &mut self.observed.traffic);
        }
        !self.private_cache.access(line, &mut self.observed.traffic)
    }
}
