//! Places for a program, and what is known of them.

use std::sync::Arc;

use crate::objective::Cost;

/// A place for a program, and what it costs there.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// Index of the node.
    pub node: usize,
    /// CPU indices of the node's machine.
    pub cpus: Vec<u32>,
    /// What all on the node cost more, the newcomer included ([`crate::Objective::thread_cost`]).
    pub marginal: f64,
    /// The newcomer's own part of it.
    pub own: Cost,
    /// The worst slowdown on the node then.
    pub worst: f64,
}

/// Which CPUs of its node a program gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Those of the LLC where it costs least; the program is held there.
    OnLlc,
    /// Those that Linux would give it.
    AsLinux,
    /// Held to the LLC or spread as Linux would, whichever costs less.
    Either,
}

/// Which places of a node are predicted for a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlacesQuestion {
    pub(crate) workload: usize,
    pub(crate) hold: Hold,
    /// Each LLC with room, not that with the lowest score alone.
    pub(crate) every_llc: bool,
}

/// What workloads would cost at places of nodes, as long as nobody comes to a node or goes.
#[derive(Debug, Default)]
pub(crate) struct KnownPlaces {
    nodes: Vec<KnownOfNode>,
}

/// What is known while a node is in a state.
#[derive(Debug, Default)]
struct KnownOfNode {
    state: u64,
    places: Vec<(PlacesQuestion, Arc<[Place]>)>,
}

impl KnownPlaces {
    /// Forgets what was known of a node in another state.
    pub(crate) fn get(
        &mut self,
        node: usize,
        state: u64,
        asked: PlacesQuestion,
    ) -> Option<Arc<[Place]>> {
        if self.nodes.len() <= node {
            self.nodes.resize_with(node + 1, Default::default);
        }
        let known = &mut self.nodes[node];
        if known.state != state {
            known.state = state;
            known.places.clear();
        }
        known.places.iter().find(|one| one.0 == asked).map(|one| one.1.clone())
    }

    /// Of a node in the state of which was asked last.
    pub(crate) fn remember(&mut self, node: usize, question: PlacesQuestion, places: Arc<[Place]>) {
        self.nodes[node].places.push((question, places));
    }
}
