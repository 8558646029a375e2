//! `corun fleet describe-node`: what a node publishes of itself.

use std::collections::BTreeMap;
use std::io::Read as _;

use corun_app::tell;
use corun_fleet::{AgentReport, PodLoads, PodUsage, now_s, running_pods};

use super::roots_of;
use crate::cli::DescribeNodeArgs;
use crate::failure::{Failure, Outcome};

/// The largest list of pods that is read.
const MOST_BYTES: u64 = 64 << 20;

pub(super) fn run(arguments: &DescribeNodeArgs) -> Outcome<String> {
    let mut list = Vec::new();
    match &arguments.pods {
        Some(path) => {
            let shown = path.display();
            let wrong = |error| Failure::input(format!("{shown}: {error}"));
            let file = std::fs::File::open(path).map_err(wrong)?;
            file.take(MOST_BYTES).read_to_end(&mut list).map_err(wrong)?;
        }
        None => {
            std::io::stdin().lock().take(MOST_BYTES).read_to_end(&mut list)?;
        }
    }
    let mut assumed = Vec::new();
    let pods = running_pods(&list, &mut assumed)?;
    for one in &assumed {
        tell(format_args!("assumed: {one}"));
    }
    let loads = match arguments.measure {
        Some(seconds) => PodLoads::measure(&roots_of(&arguments.root), seconds),
        None => BTreeMap::new(),
    };
    let usage = |cpus| PodUsage { cpus: Some(cpus), ..PodUsage::default() };
    let usage = loads.into_iter().map(|(uid, cpus)| (uid, usage(cpus))).collect();
    let at = arguments.at.unwrap_or_else(now_s);
    Ok(AgentReport::new(&arguments.machine, &pods, &usage, at).patch(None) + "\n")
}
