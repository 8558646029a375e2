//! The workloads of Table 2, their miss rates (Fig. 9), and what becomes of each program where all
//! memory is on one node (Fig. 11 and 12).

use corun_report::{Axis, Mark, Panel, Plot};

use super::maps::Case;
use super::mean;
use super::runs::{Runs, Scheme};
use crate::harness::Figure;

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
pub(super) fn total_mpki(runs: &Runs<'_>) -> Figure {
    let alone = |bare: &&str| runs.at_rest(&[(bare, 0, 0)])[0].llc_mpki;
    let numbered: Vec<(usize, &[&str])> = (1..).zip(WORKLOADS).collect();
    let about = "The sum of the programs' misses per 1000 instructions, each alone. The paper's bars are \
                 lost with its figures.";
    Figure::new("total-mpki", "Total MPKI of the workloads (Fig. 9)", about)
        .rows("workload", &numbered, |(number, _)| format!("WL{number}"))
        .words("programs", |(_, programs)| programs.join(", "))
        .column("MPKI", 1, |(_, programs)| programs.iter().map(alone).sum::<f64>())
        .drawn("all programs")
        .bars(0.0, "MPKI")
}

/// Figures 11 and 12.
pub(super) fn figures(cases: &[Case]) -> Vec<Figure> {
    let of = |programs: usize| {
        let of_size = cases.iter().filter(move |case| case.programs().len() == programs);
        of_size.filter(|case| case.map.bytes().all(|digit| digit == b'0')).collect()
    };
    vec![
        figure("four-programs", "Four programs, all memory on node 0 (Fig. 11)", of(4)),
        figure("eight-programs", "Eight programs, all memory on node 0 (Fig. 12)", of(8)),
    ]
}

fn figure(id: &str, heading: &str, cases: Vec<&Case>) -> Figure {
    // Each program of a case, then the case's mean.
    let mut rows: Vec<(&Case, Option<usize>)> = Vec::new();
    for &case in &cases {
        rows.extend((0..case.programs().len()).map(|place| (case, Some(place))).chain([(case, None)]));
    }
    let about = "How much faster than by default, in %: slowdown by default / slowdown - 1; below 0 it is \
                 slower. The chart has the workloads' means. The paper's bars are lost; it says that in \
                 WL1, 7, 8, 9 and 11 single programs lose up to 10 % less by N-MASS than by \
                 maximum-local, and no more than 3 % against the default, where maximum-local costs up \
                 to 12 %.";
    let mut table = Figure::new(id, heading, about)
        .rows("program", &rows, |(case, place)| {
            let name = place.map_or("mean", |place| case.programs()[place]);
            format!("WL{} {name}", case.workload)
        })
        .column("default, slowdown", 3, |(case, place)| {
            place.map_or_else(|| mean(&case.default), |place| case.default[place])
        });
    for scheme in Scheme::ALL {
        table = table.column(format!("{}, %", scheme.name()), 1, |(case, place)| {
            place.map_or_else(
                || case.improvement(scheme),
                |place| case.improvements(scheme)[place],
            )
        });
    }
    let series = Scheme::ALL.map(|scheme| {
        let of = cases.iter().map(|case| Some(case.improvement(scheme)));
        (scheme.name().to_owned(), of.collect())
    });
    let labels = cases.iter().map(|case| format!("WL{}", case.workload)).collect();
    let upwards = Axis::Linear("% faster than by default".to_owned(), Some(0.0));
    let panel = Panel::of_labels(Mark::Bars, "workload", labels, upwards, &series);
    table.table().drawn(Plot::of(panel))
}
