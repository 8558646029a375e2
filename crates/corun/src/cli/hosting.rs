//! The options of the commands that work on the machine in front of the user.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use corun_app::tell;
use corun_cli::seconds;
use corun_hosting::{
    AUTO_POLICY, ChosenPolicy, Counters, HostSettings, Placer, PlacerSettings, ThreadReading,
    choose_policy, this_machine,
};
use corun_linux::Roots;
use corun_live::GateOptions;

use super::values::{interval, parameter, spill_after};
use crate::failure::{Failure, Outcome};

/// Where counters come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CountersName {
    /// Hardware counters where there are any, and stored profiles
    Auto,
    /// Hardware counters alone
    Perf,
    /// Stored profiles alone
    Profiles,
    /// Counters that the model computes from where the real threads run
    Model,
}

/// What places threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlacerName {
    /// Each thread's affinity: the thread runs on these CPUs and nowhere else
    Affinity,
    /// A scheduler in the kernel: the thread runs on these CPUs while there is room
    SchedExt,
    /// The scheduler in the kernel where there can be one, else affinity
    Auto,
}

impl From<CountersName> for Counters {
    fn from(name: CountersName) -> Self {
        match name {
            CountersName::Auto => Self::Auto,
            CountersName::Perf => Self::Perf,
            CountersName::Profiles => Self::Profiles,
            CountersName::Model => Self::Model,
        }
    }
}

impl PlacerName {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        Placer::from(self).name()
    }
}

impl From<PlacerName> for Placer {
    fn from(name: PlacerName) -> Self {
        match name {
            PlacerName::Affinity => Self::Affinity,
            PlacerName::SchedExt => Self::SchedExt,
            PlacerName::Auto => Self::Auto,
        }
    }
}

/// A policy and what it goes by, as typed.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyArgs {
    /// The policy, one that corun doctor names; `dio+lfoc` places by `dio` and partitions by `lfoc`; `auto` chooses one that can
    /// help here (docs/operating.md)
    #[arg(long, value_name = "NAME", default_value = AUTO_POLICY)]
    pub(crate) policy: String,
    /// Where counters come from
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) counters: CountersName,
    /// Folder or file of stored profiles, or a list of these and of `shipped` [default: the shipped profiles]
    #[arg(long, value_name = "PATH")]
    pub(crate) profiles: Option<PathBuf>,
    /// Time between two decisions [default: the policy's own]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) interval: Option<f64>,
    /// A machine file of this machine, with what Linux does not tell [default: as Linux shows it]
    #[arg(long, value_name = "FILE")]
    pub(crate) machine: Option<PathBuf>,
    /// Where journals are kept [default: /run/corun, for other users their runtime folder]
    #[arg(long, value_name = "DIR")]
    pub(crate) journals: Option<PathBuf>,
    /// Make only plans that the model expects to help, and undo plans that the counters show to harm
    #[arg(long)]
    pub(crate) gate: bool,
    /// Also act by a policy that did not pass an evaluation as on a real machine (corun doctor names them)
    #[arg(long)]
    pub(crate) untested: bool,
    /// What places threads (docs/operating.md)
    #[arg(long, value_enum, default_value = "affinity")]
    pub(crate) backend: PlacerName,
    /// With --backend sched-ext: how long a thread waits for its CPUs before it runs elsewhere, or never
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = spill_after)]
    pub(crate) spill_after: f64,
    /// Set a policy's parameter; may be given several times (docs/policies.md, docs/partitioning.md)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) set: Vec<(String, f64)>,
}

impl PolicyArgs {
    /// These arguments with a policy that can help here in the place of `auto`. Says which, and why.
    pub(crate) fn with_chosen_policy(&self) -> Outcome<Self> {
        if self.policy != AUTO_POLICY {
            return Ok(self.clone());
        }
        if !self.set.is_empty() {
            return Err(Failure::input("--set: nothing says of which policy it is a parameter")
                .hint("--policy NAME"));
        }
        let machine = this_machine(self.machine.as_deref())?;
        let ChosenPolicy { name, why } =
            choose_policy(&Roots::default(), &machine, self.counters.into())?;
        tell(format!("--policy auto: {name}, since {why}"));
        Ok(Self { policy: name.to_owned(), ..self.clone() })
    }

