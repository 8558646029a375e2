//! What it comes to: every case in a table, the paper's claims beside it, and the same under other
//! models of the machine.

use corun_model::{BandwidthModel, ModelOptions, SpaceLaw};

use super::super::paper::Ground;
use super::maps::{self, Case};
use super::runs::{Runs, Scheme};
use super::{mean, percent};
use crate::failure::Outcome;
use crate::report::{Finding, StudyFigure, strings};

/// A workload is no worse when it loses less than this, in percent: an epoch of an hour, before
/// anything is measured.
const NO_WORSE: f64 = 0.05;

/// Figures of a scheme over cases, in percent against the default.
struct Over {
    mean: f64,
    least: f64,
    most: f64,
    program_least: f64,
    program_most: f64,
    /// Workloads that are slower than by default.
    worse: usize,
}

fn over<'a>(cases: impl Iterator<Item = &'a Case> + Clone, scheme: Scheme) -> Over {
    let workloads: Vec<f64> = cases.clone().map(|case| case.improvement(scheme)).collect();
    let programs: Vec<f64> = cases.flat_map(|case| case.improvements(scheme)).collect();
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Over {
        mean: mean(&workloads),
        least: least(&workloads),
        most: most(&workloads),
        program_least: least(&programs),
        program_most: most(&programs),
        worse: workloads.iter().filter(|&&one| one < -NO_WORSE).count(),
    }
}

fn on_one_node(cases: &[Case]) -> impl Iterator<Item = &Case> + Clone {
    cases.iter().filter(|case| case.map.bytes().all(|digit| digit == b'0'))
}

pub(super) fn findings(cases: &[Case]) -> Vec<Finding> {
    let known = over(cases.iter(), Scheme::Known);
    let local = over(cases.iter(), Scheme::MaximumLocal);
    let regression = over(on_one_node(cases), Scheme::Regression);
    let unbalanced = over(on_one_node(cases), Scheme::Known);
    let unbalanced_local = over(on_one_node(cases), Scheme::MaximumLocal);
    let beats = on_one_node(cases)
        .filter(|case| case.improvement(Scheme::Known) > case.improvement(Scheme::MaximumLocal));
    let loses = on_one_node(cases).filter(|case| {
        case.improvement(Scheme::Known) < case.improvement(Scheme::MaximumLocal) - NO_WORSE
    });
    let count = on_one_node(cases).count();
    vec![
        Finding {
            what: "N-MASS over the default (abstract, Fig. 10)".to_owned(),
            paper: "up to 32 % for a program, 7 % on average".to_owned(),
            ours: format!(
                "up to {} % for a program, {} % on average over {} workloads and maps",
                percent(known.program_most),
                percent(known.mean),
                cases.len()
            ),
            difference: "The program that gains most is mcf or milc, whose cycles wait for memory most."
                .to_owned(),
        },
        Finding {
            what: "Workloads that N-MASS makes slower on average than the default (section 4.3)".to_owned(),
            paper: "none".to_owned(),
            ours: format!(
                "{} of {}, by at most {} %; maximum-local {}, by at most {} %",
                known.worse,
                cases.len(),
                percent((-known.least).max(0.0)),
                local.worse,
                percent((-local.least).max(0.0))
            ),
            difference: String::new(),
        },
        Finding {
            what: "All memory on one node: N-MASS against maximum-local (Fig. 11 and 12)".to_owned(),
            paper: "better in WL1, 7, 8, 9 and 11, elsewhere alike".to_owned(),
            ours: format!(
                "{} against {} % over the default on average; better in {} of {count}, worse in {}",
                percent(unbalanced.mean),
                percent(unbalanced_local.mean),
                beats.count(),
                loses.count()
            ),
            difference: "MPKI does not tell that a stream needs no cache, nor that a light program needs \
                         some. Algorithm 3 sends programs of low penalty away one after the other, and \
                         a stream ends up beside one that it takes the cache from: libquantum beside \
                         perlbench in WL5, lbm beside sphinx in WL7 and beside soplex in WL9. With \
                         eight programs all cores are busy, so that algorithm 3 has no free core to \
                         move anybody to and N-MASS is maximum-local."
                .to_owned(),
        },
        Finding {
            what: "Penalties from the line over MPKI, all memory on one node (section 4.5)".to_owned(),
            paper: "single programs lose over 5 % in four workloads, no workload more than by maximum-local"
                .to_owned(),
            ours: format!(
                "{} % over the default on average; a program loses {} % at most",
                percent(regression.mean),
                percent((-regression.program_least).max(0.0))
            ),
            difference: "Where the line's order of penalties differs from the profiles', another program \
                         is sent away, for better or worse."
                .to_owned(),
        },
    ]
}

