//! How large the sets are that are visited, on a machine with these caches and so much memory.

use std::fs;

use crate::kernel::LINE_BYTES;

/// The smallest set of the ladder.
const LEAST_BYTES: f64 = 4096.0;
/// What TLBs have as a rule: tried exactly.
const TLB_ENTRIES: [usize; 12] = [16, 32, 48, 64, 72, 96, 128, 1024, 1536, 2048, 3072, 4096];
/// The smallest set with a line a page.
const LEAST_PAGES: usize = 8;
/// The largest set, where nothing tells the LLC's size.
const UNKNOWN_LLC_BYTES: f64 = 64.0 * 1048576.0;
/// Share of the memory that is available which one kind of set may take.
const MEMORY_SHARE: f64 = 0.25;

/// How fine the steps are and how far they go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Steps {
    /// Sizes to the octave up to twice the caches nearer to the core than the LLC.
    per_octave_near: u32,
    /// Sizes to the octave up to twice the LLC.
    per_octave_llc: u32,
    /// Sizes to the octave beyond.
    per_octave_beyond: u32,
    /// The largest set, as a multiple of the LLC.
    times_llc: f64,
    /// Sizes to the octave of sets with a line a page.
    per_octave_pages: u32,
    /// The most pages of such a set.
    most_pages: usize,
    /// Instructions from one distance between two misses to the next.
    pub(crate) filler_step: u64,
}

impl Steps {
    /// For a whole calibration, or a quick one.
    pub(crate) fn new(quick: bool) -> Self {
        match quick {
            false => Self {
                per_octave_near: 8,
                per_octave_llc: 4,
                per_octave_beyond: 2,
                times_llc: 8.0,
                per_octave_pages: 8,
                most_pages: 1 << 15,
                filler_step: 16,
            },
            true => Self {
                per_octave_near: 4,
                per_octave_llc: 2,
                per_octave_beyond: 1,
                times_llc: 4.0,
                per_octave_pages: 4,
                most_pages: 1 << 14,
                filler_step: 64,
            },
        }
    }

    /// The numbers of pages of sets with a line a page, ascending.
    pub(crate) fn pages(&self, available_bytes: f64) -> Vec<usize> {
        let most = available_bytes * MEMORY_SHARE / 2.0 / rustix::param::page_size() as f64;
        let most = self.most_pages.min(most as usize).max(LEAST_PAGES);
        let mut pages: Vec<usize> =
            TLB_ENTRIES.into_iter().filter(|entries| *entries < most).chain([most]).collect();
        let mut size = LEAST_PAGES as f64;
        while (size as usize) < most {
            pages.push(size as usize);
            size *= 2f64.powf(1.0 / f64::from(self.per_octave_pages));
        }
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    /// The sizes of the ladder in lines, ascending; those of the caches are among them.
    pub(crate) fn ladder(&self, caches: &[(u32, f64)], available_bytes: f64) -> Vec<usize> {
        let llc = caches.last().map_or(UNKNOWN_LLC_BYTES / self.times_llc, |cache| cache.1);
        let near = match caches {
            [.., private, _] => private.1,
            _ => 32.0 * 1024.0,
        };
        let most = (self.times_llc * llc).min(available_bytes * MEMORY_SHARE).max(LEAST_BYTES);
        let mut sizes: Vec<f64> =
            caches.iter().map(|cache| cache.1).filter(|size| *size <= most).collect();
        let mut size = LEAST_BYTES;
        while size < most * 0.99 {
            sizes.push(size);
            let per_octave = match size {
                size if size < 2.0 * near => self.per_octave_near,
                size if size < 2.0 * llc => self.per_octave_llc,
                _ => self.per_octave_beyond,
            };
            size *= 2f64.powf(1.0 / f64::from(per_octave));
        }
        sizes.push(most);
        let mut lines: Vec<usize> =
            sizes.into_iter().map(|size| (size.round() as usize).div_ceil(LINE_BYTES)).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }
}

/// Bytes of memory that may still be used: what the kernel says is available, and what the control
/// group's limit leaves of it. Half a GiB where neither is known.
pub(crate) fn available_bytes() -> f64 {
    let text = |path: &str| fs::read_to_string(path).ok();
    let meminfo = corun_linux::meminfo::available_bytes(&corun_linux::Roots::default());
    let meminfo = meminfo.map(|bytes| bytes as f64);
    let limit = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .find_map(|path| text(path)?.trim().parse::<f64>().ok());
    let known = meminfo.into_iter().chain(limit).reduce(f64::min);
    known.unwrap_or(512.0 * 1048576.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHES: [(u32, f64); 3] = [(1, 49_152.0), (2, 1_048_576.0), (3, 33_554_432.0)];

    #[test]
    fn the_ladder_goes_from_the_first_cache_to_far_beyond_the_last() {
        let sizes = Steps::new(false).ladder(&CACHES, 1e12);
        assert_eq!((sizes[0], *sizes.last().unwrap()), (64, 8 * 524_288));
        for (_, size) in CACHES {
            assert!(sizes.contains(&(size as usize / 64)), "{size}");
        }
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
        assert!((90..130).contains(&sizes.len()), "{}", sizes.len());
        assert!(Steps::new(true).ladder(&CACHES, 1e12).len() < 60);
    }

    #[test]
    fn little_memory_makes_it_shorter() {
        let sizes = Steps::new(false).ladder(&CACHES, 256e6);
        assert_eq!(*sizes.last().unwrap(), 1_000_000);
        assert_eq!(Steps::new(false).ladder(&[], 1e12).last(), Some(&1_048_576));
        assert_eq!(Steps::new(true).ladder(&CACHES, 0.0), [64]);
    }
}
