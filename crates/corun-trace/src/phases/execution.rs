//! An execution window by window.

use corun_profile::Stretch;

use super::clusters::{Behaviour, Clusters};
use super::sequence::Sequence;

/// The phases of an execution so far, and which ran when.
#[derive(Debug, Clone)]
pub(crate) struct Execution<B> {
    clusters: Clusters<B>,
    sequence: Sequence,
}

impl<B> Default for Execution<B> {
    fn default() -> Self {
        Self { clusters: Clusters::default(), sequence: Sequence::default() }
    }
}

impl<B: Behaviour> Execution<B> {
    /// Takes in the next window.
    pub(crate) fn add(&mut self, window: B) {
        let instructions = window.instructions();
        let (phase, union) = self.clusters.add(window);
        self.sequence.push(Stretch { phase, instructions });
        if let Some(union) = union {
            self.sequence.renumber(|phase| union.number(phase));
        }
    }

    /// The phases so far, in no order.
    pub(crate) fn phases(&self) -> impl Iterator<Item = &B> {
        self.clusters.phases()
    }

    /// The phases in the order of their first appearance, and their sequence, with a last window
    /// that has not ended: it joins the nearest. A phase has at least `least` instructions, and
    /// lasts as long at a time unless it is a quarter of all.
    pub(crate) fn finish(mut self, last: B, least: u64) -> (Vec<B>, Vec<Stretch>) {
        let instructions = last.instructions();
        let phase = self.clusters.add_rest(last);
        self.sequence.push(Stretch { phase, instructions });
        while let Some(union) = self.clusters.reduce(least).or_else(|| {
            let passing = self.sequence.passing(least)?;
            self.clusters.absorb(passing)
        }) {
            self.sequence.renumber(|phase| union.number(phase));
        }
        let phases = self.sequence.order(self.clusters.phases());
        (phases, self.sequence.into_stretches())
    }
}
