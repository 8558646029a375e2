//! The thesis's chapter 5 and section 6.2 again: how many partitions there are, what limited
//! bandwidth costs, how near simple policies are to the optimum, how much of the tree its search
//! visits, and what optimal clustering does that optimal partitioning cannot.

mod bandwidth;
mod clusters;
mod figures;
mod llc;
mod search;
mod space;

use clap::{Args, Command};
use corun_app::{Result, profile_sources};
use corun_cli::{ModelArgs, model_options};
use corun_model::{BandwidthModel, ModelOptions};
use corun_optimal::partition::PartitionObjective;
use corun_report::json;
use serde::Serialize;

use self::bandwidth::Pressed;
use self::clusters::Clustered;
pub(super) use self::llc::{MACHINE, PartitionedLlc};
use self::search::Searched;
use crate::harness::{Page, Programs, Study, StudyInputs};

pub(super) const STUDY: Study = Study {
    name: "partitioning",
    summary: "Partitions and clusters of a cache's ways: how many, how near policies are, what the best is",
    programs: Programs::Spec,
    seeds: None,
    has_quick: false,
    options,
    page,
    explained_in: "docs/studies/partitioning.md",
};

/// Its own options; the study's default of one is not that of other commands.
fn options(command: Command) -> Command {
    PartitioningArgs::augment_args(command).mut_arg("bandwidth_model", |option| {
        option.help(
            "What limited bandwidth costs: none, simple, morad, stalls, additive, loaded or \
             by-machine [default: stalls]",
        )
    })
}

/// Its own options.
#[derive(Debug, Args)]
struct PartitioningArgs {
    /// Random mixes of each size
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    mixes: u32,
    /// Seed of the mixes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    model: ModelArgs,
}

/// What the thesis optimises.
const OBJECTIVES: [(&str, PartitionObjective); 2] =
    [("stp", PartitionObjective::Stp), ("unfairness", PartitionObjective::Unfairness)];

/// Ways of the thesis's two machines.
const WAYS: [u32; 2] = [11, 20];

/// All that comes out, and what it stands on: the JSON document.
#[derive(Debug, Serialize)]
struct Partitioning {
    study: &'static str,
    source: &'static str,
    machine: &'static str,
    profiles: String,
    bandwidth_model: String,
    space: String,
    mixes: u32,
    seed: u64,
    partitions: Vec<PartitionCounts>,
    bandwidth: Vec<Pressed>,
    search: Vec<Searched>,
    clustering: Clustered,
}

/// Partitions and nodes by the number of programs, eq. 5.5 and Table 5.1.
#[derive(Debug, Serialize)]
struct PartitionCounts {
    ways: u32,
    /// From one program on.
    partitions: Vec<u64>,
    tree_nodes: Vec<u64>,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let PartitioningArgs { mixes, seed, model } = inputs.options()?;
    let library = inputs.spec()?;
    let bandwidth = model.bandwidth_model.unwrap_or(BandwidthModel::Stalls);
    let options = ModelOptions { bandwidth, ..model_options(&model) };
    let llcs = WAYS.iter().map(|&ways| PartitionedLlc::new(library, ways, options));
    let llcs = llcs.collect::<Result<Vec<PartitionedLlc>>>()?;
    let mut search = Vec::new();
    for llc in &llcs {
        search.extend(search::searched(llc, mixes, seed, &inputs.cancel)?);
    }
    let found = Partitioning {
        study: STUDY.name,
        source: "García García, doctoral thesis, UCM 2021, chapter 5 and section 6.2",
        machine: MACHINE,
        profiles: profile_sources(&library.iter().cloned().collect::<Vec<_>>()),
        bandwidth_model: options.bandwidth.to_string(),
        space: options.space.to_string(),
        mixes,
        seed,
        partitions: WAYS.map(PartitionCounts::new).into(),
        bandwidth: bandwidth::pressed(library, options)?,
        search,
        clustering: clusters::clustered(&llcs[0], mixes, seed, &inputs.cancel)?,
    };
    Ok(Page { own_json: Some(json(&found)?), ..found.page() })
}

impl PartitionCounts {
    fn new(ways: u32) -> Self {
        Self {
            ways,
            partitions: (1..=ways).map(|programs| space::partitions(ways, programs)).collect(),
            tree_nodes: (1..=ways).map(|programs| space::tree_nodes(ways, programs)).collect(),
        }
    }
}
