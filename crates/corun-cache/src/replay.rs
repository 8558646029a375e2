//! Several programs, one cache, in the order of simulated time.

use crate::cache::ReplayedCache;
use crate::geometry::{CacheConfig, GeometryError};
use crate::memory::{Controller, FS_PER_NS, MemoryTiming};
use crate::program::{AccessCounts, Holding, ProgramReplay, ReplayedProgram, Shared};
use crate::source::AccessSource;

/// Programs at most: owners of lines are numbered in few bits.
pub const MOST_PROGRAMS: usize = 256;

/// Femtoseconds at most.
const MOST_TIME: u64 = u64::MAX - (1 << 50);

/// When a replay ends. Whoever is through before begins again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// When the first program has had its measured pass. Figures of the others are of what they
    /// did by then.
    First,
    /// When every program has had a measured pass. Figures are of whole passes.
    #[default]
    Longest,
}

/// What the programs run on, and how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplaySetup {
    /// The shared cache.
    pub shared: CacheConfig,
    /// Memory behind it.
    pub memory: MemoryTiming,
    /// When to end.
    pub until: Until,
    /// Passes of each program before its figures begin.
    pub warm_up: u64,
    /// Does a program that begins again find the lines of its last pass? Else it is a new process:
    /// its lines are new, and the old ones stay until they are evicted.
    pub same_process: bool,
}

/// What became of a program. Counts are those of its measured passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplayFigures {
    /// Whole passes measured; 0 where the replay ended in the first.
    pub passes: u64,
    /// Instructions.
    pub instructions: u64,
    /// Accesses, also those that its private caches served.
    pub accesses: u64,
    /// Accesses of the shared cache.
    pub shared_accesses: u64,
    /// Misses of the shared cache.
    pub misses: u64,
    /// Its lines that left the shared cache for another, its own or somebody else's.
    pub evictions: u64,
    /// Its own time in nanoseconds.
    pub ns: f64,
    /// Mean over time of the bytes it held of the shared cache.
    pub mean_occupancy_bytes: f64,
}

impl ReplayFigures {
    /// Hits of the shared cache.
    pub fn hits(&self) -> u64 {
        self.shared_accesses - self.misses
    }

    /// Misses / accesses of the shared cache, 0 to 1; 0 without accesses.
    pub fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.shared_accesses.max(1) as f64
    }

    /// Misses of the shared cache per 1000 instructions.
    pub fn mpki(&self) -> f64 {
        self.misses as f64 * 1000.0 / self.instructions.max(1) as f64
    }

    /// Nanoseconds an instruction.
    pub fn ns_per_instruction(&self) -> f64 {
        self.ns / self.instructions.max(1) as f64
    }
}

/// Why nothing was replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError<E> {
    /// A source has no next access.
    #[error("{0}")]
    Source(E),
    /// A cache or a mask that cannot be.
    #[error("{0}")]
    Geometry(#[from] GeometryError),
    /// Simulated time is counted in femtoseconds, which end after some hours.
    #[error("program {program} runs for more than 5 hours of simulated time")]
    TooLong {
        /// Which, from 0.
        program: usize,
    },
    /// A program that would begin again for ever.
    #[error("program {program} runs no instruction or makes no access")]
    Empty {
        /// Which, from 0.
        program: usize,
    },
    /// None, or too many.
    #[error("{found} programs: expected 1 to {MOST_PROGRAMS}")]
    Programs {
        /// How many.
        found: usize,
    },
    /// A time that is none.
    #[error("{what} of {found} ns: expected 0 to 1e6")]
    Time {
        /// Which.
        what: &'static str,
        /// What was found.
        found: f64,
    },
}

