//! The options of each subcommand.

mod live;

pub(crate) use live::{AbArgs, DoctorArgs, JournalArgs, RestoreArgs, StatArgs, VerifyArgs};

use std::path::PathBuf;

use clap::{Args, Subcommand};
use corun_cache::Replacement;
use corun_cli::{ModelArgs, TableFormat, seconds};
use corun_trace::CacheShape;
use corun_trace::engine::SamplingRate;

use super::values::{
    DocumentFormat, IndexName, ObjectiveName, PartitionObjectiveName, SortBy, TreeFormat,
    UntilName, cpi, instructions, instructions_of_a_run, instructions_of_a_window, megahertz,
    nanoseconds, parameter, sampling_rate, slowdown, way_mask,
};

/// `corun policies`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun policies
  corun policies corun lfoc
  corun policies --format json")]
pub(crate) struct PoliciesArgs {
    /// Describe these, with all that can be set; all policies are listed in short where none is named
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DocumentFormat,
}

/// `corun topology`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun topology --machine xeon-x5365
  corun topology --root captured/ --format toml > my-machine.toml
  corun topology --list")]
pub(crate) struct TopologyArgs {
    /// A preset or a machine file, instead of this machine
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "root")]
    pub(crate) machine: Option<String>,
    /// A folder with sys/ and proc/ of another machine, instead of /
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Draw every object, also those equal to their siblings
    #[arg(long)]
    pub(crate) full: bool,
    /// List the presets
    #[arg(long, conflicts_with_all = ["machine", "root"])]
    pub(crate) list: bool,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: TreeFormat,
}

/// `corun profiles`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfilesCommand {
    /// The programs of a library
    List(ListArgs),
    /// One program: its figures and its miss-rate curve
    Show(ShowArgs),
    /// Turn a CSV of solo figures by LLC ways into profile files
    Import(ImportArgs),
    /// Write such a CSV of any programs, for the public simulator PBBCache
    Export(ExportArgs),
}

/// Where programs come from.
#[derive(Debug, Args)]
pub(crate) struct ProfilesArgs {
    /// A folder of profiles, a profile or a CSV of solo figures, or a list of these and of `shipped`
    /// [default: the shipped library]
    #[arg(long, value_name = "PATH")]
    pub(crate) profiles: Option<PathBuf>,
}

/// `corun profiles list`.
#[derive(Debug, Args)]
#[command(after_help = "\
MPKI and MPKC are LLC misses per 1000 instructions and cycles alone with the whole LLC; slowdown is \
the speed with all its ways over that with one.

Example:
  corun profiles list --machine xeon-gold-6138 --sort intensity")]
pub(crate) struct ListArgs {
    /// The machine of the class: a preset or file, or `this` [default: xeon-x5365]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// In which order; intensity and sensitivity with the highest first
    #[arg(long, value_enum, default_value = "name")]
    pub(crate) sort: SortBy,
    #[command(flatten)]
    pub(crate) library: ProfilesArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}

/// `corun profiles show`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun profiles show gzip.toml
  corun profiles show xz sqlite3 --svg curves.svg
  corun profiles show mcf06 --profiles solo.csv --format json")]
pub(crate) struct ShowArgs {
    /// Programs of the library, or profile files
    #[arg(value_name = "NAME|FILE", required = true)]
    pub(crate) programs: Vec<String>,
    /// The machine on which the class is told: a preset or file, or `this` [default: xeon-x5365]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Also tell IPC, stalls and bandwidth by LLC size on a core: `big-out-of-order`,
    /// `small-in-order`, MACHINE or MACHINE:CORE_TYPE
    #[arg(long, value_name = "CORE")]
    pub(crate) core: Option<String>,
    /// Where programs are looked for [default: the shipped library]
    #[arg(long, value_name = "PATH")]
    pub(crate) profiles: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DocumentFormat,
    /// Also draw the miss-rate curves, of up to 8 programs in one plot
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
}

/// `corun profiles export`.
#[derive(Debug, Args)]
#[command(after_help = "\
A table that was measured on the machine is written as it stands. All other programs are derived:
what the model says of them alone on the machine with 1, 2, 3 .. ways of its last-level cache.

Example:
  corun profiles export -o solo.csv xz sqlite3")]
pub(crate) struct ExportArgs {
    /// The programs [default: all of the library]
    #[arg(value_name = "NAME")]
    pub(crate) programs: Vec<String>,
    /// The machine: a preset or file, or `this` [default: xeon-gold-6138]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Where programs are looked for [default: the shipped library]
    #[arg(long, value_name = "PATH")]
    pub(crate) profiles: Option<PathBuf>,
    /// Where the table is written
    #[arg(short, long, value_name = "FILE.csv")]
    pub(crate) output: PathBuf,
}

