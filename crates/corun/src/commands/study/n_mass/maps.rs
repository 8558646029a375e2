//! Every workload with every allocation map (Table 3, Fig. 10).

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::runs::{Runs, Scheme};
use super::workloads::{MAPS_OF_EIGHT, MAPS_OF_FOUR, WORKLOADS};
use super::{mean, percent};
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, StudyFigure, strings};

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
    ) -> Outcome<Self> {
        let programs = WORKLOADS[workload - 1];
        let homes: Vec<usize> = map.bytes().map(|digit| usize::from(digit == b'1')).collect();
        let run = |&scheme: &Scheme| Ok((scheme, runs.scheduled(programs, &homes, scheme)?));
        Ok(Self {
            workload,
            map,
            default: runs.default(programs, &homes)?,
            schemes: schemes.iter().map(run).collect::<Outcome<_>>()?,
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
pub(super) fn all(runs: &Runs<'_>) -> Outcome<Vec<Case>> {
    let cases: Vec<(usize, &'static str)> = (1..=WORKLOADS.len())
        .flat_map(|workload| {
            let four = WORKLOADS[workload - 1].len() == 4;
            let maps: &[&'static str] = if four { &MAPS_OF_FOUR } else { &MAPS_OF_EIGHT };
            maps.iter().map(move |&map| (workload, map))
        })
        .collect();
    cases
        .into_par_iter()
        .map(|(workload, map)| Case::new(runs, workload, map, &Scheme::ALL))
        .collect()
}

/// Those of four programs with all memory on node 0.
pub(super) fn on_one_node(runs: &Runs<'_>, schemes: &[Scheme]) -> Outcome<Vec<Case>> {
    let four = (1..=WORKLOADS.len()).filter(|number| WORKLOADS[number - 1].len() == 4);
    let numbers: Vec<usize> = four.collect();
    numbers.into_par_iter().map(|workload| Case::new(runs, workload, "0000", schemes)).collect()
}

/// Figure 10: WL9 and WL1 with all maps.
pub(super) fn figures(cases: &[Case]) -> Vec<StudyFigure> {
    vec![figure(cases, 9, "50 %"), figure(cases, 1, "18 %")]
}

fn figure(cases: &[Case], workload: usize, paper_most: &str) -> StudyFigure {
    let cases: Vec<&Case> = cases.iter().filter(|case| case.workload == workload).collect();
    let shown = [Scheme::MaximumLocal, Scheme::Known];
    let row = |case: &&Case| {
        let degradations = case.default.iter().map(|slowdown| 100.0 * (slowdown - 1.0));
        let mut row = vec![
            case.map.to_owned(),
            percent(100.0 * (mean(&case.default) - 1.0)),
            percent(degradations.fold(f64::MIN, f64::max)),
        ];
        for scheme in shown {
            let most = case.improvements(scheme).into_iter().fold(f64::MIN, f64::max);
            row.extend([percent(case.improvement(scheme)), percent(most)]);
        }
        row
    };
    let series = shown.map(|scheme| {
        let of = cases.iter().map(|case| Some(case.improvement(scheme)));
        (scheme.name().to_owned(), of.collect())
    });
    StudyFigure {
        id: format!("wl{workload}-by-map"),
        heading: format!("WL{workload} by allocation map (Fig. 10)"),
        about: format!(
            "The map has the node of each program's memory, in the order {}. By default: how much slower \
             than alone, on average and the program that suffers most (the paper: up to {paper_most}). \
             The policies: how much faster than by default, the workload and the program that gains \
             most (the paper: up to 32 %).",
            WORKLOADS[workload - 1].join(", ")
        ),
        header: strings(&[
            "map",
            "default, % slower",
            "most",
            "maximum-local, % faster",
            "most",
            "n-mass, % faster",
            "most",
        ]),
        rows: cases.iter().map(row).collect(),
        chart: Some(Chart {
            kind: ChartKind::BarsFrom(0.0),
            across: "allocation map".to_owned(),
            upwards: "% faster than by default".to_owned(),
            labels: cases.iter().map(|case| case.map.to_owned()).collect(),
            series: series.to_vec(),
        }),
    }
}
