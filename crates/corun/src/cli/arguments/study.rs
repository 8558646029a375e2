//! The options of `corun study`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ModelArgs, TableFormat};
use crate::cli::values::CacheForm;

/// `corun study`.
#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// Every experiment of the papers below, a page each and one that lists them
    All(AllStudiesArgs),
    /// Which classification scheme: Pain, Miss Rate, Animal classes or SDC (DIO, section 2)
    Classification(PaperStudyArgs),
    /// What cache, bus, memory controller, link and prefetch add to degradation (DIO, section 3)
    Factors(FactorsArgs),
    /// The eight mixes of DIO's Table III on three machines: each policy's distance to the optimum
    DioMixes(PaperStudyArgs),
    /// Web and database threads, with one of them prioritized (DIO, section 5.3)
    Lamp(PaperStudyArgs),
    /// DIO-POWER against spreading and packing always, by energy-delay product (DIO, section 6)
    DioPower(PaperStudyArgs),
    /// N-MASS and maximum-local on their workloads, against every schedule that the kernel may choose
    NMass(PaperStudyArgs),
    /// MLB and VBSC, for more programs than CPUs: the paper's figures 2 to 13
    Mlb(PaperStudyArgs),
    /// CASC on a multithreaded chip: miss ratio, throughput, fairness, accuracy (CASC, section 5)
    Casc(PaperStudyArgs),
    /// CAMPS and its rivals on big and small cores (García García's thesis, chapter 4)
    Camps(PaperStudyArgs),
    /// LFOC, KPart and Dunn with known curves and with sampled ones, and what sampling costs (LFOC, chapter 6)
    Lfoc(PaperStudyArgs),
    /// Partitions and clusters of a cache's ways: how many, how near policies are, what the best is
    Partitioning(PartitioningStudyArgs),
    /// The laws of space against a reference cache that replays the programs' traces
    Prediction(PredictionArgs),
    /// Sampled recordings against exact ones of the same programs
    Sampling(SamplingArgs),
    /// Recordings against others of the same programs and kind
    Rerecording(RerecordingArgs),
}

/// What the studies of the papers' experiments take.
#[derive(Debug, Args)]
pub(crate) struct PaperStudyArgs {
    /// The SPEC programs: a CSV of solo figures by LLC ways, or a folder with profiles of these names
    #[arg(long, value_name = "PATH")]
    pub(crate) profiles: Option<PathBuf>,
    /// Repeat what depends on chance with seeds 1 to N; the study's own number unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: Option<u32>,
    /// How it is written
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
    /// Also write an HTML page with its plots
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// `corun study factors`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  corun study factors --machine 2x-xeon-8480")]
pub(crate) struct FactorsArgs {
    /// A preset, a machine file or `this`, instead of the paper's two machines
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    #[command(flatten)]
    pub(crate) study: PaperStudyArgs,
}

/// `corun study all`.
#[derive(Debug, Args)]
#[command(after_help = "\
Writes NAME.html and NAME.json for every study, and index.html. Without --profiles the studies that stand
on SPEC programs are left out, and it says so.

Example:
  corun study all --profiles solo.csv --out studies/")]
pub(crate) struct AllStudiesArgs {
    /// The SPEC programs: a CSV of solo figures by LLC ways, or a folder with profiles of these names
    #[arg(long, value_name = "PATH")]
    pub(crate) profiles: Option<PathBuf>,
    /// Repeat what depends on chance with seeds 1 to N; each study's own number unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) seeds: Option<u32>,
    /// Where the pages are written; made if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// `corun study partitioning`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  corun study partitioning --profiles solo.csv --report partitioning.html")]
pub(crate) struct PartitioningStudyArgs {
    /// The profiles it stands on: a CSV of SPEC CPU solo figures by LLC ways, or a folder
    #[arg(long, value_name = "PATH")]
    pub(crate) profiles: PathBuf,
    /// Random mixes of each size
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) mixes: u32,
    /// Seed of the mixes
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// How it is written
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
    /// Also write an HTML page with its plots
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// `corun study prediction`.
#[derive(Debug, Args)]
#[command(after_help = "\
Takes every NAME.trace of one folder and NAME.toml of the other, recorded in one run each.

Example:
  corun study prediction --traces recorded/ --profiles recorded/ --svg prediction.svg")]
pub(crate) struct PredictionArgs {
    /// A folder of traces
    #[arg(long, value_name = "DIR")]
    pub(crate) traces: PathBuf,
    /// A folder of profiles of the same programs
    #[arg(long, value_name = "DIR")]
    pub(crate) profiles: PathBuf,
    /// Forms of the reference cache (several, with commas)
    #[arg(
        long,
        value_name = "FORM",
        value_enum,
        value_delimiter = ',',
        default_value = "full,16-lru,16-plru"
    )]
    pub(crate) form: Vec<CacheForm>,
    /// Sizes of the reference cache in MiB (several, with commas)
    #[arg(long, value_name = "MIB", value_delimiter = ',', default_value = "1,2,4", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) size_mib: Vec<u64>,
    /// How it is written
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
    /// Also write a row a program, pair and cache
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) rows: Option<PathBuf>,
    /// Also draw predicted against measured miss rates
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
}

/// `corun study sampling`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each program present in both folders is compared at 225 cache sizes from 4 KiB to 64 MiB, evenly in
the logarithm. The miss ratio is misses per data access.

Example:
  corun study sampling --exact exact/ --sampled sampled/ --svg accuracy.svg")]
pub(crate) struct SamplingArgs {
    /// A folder of exact recordings
    #[arg(long, value_name = "DIR")]
    pub(crate) exact: PathBuf,
    /// A folder of sampled recordings
    #[arg(long, value_name = "DIR")]
    pub(crate) sampled: PathBuf,
    #[command(flatten)]
    pub(crate) output: CurveStudyOutput,
}

/// `corun study rerecording`.
#[derive(Debug, Args)]
#[command(after_help = "\
ComparisonOutcome as `corun study sampling` does.

Example:
  corun study rerecording --first monday/ --second tuesday/")]
pub(crate) struct RerecordingArgs {
    /// A folder of recordings
    #[arg(long, value_name = "DIR")]
    pub(crate) first: PathBuf,
    /// A folder of recordings of the same programs, made again
    #[arg(long, value_name = "DIR")]
    pub(crate) second: PathBuf,
    #[command(flatten)]
    pub(crate) output: CurveStudyOutput,
}

/// What the studies of curves write.
#[derive(Debug, Args)]
pub(crate) struct CurveStudyOutput {
    /// How it is written
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: TableFormat,
    /// Also draw all pairs of curves
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
}
