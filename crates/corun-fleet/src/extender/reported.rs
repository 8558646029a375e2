//! A node as its report says, and what a pod would cost there.

use std::sync::{Arc, Mutex};

use super::expected::OnNode;
use crate::kind::{NodeKind, Prediction};
use crate::node::{Node, Resident};
use crate::objective::{Cost, Objective};

/// Remembered kinds of pod on a node; more than that start anew.
const MOST_COSTS: usize = 16;

/// A node as its report says.
pub(super) struct Reported {
    pub(super) node: Node,
    /// By resident: it must not be slower. Empty where nobody has a bound.
    pub(super) bounds: Vec<f64>,
    /// What of the report was not known, and what was assumed.
    pub(super) assumed: Vec<String>,
    /// The same node where programs that were learned count as quiet; none where there are none.
    pub(super) recorded_alone: Option<Arc<Reported>>,
    /// What pods cost there that were asked about: a scheduler asks twice about each, and of a deployment's pods one is
    /// as the other.
    costs: Mutex<Vec<((usize, u32), PodCost)>>,
    /// The same node with pods that were expected there when it was last asked about, so many CPUs left free.
    with_expected: Mutex<Option<WithExpected>>,
}

/// Whom to expect, how many CPUs are left free, and the node.
type WithExpected = ((OnNode, u32), Arc<Reported>);

/// What a pod would cost on a node.
#[derive(Clone, Copy)]
pub(super) struct PodCost {
    pub(super) marginal: f64,
    /// The pod's own worst slowdown.
    pub(super) own: f64,
    /// Would somebody there be slower than his bound?
    pub(super) breaks: bool,
}

/// A pod's wishes.
pub(super) struct Asked {
    pub(super) program: usize,
    /// Was its profile learned, and not recorded?
    pub(super) is_learned: bool,
    pub(super) cpus: u32,
    pub(super) bound: Option<f64>,
}

impl Reported {
    pub(super) fn new(node: Node, bounds: Vec<f64>, assumed: Vec<String>) -> Self {
        let (costs, with_expected) = (Mutex::default(), Mutex::default());
        Self { node, bounds, assumed, recorded_alone: None, costs, with_expected }
    }

    /// The node where programs that were learned count as quiet.
    pub(super) fn by_records(&self) -> &Self {
        self.recorded_alone.as_deref().unwrap_or(self)
    }

    /// The node with these pods besides, as Linux places them. So many CPUs stay free: a scheduler that asks about a pod
    /// knows that there is room for it.
    pub(super) fn with_expected(
        &self,
        kind: &NodeKind,
        pods: &OnNode,
        free_cpus: u32,
        prediction: &mut Prediction,
    ) -> Arc<Self> {
        let key = (pods.clone(), free_cpus);
        let known = self.with_expected.lock().ok();
        let known = known.and_then(|one| one.as_ref().filter(|one| one.0 == key).cloned());
        if let Some((_, known)) = known {
            return known;
        }
        let mut node = self.node.clone();
        for &((program, cpus), count) in pods {
            for _ in 0..count {
                let cpus = cpus.min(node.free_cpus().saturating_sub(free_cpus));
                if cpus == 0 {
                    break;
                }
                let cpus = node.cpus_as_linux(kind, cpus);
                let pod = node.residents.len();
                let (slowdown, worst) = (1.0, 1.0);
                let resident = Resident { pod, workload: 0, program, cpus, slowdown, worst };
                node.insert(kind, resident, 0);
            }
        }
        node.predict(kind, Objective::MeanSlowdown, prediction);
        let found = Arc::new(Self::new(node, self.bounds.clone(), Vec::new()));
        if let Ok(mut known) = self.with_expected.lock() {
            *known = Some((key, found.clone()));
        }
        found
    }

    /// What a pod would cost there; enough CPUs must be free.
    pub(super) fn cost(
        &self,
        kind: &NodeKind,
        asked: &Asked,
        prediction: &mut Prediction,
    ) -> PodCost {
        let key = (asked.program, asked.cpus);
        let known = self.costs.lock().ok();
        let known = known.and_then(|all| all.iter().find(|one| one.0 == key).map(|one| one.1));
        if let Some(known) = known {
            return known;
        }
        let node = &self.node;
        let cpus = node.cpus_as_linux(kind, asked.cpus);
        let newcomer = (asked.program, &cpus[..]);
        let objective = Objective::MeanSlowdown;
        let (all, own): (Cost, Cost) = node.with_newcomer(kind, objective, newcomer, prediction);
        let breaks = node.breaks_a_bound(kind, newcomer, &self.bounds, prediction);
        let cost = PodCost { marginal: all.sum - node.cost().sum, own: own.worst, breaks };
        if let Ok(mut costs) = self.costs.lock() {
            if costs.len() >= MOST_COSTS {
                costs.clear();
            }
            costs.push((key, cost));
        }
        cost
    }
}
