//! `corun fleet`: which node of a cluster, beside which neighbours.

mod describe_node;
mod extender;
mod place;
mod rank_nodes;
mod simulate;

use crate::cli::FleetCommand;
use crate::failure::Outcome;

/// Seconds since 1970 by this machine's clock.
fn now_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

pub(super) fn run(command: &FleetCommand) -> Outcome<String> {
    match command {
        FleetCommand::Place(arguments) => place::run(arguments),
        FleetCommand::Simulate(arguments) => simulate::run(arguments),
        FleetCommand::ServeExtender(arguments) => extender::run(arguments),
        FleetCommand::DescribeNode(arguments) => describe_node::run(arguments),
        FleetCommand::RankNodes(arguments) => rank_nodes::run(arguments),
    }
}
