//! Turns the threads' events into one program's figures, in one pass and bounded memory.
//!
//! All threads share one LRU stack, as if they shared one cache. Each thread's events arrive in
//! batches, so what threads did at the same time is interleaved batch by batch and not access by
//! access.

mod distances;
mod figures;
mod front;
mod histogram;
mod options;
mod own;
mod parallelism;
mod predictor;
mod private_cache;
mod ranks;
mod sketch;
mod stack;
mod stride;

#[cfg(test)]
mod tests;

pub use figures::{Counters, Figures, ThreadSet, Traffic};
pub use histogram::Histogram;
pub use options::{BadRate, DEFAULT_TRACKED_LINES, EngineOptions, SamplingRate};
pub use own::{MOST_OWN_THREADS, OwnFigures};
pub use parallelism::{Parallelism, WINDOW};
pub use private_cache::PRIVATE_CACHE_BYTES;
pub use sketch::LineSketch;

use corun_profile::Stretch;

use self::distances::{BelowFront, Distances};
use self::parallelism::Window;
use self::predictor::Predictor;
use self::private_cache::PrivateCache;
use self::stride::Strides;
use crate::block::{Block, Exit};
use crate::event::{Event, Unpacked};
use crate::phases::{Behaviour, Execution};

/// Instructions of a window, unless asked otherwise.
pub const DEFAULT_WINDOW: u64 = 10_000_000;

/// What one guest thread carries from batch to batch.
#[derive(Debug, Clone)]
pub struct Thread {
    /// Its place in the order of the threads' starts, once it has begun.
    number: Option<usize>,
    block: Option<u32>,
    code_line: u64,
    /// Instruction and direction of the last data access in the running block.
    last_access: Option<(u32, bool)>,
    predictor: Predictor,
    window: Window,
}

impl Default for Thread {
    fn default() -> Self {
        Self::new()
    }
}

impl Thread {
    /// A thread that has done nothing.
    pub fn new() -> Self {
        Self {
            number: None,
            block: None,
            code_line: u64::MAX,
            last_access: None,
            predictor: Predictor::new(),
            window: Window::default(),
        }
    }
}

/// The engine.
#[derive(Debug, Clone)]
pub struct Engine {
    blocks: Vec<Block>,
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
}

impl Engine {
    /// An engine that stops at `limit` instructions.
    pub fn new(options: EngineOptions, limit: Option<u64>) -> Self {
        let mut engine = Self {
            blocks: Vec::new(),
            figures: Figures::default(),
            phases: Execution::default(),
            window_instructions: DEFAULT_WINDOW,
            passed: 0,
            passed_accesses: 0,
            stop: 0,
            distances: Distances::new(&options),
            threads: 0,
            own: Vec::new(),
            running: None,
            fetches: options.fetches,
            private_cache: PrivateCache::new(),
            strides: Strides::new(),
            last_code_miss: 0,
            limit: limit.unwrap_or(u64::MAX),
        };
        engine.stop = engine.window_end();
        engine
    }

    /// The same with windows of this many instructions (at least 1); to be set before it begins.
    pub fn with_window(mut self, instructions: u64) -> Self {
        self.window_instructions = instructions.max(1);
        self.stop = self.window_end();
        self
    }

    fn window_end(&self) -> u64 {
        self.window_instructions.min(self.limit.saturating_sub(self.passed))
    }

    /// Begins anew, as for another process of the same code: the blocks stay known.
    pub fn restart(&mut self, options: EngineOptions) {
        let blocks = std::mem::take(&mut self.blocks);
        let fresh = Self::new(options, None).with_window(self.window_instructions);
        *self = Self { blocks, ..fresh };
    }

    /// Stops at this many instructions.
    pub fn set_limit(&mut self, instructions: u64) {
        self.limit = instructions;
        self.stop = self.window_end();
    }

