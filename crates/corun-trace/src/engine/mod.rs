//! Turns the threads' events into one program's figures, in one pass and bounded memory.
//!
//! All threads share one LRU stack, as if they shared one cache. Each thread's events arrive in
//! batches, so what threads did at the same time is interleaved batch by batch and not access by
//! access.

mod front;
mod histogram;
mod parallelism;
mod predictor;
mod private_cache;
mod ranks;
mod stack;
mod stride;

#[cfg(test)]
mod tests;

pub use histogram::Histogram;
pub use parallelism::{Parallelism, WINDOW};
pub use private_cache::PRIVATE_CACHE_BYTES;

use self::front::{FRONT_LINES, Found, Front};
use self::parallelism::Window;
use self::predictor::Predictor;
use self::private_cache::PrivateCache;
use self::stack::{Depth, SampledStack};
use self::stride::Strides;
use crate::block::{Block, Exit};
use crate::event::{Event, Unpacked};

/// Lines followed at most, unless asked otherwise: 4 MiB of footprint stay exact.
pub const DEFAULT_TRACKED_LINES: usize = 64 * 1024;

/// Sums since the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Instructions. A repeated string instruction counts once.
    pub instructions: u64,
    /// Loading instructions that ran.
    pub loads: u64,
    /// Storing instructions that ran.
    pub stores: u64,
    /// Branches of any kind.
    pub branches: u64,
    /// Branches that the predictor got wrong.
    pub mispredicted: u64,
    /// Floating-point and vector operations.
    pub floats: u64,
    /// Misses of the private cache, data and code.
    pub private_misses: u64,
    /// Those of them that a stride prefetcher foresees.
    pub foreseen_misses: u64,
    /// Parallelism of the missing loads.
    pub parallelism: Parallelism,
}

/// What one guest thread carries from batch to batch.
#[derive(Debug, Clone)]
pub struct Thread {
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
    counters: Counters,
    histogram: Histogram,
    front: Front,
    stack: SampledStack,
    private_cache: PrivateCache,
    strides: Strides,
    last_code_miss: u64,
    limit: u64,
}

impl Engine {
    /// An engine that follows at most this many lines and stops at `limit` instructions.
    pub fn new(tracked_lines: usize, limit: Option<u64>) -> Self {
        Self {
            blocks: Vec::new(),
            counters: Counters::default(),
            histogram: Histogram::new(),
            front: Front::new(),
            stack: SampledStack::new(tracked_lines),
            private_cache: PrivateCache::new(),
            strides: Strides::new(),
            last_code_miss: 0,
            limit: limit.unwrap_or(u64::MAX),
        }
    }

    /// Makes a block known; its number.
    pub fn add_block(&mut self, block: Block) -> u32 {
        self.blocks.push(block);
        self.blocks.len() as u32 - 1
    }

    /// The sums so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The stack distances so far.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// Share of the lines that is followed now, 0 to 1.
    pub fn sampling_rate(&self) -> f64 {
        1.0 / self.stack.weight() as f64
    }

    /// Was the instruction limit reached?
    pub fn is_full(&self) -> bool {
        self.counters.instructions >= self.limit
    }

    /// Share of the lines brought into the private cache that are written.
    pub fn dirty_share(&self) -> f64 {
        let (lines, dirty) = self.private_cache.brought_in(self.front.dirty_lines());
        if lines == 0 { 0.0 } else { dirty as f64 / lines as f64 }
    }

    /// Takes in what a thread did since its last batch. Events behind the instruction limit, and
    /// of blocks that were never made known, are dropped.
    pub fn process(&mut self, thread: &mut Thread, events: &[Event]) {
        for event in events {
            match event.unpack() {
                Unpacked::Block(id) => {
                    if self.is_full() {
                        return;
                    }
                    self.block(thread, id);
                }
                Unpacked::Data { line, index, store } => {
                    self.data(thread, line, index, store);
                }
            }
        }
    }

    #[inline]
    fn block(&mut self, thread: &mut Thread, id: u32) {
        let Some(block) = self.blocks.get(id as usize) else { return };
        let mut repeats = false;
        if let Some(before) = thread.block.and_then(|before| self.blocks.get(before as usize)) {
            if thread.window.is_open() {
                thread.window.block_ended(&before.flow, &mut self.counters.parallelism);
            }
            repeats = before.exit == Exit::Repeat && before.last == block.start;
            let foreseen = thread.predictor.foresees(before, block.start);
            self.counters.mispredicted += u64::from(!foreseen);
        }
        thread.block = Some(id);
        thread.last_access = None;
        self.counters.instructions += u64::from(block.instructions) - u64::from(repeats);
        self.counters.branches += u64::from(block.branches);
        self.counters.floats += u64::from(block.floats);
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
            self.counters.private_misses += 1;
            // Code runs on: the line after the last one missed is foreseen.
            self.counters.foreseen_misses += u64::from(line == self.last_code_miss + 1);
            self.last_code_miss = line;
        }
    }

    #[inline]
    fn data(&mut self, thread: &mut Thread, line: u64, index: u32, store: bool) {
        if thread.last_access != Some((index, store)) {
            thread.last_access = Some((index, store));
            self.counters.loads += u64::from(!store);
            self.counters.stores += u64::from(store);
        }
        if self.access(line, store) {
            self.data_missed(thread, line, index, store);
        }
    }

    #[cold]
    fn data_missed(&mut self, thread: &mut Thread, line: u64, index: u32, store: bool) {
        let Some(block) = thread.block.and_then(|id| self.blocks.get(id as usize)) else { return };
        self.counters.private_misses += 1;
        let instruction = block.start.wrapping_mul(4096) + u64::from(index);
        let foreseen = self.strides.foresees(instruction, line);
        self.counters.foreseen_misses += u64::from(foreseen);
        if !store {
            let now = self.counters.instructions;
            thread.window.load_missed(&block.flow, index as usize, now);
        }
    }

    /// Puts a line on top of the stack; true when it misses in the private cache.
    #[inline]
    fn access(&mut self, line: u64, store: bool) -> bool {
        match self.front.access(line, store) {
            Found::Group(group) => {
                self.histogram.add_front(group);
                false
            }
            Found::Below { evicted } => self.below(line, evicted),
        }
    }

    fn below(&mut self, line: u64, evicted: Option<(u64, bool)>) -> bool {
        self.histogram.add_below();
        match self.stack.take(line) {
            Depth::Unsampled => {}
            Depth::Cold => self.histogram.add_cold(self.stack.weight()),
            Depth::Lines(lines) => {
                let distance = FRONT_LINES as u64 + lines;
                self.histogram.add_deep(distance, self.stack.weight());
            }
        }
        if let Some((line, dirty)) = evicted {
            self.stack.push(line);
            if dirty {
                self.private_cache.write_back(line);
            }
        }
        !self.private_cache.access(line)
    }
}
