//! Stack-distance profiles of set-associative caches behind private ones.
//!
//! A profile counts, for one last-level cache (LLC) with LRU replacement, the hits at each LRU
//! position of its sets, and the misses (Blagodurov, Zhuravlev and Fedorova, ACM TOCS 28(4), 2010,
//! section 2.2): by the inclusion property of LRU a cache of the same sets and fewer ways has the
//! hits of its first positions (Mattson et al., IBM Systems Journal 9(2), 1970).
//!
//! What reaches the LLC is what misses the thread's private caches: a first level for data and
//! another of the same shape for instructions, then levels for both. Every level is LRU, indexed by
//! the line's low bits (the remainder, where its sets are no power of two), and filled by every
//! miss. Lines that are written back, back-invalidation and coherence are left out, so what happens
//! in a private cache does not depend on the LLC, and several LLCs stand behind the same ones.

use std::fmt;
use std::str::FromStr;

use corun_profile::StackDistanceProfile;

use crate::block::Block;
use crate::event::{LINE_BYTES, TraceEvent, Unpacked, line_of};

/// The largest cache that is simulated: it takes an eighth of its size in memory.
const MOST_BYTES: u64 = 1 << 30;

/// A set-associative cache of 64-byte lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheShape {
    bytes: u64,
    ways: u32,
}

/// A shape that no cache has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The text is no size and ways.
    #[error("found '{0}', expected SIZE/WAYS, such as 16MiB/16 (KiB, MiB, GiB or bytes)")]
    Text(String),
    /// The sets do not come out even.
    #[error(
        "found {bytes} bytes in {ways} ways, expected ways of one or more whole lines of \
         {LINE_BYTES} bytes"
    )]
    Uneven {
        /// The size found.
        bytes: u64,
        /// The ways found.
        ways: u32,
    },
    /// More than can be simulated.
    #[error("found {0} bytes, expected at most {MOST_BYTES}")]
    Large(u64),
}

impl CacheShape {
    /// A cache of so many bytes in so many ways.
    ///
    /// # Errors
    /// [`ShapeError`] when the ways are no whole number of lines, or the cache is above 1 GiB.
    pub fn new(bytes: u64, ways: u32) -> Result<Self, ShapeError> {
        if bytes > MOST_BYTES {
            return Err(ShapeError::Large(bytes));
        }
        let way = u64::from(ways) * LINE_BYTES;
        if way == 0 || bytes == 0 || !bytes.is_multiple_of(way) {
            return Err(ShapeError::Uneven { bytes, ways });
        }
        Ok(Self { bytes, ways })
    }

    /// Its size.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Its ways.
    pub fn ways(self) -> u32 {
        self.ways
    }

    /// Its sets.
    pub fn sets(self) -> u64 {
        self.bytes / LINE_BYTES / u64::from(self.ways)
    }
}

impl fmt::Display for CacheShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bytes, self.ways)
    }
}

impl FromStr for CacheShape {
    type Err = ShapeError;

    /// Reads `SIZE/WAYS`; the size is in bytes, or in KiB, MiB or GiB where it says so.
    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let wrong = || ShapeError::Text(text.to_owned());
        let (size, ways) = text.split_once('/').ok_or_else(wrong)?;
        let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
        let unit = units.iter().find_map(|(name, bits)| Some((size.strip_suffix(name)?, *bits)));
        let (count, bits) = unit.unwrap_or((size, 0));
        let digits = |text: &str| text.bytes().all(|one| one.is_ascii_digit());
        if !digits(count) || !digits(ways) {
            return Err(wrong());
        }
        let count: u64 = count.parse().map_err(|_| wrong())?;
        let bytes = count.checked_mul(1 << bits).ok_or_else(wrong)?;
        Self::new(bytes, ways.parse().map_err(|_| wrong())?)
    }
}

/// The caches to profile: LLCs, and the private caches in front of each of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetCaches {
    /// The LLCs, each on its own behind the same private caches; none: no profile.
    pub llcs: Vec<CacheShape>,
    /// The private caches from the nearest to the core on. The first is there twice, once for
    /// data and once for instructions.
    pub private: Vec<CacheShape>,
}

/// One cache's lines.
#[derive(Debug, Clone)]
struct Cache {
    ways: usize,
    sets: u64,
    /// Each set's lines from the most recent on.
    lines: Vec<u64>,
}

/// No line: lines have 48 bits.
const NONE: u64 = u64::MAX;

impl Cache {
    fn new(shape: CacheShape) -> Self {
        let (ways, sets) = (shape.ways as usize, shape.sets());
        Self { ways, sets, lines: vec![NONE; ways * sets as usize] }
    }

