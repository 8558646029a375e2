//! Chains in random order through sets of several sizes.

use std::io;
use std::sync::Arc;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::CalibrateError;
use crate::kernel::{Chain, Chains, LINE_BYTES, Pages, SLOTS};

/// Places on a chain from which it is gone through at once where its lines are to be touched and not timed:
/// some ten times as fast as from one.
pub(crate) const AT_ONCE: usize = 16;

/// Lines that a chain visits in random order before it goes on to others as near to each other: as much
/// memory as the TLBs of today's cores reach with the smallest pages, which is what a host may give a
/// virtual machine below its huge pages. So a load of memory takes no page walk, whose time would be taken for the
/// memory's; and so many pages are more than prefetchers follow at a time.
const WINDOW_LINES: usize = (2 << 20) / LINE_BYTES;

/// Chains in random order through sets of ascending size, in as little memory as holds them: sets of
/// up to eight sizes go through the same lines, each by its own pointers. Lines side by side are visited
/// window by window, the windows and the lines of each in random order.
pub(crate) struct RandomChains {
    sizes: Vec<usize>,
    groups: Vec<Arc<Chains>>,
}

impl RandomChains {
    /// Chains of so many lines each, ascending, side by side in huge pages.
    ///
    /// # Errors
    /// When there is not so much memory.
    pub(crate) fn side_by_side(sizes: Vec<usize>) -> Result<Self, CalibrateError> {
        Self::new(sizes, Pages::Huge, 1, None)
    }

    /// Chains of so many lines each, ascending, each line in a small page of its own; not all at the
    /// same place in their pages, where they would crowd in a few sets of the caches.
    ///
    /// # Errors
    /// When there is not so much memory.
    pub(crate) fn line_a_page(sizes: Vec<usize>) -> Result<Self, CalibrateError> {
        Self::new(sizes, Pages::Small, rustix::param::page_size() / LINE_BYTES, None)
    }

    /// A chain of so many lines, side by side in huge pages, in the memory of a NUMA node, which is
    /// given by the kernel's number.
    ///
    /// # Errors
    /// When there is not so much memory on that node, or it must not be used.
    pub(crate) fn on_node(lines: usize, node: u32) -> Result<Self, CalibrateError> {
        Self::new(vec![lines], Pages::Huge, 1, Some(node))
    }

    /// Two chains through the same so many lines, side by side in small pages: window by window, and in no order.
    ///
    /// # Errors
    /// When there is not so much memory.
    pub(crate) fn near_and_far(lines: usize) -> Result<[Chain; 2], CalibrateError> {
        let mut random = Pcg64::seed_from_u64(7);
        let mut chains = Chains::new(lines, Pages::Small, None)
            .map_err(|source| memory_error(lines * LINE_BYTES, source))?;
        for (slot, window) in [WINDOW_LINES, lines].into_iter().enumerate() {
            chains.link(slot, &order(lines, 1, window, &mut random));
        }
        let chains = Arc::new(chains);
        Ok([0, 1].map(|slot| chains.places(slot, 1).remove(0)))
    }

    fn new(
        sizes: Vec<usize>,
        pages: Pages,
        spacing: usize,
        node: Option<u32>,
    ) -> Result<Self, CalibrateError> {
        let mut random = Pcg64::seed_from_u64(7);
        let mut groups = Vec::new();
        // From the largest on, so that the smallest are the ones that are left over.
        for same in sizes.rchunks(SLOTS) {
            let lines = same.last().map_or(1, |count| count * spacing);
            let mut chains = Chains::new(lines, pages, node)
                .map_err(|source| memory_error(lines * LINE_BYTES, source))?;
            for (slot, &count) in same.iter().enumerate() {
                let window = if spacing == 1 { WINDOW_LINES } else { count };
                chains.link(slot, &order(count, spacing, window, &mut random));
            }
            groups.push(Arc::new(chains));
        }
        groups.reverse();
        Ok(Self { sizes, groups })
    }

    /// The sizes in lines.
    pub(crate) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The chain of the first size with at least so many lines; of the largest, where none has.
    pub(crate) fn of_at_least(&self, lines: usize) -> usize {
        self.sizes.partition_point(|&size| size < lines).min(self.sizes.len() - 1)
    }

    /// Places at equal distances on the chain of a size, given by its place among the sizes.
    pub(crate) fn places(&self, size: usize, count: usize) -> Vec<Chain> {
        // The first group has what is left over.
        let first = match self.sizes.len() % SLOTS {
            0 => SLOTS,
            rest => rest,
        };
        match size.checked_sub(first) {
            None => self.groups[0].places(size, count),
            Some(behind) => self.groups[1 + behind / SLOTS].places(behind % SLOTS, count),
        }
    }

    /// The first place on the chain of a size.
    pub(crate) fn chain(&self, size: usize) -> Chain {
        self.places(size, 1).remove(0)
    }

    /// Whether the kernel gave huge pages for the largest sets.
    pub(crate) fn has_huge_pages(&self) -> bool {
        self.groups.last().is_some_and(|largest| crate::pages::are_huge(largest.address()))
    }
}

/// So many lines, `spacing` apart, in an order that visits each window of so many of them before the next.
fn order(count: usize, spacing: usize, window: usize, random: &mut Pcg64) -> Vec<u32> {
    let line = |member: usize| (member * spacing + member % spacing) as u32;
    let mut starts: Vec<usize> = (0..count).step_by(window.max(1)).collect();
    starts.shuffle(random);
    let mut order = Vec::with_capacity(count);
    for start in starts {
        let first = order.len();
        order.extend((start..count.min(start + window)).map(line));
        order[first..].shuffle(random);
    }
    order
}

/// No memory of so many bytes.
pub(crate) fn memory_error(bytes: usize, source: io::Error) -> CalibrateError {
    CalibrateError::Memory { mib: bytes >> 20, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_comes_back_after_all_its_lines() {
        let sizes: Vec<usize> = (1..=11).map(|size| size * 16).collect();
        for chains in [
            RandomChains::side_by_side(sizes.clone()).unwrap(),
            RandomChains::line_a_page(sizes.clone()).unwrap(),
        ] {
            for (place, &size) in sizes.iter().enumerate() {
                let start = chains.chain(place);
                assert_eq!(start.lines(), size);
                let mut at = start.clone();
                at.follow(size as u64);
                assert!(at.is_at(&start), "{size}");
                at.follow(16);
                assert_eq!(at.is_at(&start), size == 16, "{size}");
            }
        }
    }

    #[test]
    fn a_window_is_left_when_all_its_lines_were_visited() {
        let visited = order(70, 1, 16, &mut Pcg64::seed_from_u64(1));
        let windows: Vec<u32> = visited.iter().map(|line| line / 16).collect();
        let mut order = windows.clone();
        order.dedup();
        // 16 + 16 + 16 + 16 + 6 lines: five windows, each in one piece.
        assert_eq!(order.len(), 5, "{windows:?}");
        let mut sorted = visited.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..70).collect::<Vec<u32>>());
        assert_ne!(visited, sorted);
    }

    #[test]
    fn places_lie_apart_on_one_chain() {
        let chains = RandomChains::side_by_side(vec![64]).unwrap();
        let mut places = chains.places(0, 4);
        let second = places[1].clone();
        places[0].follow(16);
        assert!(places[0].is_at(&second));
        assert_eq!(chains.places(0, 1000).len(), 64);
        assert_eq!(chains.of_at_least(64), 0);
    }
}
