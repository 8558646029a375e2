//! The document as a page.

use corun_app::{PartitionDocument, PartitionEntry as Decided, PartitionScenario};

use crate::commands::command_line;
use crate::report::{PartitionEntry, PartitionProgram, PartitionReport};

pub(super) fn report(document: &PartitionDocument, ground: &PartitionScenario) -> PartitionReport {
    let programs = document.apps.iter().zip(&document.class).zip(&ground.curves);
    let program = |((name, class), curve): ((&String, &&'static str), &std::sync::Arc<_>)| {
        let curve: &corun_policy::WaysCurve = curve;
        PartitionProgram {
            name: name.clone(),
            class: (*class).to_owned(),
            slowdown_by_ways: curve.points().iter().map(|point| point.slowdown).collect(),
        }
    };
    let all = &document.policies;
    let shown = if all.is_empty() { std::slice::from_ref(&document.chosen) } else { all };
    let data = &document.data;
    PartitionReport {
        command: command_line(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: document.machine.clone(),
        ways: document.llc_ways,
        way_bytes: ground.way_bytes,
        objective: document.objective.to_owned(),
        programs: programs.map(program).collect(),
        entries: shown.iter().map(entry).collect(),
        facts: vec![
            ("Profiles".to_owned(), data.profiles.clone()),
            (
                "Model".to_owned(),
                format!("space {}, bandwidth {}", data.space, data.bandwidth_model),
            ),
        ],
    }
}

fn entry(entry: &Decided) -> PartitionEntry {
    let mask = |text: &String| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0);
    PartitionEntry {
        name: entry.policy.clone(),
        is_optimum: entry.proven.is_some(),
        from_optimal_percent: entry.from_optimal_percent,
        figures: [
            entry.stp,
            entry.unfairness,
            entry.antt,
            entry.max_slowdown,
            entry.bandwidth_mb_per_s,
        ],
        masks: entry.mask.iter().map(mask).collect(),
        cluster: entry.cluster.clone(),
        slowdowns: entry.slowdown.clone(),
        error: entry.error.clone(),
    }
}
