//! Every workload with every allocation map (Table 3, Fig. 10).

use std::collections::BTreeMap;

use corun_app::Result;
use rayon::prelude::*;

use super::runs::{Runs, Scheme};
use super::workloads::{MAPS_OF_EIGHT, MAPS_OF_FOUR, WORKLOADS};
use super::mean;
use crate::harness::Figure;

/// A workload with its memory as a map says.
pub(super) struct Case {
    /// Its number in Table 2.
    pub(super) workload: usize,
    /// The node of each program's memory.
    pub(super) map: &'static str,
    /// Each program's slowdown by default.
    pub(super) default: Vec<f64>,
    /// And by each scheme that was run.
    schemes: BTreeMap<Scheme, Vec<f64>>,
}

impl Case {
    fn new(
        runs: &Runs<'_>,
        workload: usize,
        map: &'static str,
        schemes: &[Scheme],
    ) -> Result<Self> {
        let programs = WORKLOADS[workload - 1];
        let homes: Vec<usize> = map.bytes().map(|digit| usize::from(digit == b'1')).collect();
        let run = |&scheme: &Scheme| Ok((scheme, runs.scheduled(programs, &homes, scheme)?));
        Ok(Self {
            workload,
            map,
            default: runs.default(programs, &homes)?,
            schemes: schemes.iter().map(run).collect::<Result<_>>()?,
        })
    }

    pub(super) fn programs(&self) -> &'static [&'static str] {
        WORKLOADS[self.workload - 1]
    }

    /// Each program's slowdown.
    pub(super) fn slowdowns(&self, scheme: Scheme) -> &[f64] {
        &self.schemes[&scheme]
    }

    /// How much faster each program is than by default, in percent.
    pub(super) fn improvements(&self, scheme: Scheme) -> Vec<f64> {
        let pairs = self.default.iter().zip(self.slowdowns(scheme));
        pairs.map(|(default, slowdown)| 100.0 * (default / slowdown - 1.0)).collect()
    }

    /// How much faster the workload is than by default, by its mean slowdown, in percent.
    pub(super) fn improvement(&self, scheme: Scheme) -> f64 {
        100.0 * (mean(&self.default) / mean(self.slowdowns(scheme)) - 1.0)
    }
}

/// All cases, by workload and map.
pub(super) fn all(runs: &Runs<'_>) -> Result<Vec<Case>> {
    let step = runs.inputs().every(4, "maps");
    let cases: Vec<(usize, &'static str)> = (1..=WORKLOADS.len())
        .flat_map(|workload| {
            let four = WORKLOADS[workload - 1].len() == 4;
            let maps: &[&'static str] = if four { &MAPS_OF_FOUR } else { &MAPS_OF_EIGHT };
            // The last of them has all memory on one node.
            maps.iter().rev().step_by(step).rev().map(move |&map| (workload, map))
        })
        .collect();
    cases
        .into_par_iter()
        .map(|(workload, map)| Case::new(runs, workload, map, &Scheme::ALL))
        .collect()
}

/// Those of four programs with all memory on node 0.
pub(super) fn on_one_node(runs: &Runs<'_>, schemes: &[Scheme]) -> Result<Vec<Case>> {
    let four = (1..=WORKLOADS.len()).filter(|number| WORKLOADS[number - 1].len() == 4);
    let numbers: Vec<usize> = four.collect();
    numbers.into_par_iter().map(|workload| Case::new(runs, workload, "0000", schemes)).collect()
}

/// Figure 10: WL9 and WL1 with all maps.
pub(super) fn figures(cases: &[Case]) -> Vec<Figure> {
    vec![figure(cases, 9, "50 %"), figure(cases, 1, "18 %")]
}

fn figure(cases: &[Case], workload: usize, paper_most: &str) -> Figure {
    let cases: Vec<&Case> = cases.iter().filter(|case| case.workload == workload).collect();
    let most = |values: &[f64]| values.iter().copied().fold(f64::MIN, f64::max);
    let slower = |slowdown: f64| 100.0 * (slowdown - 1.0);
    let about = format!(
        "The map has the node of each program's memory, in the order {}. By default: how much slower \
         than alone, on average and the program that suffers most (the paper: up to {paper_most}). The \
         policies: how much faster than by default, the workload and the program that gains most (the \
         paper: up to 32 %).",
        WORKLOADS[workload - 1].join(", ")
    );
    let heading = format!("WL{workload} by allocation map (Fig. 10)");
    let mut rows = Figure::new(format!("wl{workload}-by-map"), heading, about)
        .rows("map", &cases, |case| case.map.to_owned())
        .column("default, % slower", 1, |case| slower(mean(&case.default)))
        .column("most", 1, |case| slower(most(&case.default)));
    for scheme in [Scheme::MaximumLocal, Scheme::Known] {
        let name = scheme.name();
        rows = rows
            .column(format!("{name}, % faster"), 1, |case| case.improvement(scheme))
            .drawn(name)
            .column("most", 1, |case| most(&case.improvements(scheme)));
    }
    rows.bars(0.0, "% faster than by default")
}
