//! What is typed after `corun sweep`.

use std::path::PathBuf;

use clap::Args;
use corun_cli::TableFormat;
use corun_sweep::MOST_JOBS;

/// `corun sweep`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun sweep sweep.toml -o results
  corun sweep sweep.toml -o results --dask tcp://head:8786
  corun sweep sweep.toml -o results --format csv > summary.csv")]
pub(crate) struct SweepArgs {
    /// The description: machines, mixes or generators of mixes, policies and seeds (docs/scaling.md)
    #[arg(value_name = "FILE")]
    pub(crate) description: PathBuf,
    /// Folder of the results; what it holds from earlier is not computed again
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Threads on this machine [default: one a core]
    #[arg(long, value_name = "N", conflicts_with = "dask", value_parser = clap::value_parser!(u16).range(1..=i64::from(MOST_JOBS)))]
    pub(crate) jobs: Option<u16>,
    /// Address of a Dask scheduler whose workers do the tasks, or `local` for processes on this machine
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) dask: Option<String>,
    /// Tasks that a Dask worker is sent at a time [default: from the number of tasks and workers]
    #[arg(long, value_name = "N", requires = "dask", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: Option<u32>,
    /// Format of the summary
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
}