/// `corun profiles import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A table as the public simulator PBBCache reads it
    #[arg(value_name = "FILE.csv")]
    pub(crate) file: PathBuf,
    /// The machine it was measured on: a preset or file [default: xeon-gold-6138]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// The folder for the profiles, one file a program; it is made where missing
    #[arg(long, value_name = "DIR")]
    pub(crate) out_dir: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    pub(crate) force: bool,
}

/// `corun profile`.
#[derive(Debug, Args)]
#[command(after_help = "\
The program's own input and output pass through untouched. The exit code is the \
program's own, which also stands in the profile; 0 where a limit ended it.

Examples:
  corun profile -o gzip.toml -- gzip -kf big.tar
  corun profile -o db.toml --duration 30 -- sqlite3 big.db .dump
  corun profile -o gzip.toml --llc 16MiB/16 --private 32KiB/8,256KiB/8 -- gzip -kf big.tar")]
pub(crate) struct ProfileArgs {
    /// Where the profile is written
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The profile's name in a library [default: the file's name without its ending]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What the program is, for people; stands in the profile
    #[arg(long, value_name = "TEXT")]
    pub(crate) program: Option<String>,
    /// What it works on, for people; stands in the profile
    #[arg(long, value_name = "TEXT")]
    pub(crate) input: Option<String>,
    /// Stop after this many instructions, such as 200M or 1.5G
    #[arg(long, value_name = "N", value_parser = instructions)]
    pub(crate) instructions: Option<u64>,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<f64>,
    /// Follow every cache line, however many there are
    #[arg(long, conflicts_with_all = ["sampling_rate", "max_lines"])]
    pub(crate) exact: bool,
    /// Follow this share of the cache lines, such as 0.01
    #[arg(long, value_name = "SHARE", value_parser = sampling_rate, conflicts_with = "max_lines")]
    pub(crate) sampling_rate: Option<SamplingRate>,
    /// Follow at most this many cache lines, by a share that falls as the footprint grows [default: 8192]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=1 << 30))]
    pub(crate) max_lines: Option<u64>,
    /// Tell phases apart by windows of this many instructions [default: 10000000]
    #[arg(long, value_name = "INSTRUCTIONS", value_parser = instructions_of_a_window)]
    pub(crate) window: Option<u64>,
    /// Leave instruction fetches out of the curve
    #[arg(long)]
    pub(crate) no_fetches: bool,
    /// Leave out this many instructions at the program's beginning
    #[arg(long, value_name = "N", value_parser = instructions)]
    pub(crate) skip: Option<u64>,
    /// Leave out the kernel's part: calls, page faults and pages that it clears, as simulators do that run a program alone
    #[arg(long)]
    pub(crate) no_kernel: bool,
    /// Leave out the processes that the program starts
    #[arg(long)]
    pub(crate) main_only: bool,
    #[command(flatten)]
    pub(crate) caches: CachesArgs,
    /// Also write a trace of all accesses, for `corun replay`
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Also write each instruction of the program's first thread, for the simulator ChampSim
    #[arg(long, value_name = "FILE")]
    pub(crate) instruction_trace: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Caches whose stack-distance profiles are taken beside the curve.
#[derive(Debug, Args)]
pub(crate) struct CachesArgs {
    /// Also count the hits by LRU position of these caches, such as 16MiB/16
    #[arg(long, value_name = "SIZE/WAYS,..", value_delimiter = ',')]
    pub(crate) llc: Vec<CacheShape>,
    /// Private caches in front of them, nearest to the core first [default: none]
    #[arg(long, value_name = "SIZE/WAYS,..", value_delimiter = ',', requires = "llc")]
    pub(crate) private: Vec<CacheShape>,
    /// The same for a machine's LLC behind its private caches: MACHINE or MACHINE:CORE_TYPE
    #[arg(long, value_name = "CORE", conflicts_with = "llc")]
    pub(crate) machine: Option<String>,
}

/// Which machine and which programs.
#[derive(Debug, Args)]
pub(crate) struct ProgramArgs {
    /// A machine preset or file, or `this`
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: String,
    #[command(flatten)]
    pub(crate) library: ProfilesArgs,
    /// The programs, by profile name; a program may be named several times
    #[arg(long, value_name = "A,B,..", value_delimiter = ',', required = true)]
    pub(crate) apps: Vec<String>,
}

/// `corun predict`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  corun predict --machine xeon-x5365 --profiles solo.csv --apps mcf06,lbm06 --place 0,1
  corun predict --machine epyc-9554 --apps x264,xz,sqlite3,povray")]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) programs: ProgramArgs,
    /// For each program the CPU on which it runs [default: packed under few LLCs, and spread, side by side]
    #[arg(long, value_name = "CPU,CPU,..", value_delimiter = ',')]
    pub(crate) place: Vec<u32>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}

