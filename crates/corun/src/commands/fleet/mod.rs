//! `corun fleet`: which node of a cluster, beside which neighbours.

mod agent;
mod describe_node;
mod extender;
mod kubectl;
mod place;
mod rank_nodes;
mod simulate;

use crate::cli::FleetCommand;
use crate::failure::Outcome;

/// The kernel's file systems where a node's are mounted: those of this machine for `/`.
fn roots_of(root: &std::path::Path) -> corun_linux::Roots {
    if root == std::path::Path::new("/") {
        corun_linux::Roots::default()
    } else {
        corun_linux::Roots::below(root)
    }
}

pub(super) fn run(command: &FleetCommand) -> Outcome<String> {
    match command {
        FleetCommand::Place(arguments) => place::run(arguments),
        FleetCommand::Simulate(arguments) => simulate::run(arguments),
        FleetCommand::ServeExtender(arguments) => extender::run(arguments),
        FleetCommand::DescribeNode(arguments) => describe_node::run(arguments),
        FleetCommand::Agent(arguments) => agent::run(arguments),
        FleetCommand::RankNodes(arguments) => rank_nodes::run(arguments),
    }
}
