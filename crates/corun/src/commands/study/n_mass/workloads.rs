//! The workloads of Table 2, their miss rates (Fig. 9), and what becomes of each program where all
//! memory is on one node (Fig. 11 and 12).

use super::maps::Case;
use super::percent;
use super::runs::{Runs, Scheme};
use crate::report::{Chart, ChartKind, StudyFigure, strings};

/// The paper's names, and those of the table of solo figures: its bare names are of CPU2006.
pub(super) const PROGRAMS: [(&str, &str); 14] = [
    ("mcf", "mcf06"),
    ("lbm", "lbm06"),
    ("soplex", "soplex06"),
    ("milc", "milc06"),
    ("libquantum", "libquantum06"),
    ("omnetpp", "omnetpp06"),
    ("sphinx", "sphinx306"),
    ("gcc", "gcc06"),
    ("gobmk", "gobmk06"),
    ("perlbench", "perlbench06"),
    ("h264", "h264ref06"),
    ("gamess", "gamess06"),
    ("namd", "namd06"),
    ("povray", "povray06"),
];

/// Table 2.
pub(super) const WORKLOADS: [&[&str]; 11] = [
    &["soplex", "sphinx", "gamess", "namd"],
    &["soplex", "mcf", "gamess", "gobmk"],
    &["mcf", "libquantum", "povray", "gamess"],
    &["mcf", "omnetpp", "h264", "namd"],
    &["milc", "libquantum", "povray", "perlbench"],
    &["sphinx", "gcc", "namd", "gamess"],
    &["lbm", "milc", "sphinx", "gobmk"],
    &["lbm", "milc", "mcf", "namd"],
    &["mcf", "milc", "soplex", "lbm"],
    &["lbm", "milc", "mcf", "namd", "gobmk", "perlbench", "h264", "povray"],
    &["mcf", "milc", "soplex", "lbm", "gobmk", "perlbench", "namd", "povray"],
];

/// Table 3, and for eight programs the map that the paper shows (Fig. 12).
pub(super) const MAPS_OF_FOUR: [&str; 8] =
    ["1100", "1010", "1001", "1000", "0100", "0010", "0001", "0000"];
pub(super) const MAPS_OF_EIGHT: [&str; 1] = ["00000000"];

/// Figure 9: the sum of the programs' MPKI alone.
pub(super) fn total_mpki(runs: &Runs<'_>) -> StudyFigure {
    let alone = |bare: &str| runs.at_rest(&[(bare, 0, 0)])[0].llc_mpki;
    let totals: Vec<f64> =
        WORKLOADS.iter().map(|programs| programs.iter().map(|bare| alone(bare)).sum()).collect();
    let labels: Vec<String> = (1..=WORKLOADS.len()).map(|number| format!("WL{number}")).collect();
    let rows = labels.iter().zip(WORKLOADS).zip(&totals).map(|((label, programs), total)| {
        vec![label.clone(), programs.join(", "), format!("{total:.1}")]
    });
    StudyFigure {
        id: "total-mpki".to_owned(),
        heading: "Total MPKI of the workloads (Fig. 9)".to_owned(),
        about:
            "The sum of the programs' misses per 1000 instructions, each alone. The paper's bars \
                are lost with its figures; its memory-bound workloads are the same."
                .to_owned(),
        header: strings(&["workload", "programs", "MPKI"]),
        rows: rows.collect(),
        chart: Some(Chart {
            kind: ChartKind::BarsFrom(0.0),
            across: "workload".to_owned(),
            upwards: "MPKI".to_owned(),
            labels,
            series: vec![("all programs".to_owned(), totals.into_iter().map(Some).collect())],
        }),
    }
}

/// Figures 11 and 12.
pub(super) fn figures(cases: &[Case]) -> Vec<StudyFigure> {
    let of = |programs: usize| {
        let of_size = cases.iter().filter(move |case| case.programs().len() == programs);
        of_size.filter(|case| case.map.bytes().all(|digit| digit == b'0'))
    };
    vec![
        figure("four-programs", "Four programs, all memory on node 0 (Fig. 11)", of(4).collect()),
        figure("eight-programs", "Eight programs, all memory on node 0 (Fig. 12)", of(8).collect()),
    ]
}

fn figure(id: &str, heading: &str, cases: Vec<&Case>) -> StudyFigure {
    let mut header = strings(&["program", "default, slowdown"]);
    header.extend(Scheme::ALL.iter().map(|scheme| format!("{}, %", scheme.name())));
    let mut rows = Vec::new();
    for case in &cases {
        for (place, program) in case.programs().iter().enumerate() {
            let label = format!("WL{} {program}", case.workload);
            let mut row = vec![label, format!("{:.3}", case.default[place])];
            row.extend(Scheme::ALL.map(|scheme| percent(case.improvements(scheme)[place])));
            rows.push(row);
        }
        let mut row =
            vec![format!("WL{} mean", case.workload), format!("{:.3}", super::mean(&case.default))];
        row.extend(Scheme::ALL.map(|scheme| percent(case.improvement(scheme))));
        rows.push(row);
    }
    let series = Scheme::ALL.iter().map(|&scheme| {
        let of = cases.iter().map(|case| Some(case.improvement(scheme)));
        (scheme.name().to_owned(), of.collect())
    });
    StudyFigure {
        id: id.to_owned(),
        heading: heading.to_owned(),
        about: "How much faster than by default, in %: slowdown by default / slowdown - 1; below 0 it is \
                slower. The chart has the workloads' means. The paper's bars are lost; it says that in \
                WL1, 7, 8, 9 and 11 single programs lose up to 10 % less by N-MASS than by \
                maximum-local, and no more than 3 % against the default, where maximum-local costs up \
                to 12 %."
            .to_owned(),
        chart: Some(Chart {
            kind: ChartKind::BarsFrom(0.0),
            across: "workload".to_owned(),
            upwards: "% faster than by default".to_owned(),
            labels: cases.iter().map(|case| format!("WL{}", case.workload)).collect(),
            series: series.collect(),
        }),
        header,
        rows,
    }
}
