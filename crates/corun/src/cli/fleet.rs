//! What is typed after `corun fleet`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use corun_cli::{ModelArgs, TableFormat, number_within};
use corun_fleet::{NodeGroup, REPAIR_HOURS, SchedulerName, UTILISATIONS};

use super::ProfilesArgs;

/// `corun fleet`.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Nodes for the programs of a fleet file, with the best possible beside the plan
    Place(FleetPlaceArgs),
    /// Schedulers side by side over weeks of a cluster, with what no scheduler could beat
    Simulate(FleetSimulateArgs),
    /// Answer Kubernetes' scheduler: which nodes suit a pod, and how well
    ServeExtender(ServeExtenderArgs),
    /// The annotations of a Kubernetes node, from the pods that run there, as a patch
    DescribeNode(DescribeNodeArgs),
    /// Watch a Kubernetes node's pods, publish them as its annotations, and hold their threads to caches
    Agent(AgentArgs),
    /// The nodes that Slurm's jobs should prefer, as a table for its hook of job submission
    RankNodes(RankNodesArgs),
}

/// `corun fleet rank-nodes`.
#[derive(Debug, Args)]
#[command(after_help = "\
The table has a line for each profile and number of CPUs, with the nodes where such a job costs least by the model's \
prediction. packaging/slurm/corun.lua reads it when a job is submitted (docs/fleet.md).

Examples:
  corun fleet rank-nodes --nodes epyc-9554:n[1-8] --nodes xeon-gold-6138:old[01-20]
  corun fleet rank-nodes --nodes epyc-9554:n[1-8] --every 10 --output /run/corun/nodes.tsv")]
pub(crate) struct RankNodesArgs {
    /// Nodes in Slurm's notation, and their machine: a preset or machine file; may be given several times
    #[arg(long, value_name = "MACHINE:NODES", required = true, value_parser = machine_and_nodes)]
    pub(crate) nodes: Vec<(String, String)>,
    /// Every hardware thread is a CPU that jobs ask for, as where Slurm's CPUs are threads, not one of each core
    #[arg(long)]
    pub(crate) threads: bool,
    /// Write the table again and again until Ctrl-C, then remove it
    #[arg(long, value_name = "SECONDS", requires = "output", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) every: Option<u64>,
    /// Where the table is written [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// What `sinfo --noheader --Node --format '%N|%T|%C|%f'` printed [default: asks Slurm]
    #[arg(long, value_name = "FILE")]
    pub(crate) sinfo: Option<PathBuf>,
    /// What `squeue --noheader --states=RUNNING --format '%i|%N|%C|%k'` printed [default: asks Slurm]
    #[arg(long, value_name = "FILE")]
    pub(crate) squeue: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) library: ProfilesArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// `corun fleet serve-extender`.
#[derive(Debug, Args)]
#[command(after_help = "\
The paths are /filter, /prioritize and /healthz. What is not known of a pod or a node is assumed and logged on \
stderr; it keeps no pod from a node.

Example:
  corun fleet serve-extender --machine epyc-9554 --machine xeon-gold-6138 --listen 127.0.0.1:8888")]
pub(crate) struct ServeExtenderArgs {
    /// A machine that nodes say they are: a preset or machine file; may be given several times
    #[arg(long, value_name = "NAME|FILE", required = true)]
    pub(crate) machine: Vec<String>,
    /// The address to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8888")]
    pub(crate) listen: std::net::SocketAddr,
    /// Every hardware thread is a CPU that pods ask for, as it is to the kubelet, not one of each core
    #[arg(long)]
    pub(crate) threads: bool,
    /// Ignore a node's report that is older than this
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) oldest: u64,
    #[command(flatten)]
    pub(crate) library: ProfilesArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// `corun fleet describe-node`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  kubectl get pods -A -o json --field-selector spec.nodeName=n1 \\
    | corun fleet describe-node --machine epyc-9554 > patch.json
  kubectl patch node n1 --patch-file patch.json")]
pub(crate) struct DescribeNodeArgs {
    /// The machine's name, as the extender knows it
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: String,
    /// A list of pods as JSON [default: stdin]
    #[arg(long, value_name = "FILE")]
    pub(crate) pods: Option<PathBuf>,
    /// Measure for this time how many CPUs each pod keeps busy, from the cgroups of this node
    #[arg(long, value_name = "SECONDS", value_parser = corun_cli::seconds)]
    pub(crate) measure: Option<f64>,
    /// Where the node's proc/ and sys/ are
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// The time that the report says, in seconds since 1970 [default: now]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) at: Option<u64>,
}

/// `corun fleet agent`.
#[derive(Debug, Args)]
#[command(after_help = "\
Asks the API server by `kubectl` for the node's pods and patches the node where something changed; the node's object \
is written at most every 10 s, while the same pods run at most every 60 s, and at least every 120 s. An API server that \
is away is asked ever less often, up to once a minute. Ctrl-C ends the agent; --hold undoes what it did.

Examples:
  corun fleet agent --node n1 --machine epyc-9554
  corun fleet agent --node n1 --machine epyc-9554 --learn
  corun fleet agent --node n1 --machine epyc-9554 --caches --hold /etc/corun/config.toml")]
