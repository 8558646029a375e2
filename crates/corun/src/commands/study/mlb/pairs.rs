//! Fig. 13: two programs of eight threads each, on all cores together or on half of them each.

use corun_machine::CpuSet;
use corun_metrics::mean;
use corun_profile::{Library, Method};
use corun_sim::AppSpec;

use super::bench::{Bench, DEFAULT};
use super::figure;
use crate::commands::study::paper::Ground;
use crate::failure::Outcome;
use crate::report::{Chart, ChartKind, Finding, StudyFigure, strings};

/// The paper's are of PARSEC, Rodinia and SPLASH-2, of which there is no profile here: recorded
/// programs of the library from streaming to none at all, as threads of one program each.
const PROGRAMS: [&str; 7] = [
    "kernel-triad",
    "kernel-stencil",
    "kernel-hash-join",
    "kernel-chase",
    "igraph",
    "lammps",
    "kernel-product",
];
const THREADS: u32 = 8;
/// Length of a program with its threads on all cores, about.
const SOLO_S: f64 = 4.0;

struct Pair {
    names: [&'static str; 2],
    level: f64,
    /// Mean time on halves over that on all cores.
    relative: f64,
}

pub(super) fn fig_13(
    ground: &Ground,
    bench: &Bench,
    library: &Library,
) -> Outcome<(StudyFigure, Finding)> {
    let mut pairs = Vec::new();
    for (place, &first) in PROGRAMS.iter().enumerate() {
        for &second in &PROGRAMS[place + 1..] {
            pairs.push(pair(ground, bench, library, [first, second])?);
        }
    }
    let better = pairs.iter().filter(|pair| pair.relative < 1.0).count();
    let contended: Vec<&Pair> = pairs.iter().filter(|pair| pair.level > 0.2).collect();
    let contended_better = contended.iter().filter(|pair| pair.relative < 1.0).count();
    let best = pairs.iter().min_by(|one, other| one.relative.total_cmp(&other.relative));
    let finding = Finding {
        what: "Pairs that are faster on halves of the cores (Fig. 13)".to_owned(),
        paper: "more than half of 21; of those with a level above 0.2 all but one; at best 46 % less time"
            .to_owned(),
        ours: format!(
            "{better} of {}; {contended_better} of {} with a level above 0.2; at best {:.0} % less",
            pairs.len(),
            contended.len(),
            best.map_or(f64::NAN, |pair| 100.0 * (1.0 - pair.relative))
        ),
        difference: "Other programs, whose threads share no lines here: each is a full occupant of \
                     the cache, and barriers are missing."
            .to_owned(),
    };
    let row = |pair: &Pair| {
        vec![pair.names.join(" + "), format!("{:.2}", pair.level), format!("{:.3}", pair.relative)]
    };
    let figure = figure(
        "fig-13",
        "Fig. 13: pairs of programs with eight threads on the Xeon E5-2690",
        "Placement 1: both on all eight cores. Placement 2: each on four of its own. The contention level is \
         that of placement 1. The programs are not the paper's.",
        Some(Chart {
            kind: ChartKind::BarsFrom(1.0),
            across: "pair".to_owned(),
            upwards: "time on halves / on all".to_owned(),
            labels: (1..=pairs.len()).map(|pair| pair.to_string()).collect(),
            series: vec![(
                "placement 2 / 1".to_owned(),
                pairs.iter().map(|pair| Some(pair.relative)).collect(),
            )],
        }),
        strings(&["pair", "level in placement 1", "time, placement 2 / 1"]),
        pairs.iter().map(row).collect(),
    );
    Ok((figure, finding))
}

fn pair(
    ground: &Ground,
    bench: &Bench,
    library: &Library,
    names: [&'static str; 2],
) -> Outcome<Pair> {
    let mut apps = Vec::new();
    for name in names {
        let program = bench.load(library.get(name)?)?;
        let rate = program.instructions()
            / program
                .phases
                .iter()
                .map(|phase| phase.instructions / phase.best_instructions_per_s)
                .sum::<f64>();
        let instructions = Some((rate * SOLO_S * f64::from(THREADS)) as u64);
        apps.push(AppSpec { threads: THREADS, instructions, ..AppSpec::new(program) });
    }
    let cpus: Vec<_> = bench.cpus.iter().collect();
    let (low, high) = cpus.split_at(cpus.len() / 2);
    let halves = [low, high].map(|half| CpuSet::from_iter(half.iter().copied()));
    let all = [bench.cpus.clone(), bench.cpus.clone()];
    let mut run = |places: [CpuSet; 2]| {
        for (app, place) in apps.iter_mut().zip(places) {
            app.may_run_on = Some(place);
            app.restart = Some(true);
        }
        let experiment = bench.experiment(apps.clone(), Method::FirstRun, 1);
        let ran = bench.run(ground, &experiment, DEFAULT)?;
        let times: Vec<f64> =
            ran.result.apps.iter().filter_map(|app| app.completion_s.first().copied()).collect();
        let levels: Vec<f64> = ran.samples.iter().map(|one| one.level()).collect();
        Outcome::Ok((mean(&times).unwrap_or(f64::NAN), mean(&levels).unwrap_or(f64::NAN)))
    };
    let (together_s, level) = run(all)?;
    let (apart_s, _) = run(halves)?;
    Ok(Pair { names, level, relative: apart_s / together_s })
}