    /// What a host is made by. `seed`: of policies that draw at random.
    pub(crate) fn host_settings(&self, dry_run: bool, seed: u64) -> HostSettings {
        HostSettings {
            policy: self.policy.clone(),
            counters: self.counters.into(),
            profiles: self.profiles.clone(),
            interval_s: self.interval,
            dry_run,
            machine: self.machine.clone(),
            journals: self.journals.clone(),
            seed,
            set: self.set.clone(),
            gate: self.gate.then(GateOptions::default),
            untested: self.untested,
            placing: PlacerSettings {
                placer: self.backend.into(),
                spill_after_s: self.spill_after,
                ..PlacerSettings::default()
            },
            reading: ThreadReading::default(),
        }
    }
}

/// Programs to start, as typed: a mix or one command.
#[derive(Debug, Clone, Args)]
pub(crate) struct StartArgs {
    /// A mix file: the programs to start
    #[arg(value_name = "MIX", conflicts_with = "command")]
    pub(crate) mix: Option<PathBuf>,
    /// The stored profile of CMD [default: found by its name]
    #[arg(long, value_name = "NAME", requires = "command")]
    pub(crate) profile: Option<String>,
    /// One program and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// `corun run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Decisions go to stderr as they are made, and a summary at the end. stdout is the programs' own. \
Every change is undone at the end, also after a failure; after a kill -9, by the next corun run or \
by corun restore.

Examples:
  corun run mix.toml --policy dio
  corun run --policy di -- ./solver input.dat
  corun run mix.toml --counters model --duration 30     threads stand in for programs without a command")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) programs: StartArgs,
    #[command(flatten)]
    pub(crate) chosen: PolicyArgs,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Seed of policies that draw at random
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// With --backend sched-ext: count which program wakes which, and print the counts at the end
    #[arg(long)]
    pub(crate) wakers: bool,
    /// End after this many seconds; programs that still run are ended
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<f64>,
    /// Also write the summary as JSON
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl RunArgs {
    /// What its host is made by.
    pub(crate) fn host_settings(&self) -> HostSettings {
        let arguments = self.chosen.host_settings(self.dry_run, self.seed);
        let placing = PlacerSettings { counts_wakers: self.wakers, ..arguments.placing };
        HostSettings { placing, ..arguments }
    }
}

/// `corun stand-in`: what runs in the place of a program of which there is only a profile.
#[derive(Debug, Args)]
pub(crate) struct StandInArgs {
    /// Threads
    #[arg(long, default_value = "1")]
    pub(crate) threads: u32,
    /// Milliseconds on a CPU between two waits
    #[arg(long, requires = "wait_ms")]
    pub(crate) cpu_ms: Option<f64>,
    /// Milliseconds of a wait
    #[arg(long, requires = "cpu_ms")]
    pub(crate) wait_ms: Option<f64>,
}

/// `corun daemon`.
#[derive(Debug, Args)]
#[command(after_help = "\
Schedules the programs that the configuration names, and nobody else. Until the configuration says \
apply = true it changes nothing and logs what it would do. SIGHUP reads the configuration again; \
SIGTERM undoes everything and ends.

A plan from which the model expects less than the noise is refused, and the log says with which \
figures. The part [gate] of the configuration sets what is refused.

Examples:
  corun check-config --example > config.toml   then name the programs in it
  corun daemon --config config.toml --dry-run
  corun verify --config config.toml            what it holds
  corun restore --config config.toml           after a kill -9")]
pub(crate) struct DaemonArgs {
    /// The configuration [default: /etc/corun/config.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Change nothing, whatever the configuration says
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `corun check-config`.
#[derive(Debug, Args)]
pub(crate) struct CheckConfigArgs {
    /// The configuration [default: /etc/corun/config.toml]
    #[arg(value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The same, as the daemon takes it
    #[arg(long = "config", value_name = "FILE", conflicts_with = "config")]
    pub(crate) named: Option<PathBuf>,
    /// Write one to start from
    #[arg(long, conflicts_with_all = ["config", "named"])]
    pub(crate) example: bool,
}
