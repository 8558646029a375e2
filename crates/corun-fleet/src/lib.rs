//! Which node of a cluster, beside which neighbours?
//!
//! A [`Fleet`] has nodes of a few [`NodeKind`]s and those who run on them. A program that arrives goes where
//! it costs least by the model's prediction: what it suffers there and what those already there suffer more
//! ([`Fleet::best_place`]). [`repair`] moves programs later, at a cost a move. docs/fleet.md has the method,
//! the proof of the lower bound and figures.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod agent;
mod arrivals;
mod bound;
mod description;
mod exact;
mod expansion;
mod extender;
mod fleet;
mod kind;
mod learned;
mod node;
mod objective;
mod optimum;
mod place;
mod plan;
mod repair;
mod schedulers;
mod shortlist;
mod simulation;
mod slurm;
mod small_fleets;
mod threads;
mod workload;

pub use agent::{
    AgentReport, CacheUse, PodGroups, PodLoads, PodMonitor, PodUsage, Publisher, RunningPod,
    UpdateRates, daemon_configuration, learned_annotation, running_pods,
};
pub use bound::{Bound, Bounds};
pub use description::{FleetDescription, NodeGroup, ProgramEntry};
pub use exact::{Extremes, extremes, random_values};
pub use extender::{Extender, ExtenderAnswer, serve_extender};
pub use fleet::{Fleet, Ground};
pub use kind::{NodeKind, Prediction, Seats};
pub use learned::{LearnedNotes, LearnedUpdate};
pub use node::{Node, Obstacle, PodId, Resident};
pub use objective::{Cost, Objective};
pub use optimum::{ByLoads, by_loads};
pub use place::Place;
pub use plan::{Expectation, FleetDocument, FleetQuestion, NodeFigures, PlacedProgram, Unplaced};
pub use repair::{Move, Repaired, repair};
pub use schedulers::SchedulerName;
pub use simulation::{
    BOUND_MOMENTS, REPAIR_HOURS, SchedulerFigures, Simulation, SimulationDocument,
    SimulationSettings, UTILISATIONS,
};
pub use slurm::{NodeTable, SINFO_FORMAT, SQUEUE_FORMAT, SlurmNodes};
pub use small_fleets::{ManyNodesPlan, PlannedFleet, SmallFleets};
pub use workload::Workload;

/// Seconds since 1970 by this machine's clock, by which nodes' reports are dated.
pub fn now_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