    /// Makes a block known; its number.
    pub fn add_block(&mut self, block: Block) -> u32 {
        self.blocks.push(block);
        self.blocks.len() as u32 - 1
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
        // Written lines that the front still holds go back to the private cache some day.
        last.traffic.dirty += self.distances.front().dirty_lines();
        self.distances.front().lines().for_each(|line| last.touched.insert(line));
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

    /// Takes in what a thread did since its last batch. Events behind the instruction limit, and
    /// of blocks that were never made known, are dropped.
    pub fn process(&mut self, thread: &mut Thread, events: &[Event]) {
        let number = thread.number.unwrap_or_else(|| self.begin_thread());
        thread.number = Some(number);
        self.figures.threads.insert(number);
        self.running = self.own.get_mut(number).and_then(Option::take);
        let (instructions, accesses) = (self.instructions(), self.data_accesses());
        self.run(thread, number, events);
        if let Some(mut own) = self.running.take() {
            own.instructions += self.instructions() - instructions;
            own.data_accesses += self.data_accesses() - accesses;
            self.own[number] = Some(own);
        }
    }

    fn run(&mut self, thread: &mut Thread, number: usize, events: &[Event]) {
        for event in events {
            match event.unpack() {
                Unpacked::Block(id) => {
                    if self.figures.counters.instructions >= self.stop {
                        if self.is_full() {
                            return;
                        }
                        self.end_window();
                        self.figures.threads.insert(number);
                    }
                    self.block(thread, id);
                }
                Unpacked::Data { line, index, store } => {
                    self.data(thread, line, index, store);
                }
            }
        }
    }

    /// A thread begins; its number. The second lets each have its own distances.
    fn begin_thread(&mut self) -> usize {
        let number = self.threads;
        self.threads += 1;
        if number == 1 {
            let sums = (self.instructions(), self.data_accesses());
            let first = OwnFigures::alone(sums, self.figures().histogram, &self.distances);
            self.own.push(Some(Box::new(first)));
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
        self.distances.front().lines().for_each(|line| self.figures.touched.insert(line));
        self.passed_accesses = self.data_accesses();
        let window = std::mem::take(&mut self.figures);
        self.passed += window.counters.instructions;
        self.phases.add(window);
        self.stop = self.window_end();
    }

    #[inline]
    fn block(&mut self, thread: &mut Thread, id: u32) {
        let Some(block) = self.blocks.get(id as usize) else { return };
        let mut repeats = false;
        if let Some(before) = thread.block.and_then(|before| self.blocks.get(before as usize)) {
            if thread.window.is_open() {
                thread.window.block_ended(&before.flow, &mut self.figures.counters.parallelism);
            }
            repeats = before.exit == Exit::Repeat && before.last == block.start;
            let foreseen = thread.predictor.foresees(before, block.start);
            self.figures.counters.mispredicted += u64::from(!foreseen);
        }
        thread.block = Some(id);
        thread.last_access = None;
        self.figures.counters.instructions += u64::from(block.instructions) - u64::from(repeats);
        self.figures.counters.branches += u64::from(block.branches);
        self.figures.counters.floats += u64::from(block.floats);
        if !self.fetches {
            return;
        }
        let (first, last) = block.lines();
        for line in first..=last {
            if line != thread.code_line {
                thread.code_line = line;
                self.fetch(line);
            }
        }
    }

    #[inline]
    fn fetch(&mut self, line: u64) {
        if self.access(line, false) {
            self.figures.counters.private_misses += 1;
            // Code runs on: the line after the last one missed is foreseen.
            self.figures.counters.foreseen_misses += u64::from(line == self.last_code_miss + 1);
            self.last_code_miss = line;
        }
    }

    #[inline]
    fn data(&mut self, thread: &mut Thread, line: u64, index: u32, store: bool) {
        if thread.last_access != Some((index, store)) {
            thread.last_access = Some((index, store));
            self.figures.counters.loads += u64::from(!store);
            self.figures.counters.stores += u64::from(store);
        }
        if self.access(line, store) {
            self.data_missed(thread, line, index, store);
        }
    }

    #[cold]
    fn data_missed(&mut self, thread: &mut Thread, line: u64, index: u32, store: bool) {
        let Some(block) = thread.block.and_then(|id| self.blocks.get(id as usize)) else { return };
        self.figures.counters.private_misses += 1;
        let instruction = block.start.wrapping_mul(4096) + u64::from(index);
        let foreseen = self.strides.foresees(instruction, line);
        self.figures.counters.foreseen_misses += u64::from(foreseen);
        if !store {
            let now = self.instructions();
            thread.window.load_missed(&block.flow, index as usize, now);
        }
    }

    /// Puts a line on top of the stack; true when it misses in the private cache.
    #[inline]
    fn access(&mut self, line: u64, store: bool) -> bool {
        if let Some(own) = &mut self.running {
            own.access(line, store);
        }
        match self.distances.access(line, store, &mut self.figures.histogram) {
            None => false,
            Some(BelowFront { written }) => self.below(line, written),
        }
    }

    fn below(&mut self, line: u64, written: Option<u64>) -> bool {
        self.figures.touched.insert(line);
        if let Some(line) = written {
            self.private_cache.write_back(line, &mut self.figures.traffic);
        }
        !self.private_cache.access(line, &mut self.figures.traffic)
    }
}
