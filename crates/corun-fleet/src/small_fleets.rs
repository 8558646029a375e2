//! Fleets so small that their best plan can be found: how far from it are plans made as programs come?

use std::collections::BTreeMap;
use std::sync::Arc;

use corun_app::{Cancel, Result, find_machine, open_library};
use corun_model::ModelOptions;
use corun_profile::Profile;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::arrivals::{SIZES, size_shares};
use crate::bound::Bounds;
use crate::description::NodeGroup;
use crate::fleet::{Fleet, Ground};
use crate::kind::{NodeKind, Prediction};
use crate::objective::Objective;
use crate::optimum::by_loads;
use crate::place::Hold;
use crate::plan::{DEFAULT_MOVE_COST, REPAIR_TRIES};
use crate::repair::repair;
use crate::workload::Workload;

/// A small fleet and the programs that may ask for room on it: those of a library, with the sizes that arrivals
/// have in the simulation, each as likely as there. Plans are judged by lost work.
pub struct SmallFleets {
    ground: Arc<Ground>,
    nodes: Vec<(String, usize)>,
    /// CPUs of the largest node, and of all.
    most_cpus: u32,
    cpus: u32,
}

/// The lost work of plans for the same programs, as shares of the CPUs' work.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedFleet {
    /// Programs.
    pub programs: usize,
    /// CPUs that they take.
    pub cpus: u32,
    /// Each on the node with the smallest share of its CPUs taken, with threads as Linux places them.
    pub least_allocated: f64,
    /// Each where it costs least as it comes.
    pub greedy: f64,
    /// The same with one repair at the cost of a move that a fleet file has where it names none.
    pub repaired: f64,
    /// Moves of that repair.
    pub moves: usize,
    /// The same with repairs at no cost until none changes anything.
    pub repaired_freely: f64,
    /// No plan loses less; none where the best plan was not found.
    pub optimum: Option<f64>,
    /// What a linear program over all loads of a node proves of it; none where there are too many loads.
    pub bound_by_loads: Option<f64>,
    /// What the relaxation by groups or by pressure proves of it.
    pub bound: f64,
}

/// The lost work of plans on many nodes, as shares of the CPUs' work.
#[derive(Debug, Clone, PartialEq)]
pub struct ManyNodesPlan {
    /// Programs.
    pub programs: usize,
    /// As in [`PlannedFleet`].
    pub least_allocated: f64,
    /// As in [`PlannedFleet`].
    pub greedy: f64,
    /// As in [`PlannedFleet`].
    pub repaired: f64,
    /// Moves of that repair.
    pub moves: usize,
    /// As in [`PlannedFleet`].
    pub bound_by_loads: f64,
}

/// Repairs until nothing changes, at most.
const MOST_REPAIRS: usize = 50;

impl SmallFleets {
    /// Several fleets. Loading all programs on a machine takes seconds: fleets with nodes of one kind share them.
    ///
    /// # Errors
    /// An unknown machine, or a figure of a profile that cannot be; the user's wish to stop.
    pub fn several(
        fleets: &[Vec<NodeGroup>],
        profiles: Option<&std::path::Path>,
        options: ModelOptions,
        cancel: &Cancel,
    ) -> Result<Vec<Self>> {
        let profiles: Vec<Profile> = open_library(profiles)?.iter().cloned().collect();
        let mut loaded: Vec<(&NodeGroup, NodeKind)> = Vec::new();
        let mut all = Vec::with_capacity(fleets.len());
        for groups in fleets {
            let mut kinds = Vec::with_capacity(groups.len());
            for group in groups {
                let is_same = |known: &&(&NodeGroup, NodeKind)| {
                    (&known.0.machine, known.0.seats) == (&group.machine, group.seats)
                };
                let known = loaded.iter().find(is_same).map(|(_, kind)| kind.clone());
                let kind = match known {
                    Some(kind) => kind,
                    None => {
                        let machine = find_machine(&group.machine)?;
                        let seats = group.seats;
                        let kind =
                            NodeKind::unless(machine, &profiles, seats, None, options, cancel)?;
                        loaded.push((group, kind.clone()));
                        kind
                    }
                };
                kinds.push(kind);
            }
            all.push(Self::new(groups, kinds, &profiles));
        }
        Ok(all)
    }

    /// `kinds`: of the groups, in their order.
    fn new(groups: &[NodeGroup], kinds: Vec<NodeKind>, profiles: &[Profile]) -> Self {
        let of_group = |(kind, group): (usize, &NodeGroup)| {
            let machine = group.machine.clone();
            (0..group.count).map(move |at| (format!("{machine}-{at}"), kind))
        };
        let nodes: Vec<(String, usize)> = groups.iter().enumerate().flat_map(of_group).collect();
        let workload = |index: usize| {
            let (program, cpus) = (index / SIZES.len(), SIZES[index % SIZES.len()]);
            let name = format!("{}-{cpus}", profiles[program].name);
            Workload { name, program, cpus, ..Workload::default() }
        };
        let workloads = (0..profiles.len() * SIZES.len()).map(workload).collect();
        let names: Vec<String> = profiles.iter().map(|profile| profile.name.clone()).collect();
        let shares = vec![1.0; names.len()];
        let most_cpus = kinds.iter().map(NodeKind::cpus).max().unwrap_or(0);
        let cpus = nodes.iter().map(|(_, kind)| kinds[*kind].cpus()).sum();
        let objective = Objective::LostWork;
        let ground = Ground::new(kinds, names, workloads, &shares, objective, f64::INFINITY);
        Self { ground: Arc::new(ground), nodes, most_cpus, cpus }
    }

