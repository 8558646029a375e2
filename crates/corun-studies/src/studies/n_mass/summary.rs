//! What it comes to: every case in a table, the paper's claims beside it, and the same under other
//! models of the machine.

use corun_app::Result;
use corun_model::{BandwidthModel, ModelOptions, SpaceLaw};

use super::maps::{self, Case};
use super::runs::{Runs, Scheme};
use super::{mean, percent};
use crate::harness::{Figure, PaperClaim, StudyInputs};

/// A workload is no worse when it loses less than this, in percent: an epoch of an hour, before
/// anything is measured.
const NO_WORSE: f64 = 0.05;

/// Figures of a scheme over cases, in percent against the default.
struct Over {
    mean: f64,
    least: f64,
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
        program_least: least(&programs),
        program_most: most(&programs),
        worse: workloads.iter().filter(|&&one| one < -NO_WORSE).count(),
    }
}

fn on_one_node(cases: &[Case]) -> impl Iterator<Item = &Case> + Clone {
    cases.iter().filter(|case| case.map.bytes().all(|digit| digit == b'0'))
}

pub(super) fn findings(cases: &[Case]) -> Vec<PaperClaim> {
    let known = over(cases.iter(), Scheme::Known);
    let local = over(cases.iter(), Scheme::MaximumLocal);
    let regression = over(on_one_node(cases), Scheme::Regression);
    let unbalanced = over(on_one_node(cases), Scheme::Known);
    let unbalanced_local = over(on_one_node(cases), Scheme::MaximumLocal);
    let ahead =
        |case: &&Case| case.improvement(Scheme::Known) > case.improvement(Scheme::MaximumLocal);
    let behind = |case: &&Case| {
        case.improvement(Scheme::Known) < case.improvement(Scheme::MaximumLocal) - NO_WORSE
    };
    let names = |of: &dyn Fn(&&Case) -> bool| {
        let names: Vec<String> = on_one_node(cases)
            .filter(|case| of(case))
            .map(|case| format!("WL{}", case.workload))
            .collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    vec![
        PaperClaim::new(
            "N-MASS over the default (abstract, Fig. 10)",
            "up to 32 % for a program, 7 % on average",
            format!(
                "up to {} % for a program, {} % on average over {} workloads and maps",
                percent(known.program_most),
                percent(known.mean),
                cases.len()
            ),
        )
        .noting(gains_most(cases)),
        PaperClaim::new(
            "Workloads that N-MASS makes slower on average than the default (section 4.3)",
            "none",
            format!(
                "{} of {}, by at most {} %; maximum-local {}, by at most {} %",
                known.worse,
                cases.len(),
                percent((-known.least).max(0.0)),
                local.worse,
                percent((-local.least).max(0.0))
            ),
        ),
        PaperClaim::new(
            "All memory on one node: N-MASS against maximum-local (Fig. 11 and 12)",
            "better in WL1, 7, 8, 9 and 11, elsewhere alike",
            format!(
                "{} against {} % over the default on average; better in {} of {}, worse in {}",
                percent(unbalanced.mean),
                percent(unbalanced_local.mean),
                on_one_node(cases).filter(ahead).count(),
                on_one_node(cases).count(),
                on_one_node(cases).filter(behind).count()
            ),
        )
        .noting(format!("better in {}; worse in {}", names(&ahead), names(&behind))),
        PaperClaim::new(
            "What a single program loses against the default at most, all memory on one node (section 4.4)",
            "3 % by N-MASS, 12 % by maximum-local",
            format!(
                "{} % by N-MASS, {} % by maximum-local",
                percent((-unbalanced.program_least).max(0.0)),
                percent((-unbalanced_local.program_least).max(0.0))
            ),
        ),
        PaperClaim::new(
            "Penalties from the line over MPKI, all memory on one node (section 4.5)",
            "single programs lose over 5 % in four workloads, no workload more than by maximum-local",
            format!(
                "{} % over the default on average; a program loses {} % at most",
                percent(regression.mean),
                percent((-regression.program_least).max(0.0))
            ),
        ),
    ]
}

/// Which program gains most by N-MASS, and where.
fn gains_most(cases: &[Case]) -> String {
    let gains = cases.iter().flat_map(|case| {
        let of_programs = case.programs().iter().zip(case.improvements(Scheme::Known));
        of_programs.map(move |(program, gain)| (gain, program, case))
    });
    let most = gains.max_by(|one, other| one.0.total_cmp(&other.0));
    most.map_or_else(String::new, |(_, program, case)| {
        format!("most for {program} in WL{} with map {}", case.workload, case.map)
    })
}

/// Every case: the mean slowdown by default, and what the schemes change.
pub(super) fn figure(cases: &[Case]) -> Figure {
    let about =
        "Mean slowdown by default, and how much faster than by default the workload is, in %.";
    let mut rows = Figure::new("cases", "All workloads and maps", about)
        .rows("workload and map", cases, |case| format!("WL{} {}", case.workload, case.map))
        .column("default, slowdown", 3, |case| mean(&case.default));
    for scheme in Scheme::ALL {
        let head = format!("{}, %", scheme.name());
        rows = rows.column(head, 1, |case| case.improvement(scheme));
    }
    rows.summary("mean", corun_metrics::mean)
        .summary("least", |values| values.iter().copied().reduce(f64::min))
        .summary("most", |values| values.iter().copied().reduce(f64::max))
        .table()
}

/// A workload's best placement: who runs away from its memory, and how much faster it is, in %.
struct BestPlacement<'a> {
    case: &'a Case,
    away: String,
    gain: f64,
}

