//! How many machines the programs of a moment need, with none slower than a bound.

use std::sync::Arc;

use corun_app::{Cancel, Result};

use super::{Simulation, mixed};
use crate::fleet::Fleet;
use crate::kind::Prediction;
use crate::node::PodId;
use crate::objective::Objective;
use crate::place::Hold;
use crate::schedulers::{Scheduler, SchedulerName};

/// Machines are counted on a fleet of at most so many times the nodes of the simulated one.
pub(super) const MOST_TIMES: usize = 4;

/// How the machines that a scheduler needs are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// Nodes in use once each program has gone to the fullest node where all keep the bound: for schedulers
    /// that know the bound and hold threads to LLCs.
    Packed,
    /// Nodes of the smallest fleet, of the simulated fleet's mix, on which the scheduler's own choices keep the
    /// bound, though nothing tells the scheduler of it: for all others.
    SmallestFleet(SchedulerName),
}

impl Measure {
    pub(super) fn of(name: SchedulerName) -> Self {
        match name {
            SchedulerName::Corun | SchedulerName::CorunRepair => Self::Packed,
            _ => Self::SmallestFleet(name),
        }
    }
}

impl Simulation {
    /// By workload: does it keep the bound on slowdown alone on an empty node of each kind, however it is held?
    pub(super) fn keep_bound_alone(&self) -> Vec<bool> {
        let nodes = (0..self.ground.kinds.len()).map(|kind| (kind.to_string(), kind)).collect();
        let fleet = Fleet::new(self.ground.clone(), nodes);
        let mut prediction = Prediction::default();
        let mut keeps = |workload: usize, program: usize| {
            (0..fleet.nodes.len()).all(|node| {
                fleet.nodes[node].obstacle(workload, &self.ground.workloads).is_none()
                    && [Hold::OnLlc, Hold::AsLinux].into_iter().all(|hold| {
                        let cpus = fleet.cpus_on(node, workload, hold);
                        let alone = fleet.cost_on((node, cpus), program, &mut prediction);
                        alone.worst <= self.settings.slowdown_bound
                    })
            })
        };
        let programs = self.ground.workloads.iter().map(|workload| workload.program);
        programs.enumerate().map(|(workload, program)| keeps(workload, program)).collect()
    }

    /// The machines needed for these programs, none slower than the bound; none where [`MOST_TIMES`] the fleet is
    /// too few.
    pub(super) fn machines_needed(
        &self,
        measure: Measure,
        pods: &[PodId],
        cancel: &Cancel,
    ) -> Result<Option<usize>> {
        let most = mixed(&self.settings.nodes, MOST_TIMES);
        match measure {
            Measure::Packed => Ok(self.packed(most, pods)),
            Measure::SmallestFleet(name) => self.smallest_fleet(name, &most, pods, cancel),
        }
    }

    /// By halving, to the nearest half percent.
    fn smallest_fleet(
        &self,
        name: SchedulerName,
        most: &[(String, usize)],
        pods: &[PodId],
        cancel: &Cancel,
    ) -> Result<Option<usize>> {
        let (mut too_few, mut enough) = (0, most.len());
        if !self.all_keep(name, most, pods) {
            return Ok(None);
        }
        while enough - too_few > 1 + enough / 200 {
            cancel.check()?;
            let middle = (too_few + enough) / 2;
            if self.all_keep(name, &most[..middle], pods) {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        Ok(Some(enough))
    }

    /// Does a scheduler place all programs on these nodes so that all keep the bound?
    fn all_keep(&self, name: SchedulerName, nodes: &[(String, usize)], pods: &[PodId]) -> bool {
        let mut fleet = Fleet::new(self.ground.clone(), nodes.to_vec());
        let mut scheduler = Scheduler::new(name, &fleet, self.settings.seed, self.microbenchmarks);
        let mut prediction = Prediction::default();
        let predicts = name == SchedulerName::CorunNode;
        for &pod in pods {
            let workload = self.workload(pod);
            let Some(place) = scheduler.choose(&fleet, workload, &mut prediction) else {
                return false;
            };
            if predicts {
                fleet.insert(pod, workload, place, &mut prediction);
            } else {
                fleet.insert_unpredicted(pod, workload, place);
            }
        }
        (0..fleet.nodes.len()).all(|node| {
            fleet.predict(node, &mut prediction);
            fleet.nodes[node].cost().worst <= self.settings.slowdown_bound
        })
    }

    /// Nodes that these programs take when each goes to the fullest node where all keep the bound.
    fn packed(&self, nodes: Vec<(String, usize)>, pods: &[PodId]) -> Option<usize> {
        let ground = self.ground.for_objective(Objective::Machines);
        let mut fleet = Fleet::new(Arc::new(ground), nodes);
        let mut prediction = Prediction::default();
        for &pod in pods {
            let workload = self.workload(pod);
            let place = fleet.best_place(workload, &mut prediction).ok()?;
            fleet.insert(pod, workload, (place.node, place.cpus), &mut prediction);
        }
        Some(fleet.nodes_used())
    }
}