    /// Looks a line up and makes it its set's most recent; its LRU position before, from 0.
    #[inline]
    fn access(&mut self, line: u64) -> Option<usize> {
        let set =
            if self.sets.is_power_of_two() { line & (self.sets - 1) } else { line % self.sets };
        let first = set as usize * self.ways;
        let lines = &mut self.lines[first..first + self.ways];
        if lines[0] == line {
            return Some(0);
        }
        let found = lines.iter().position(|&one| one == line);
        lines.copy_within(..found.unwrap_or(self.ways - 1), 1);
        lines[0] = line;
        found
    }
}

/// A thread's private caches.
#[derive(Debug, Clone)]
pub(crate) struct PrivateCaches {
    /// For data and for instructions; none where no cache is private.
    first: Option<[Cache; 2]>,
    deeper: Vec<Cache>,
    code_line: u64,
}

impl PrivateCaches {
    fn new(shapes: &[CacheShape]) -> Self {
        Self {
            first: shapes.first().map(|&shape| [Cache::new(shape), Cache::new(shape)]),
            deeper: shapes.iter().skip(1).map(|&shape| Cache::new(shape)).collect(),
            code_line: NONE,
        }
    }

    /// Does an access miss in all of them?
    #[inline]
    fn misses(&mut self, line: u64, code: bool) -> bool {
        if let Some(first) = &mut self.first
            && first[usize::from(code)].access(line).is_some()
        {
            return false;
        }
        self.deeper.iter_mut().all(|cache| cache.access(line).is_none())
    }
}

#[derive(Debug, Clone)]
struct Llc {
    shape: CacheShape,
    cache: Cache,
    /// Hits by LRU position, most recent first.
    hits: Vec<u64>,
    misses: u64,
}

/// The profiles of one program. All threads share the LLCs.
#[derive(Debug, Clone)]
pub(crate) struct SetProfiles {
    private: Vec<CacheShape>,
    llcs: Vec<Llc>,
    /// Do instruction fetches count?
    fetches: bool,
}

impl SetProfiles {
    pub(crate) fn new(caches: &SetCaches, fetches: bool) -> Self {
        let llc = |&shape: &CacheShape| Llc {
            shape,
            cache: Cache::new(shape),
            hits: vec![0; shape.ways as usize],
            misses: 0,
        };
        Self {
            private: caches.private.clone(),
            llcs: caches.llcs.iter().map(llc).collect(),
            fetches,
        }
    }

    /// The same caches, empty, with nothing counted.
    pub(crate) fn emptied(&self) -> Self {
        let llcs = self.llcs.iter().map(|one| one.shape).collect();
        Self::new(&SetCaches { llcs, private: self.private.clone() }, self.fetches)
    }

    /// Takes in a batch of a thread's events; `private` is that thread's, made here.
    pub(crate) fn process(
        &mut self,
        private: &mut Option<Box<PrivateCaches>>,
        blocks: &[Block],
        events: &[TraceEvent],
    ) {
        let private = private.get_or_insert_with(|| Box::new(PrivateCaches::new(&self.private)));
        for event in events {
            match event.unpack() {
                // The lines that the kernel clears pass these caches unseen.
                Unpacked::Page { .. } => {}
                Unpacked::Block(_) if !self.fetches => {}
                Unpacked::Block(id) => {
                    let Some(block) = blocks.get(id as usize) else { continue };
                    let (first, last) = block.lines();
                    for line in first..=last {
                        if line != private.code_line {
                            private.code_line = line;
                            self.access(private, line, true);
                        }
                    }
                }
                Unpacked::Data { word, .. } => self.access(private, line_of(word), false),
            }
        }
    }

    #[inline]
    fn access(&mut self, private: &mut PrivateCaches, line: u64, code: bool) {
        if private.misses(line, code) {
            for llc in &mut self.llcs {
                match llc.cache.access(line) {
                    Some(position) => llc.hits[position] += 1,
                    None => llc.misses += 1,
                }
            }
        }
    }

    /// The profiles so far, a program of so many instructions having run.
    pub(crate) fn profiles(&self, instructions: u64) -> Vec<StackDistanceProfile> {
        let pki = |count: u64| count as f64 * 1000.0 / instructions.max(1) as f64;
        let one = |llc: &Llc| StackDistanceProfile {
            sets: llc.shape.sets(),
            line_bytes: LINE_BYTES,
            private_caches: self.private.iter().map(|one| (one.bytes, one.ways)).collect(),
            hits_pki: llc.hits.iter().map(|&hits| pki(hits)).collect(),
            misses_pki: pki(llc.misses),
        };
        self.llcs.iter().map(one).collect()
    }
}

#[cfg(test)]
#[path = "set_profile_tests.rs"]
mod tests;