/// `corun place`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun place --machine xeon-x5365 --apps a,b,c,d
  corun place --machine xeon-x5365 --apps a,b,c,d --policy di --format json
  corun place --machine xeon-x5365 --apps a,b,c,d --objective energy --target-slowdown 1.2
  corun place --machine 4x4.toml --apps a,b,c,.. --dask tcp://head:8786")]
pub(crate) struct PlaceArgs {
    #[command(flatten)]
    pub(crate) programs: ProgramArgs,
    /// A policy, `optimal` or `worst`, or `optimal-cluster`, which also clusters the ways of each LLC
    #[arg(long, value_name = "NAME", default_value = "optimal")]
    pub(crate) policy: String,
    /// What `optimal` optimises (and `worst` makes worst); every policy is judged by it
    #[arg(long, value_enum, default_value = "antt")]
    pub(crate) objective: ObjectiveName,
    /// Keep every program to a slowdown of X (`optimal`, and policies that know such a target), and name those slower
    #[arg(long, value_name = "X", value_parser = slowdown, conflicts_with = "dask")]
    pub(crate) target_slowdown: Option<f64>,
    /// Seed of the policies that draw at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Stop the search for the optimum after this time and give the best found
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) time_limit: Option<f64>,
    /// Address of a Dask scheduler whose workers search the optimum, or `local` for processes on this machine
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) dask: Option<String>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}

/// `corun partition`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun partition --profiles solo.csv --apps lbm06,soplex06,gcc06,povray06 --policy lfoc
  corun partition --profiles solo.csv --apps lbm06,soplex06 --masks 0x1,0x7fe
  corun partition --profiles solo.csv --apps lbm06,soplex06,gcc06 --all --objective unfairness
  corun partition --profiles solo.csv --apps lbm06,soplex06,gcc06,povray06 --target-slowdown 1.2
  corun partition --profiles solo.csv --apps lbm06,soplex06,gcc06,povray06 --pareto --cluster")]
pub(crate) struct PartitionArgs {
    /// A machine preset or file, or `this`; its first LLC is partitioned
    #[arg(long, value_name = "NAME|FILE", default_value = "xeon-gold-6138")]
    pub(crate) machine: String,
    #[command(flatten)]
    pub(crate) library: ProfilesArgs,
    /// The programs, by profile name; a program may be named several times
    #[arg(long, value_name = "A,B,..", value_delimiter = ',', required = true)]
    pub(crate) apps: Vec<String>,
    /// A partitioning policy, or `optimal` or `worst`
    #[arg(long, value_name = "NAME", conflicts_with = "masks")]
    pub(crate) policy: Option<String>,
    /// Let programs share the ways of a cluster in the optimum; else each has ways of its own
    #[arg(long)]
    pub(crate) cluster: bool,
    /// Stop the search for an optimum after this time and give the best found
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) time_limit: Option<f64>,
    /// Given ways, for each program a mask such as 0x7c
    #[arg(long, value_name = "MASK,MASK,..", value_delimiter = ',', value_parser = way_mask)]
    pub(crate) masks: Vec<u64>,
    /// Given masks may overlap; their common ways are shared
    #[arg(long, requires = "masks")]
    pub(crate) allow_overlap: bool,
    /// All policies side by side with the optimum, strict and with clusters
    #[arg(long)]
    pub(crate) all: bool,
    /// What partitions are judged by, and what `optimal` optimises
    #[arg(long, value_enum, default_value = "stp")]
    pub(crate) objective: PartitionObjectiveName,
    /// Name the programs slower than X; `fair-clusters`, taken where no policy is named, keeps every program
    /// to X where it can
    #[arg(long, value_name = "X", value_parser = slowdown)]
    pub(crate) target_slowdown: Option<f64>,
    /// Also show the Pareto front: partitions than which none is both fairer and of higher throughput
    #[arg(long)]
    pub(crate) pareto: bool,
    /// Ways of the LLC, each as large as the machine's [default: the machine's]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) ways: Option<u32>,
    /// The fewest ways of a partition [default: the machine's minimum, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) min_ways: Option<u32>,
    /// Set a policy's parameter; may be given several times (docs/partitioning.md)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) set: Vec<(String, f64)>,
    /// Seed of the policies that draw at random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
    /// Also write an HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// `corun compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun compare --report report.html
  corun compare mix.toml --machine xeon-x5365 --seeds 20
  corun compare --profiles solo.csv --apps mcf06,lbm06,namd06,gcc06 --policy di,dio --format json")]
