//! Sampled recordings against exact ones of the same programs.

use std::path::PathBuf;

use clap::Args;
use corun_app::Result;

use super::curve_pairs::Folders;
use crate::harness::{Page, Programs, Study, StudyInputs};

pub(super) const STUDY: Study = Study {
    name: "sampling",
    summary: "Sampled recordings against exact ones of the same programs",
    programs: Programs::OwnOptions,
    seeds: None,
    has_quick: false,
    options: SamplingArgs::augment_args,
    page,
    explained_in: "docs/profiling.md",
};

/// Its own options.
#[derive(Debug, Args)]
struct SamplingArgs {
    /// A folder of exact recordings
    #[arg(long, value_name = "DIR")]
    exact: PathBuf,
    /// A folder of sampled recordings
    #[arg(long, value_name = "DIR")]
    sampled: PathBuf,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let SamplingArgs { exact, sampled } = inputs.options()?;
    Folders { sides: ["exact", "sampled"], paths: [exact, sampled] }.page(STUDY.name)
}
