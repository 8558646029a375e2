//! The options of `corun serve`.

use std::net::SocketAddr;

use clap::Args;

use super::watching::{FigureArgs, TargetArgs};

/// `corun serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints a link and answers until Ctrl-C. The page is for whoever has the link: the server listens on this machine
alone, and every request needs the link's token. Nothing is changed. With --pid, --user, --command, --unit,
--cgroup, --config or a program to start, the page also shows these processes as they run.

Examples:
  corun serve
  corun serve --machine xeon-e5520 --apps sort,numpy,xz,flac
  corun serve --config /etc/corun/config.toml
  corun serve --policy dio -- ./solver input.dat")]
pub(crate) struct ServeArgs {
    /// Where to listen: an address of this machine alone; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Machine to start with: a preset, a machine file, or `this` [default: xeon-x5365]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Programs to start with, by name [default: eight of the library]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(crate) apps: Vec<String>,
    #[command(flatten)]
    pub(crate) targets: TargetArgs,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
    /// Also show what this policy would do with the processes [default: the configuration's, else none]
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Seed of policies that draw at random
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
}
