//! What may run on a node together, and how it costs least there.

use std::collections::HashMap;
use std::sync::Arc;

use crate::exact::{keeps_on, spreads};
use crate::fleet::Ground;
use crate::kind::{NodeKind, Prediction};
use crate::node::{Node, Resident};

/// The programs of a load: which of those that are asked for, in rising order, and how many of each.
pub(super) type Counts = Vec<(u16, u8)>;

/// Programs on a node, spread over its LLCs so that they cost least.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Load {
    pub(super) counts: Counts,
    pub(super) cost: f64,
}

/// Looks for the loads of a kind of node.
pub(super) struct LoadSearch<'a> {
    ground: &'a Arc<Ground>,
    kind_index: usize,
    /// Workloads that are asked for, and how often.
    asked: Vec<(usize, u32)>,
    /// Can LLCs that nobody uses be exchanged?
    llcs_are_alike: bool,
    /// Predictions that may still be made.
    left: usize,
    prediction: Prediction,
}

/// Where the search is: programs up to here are decided.
struct Step {
    at: usize,
    /// How many of this program are on the node, and how the last of them is spread.
    here: u32,
    last: Option<Vec<u32>>,
}

impl<'a> LoadSearch<'a> {
    /// For a kind of node, with at most so many predictions.
    pub(super) fn new(
        ground: &'a Arc<Ground>,
        kind_index: usize,
        asked: &[(usize, u32)],
        most_predictions: usize,
    ) -> Self {
        let kind = &ground.kinds[kind_index];
        Self {
            ground,
            kind_index,
            asked: asked.to_vec(),
            llcs_are_alike: llcs_are_alike(kind),
            left: most_predictions,
            prediction: Prediction::default(),
        }
    }

    /// Sets of programs that have CPUs there, whatever else they need.
    fn sets(&self) -> f64 {
        let cpus = self.ground.kinds[self.kind_index].cpus() as usize;
        let mut by_cpus = vec![0.0; cpus + 1];
        by_cpus[0] = 1.0;
        for &(workload, count) in &self.asked {
            let each = self.ground.workloads[workload].cpus as usize;
            let before = by_cpus.clone();
            for one in 1..=(count as usize).min(cpus / each) {
                for used in one * each..=cpus {
                    by_cpus[used] += before[used - one * each];
                }
            }
        }
        by_cpus.iter().sum()
    }

    /// All loads but the empty one, each once; none where there are too many to look at.
    pub(super) fn all(mut self) -> Option<Vec<Load>> {
        let few = usize::from(u8::MAX);
        let most = usize::from(u16::MAX);
        let kind = &self.ground.kinds[self.kind_index];
        if self.sets() > self.left as f64 || kind.cpus() as usize > few || self.asked.len() > most {
            return None;
        }
        let mut least: HashMap<Counts, f64> = HashMap::new();
        let node = self.empty();
        let first = Step { at: 0, here: 0, last: None };
        self.visit(&node, &Counts::new(), &first, &mut |counts, node| {
            let cost = node.cost().sum;
            match least.get_mut(counts) {
                Some(least) => *least = least.min(cost),
                None => drop(least.insert(counts.clone(), cost)),
            }
        })?;
        let mut loads: Vec<Load> =
            least.into_iter().map(|(counts, cost)| Load { counts, cost }).collect();
        loads.sort_by(|one, other| one.counts.cmp(&other.counts));
        Some(loads)
    }

    /// The programs of a load as they cost least: workloads with their CPUs.
    pub(super) fn cheapest(mut self, counts: &Counts) -> Option<Vec<(usize, Vec<u32>)>> {
        self.asked.iter_mut().for_each(|asked| asked.1 = 0);
        for &(at, count) in counts {
            self.asked[usize::from(at)].1 = u32::from(count);
        }
        let mut best: Option<(f64, Node)> = None;
        let node = self.empty();
        let first = Step { at: 0, here: 0, last: None };
        self.visit(&node, &Counts::new(), &first, &mut |found, node| {
            let cost = node.cost().sum;
            if found == counts && best.as_ref().is_none_or(|best| cost < best.0) {
                best = Some((cost, node.clone()));
            }
        })?;
        let residents = best?.1.residents;
        Some(residents.into_iter().map(|one| (one.workload, one.cpus)).collect())
    }

    fn empty(&self) -> Node {
        Node::new(String::new(), self.kind_index, &self.ground.kinds[self.kind_index])
    }

