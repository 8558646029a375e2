//! The options of `corun serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::watching::{FigureArgs, TargetArgs};

/// Where the daemon's example configuration has viewers come.
const DAEMON_SOCKET: &str = "/run/corun/viewers.sock";

/// `corun serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints a link and answers until Ctrl-C. Who has the link can use the page: the server listens on this machine \
alone, and every request needs the link's token. Nothing is changed, unless --act is given. The view Live shows processes as \
they run: those of --pid, --user, --command, --unit, --cgroup, --config or a program to start; where nobody is named, all \
programs of this user, for root all there are. corun looks only while the view is open.

Examples:
  corun serve
  corun serve --machine xeon-e5520 --apps sort,numpy,xz,flac
  corun serve --config /etc/corun/config.toml
  corun serve --policy dio -- ./solver input.dat
  corun serve --command postgres --command 'python3*'
  corun serve --act --policy dio --user postgres
  corun serve --daemon
  corun serve --ab progress.jsonl")]
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
    /// Show what a running daemon sees, through the socket of its configuration's `viewers` [default:
    /// /run/corun/viewers.sock]
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, default_missing_value = DAEMON_SOCKET)]
    #[arg(conflicts_with_all = ["config", "pid", "user", "command", "arguments", "cgroup", "unit", "profile", "program", "policy", "journals"])]
    pub(crate) daemon: Option<PathBuf>,
    /// Show an experiment as it comes in: the file that corun ab --progress writes
    #[arg(long, value_name = "FILE")]
    pub(crate) ab: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) targets: TargetArgs,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
    /// Also show what this policy would do with the processes [default: the configuration's, else none]
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    /// Let the page hold processes and apply the policy's plan; all of it is undone at the end
    #[arg(long)]
    pub(crate) act: bool,
    /// Where the journal of what was done is kept [default: /run/corun, for other users their runtime folder]
    #[arg(long, value_name = "DIR", requires = "act")]
    pub(crate) journals: Option<PathBuf>,
    /// Seed of policies that draw at random
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
}
