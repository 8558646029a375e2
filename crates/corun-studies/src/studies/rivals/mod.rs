//! The partitioning policies of the last ten years side by side, old ones and new ones, as on a real machine and
//! beside the best clustering; and DINO beside the other policies for several nodes.

mod figures;
mod held;
mod nodes;
mod runs;

use clap::Args;
use corun_app::Result;
use corun_model::{BandwidthModel, ModelOptions};
use corun_report::counted;
use serde::Serialize;

use self::nodes::NodeMix;
use self::runs::{Contest, MixResult};
use super::partitioning::PartitionedLlc;
use crate::harness::{AsLiveArgs, Page, Programs, Study, StudyInputs};

pub(super) const STUDY: Study = Study {
    name: "rivals",
    summary: "All partitioning policies side by side as on a real machine, beside the best clustering; DINO on two nodes",
    programs: Programs::Spec,
    seeds: Some(3),
    has_quick: true,
    options: RivalsArgs::augment_args,
    page,
    explained_in: "docs/studies/partitioning.md",
};

/// Its own options.
#[derive(Debug, Args, Serialize)]
struct RivalsArgs {
    /// Mixes of each size, and on each machine of two nodes, for each seed
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    mixes: u32,
    /// Instructions of a program, in 1e9
    #[arg(long, value_name = "N", default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    instructions: u32,
    #[command(flatten)]
    as_live: AsLiveArgs,
}

/// Ways of the machine's LLC.
const WAYS: u32 = 11;
/// Sizes of the mixes: strict policies have a way for each program of all.
const SIZES: [usize; 3] = [4, 8, 11];

/// All that is measured.
struct Measured {
    about: String,
    llc: Vec<MixResult>,
    nodes: Vec<NodeMix>,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let asked: RivalsArgs = inputs.options()?;
    // The thesis's own model of bandwidth, as in the study of LFOC.
    let options = ModelOptions { bandwidth: BandwidthModel::Stalls, ..ModelOptions::default() };
    let llc = PartitionedLlc::new(inputs.spec()?, WAYS, options)?;
    let observation = asked.as_live.observation()?;
    let instructions = u64::from(asked.instructions) * 1_000_000_000;
    let contest = Contest { inputs, llc: &llc, observation: observation.clone(), instructions };
    let mut results = Vec::new();
    for seed in 1..=u64::from(inputs.seeds) {
        for programs in SIZES {
            results.extend(contest.play(programs, asked.mixes as usize, seed)?);
        }
    }
    let nodes = nodes::all(inputs, &observation, asked.mixes)?;
    let about = format!(
        "{} of {}, {} and {} SPEC programs on the {WAYS} ways of {}, drawn by class, {} of each size for each of {}; \
         {}e9 instructions a program, until the longest has ended three times. Policies see the machine as live \
         ({}).",
        counted(results.len(), "mix"),
        SIZES[0],
        SIZES[1],
        SIZES[2],
        super::partitioning::MACHINE,
        asked.mixes,
        counted(inputs.seeds as usize, "seed"),
        asked.instructions,
        asked.as_live.settings(),
    );
    Ok(Measured { about, llc: results, nodes }.page())
}
