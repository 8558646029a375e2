//! What is typed after `corun validate`.

use std::path::PathBuf;

use clap::Args;

use corun_cli::{ModelArgs, seconds};

use super::values::DocumentFormat;

/// `corun validate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  scripts/record-library.sh -p inputs       put what the shipped programs read into a folder
  . inputs/environment                      and the environment that they were recorded in
  corun validate --folder inputs            run the library's programs, and compare
  corun validate --folder inputs gzip xz --groups 1 --rounds 9
  corun validate --profiles mine.toml       your own program, recorded by corun profile")]
pub(crate) struct ValidateArgs {
    /// The programs, by profile name [default: all of the library]
    #[arg(value_name = "PROGRAM")]
    pub(crate) programs: Vec<String>,
    /// A folder of profiles, or a profile [default: the shipped library]
    #[arg(long, value_name = "PATH")]
    pub(crate) profiles: Option<PathBuf>,
    /// The machine as the model sees it: this, or a file that describes it
    #[arg(long, value_name = "NAME|FILE", default_value = "this")]
    pub(crate) machine: String,
    /// The folder in which the recorded commands are run
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// How often everything is measured: the first rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Further rounds, at most, of groups whose slowdown could become clear; 0: none
    ///
    /// The first rounds choose these groups and how many further rounds each gets. The further ones alone count for
    /// them, so that no slowdown is large because it was chosen for being large. More first rounds than this: none.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) further_rounds: u32,
    /// How many groups of programs are run together, drawn at random
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) groups: u32,
    /// Programs of a group; each has a CPU of its own under one LLC
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) group_size: u32,
    /// Run each program also beside each of these, which press on cache or memory
    #[arg(long, value_name = "A,B,..", value_delimiter = ',')]
    pub(crate) beside: Vec<String>,
    /// Leave out programs whose first run takes longer; later runs do not count then (beside others: four times as long)
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub(crate) limit_s: f64,
    /// Seed of the groups and of the order of each round
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Run nothing: compare with the times in the JSON document of an earlier run
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["folder", "rounds", "further_rounds", "groups", "group_size", "beside", "limit_s", "seed"])]
    pub(crate) measured: Option<PathBuf>,
    /// Note in the machine file how far predictions are off also where it has a better figure
    #[arg(long, conflicts_with = "measured")]
    pub(crate) force: bool,
    /// Write a page with plots of predicted against measured figures
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Write the plots alone
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: DocumentFormat,
}