pub(crate) struct CompareArgs {
    /// A mix file; without one and without --apps, eight programs
    #[arg(value_name = "MIX", conflicts_with = "apps")]
    pub(crate) mix: Option<PathBuf>,
    /// A machine preset or file, or `this` [default: the mix's, else xeon-x5365]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    #[command(flatten)]
    pub(crate) library: ProfilesArgs,
    /// The programs, by profile name; a program may be named several times
    #[arg(long, value_name = "A,B,..", value_delimiter = ',')]
    pub(crate) apps: Vec<String>,
    /// The policies; `dio+lfoc` places by `dio` and partitions by `lfoc`; `dio:half-life-intervals=2` sets
    /// a parameter [default: all that place]
    #[arg(long, alias = "policies", value_name = "P,Q,..", value_delimiter = ',')]
    pub(crate) policy: Vec<String>,
    /// Repeat each experiment with seeds 1 to N [default: the mix's, else 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: Option<u32>,
    /// Length of each program's run, where the mix file does not say [default: 150G; with a mix
    /// file the profile's]
    #[arg(long, value_name = "N", value_parser = instructions_of_a_run)]
    pub(crate) instructions: Option<u64>,
    /// Show policies the machine as `corun run` sees a real one: in ticks, late, without switch events;
    /// SETTINGS are tick-ms, late-ms, missing, groups, noise, failed, refused (see docs/simulator.md)
    #[arg(
        long,
        value_name = "SETTING=VALUE,..",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    pub(crate) as_live: Option<String>,
    /// The objective by which the best and the worst are found, and the distance from the best is told
    #[arg(long, value_enum, default_value = "antt")]
    pub(crate) objective: ObjectiveName,
    /// Stop the search for the optimum, and that for the worst, after this time each
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    pub(crate) time_limit: f64,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
    /// Also write an HTML page
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Also write which thread ran where and when under each policy, with the first seed, for a trace viewer
    /// (ui.perfetto.dev)
    #[arg(long, value_name = "FILE.json")]
    pub(crate) trace: Option<PathBuf>,
    /// Also write every figure as a row of its own: workload, policy, app, property, value
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) long: Option<PathBuf>,
}

/// `corun replay`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun profile -o gzip.toml --trace gzip.trace -- gzip -kf big.tar
  corun replay --cache 2MiB/16 gzip.trace sort.trace
  corun replay --cache 2MiB/16 --masks 0xff,0xff00 gzip.trace sort.trace")]
pub(crate) struct ReplayArgs {
    /// The traces, as `corun profile --trace` writes them; a trace may be given several times
    #[arg(value_name = "FILE.trace", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// The shared cache: its size in KiB, MiB or GiB and its ways, or `full` for one set of all
    #[arg(long, value_name = "SIZE/WAYS", default_value = "2MiB/16")]
    pub(crate) cache: String,
    /// Which line leaves: lru, plru, srrip or random
    #[arg(long, value_name = "NAME", default_value = "lru")]
    pub(crate) replacement: Replacement,
    /// Which set a line belongs to
    #[arg(long, value_enum, default_value = "hashed")]
    pub(crate) index: IndexName,
    /// Ways that a program may fill, as a hexadecimal mask: one for all, or one a trace
    #[arg(long, value_name = "MASK,..", value_delimiter = ',', value_parser = way_mask)]
    pub(crate) masks: Vec<u64>,
    /// Caches of each program's own in front, nearest to the core first
    #[arg(long, value_name = "SIZE/WAYS,..", value_delimiter = ',')]
    pub(crate) private: Vec<String>,
    /// Time of a miss
    #[arg(long, value_name = "NS", default_value = "90", value_parser = nanoseconds)]
    pub(crate) latency_ns: f64,
    /// Time for which the memory controller works on a line while others wait; 0: it serves all lines at once
    #[arg(long, value_name = "NS", default_value = "0", value_parser = nanoseconds)]
    pub(crate) service_ns: f64,
    /// Cycles an instruction without misses: one for all, or one a trace
    #[arg(long, value_name = "CPI,..", default_value = "1", value_delimiter = ',', value_parser = cpi)]
    pub(crate) cpi: Vec<f64>,
    /// The cores' clock
    #[arg(long, value_name = "MHZ", default_value = "2000", value_parser = megahertz)]
    pub(crate) clock_mhz: f64,
    /// When the replay ends; programs that have ended begin again
    #[arg(long, value_enum, default_value = "longest")]
    pub(crate) until: UntilName,
    /// Passes of each program before its figures begin
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub(crate) warm_up: u64,
    /// A program that begins again finds the lines of its last pass, instead of being a new process
    #[arg(long)]
    pub(crate) same_process: bool,
    /// Format of the output
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}
