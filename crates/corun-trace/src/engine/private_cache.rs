//! A second-level cache of middling size: which misses a prefetcher would have to foresee, which
//! may overlap, and which lines are written before they leave.

const SETS: usize = 512;
const WAYS: usize = 8;
const VALID: u64 = 1 << 63;
const DIRTY: u64 = 1 << 62;
const LINE: u64 = DIRTY - 1;

/// Size of the cache behind whose misses prefetchability, memory-level parallelism and the dirty
/// share are judged: 256 KiB in 8 ways, LRU; the second-level cache of the Intel cores from
/// Nehalem to Haswell.
pub const PRIVATE_CACHE_BYTES: u64 = (SETS * WAYS) as u64 * 64;

/// The cache. Behind the front of the LRU stack, as a real one stands behind an L1.
#[derive(Debug, Clone)]
pub(crate) struct PrivateCache {
    /// Each set's ways from the most recent on.
    sets: Vec<[u64; WAYS]>,
    /// Lines that left.
    left: u64,
    /// Lines that left and had been written.
    left_dirty: u64,
}

impl PrivateCache {
    pub(crate) fn new() -> Self {
        Self { sets: vec![[0; WAYS]; SETS], left: 0, left_dirty: 0 }
    }

    /// Looks a line up and brings it in; true on a hit.
    pub(crate) fn access(&mut self, line: u64) -> bool {
        self.touch(line, 0)
    }

    /// A written line comes back from the cache before.
    pub(crate) fn write_back(&mut self, line: u64) {
        self.touch(line, DIRTY);
    }

    /// Lines that were brought in, and those of them that were written. Lines still in the cache
    /// before (`front_dirty` of which are written) are brought in too.
    pub(crate) fn brought_in(&self, front_dirty: u64) -> (u64, u64) {
        let held = self.sets.iter().flatten().filter(|&&way| way & VALID != 0);
        let (mut lines, mut dirty) = (self.left, self.left_dirty + front_dirty);
        for way in held {
            lines += 1;
            dirty += u64::from(way & DIRTY != 0);
        }
        (lines, dirty.min(lines))
    }

    fn touch(&mut self, line: u64, dirty: u64) -> bool {
        let set = &mut self.sets[line as usize % SETS];
        let tag = VALID | line & LINE;
        let mut carried = tag | dirty;
        for at in 0..WAYS {
            let way = set[at];
            set[at] = carried;
            if way & !DIRTY == tag {
                set[0] |= way & DIRTY;
                return true;
            }
            carried = way;
        }
        if carried & VALID != 0 {
            self.left += 1;
            self.left_dirty += u64::from(carried & DIRTY != 0);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_ways_and_dirty_lines() {
        let mut cache = PrivateCache::new();
        let line = |way: u64| way * SETS as u64 + 3;
        for way in 0..8 {
            assert!(!cache.access(line(way)));
        }
        assert!(cache.access(line(0)));
        cache.write_back(line(1));
        // 2 is the oldest now, then 3.
        assert!(!cache.access(line(8)));
        assert!(!cache.access(line(2)));
        assert!(cache.access(line(1)));
        assert_eq!(cache.brought_in(0), (10, 1));
        for way in 20..28 {
            cache.access(line(way));
        }
        assert_eq!((cache.left, cache.left_dirty), (10, 1));
    }
}