impl<'a> BestPlacement<'a> {
    fn new(runs: &Runs<'_>, case: &'a Case) -> Option<Self> {
        let of = |nodes: &[usize]| {
            let programs = case.programs().iter().zip(nodes);
            let placed: Vec<(&str, usize, usize)> =
                programs.map(|(&bare, &node)| (bare, node, 0)).collect();
            mean(&runs.at_rest(&placed).iter().map(|one| one.slowdown).collect::<Vec<f64>>())
        };
        let all = (0u32..16).map(|mask| [0, 1, 2, 3].map(|place| (mask >> place & 1) as usize));
        let best = all.map(|nodes| (of(&nodes), nodes)).min_by(|a, b| a.0.total_cmp(&b.0));
        let (slowdown, nodes) = best?;
        let away = case.programs().iter().zip(nodes).filter(|(_, node)| *node == 1);
        let away: Vec<&str> = away.map(|(bare, _)| *bare).collect();
        let away = if away.is_empty() { "nobody".to_owned() } else { away.join(", ") };
        Some(Self { case, away, gain: 100.0 * (mean(&case.default) / slowdown - 1.0) })
    }
}

/// Four programs with all memory on one node: the best placement that there is, and N-MASS's.
pub(super) fn best_placements(runs: &Runs<'_>, cases: &[Case]) -> Figure {
    let of_four = on_one_node(cases).filter(|case| case.programs().len() == 4);
    let best: Vec<BestPlacement<'_>> =
        of_four.filter_map(|case| BestPlacement::new(runs, case)).collect();
    let about = "Of all 16, by the model at rest: who runs away from its memory, and how much faster the \
                 workload is than by default, in %, beside the policies.";
    Figure::new("best", "Four programs, all memory on node 0: the best placement", about)
        .rows("workload", &best, |one| format!("WL{}", one.case.workload))
        .words("away", |one| one.away.clone())
        .column("best", 1, |one| one.gain)
        .column("n-mass", 1, |one| one.case.improvement(Scheme::Known))
        .column("maximum-local", 1, |one| one.case.improvement(Scheme::MaximumLocal))
        .table()
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
pub(super) fn under_other_models(inputs: &StudyInputs) -> Result<Figure> {
    let under = |&(name, space, bandwidth): &(&'static str, SpaceLaw, BandwidthModel)| {
        let options = ModelOptions { space, bandwidth, ..ModelOptions::default() };
        let runs = Runs::under(inputs, options)?;
        Ok((name, maps::on_one_node(&runs, &[Scheme::MaximumLocal, Scheme::Known])?))
    };
    let models = MODELS.iter().step_by(inputs.every(2, "models")).map(under).collect::<Result<Vec<(&str, Vec<Case>)>>>()?;
    let better = |cases: &[Case]| {
        let is_better = |case: &&Case| {
            case.improvement(Scheme::Known) > case.improvement(Scheme::MaximumLocal) + NO_WORSE
        };
        cases.iter().filter(is_better).count() as f64
    };
    let about = "Mean over WL1 to WL9, in % over the default. Where the verdict changes with the model of \
                 bandwidth, it is the model's.";
    let heading = "Four programs with all memory on one node, under other models";
    Ok(Figure::new("models", heading, about)
        .rows("model", &models, |one| one.0.to_owned())
        .column("maximum-local, %", 1, |one| over(one.1.iter(), Scheme::MaximumLocal).mean)
        .column("n-mass, %", 1, |one| over(one.1.iter(), Scheme::Known).mean)
        .column("its least", 1, |one| over(one.1.iter(), Scheme::Known).least)
        .column("workloads better than maximum-local", 0, |one| better(&one.1))
        .table())
}