/// Runs the programs together; their figures in the same order.
///
/// Accesses happen in the order of simulated time, ties by the programs' order. A program waits for
/// each of its misses; nothing overlaps. Same input, same figures.
///
/// # Errors
/// [`ReplayError`] when a cache, a mask, a time or a source is not usable.
pub fn replay<S: AccessSource>(
    setup: &ReplaySetup,
    programs: Vec<ReplayedProgram<S>>,
) -> Result<Vec<ReplayFigures>, ReplayError<S::Error>> {
    check(setup, &programs)?;
    let mut shared = Shared {
        cache: ReplayedCache::new(&setup.shared),
        memory: Controller::new(setup.memory),
        holdings: vec![Holding::default(); programs.len()],
        processes: 0,
        same_process: setup.same_process,
    };
    let mut runners = Vec::with_capacity(programs.len());
    for (number, program) in programs.into_iter().enumerate() {
        let runner = ProgramReplay::new(program, number, setup.shared.all_ways(), &mut shared)?;
        in_time(&runner, number)?;
        runners.push(runner);
    }
    let mut measured = vec![Measured::default(); runners.len()];
    let mut waited_for = match setup.until {
        Until::First => 1,
        Until::Longest => runners.len(),
    };
    let mut now = 0;
    while waited_for > 0 {
        let (number, until) = earliest(&runners);
        let runner = &mut runners[number];
        while runner.at < until && waited_for > 0 {
            now = runner.at;
            if runner.step(&mut shared)? {
                let counts = runner.counts(now, &mut shared);
                runner.begin_pass();
                let ended = measured[number].pass_ended(runner.passes, setup.warm_up, counts);
                waited_for -= usize::from(ended);
            }
            in_time(runner, number)?;
        }
    }
    let line_bytes = setup.shared.geometry.line_bytes;
    let each = runners.iter().zip(&measured);
    Ok(each.map(|(one, of)| of.figures(&one.counts(now, &mut shared), line_bytes)).collect())
}

fn check<S: AccessSource>(
    setup: &ReplaySetup,
    programs: &[ReplayedProgram<S>],
) -> Result<(), ReplayError<S::Error>> {
    let time = |what, found: f64| {
        let usable = (0.0..=1e6).contains(&found);
        if usable { Ok(()) } else { Err(ReplayError::Time { what, found }) }
    };
    if !(1..=MOST_PROGRAMS).contains(&programs.len()) {
        return Err(ReplayError::Programs { found: programs.len() });
    }
    setup.shared.check()?;
    time("a memory latency", setup.memory.latency_ns)?;
    time("a service time", setup.memory.service_ns)?;
    for program in programs {
        time("an instruction", program.ns_per_instruction)?;
        program.mask.map_or(Ok(()), |mask| setup.shared.check_mask(mask))?;
        program.private.iter().try_for_each(CacheConfig::check)?;
    }
    Ok(())
}

#[inline]
fn in_time<S, E>(runner: &ProgramReplay<S>, number: usize) -> Result<(), ReplayError<E>> {
    if runner.at <= MOST_TIME { Ok(()) } else { Err(ReplayError::TooLong { program: number }) }
}

/// Whose access is next, and the time from which on it may be another's turn.
#[inline]
fn earliest<S>(runners: &[ProgramReplay<S>]) -> (usize, u64) {
    let (mut first, mut at, mut until) = (0, u64::MAX, u64::MAX);
    for (number, runner) in runners.iter().enumerate() {
        // At equal times the lower number goes first.
        if runner.at < at {
            (first, until, at) = (number, at, runner.at);
        } else {
            until = until.min(runner.at + 1);
        }
    }
    (first, until)
}

/// What is known of a program's measured passes.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    passes: u64,
    begin: AccessCounts,
    end: AccessCounts,
}

impl Measured {
    /// True at the end of the first pass that is measured.
    fn pass_ended(&mut self, passes: u64, warm_up: u64, counts: AccessCounts) -> bool {
        if passes <= warm_up {
            self.begin = counts;
            return false;
        }
        self.end = counts;
        self.passes = passes - warm_up;
        self.passes == 1
    }

    fn figures(&self, now: &AccessCounts, line_bytes: u64) -> ReplayFigures {
        let end = if self.passes > 0 { &self.end } else { now };
        let sums = end.since(&self.begin);
        let mean_lines = sums.held_area as f64 / sums.held_until.max(1) as f64;
        ReplayFigures {
            passes: self.passes,
            instructions: sums.instructions,
            accesses: sums.accesses,
            shared_accesses: sums.shared_accesses,
            misses: sums.misses,
            evictions: sums.evictions,
            ns: sums.time as f64 / FS_PER_NS,
            mean_occupancy_bytes: mean_lines * line_bytes as f64,
        }
    }
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
