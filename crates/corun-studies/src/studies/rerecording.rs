//! Recordings against others of the same programs and kind, made at another time.

use std::path::PathBuf;

use clap::Args;
use corun_app::Result;

use super::curve_pairs::Folders;
use crate::harness::{Page, Programs, Study, StudyInputs};

pub(super) const STUDY: Study = Study {
    name: "rerecording",
    summary: "Recordings against others of the same programs and kind",
    programs: Programs::OwnOptions,
    seeds: None,
    has_quick: false,
    options: RerecordingArgs::augment_args,
    page,
    explained_in: "docs/profiling.md",
};

/// Its own options.
#[derive(Debug, Args)]
struct RerecordingArgs {
    /// A folder of recordings
    #[arg(long, value_name = "DIR")]
    first: PathBuf,
    /// A folder of recordings of the same programs, made again
    #[arg(long, value_name = "DIR")]
    second: PathBuf,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let RerecordingArgs { first, second } = inputs.options()?;
    Folders { sides: ["first", "second"], paths: [first, second] }.page(STUDY.name)
}
