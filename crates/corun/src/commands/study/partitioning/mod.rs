//! The thesis's chapter 5 and section 6.2 again: how many partitions there are, what limited
//! bandwidth costs, how near simple policies are to the optimum, how much of the tree its search
//! visits, and what optimal clustering does that optimal partitioning cannot.

mod bandwidth;
mod clusters;
mod figures;
pub(super) mod ground;
mod search;
mod space;

use corun_app::{open_library, profile_sources};
use corun_model::{BandwidthModel, ModelOptions};
use corun_optimal::partition::PartitionObjective;
use serde::Serialize;

use self::bandwidth::Pressed;
use self::clusters::Clustered;
use self::ground::Ground;
use self::search::Searched;
use crate::cli::{PartitioningStudyArgs, TableFormat, model_options};
use crate::failure::Outcome;
use crate::output::{check_target, json, write_file};
use corun_app::Cancel;

/// What the thesis optimises.
const OBJECTIVES: [(&str, PartitionObjective); 2] =
    [("stp", PartitionObjective::Stp), ("unfairness", PartitionObjective::Unfairness)];

/// Ways of the thesis's two machines.
const WAYS: [u32; 2] = [11, 20];

#[derive(Debug, Serialize)]
struct Study {
    study: &'static str,
    source: &'static str,
    machine: &'static str,
    profiles: String,
    bandwidth_model: String,
    space: String,
    mixes: u32,
    seed: u64,
    partitions: Vec<Counted>,
    bandwidth: Vec<Pressed>,
    search: Vec<Searched>,
    clustering: Clustered,
}

/// Partitions and nodes by the number of programs, eq. 5.5 and Table 5.1.
#[derive(Debug, Serialize)]
struct Counted {
    ways: u32,
    /// From one program on.
    partitions: Vec<u64>,
    tree_nodes: Vec<u64>,
}

pub(super) fn run(arguments: &PartitioningStudyArgs) -> Outcome<String> {
    if let Some(path) = &arguments.report {
        check_target(path)?;
    }
    let cancel = Cancel::on_signal()?;
    let library = open_library(Some(&arguments.profiles))?;
    let asked = model_options(&arguments.model);
    let bandwidth = arguments.model.bandwidth_model.unwrap_or(BandwidthModel::Stalls);
    let options = ModelOptions { bandwidth, ..asked };
    let grounds = WAYS
        .iter()
        .map(|&ways| Ground::new(&library, ways, options))
        .collect::<Outcome<Vec<Ground>>>()?;
    let mut search = Vec::new();
    for ground in &grounds {
        search.extend(search::searched(ground, arguments.mixes, arguments.seed, &cancel)?);
    }
    let study = Study {
        study: "partitioning",
        source: "García García, doctoral thesis, UCM 2021, chapter 5 and section 6.2",
        machine: ground::MACHINE,
        profiles: profile_sources(&library.iter().cloned().collect::<Vec<_>>()),
        bandwidth_model: options.bandwidth.to_string(),
        space: options.space.to_string(),
        mixes: arguments.mixes,
        seed: arguments.seed,
        partitions: WAYS.map(Counted::new).into(),
        bandwidth: bandwidth::pressed(&library, options)?,
        search,
        clustering: clusters::clustered(&grounds[0], arguments.mixes, arguments.seed, &cancel)?,
    };
    let page = study.page();
    if let Some(path) = &arguments.report {
        write_file(path, page.render().as_bytes())?;
    }
    match arguments.format {
        TableFormat::Table => Ok(page.text()),
        TableFormat::Json => json(&study),
        TableFormat::Csv => page.csv(),
    }
}

impl Counted {
    fn new(ways: u32) -> Self {
        Self {
            ways,
            partitions: (1..=ways).map(|programs| space::partitions(ways, programs)).collect(),
            tree_nodes: (1..=ways).map(|programs| space::tree_nodes(ways, programs)).collect(),
        }
    }
}
