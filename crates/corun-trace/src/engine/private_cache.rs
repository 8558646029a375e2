//! A second-level cache of middling size: which misses a prefetcher would have to foresee, which
//! may overlap, and which lines are written before they leave.

use super::figures::Traffic;

const SETS: usize = 512;
const WAYS: usize = 8;
const VALID: u64 = 1 << 63;
const DIRTY: u64 = 1 << 62;
const LINE: u64 = DIRTY - 1;

/// Size of the cache behind whose misses prefetchability, memory-level parallelism and the dirty
/// share are judged: 256 KiB in 8 ways, LRU; the second-level cache of the Intel cores from
/// Nehalem to Haswell.
pub(crate) const PRIVATE_CACHE_BYTES: u64 = (SETS * WAYS) as u64 * 64;

/// The cache. Behind the front of the LRU stack, as a real one stands behind an L1.
#[derive(Debug, Clone)]
pub(crate) struct PrivateCache {
    /// Each set's ways from the most recent on.
    sets: Vec<[u64; WAYS]>,
}

impl PrivateCache {
    pub(crate) fn new() -> Self {
        Self { sets: vec![[0; WAYS]; SETS] }
    }

    /// Looks a line up and brings it in; true on a hit.
    pub(crate) fn access(&mut self, line: u64, traffic: &mut Traffic) -> bool {
        self.touch(line, 0, traffic)
    }

    /// A written line comes back from the cache before.
    pub(crate) fn write_back(&mut self, line: u64, traffic: &mut Traffic) {
        self.touch(line, DIRTY, traffic);
    }

    /// The kernel writes a line here for the program: neither brings it in, and both count elsewhere.
    pub(crate) fn clear(&mut self, line: u64) {
        self.touch(line, DIRTY, &mut Traffic::default());
    }

    fn touch(&mut self, line: u64, dirty: u64, traffic: &mut Traffic) -> bool {
        let set = &mut self.sets[line as usize % SETS];
        let tag = VALID | line & LINE;
        let mut carried = tag | dirty;
        for at in 0..WAYS {
            let way = set[at];
            set[at] = carried;
            if way & !DIRTY == tag {
                traffic.dirty += u64::from(dirty & !way != 0);
                set[0] |= way & DIRTY;
                return true;
            }
            carried = way;
        }
        traffic.lines += 1;
        traffic.dirty += u64::from(dirty != 0);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_line_is_there_and_written() {
        let mut cache = PrivateCache::new();
        let mut traffic = Traffic::default();
        cache.clear(7);
        assert!(cache.access(7, &mut traffic));
        // The program's stores to it add nothing to what is to be written back.
        cache.write_back(7, &mut traffic);
        assert_eq!(traffic, Traffic::default());
    }

    #[test]
    fn eight_ways_and_dirty_lines() {
        let mut cache = PrivateCache::new();
        let mut traffic = Traffic::default();
        let line = |way: u64| way * SETS as u64 + 3;
        for way in 0..8 {
            assert!(!cache.access(line(way), &mut traffic));
        }
        assert!(cache.access(line(0), &mut traffic));
        // Written twice, it is dirty once.
        cache.write_back(line(1), &mut traffic);
        cache.write_back(line(1), &mut traffic);
        assert_eq!(traffic, Traffic { lines: 8, dirty: 1 });
        // 2 is the oldest now, then 3.
        assert!(!cache.access(line(8), &mut traffic));
        assert!(!cache.access(line(2), &mut traffic));
        assert!(cache.access(line(1), &mut traffic));
        assert_eq!(traffic, Traffic { lines: 10, dirty: 1 });
        for way in 20..28 {
            cache.access(line(way), &mut traffic);
        }
        // It left: it is brought in and written anew.
        cache.write_back(line(1), &mut traffic);
        assert_eq!(traffic, Traffic { lines: 19, dirty: 2 });
    }
}