    /// Programs that take this share of the CPUs, or the last less, and how each way to place them does. None where some
    /// way leaves a program without a place.
    ///
    /// # Errors
    /// A machine for which there can be no bound.
    pub fn plan(&self, utilisation: f64, seed: u64) -> Result<Option<PlannedFleet>> {
        let asked = self.draw(utilisation, seed);
        let mut prediction = Prediction::default();
        let linux = self.least_allocated(&asked, &mut prediction);
        let greedy = self.greedy(&asked, &mut prediction);
        let (Some(linux), Some(greedy)) = (linux, greedy) else { return Ok(None) };
        let mut repaired = greedy.clone();
        let moves =
            repair(&mut repaired, DEFAULT_MOVE_COST, REPAIR_TRIES, &mut prediction).moves.len();
        let mut free = greedy.clone();
        for _ in 0..MOST_REPAIRS {
            if repair(&mut free, 0.0, REPAIR_TRIES, &mut prediction).moves.is_empty() {
                break;
            }
        }
        let known = if free.cost().sum < repaired.cost().sum { &free } else { &repaired };
        let loads = by_loads(&self.ground, &self.nodes, &asked, Some(known));
        Ok(Some(PlannedFleet {
            programs: asked.len(),
            cpus: greedy.threads(),
            least_allocated: linux.value(),
            greedy: greedy.value(),
            repaired: repaired.value(),
            moves,
            repaired_freely: free.value(),
            optimum: loads.as_ref().and_then(|one| one.best.as_ref()).map(Fleet::value),
            bound_by_loads: loads.map(|one| one.bound),
            bound: self.bound(&asked)?,
        }))
    }

    /// The same for many nodes, of which no best plan is found: the programs come largest first, so that all find room. None
    /// where one does not, or there are too many loads of a node.
    pub fn plan_many(&self, utilisation: f64, seed: u64) -> Option<ManyNodesPlan> {
        let mut asked = self.draw(utilisation, seed);
        asked.sort_by_key(|&workload| std::cmp::Reverse(self.ground.workloads[workload].cpus));
        let mut prediction = Prediction::default();
        let least_allocated = self.least_allocated(&asked, &mut prediction)?.value();
        let mut fleet = self.greedy(&asked, &mut prediction)?;
        let greedy = fleet.value();
        let moves =
            repair(&mut fleet, DEFAULT_MOVE_COST, REPAIR_TRIES, &mut prediction).moves.len();
        let bound_by_loads = by_loads(&self.ground, &self.nodes, &asked, Some(&fleet))?.bound;
        let (programs, repaired) = (asked.len(), fleet.value());
        Some(ManyNodesPlan { programs, least_allocated, greedy, repaired, moves, bound_by_loads })
    }

    /// Workloads in the order in which they come.
    fn draw(&self, utilisation: f64, seed: u64) -> Vec<usize> {
        let mut generator = Pcg64::seed_from_u64(seed);
        let shares = size_shares();
        let mut left = (f64::from(self.cpus) * utilisation).round() as u32;
        let mut asked = Vec::new();
        while left > 0 {
            let fits = |size: &usize| SIZES[*size] <= self.most_cpus.min(left);
            let sizes: Vec<usize> = (0..SIZES.len()).filter(fits).collect();
            // The least size has a share, and fits what is left.
            let Ok(&size) = sizes.choose_weighted(&mut generator, |&size| shares[size]) else {
                break;
            };
            let program = generator.random_range(0..self.ground.programs.len());
            asked.push(program * SIZES.len() + size);
            left -= SIZES[size];
        }
        asked
    }

    fn greedy(&self, asked: &[usize], prediction: &mut Prediction) -> Option<Fleet> {
        let mut fleet = Fleet::new(self.ground.clone(), self.nodes.clone());
        for (pod, &workload) in asked.iter().enumerate() {
            let place = fleet.best_place(workload, prediction).ok()?;
            fleet.insert(pod, workload, (place.node, place.cpus), prediction);
        }
        Some(fleet)
    }

    fn least_allocated(&self, asked: &[usize], prediction: &mut Prediction) -> Option<Fleet> {
        let mut fleet = Fleet::new(self.ground.clone(), self.nodes.clone());
        for (pod, &workload) in asked.iter().enumerate() {
            let cpus = self.ground.workloads[workload].cpus;
            let node = (0..fleet.nodes.len())
                .filter(|&node| fleet.nodes[node].free_cpus() >= cpus)
                .min_by(|&a, &b| {
                    fleet.nodes[a].taken_share().total_cmp(&fleet.nodes[b].taken_share())
                })?;
            let cpus = fleet.cpus_on(node, workload, Hold::AsLinux);
            fleet.insert(pod, workload, (node, cpus), prediction);
        }
        Some(fleet)
    }

    fn bound(&self, asked: &[usize]) -> Result<f64> {
        let mut nodes = vec![0; self.ground.kinds.len()];
        self.nodes.iter().for_each(|(_, kind)| nodes[*kind] += 1);
        let mut counts: BTreeMap<(usize, u32), f64> = BTreeMap::new();
        for &workload in asked {
            let one = &self.ground.workloads[workload];
            *counts.entry((one.program, one.cpus)).or_default() += 1.0;
        }
        let asked: Vec<(usize, u32, f64)> =
            counts.into_iter().map(|((program, cpus), count)| (program, cpus, count)).collect();
        let mut present: Vec<usize> = asked.iter().map(|one| one.0).collect();
        present.dedup();
        let bounds = Bounds::new(self.ground.clone(), &nodes, &present)?;
        Ok(bounds.bound(&asked, &Cancel::default())?.map_or(0.0, |bound| bound.value))
    }
}