    /// Adds each program that may come next in each way; none once there were too many predictions. `found` is told
    /// of every node that keeps all bounds on slowdown.
    fn visit(
        &mut self,
        node: &Node,
        counts: &Counts,
        step: &Step,
        found: &mut impl FnMut(&Counts, &Node),
    ) -> Option<()> {
        for at in step.at..self.asked.len() {
            let (workload, most) = self.asked[at];
            let here = if at == step.at { step.here } else { 0 };
            if here >= most || node.obstacle(workload, &self.ground.workloads).is_some() {
                continue;
            }
            let kind = &self.ground.kinds[self.kind_index];
            let after = step.last.as_ref().filter(|_| here > 0);
            for spread in spreads(self.ground.workloads[workload].cpus, &node.free_by_llc)? {
                // Equal programs go in rising order of spreads.
                if after.is_some_and(|last| spread < *last) || !self.is_first(kind, node, &spread) {
                    continue;
                }
                self.left = self.left.checked_sub(1)?;
                let with = self.with(node, workload, &spread);
                let kept = keeps_on(self.ground, &with);
                let mut more = counts.clone();
                match more.last_mut().filter(|last| usize::from(last.0) == at) {
                    Some(last) => last.1 += 1,
                    None => more.push((at as u16, 1)),
                }
                if kept {
                    found(&more, &with);
                }
                // A bound on slowdown that is broken stays so where company only slows.
                if kept || !kind.company_only_slows() {
                    let step = Step { at, here: here + 1, last: Some(spread) };
                    self.visit(&with, &more, &step, found)?;
                }
            }
        }
        Some(())
    }

    /// Of spreads that differ by an exchange of unused LLCs alone, is it the first? The last LLC is used first, so that
    /// equal programs on LLCs of their own are in rising order, too.
    fn is_first(&self, kind: &NodeKind, node: &Node, spread: &[u32]) -> bool {
        if !self.llcs_are_alike {
            return true;
        }
        let unused = |&llc: &usize| node.free_by_llc[llc] as usize == kind.seats()[llc].len();
        let unused: Vec<usize> = (0..spread.len()).filter(unused).collect();
        unused.windows(2).all(|pair| spread[pair[0]] <= spread[pair[1]])
    }

    /// The node with a program more, predicted.
    fn with(&mut self, node: &Node, workload: usize, spread: &[u32]) -> Node {
        let kind = &self.ground.kinds[self.kind_index];
        let asked = &self.ground.workloads[workload];
        let of_llc =
            |(llc, &count): (usize, &u32)| node.cpus_from(kind, count, std::iter::once(llc));
        let cpus: Vec<u32> = spread.iter().enumerate().flat_map(of_llc).collect();
        let (pod, program, slowdown, worst) = (node.residents.len(), asked.program, 1.0, 1.0);
        let mut with = node.clone();
        let resident = Resident { pod, workload, program, cpus, slowdown, worst };
        with.insert(kind, resident, asked.memory_mib);
        with.predict(kind, self.ground.objective, &mut self.prediction);
        with
    }
}

/// Can the LLCs of a node be exchanged: are they alike, and each alone or all together in each bandwidth domain?
fn llcs_are_alike(kind: &NodeKind) -> bool {
    let (machine, model) = (kind.machine(), kind.model());
    let first_cpu = |llc: &Vec<u32>| llc[0] as usize;
    let of_llc = |llc: &Vec<u32>| {
        let cpu = first_cpu(llc);
        let node = machine.cpus()[cpu].node;
        let latency = machine.memory_latency_ns(node, node).map(f64::to_bits);
        (llc.len(), model.llc_bytes(cpu).to_bits(), latency)
    };
    let seats = kind.seats();
    let alike = machine.core_types().len() == 1
        && seats.iter().all(|llc| of_llc(llc) == of_llc(&seats[0]))
        && seats.iter().flatten().all(|&cpu| !model.divides_private_caches(cpu as usize));
    let path =
        |llc: &Vec<u32>| machine.memory_path(first_cpu(llc), machine.cpus()[first_cpu(llc)].node);
    let paths: Vec<Vec<usize>> = seats.iter().map(path).collect();
    let peak = |domain: usize| machine.bandwidth_domains()[domain].peak_mb_per_s;
    alike
        && paths.iter().all(|path| path.len() == paths[0].len())
        && (0..paths[0].len()).all(|stage| {
            let mut domains: Vec<usize> = paths.iter().map(|path| path[stage]).collect();
            domains.sort_unstable();
            domains.dedup();
            let same_peak = domains.iter().all(|&one| peak(one) == peak(domains[0]));
            same_peak && (domains.len() == 1 || domains.len() == seats.len())
        })
}
