//! `corun fleet describe-node`: what a node's agent publishes of it.

use std::io::Read as _;

use corun_fleet::node_patch;

use super::now_s;
use crate::cli::DescribeNodeArgs;
use crate::failure::{Failure, Outcome};

/// The largest list of pods that is read.
const MOST_BYTES: u64 = 64 << 20;

pub(super) fn run(arguments: &DescribeNodeArgs) -> Outcome<String> {
    let mut pods = Vec::new();
    match &arguments.pods {
        Some(path) => {
            let shown = path.display();
            let wrong = |error| Failure::input(format!("{shown}: {error}"));
            let file = std::fs::File::open(path).map_err(wrong)?;
            file.take(MOST_BYTES).read_to_end(&mut pods).map_err(wrong)?;
        }
        None => {
            std::io::stdin().lock().take(MOST_BYTES).read_to_end(&mut pods)?;
        }
    }
    let patch = node_patch(&pods, &arguments.machine, arguments.at.unwrap_or_else(now_s))?;
    for one in &patch.assumed {
        eprintln!("corun: assumed: {one}");
    }
    Ok(patch.body + "\n")
}
