//! How many placements a part of the tree may hold.

use crate::contention::Contention;
use crate::search_space::SearchSpace;

/// Ways to put `left` programs on the LLCs that are not in `used`, one to a CPU, mirror images and
/// slots within an LLC not told apart: what a search without bounds may look at.
pub(crate) fn ways<C: Contention>(space: &SearchSpace<'_, C>, used: u64, left: usize) -> f64 {
    // By programs placed so far: one LLC after the other takes some of them.
    let mut ways = vec![0.0; left + 1];
    ways[0] = 1.0;
    for (llc, slots) in space.llcs.iter().enumerate().filter(|(llc, _)| used & (1 << llc) == 0) {
        debug_assert!(llc < 64);
        for placed in (1..=left).rev() {
            let of = |here: usize| ways[placed - here] * choose(left - (placed - here), here);
            ways[placed] = (0..=slots.len().min(placed)).map(of).sum();
        }
    }
    ways[left]
}

fn choose(from: usize, some: usize) -> f64 {
    (0..some).map(|taken| (from - taken) as f64 / (taken + 1) as f64).product()
}