pub(crate) struct AgentArgs {
    /// The node's name
    #[arg(long, value_name = "NAME")]
    pub(crate) node: String,
    /// The machine's name, as the extender knows it
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: String,
    /// Where the node's proc/ and sys/ are
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Also measure each pod's part of the last-level caches and its memory traffic, by a monitoring group of resctrl
    #[arg(long)]
    pub(crate) caches: bool,
    /// Hold the pods' threads: a configuration of `corun daemon` without programs, to which the pods are added
    #[arg(long, value_name = "FILE")]
    pub(crate) hold: Option<PathBuf>,
    /// Learn the profiles of pods whose profile was not recorded, from the hardware's counters; --machine is then a
    /// preset or a machine file
    #[arg(long, conflicts_with = "once")]
    pub(crate) learn: bool,
    #[command(flatten)]
    pub(crate) library: ProfilesArgs,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) every: u64,
    /// Look and publish once, then end
    #[arg(long, conflicts_with = "hold")]
    pub(crate) once: bool,
}

/// `corun fleet place`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun fleet place fleet.toml
  corun fleet place fleet.toml --optimal
  corun fleet place fleet.toml --format json

Exit codes: 0 done, 1 a program has no place, 2 wrong usage or bad input.")]
pub(crate) struct FleetPlaceArgs {
    /// The fleet: nodes, programs, constraints and the objective (docs/fleet.md)
    #[arg(value_name = "FILE")]
    pub(crate) fleet: PathBuf,
    /// The best plan of all instead of the one that arrivals lead to; for small fleets
    #[arg(long)]
    pub(crate) optimal: bool,
    /// Seed of the plans drawn at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}

/// `corun fleet simulate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Programs of the library come and go as in a published trace of a cloud (docs/fleet.md). Decisions a second \
are said on stderr: they depend on the clock, and the output does not.

Examples:
  corun fleet simulate
  corun fleet simulate --arrivals 10000 --node xeon-gold-6138:100 --scheduler least-allocated,corun
  corun fleet simulate --utilisation 0.8 --format csv > schedulers.csv")]
pub(crate) struct FleetSimulateArgs {
    /// Nodes: a preset or machine file, and how many of it; may be given several times
    /// [default: 2x-e5-2695v3:400, xeon-gold-6138:400, epyc-9554:200]
    #[arg(long, value_name = "MACHINE:COUNT", value_parser = nodes)]
    pub(crate) node: Vec<NodeGroup>,
    /// Programs that come, those that run at the start included
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) arrivals: u32,
    /// Share of the CPUs that is taken in the mean
    #[arg(long, value_name = "SHARE", default_value_t = 0.65, value_parser = utilisation)]
    pub(crate) utilisation: f64,
    /// How far the rate of arrivals rises above its mean in a day, as a share of it
    #[arg(long, value_name = "SHARE", default_value_t = 0.3, value_parser = daily_depth)]
    pub(crate) daily_depth: f64,
    /// Who decides [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = scheduler)]
    pub(crate) scheduler: Vec<SchedulerName>,
    /// No program may be slower where the machines needed are counted
    #[arg(long, value_name = "SLOWDOWN", default_value_t = 1.2, value_parser = slowdown_bound)]
    pub(crate) slowdown_bound: f64,
    /// Hours between two repairs of corun-repair
    #[arg(long, value_name = "HOURS", default_value_t = 6.0, value_parser = repair_hours)]
    pub(crate) repair_hours: f64,
    /// Seconds of a program's work that a move costs
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = corun_cli::seconds)]
    pub(crate) move_seconds: f64,
    /// The same seed gives the same bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) library: ProfilesArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}

fn nodes(typed: &str) -> Result<NodeGroup, String> {
    let expected =
        || format!("found {typed:?}, expected MACHINE:COUNT with a count from 1 to 100000");
    let (machine, count) = typed.rsplit_once(':').ok_or_else(expected)?;
    let count: u32 = count.parse().map_err(|_| expected())?;
    if machine.is_empty() || !(1..=100_000).contains(&count) {
        return Err(expected());
    }
    Ok(NodeGroup::of(machine, count))
}

fn machine_and_nodes(typed: &str) -> Result<(String, String), String> {
    match typed.rsplit_once(':') {
        Some((machine, nodes)) if !machine.is_empty() && !nodes.is_empty() => {
            Ok((machine.to_owned(), nodes.to_owned()))
        }
        _ => Err(format!("found {typed:?}, expected MACHINE:NODES, such as epyc-9554:n[1-8]")),
    }
}

fn utilisation(typed: &str) -> Result<f64, String> {
    number_within(typed, UTILISATIONS, "expected a share from 0.001 to 1")
}

fn daily_depth(typed: &str) -> Result<f64, String> {
    number_within(typed, 0.0..=1.0, "expected a share from 0 to 1")
}

fn repair_hours(typed: &str) -> Result<f64, String> {
    number_within(typed, REPAIR_HOURS, "expected a number of hours from 0.01 to 1e6")
}

fn slowdown_bound(typed: &str) -> Result<f64, String> {
    let above_1 = 1.0 + f64::EPSILON;
    number_within(typed, above_1..=30.0, "expected a number above 1, at most 30")
}

fn scheduler(typed: &str) -> Result<SchedulerName, String> {
    let names = || SchedulerName::ALL.map(|one| one.0).join(", ");
    let known = SchedulerName::ALL.iter().find(|one| one.0 == typed.trim());
    known.map(|one| one.1).ok_or_else(|| format!("found {typed:?}, expected some of: {}", names()))
}