/// Every case: the mean slowdown by default, and what the schemes change.
pub(super) fn figure(cases: &[Case]) -> StudyFigure {
    let mut header = strings(&["workload and map", "default, slowdown"]);
    header.extend(Scheme::ALL.iter().map(|scheme| format!("{}, %", scheme.name())));
    let mut rows: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            let mut row = vec![
                format!("WL{} {}", case.workload, case.map),
                format!("{:.3}", mean(&case.default)),
            ];
            row.extend(Scheme::ALL.map(|scheme| percent(case.improvement(scheme))));
            row
        })
        .collect();
    type Of = fn(&Over) -> f64;
    let lines: [(&str, Of); 3] =
        [("mean", |one| one.mean), ("least", |one| one.least), ("most", |one| one.most)];
    for (name, of) in lines {
        let mut row = strings(&[name, "-"]);
        row.extend(Scheme::ALL.map(|scheme| percent(of(&over(cases.iter(), scheme)))));
        rows.push(row);
    }
    StudyFigure {
        id: "cases".to_owned(),
        heading: "All workloads and maps".to_owned(),
        about:
            "Mean slowdown by default, and how much faster than by default the workload is, in %."
                .to_owned(),
        chart: None,
        header,
        rows,
    }
}

/// Four programs with all memory on one node: the best placement that there is, and N-MASS's.
pub(super) fn best_placements(runs: &Runs<'_>, cases: &[Case]) -> StudyFigure {
    let mut rows = Vec::new();
    for case in on_one_node(cases).filter(|case| case.programs().len() == 4) {
        let of = |nodes: &[usize]| {
            let programs = case.programs().iter().zip(nodes);
            let placed: Vec<(&str, usize, usize)> =
                programs.map(|(&bare, &node)| (bare, node, 0)).collect();
            mean(&runs.at_rest(&placed).iter().map(|one| one.slowdown).collect::<Vec<f64>>())
        };
        let all = (0u32..16).map(|mask| [0, 1, 2, 3].map(|place| (mask >> place & 1) as usize));
        let best = all.map(|nodes| (of(&nodes), nodes)).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((slowdown, nodes)) = best else { continue };
        let away = case.programs().iter().zip(nodes).filter(|(_, node)| *node == 1);
        let away: Vec<&str> = away.map(|(bare, _)| *bare).collect();
        let remote = if away.is_empty() { "nobody".to_owned() } else { away.join(", ") };
        rows.push(vec![
            format!("WL{}", case.workload),
            remote,
            percent(100.0 * (mean(&case.default) / slowdown - 1.0)),
            percent(case.improvement(Scheme::Known)),
            percent(case.improvement(Scheme::MaximumLocal)),
        ]);
    }
    StudyFigure {
        id: "best".to_owned(),
        heading: "Four programs, all memory on node 0: the best placement".to_owned(),
        about: "Of all 16, by the model at rest: who runs away from its memory, and how much faster the \
                workload is than by default, in %, beside the policies."
            .to_owned(),
        chart: None,
        header: strings(&["workload", "away", "best", "n-mass", "maximum-local"]),
        rows,
    }
}

/// Models of the machine: what is the policies' doing, and what the model's.
const MODELS: [(&str, SpaceLaw, BandwidthModel); 6] = [
    ("additive (the default)", SpaceLaw::FillTime, BandwidthModel::Additive),
    ("additive, space by misses", SpaceLaw::Proportional, BandwidthModel::Additive),
    ("morad", SpaceLaw::FillTime, BandwidthModel::Morad),
    ("stalls", SpaceLaw::FillTime, BandwidthModel::Stalls),
    ("simple", SpaceLaw::FillTime, BandwidthModel::Simple),
    ("none: cache and distance alone", SpaceLaw::FillTime, BandwidthModel::None),
];

/// The workloads of four programs with all memory on one node, under other models.
pub(super) fn under_other_models(ground: &Ground) -> Outcome<StudyFigure> {
    let mut rows = Vec::new();
    for (name, space, bandwidth) in MODELS {
        let options = ModelOptions { space, bandwidth, ..ModelOptions::default() };
        let cases = maps::on_one_node(
            &Runs::under(ground, options)?,
            &[Scheme::MaximumLocal, Scheme::Known],
        )?;
        let local = over(cases.iter(), Scheme::MaximumLocal);
        let known = over(cases.iter(), Scheme::Known);
        let better = cases.iter().filter(|case| {
            case.improvement(Scheme::Known) > case.improvement(Scheme::MaximumLocal) + NO_WORSE
        });
        rows.push(vec![
            name.to_owned(),
            percent(local.mean),
            percent(known.mean),
            percent(known.least),
            better.count().to_string(),
        ]);
    }
    Ok(StudyFigure {
        id: "models".to_owned(),
        heading: "Four programs with all memory on one node, under other models".to_owned(),
        about: "Mean over WL1 to WL9, in % over the default. Where the verdict changes with the model of \
                bandwidth, it is the model's."
            .to_owned(),
        chart: None,
        header: strings(&[
            "model",
            "maximum-local, %",
            "n-mass, %",
            "its least",
            "workloads better than maximum-local",
        ]),
        rows,
    })
}
