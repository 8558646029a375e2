//! Memory that solves reuse, so that they allocate nothing once it has grown.

use crate::domains::DomainScratch;
use crate::masks::OverlapScratch;
use crate::outcome::Demand;
use crate::program::Flow;
use crate::space::SpaceScratch;
use crate::table::{Knot, PhaseTable};

/// Reusable working memory of [`crate::Model`]'s calls: one a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) space: SpaceScratch,
    pub(crate) domains: DomainScratch,
    pub(crate) tables: Vec<&'static PhaseTable>,
    pub(crate) flows: Vec<Flow<'static>>,
    pub(crate) capped: Vec<Flow<'static>>,
    pub(crate) order: Vec<(u64, u32)>,
    pub(crate) shares: Vec<f64>,
    /// By sharer its figures, and the sums that they are means of.
    pub(crate) divided: Vec<Demand>,
    pub(crate) knots: Vec<Knot>,
    pub(crate) retries: Vec<f64>,
    pub(crate) overlap: OverlapScratch,
    pub(crate) busy_threads: Vec<u32>,
    /// By flow: speed relative to that with the core to itself.
    pub(crate) speeds: Vec<f64>,
    /// By flow: cycles per instruction with the core to itself.
    pub(crate) cpis: Vec<f64>,
}

impl Scratch {
    /// Empty working memory; it grows with use.
    pub fn new() -> Self {
        Self::default()
    }
}

/// An empty vector of `B` in the memory of a vector of `A`: the standard library collects in
/// place when the layouts agree, as they do for one type at two lifetimes.
pub(crate) fn recycle<A, B>(mut vec: Vec<A>) -> Vec<B> {
    vec.clear();
    vec.into_iter().filter_map(|_| None).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recycling_keeps_the_memory() {
        let vec: Vec<&'static str> = Vec::with_capacity(100);
        let recycled: Vec<&str> = recycle(vec);
        assert!(recycled.is_empty());
        assert_eq!(recycled.capacity(), 100);
    }
}
