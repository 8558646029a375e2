//! A program on its way through its accesses.

use corun_trace::trace_file::Access;

use crate::cache::{AccessOutcome, ReplayedCache};
use crate::geometry::CacheConfig;
use crate::memory::{Controller, FS_PER_NS};
use crate::replay::ReplayError;
use crate::source::AccessSource;

/// A program to be replayed.
#[derive(Debug)]
pub struct ReplayedProgram<S> {
    /// Its accesses, at their beginning.
    pub source: S,
    /// Time of an instruction in nanoseconds, as long as nothing misses in the shared cache.
    pub ns_per_instruction: f64,
    /// Ways of the shared cache that it may fill; it may hit in all. `None`: all.
    pub mask: Option<u64>,
    /// Its own caches, nearest to the core first. What hits there never reaches the shared cache.
    pub private: Vec<CacheConfig>,
}

/// Sums of one program.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AccessCounts {
    pub(crate) instructions: u64,
    pub(crate) accesses: u64,
    pub(crate) shared_accesses: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
    /// Its own time, in femtoseconds.
    pub(crate) time: u64,
    /// Lines held x femtoseconds, up to `held_until`.
    pub(crate) held_area: u128,
    pub(crate) held_until: u64,
}

impl AccessCounts {
    /// What came after `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            instructions: self.instructions - before.instructions,
            accesses: self.accesses - before.accesses,
            shared_accesses: self.shared_accesses - before.shared_accesses,
            misses: self.misses - before.misses,
            evictions: self.evictions - before.evictions,
            time: self.time - before.time,
            held_area: self.held_area - before.held_area,
            held_until: self.held_until - before.held_until,
        }
    }
}

/// Lines that a program holds of the shared cache.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Holding {
    lines: u64,
    area: u128,
    since: u64,
    evictions: u64,
}

impl Holding {
    fn pass_time(&mut self, now: u64) {
        self.area += u128::from(self.lines) * u128::from(now - self.since);
        self.since = now;
    }
}

/// What all programs share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cache: ReplayedCache,
    pub(crate) memory: Controller,
    pub(crate) holdings: Vec<Holding>,
    /// The number of the next process.
    pub(crate) processes: u64,
    /// Does a program that begins again find its old lines?
    pub(crate) same_process: bool,
}

/// A program under way.
#[derive(Debug)]
pub(crate) struct ProgramReplay<S> {
    source: S,
    number: usize,
    fs_per_instruction: u64,
    mask: u64,
    private: Vec<(ReplayedCache, u64)>,
    process: u64,
    /// The access that comes next, and when.
    next: Access,
    pub(crate) at: u64,
    pub(crate) passes: u64,
    /// Instructions when the pass began.
    begun_with: u64,
    counts: AccessCounts,
}

impl<S: AccessSource> ProgramReplay<S> {
    pub(crate) fn new(
        program: ReplayedProgram<S>,
        number: usize,
        all_ways: u64,
        shared: &mut Shared,
    ) -> Result<Self, ReplayError<S::Error>> {
        let mut source = program.source;
        let next = source.next_access().map_err(ReplayError::Source)?;
        let next = next.ok_or(ReplayError::Empty { program: number })?;
        // Time has to pass, or nobody else's turn would come.
        let fs_per_instruction = ((program.ns_per_instruction * FS_PER_NS).round() as u64).max(1);
        let private = program
            .private
            .iter()
            .map(|shape| (ReplayedCache::new(shape), shape.all_ways()))
            .collect();
        let process = shared.processes;
        shared.processes += 1;
        let mut runner = Self {
            source,
            number,
            fs_per_instruction,
            mask: program.mask.unwrap_or(all_ways),
            private,
            process,
            next,
            at: 0,
            passes: 0,
            begun_with: 0,
            counts: AccessCounts::default(),
        };
        runner.go_on(next.gap);
        Ok(runner)
    }

    fn go_on(&mut self, instructions: u64) {
        self.counts.instructions = self.counts.instructions.saturating_add(instructions);
        self.at = self.at.saturating_add(instructions.saturating_mul(self.fs_per_instruction));
    }

    /// Makes the next access. True when the pass ends with it.
    #[inline]
    pub(crate) fn step(&mut self, shared: &mut Shared) -> Result<bool, ReplayError<S::Error>> {
        self.counts.accesses += 1;
        let line = self.next.line;
        let process = self.process;
        let near = self.private.iter_mut().any(|(cache, ways)| {
            matches!(cache.access(line, process, 0, *ways), AccessOutcome::Hit)
        });
        if !near {
            self.counts.shared_accesses += 1;
            let touch = shared.cache.access(line, process, self.number, self.mask);
            if let AccessOutcome::Miss { evicted } = touch {
                self.missed(evicted, shared);
            }
        }
        match self.source.next_access() {
            Ok(Some(next)) => {
                self.next = next;
                self.go_on(next.gap);
                Ok(false)
            }
            Ok(None) => self.again(shared),
            Err(error) => Err(ReplayError::Source(error)),
        }
    }

    fn missed(&mut self, evicted: Option<usize>, shared: &mut Shared) {
        self.counts.misses += 1;
        let now = self.at;
        if let Some(loser) = evicted {
            let holding = &mut shared.holdings[loser];
            holding.pass_time(now);
            holding.lines -= 1;
            holding.evictions += 1;
        }
        let holding = &mut shared.holdings[self.number];
        holding.pass_time(now);
        holding.lines += 1;
        self.at = now.saturating_add(shared.memory.miss(now));
    }

    /// The pass has ended: the instructions behind the last access, then the next pass.
    #[cold]
    fn again(&mut self, shared: &mut Shared) -> Result<bool, ReplayError<S::Error>> {
        self.go_on(self.source.instructions_left());
        if self.counts.instructions == self.begun_with {
            return Err(ReplayError::Empty { program: self.number });
        }
        self.begun_with = self.counts.instructions;
        self.passes += 1;
        self.source.restart().map_err(ReplayError::Source)?;
        let next = self.source.next_access().map_err(ReplayError::Source)?;
        self.next = next.ok_or(ReplayError::Empty { program: self.number })?;
        if !shared.same_process {
            self.process = shared.processes;
            shared.processes += 1;
        }
        Ok(true)
    }

    /// Begins the pass that [`Self::step`] has announced, once the sums of the last one are read.
    pub(crate) fn begin_pass(&mut self) {
        self.go_on(self.next.gap);
    }

    /// The sums now; `now`: the time of the last access of all.
    pub(crate) fn counts(&self, now: u64, shared: &mut Shared) -> AccessCounts {
        let holding = &mut shared.holdings[self.number];
        holding.pass_time(now);
        AccessCounts {
            time: self.at,
            evictions: holding.evictions,
            held_area: holding.area,
            held_until: now,
            ..self.counts
        }
    }
}
