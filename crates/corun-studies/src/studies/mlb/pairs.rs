//! Fig. 13: two programs of eight threads each, on all cores together or on half of them each.

use corun_app::{Error, Result};
use corun_machine::CpuSet;
use corun_profile::{Library, Method};
use corun_sim::AppSpec;

use super::platform::{DEFAULT, Platform, mean_of};
use crate::harness::{Figure, PaperClaim, StudyInputs};

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
    inputs: &StudyInputs,
    platform: &Platform,
    library: &Library,
) -> Result<(Figure, Vec<PaperClaim>)> {
    let mut pairs = Vec::new();
    for (place, &first) in PROGRAMS.iter().enumerate() {
        for &second in &PROGRAMS[place + 1..] {
            pairs.push(pair(inputs, platform, library, [first, second])?);
        }
    }
    let better = pairs.iter().filter(|pair| pair.relative < 1.0).count();
    let contended: Vec<&Pair> = pairs.iter().filter(|pair| pair.level > 0.2).collect();
    let contended_better = contended.iter().filter(|pair| pair.relative < 1.0).count();
    let least = pairs.iter().map(|pair| pair.relative).fold(f64::INFINITY, f64::min);
    let finding = PaperClaim::new(
        "Pairs that are faster on halves of the cores (Fig. 13)",
        "more than half of 21; of those with a level above 0.2 all but one; at best 46 % less time",
        format!(
            "{better} of {}; {contended_better} of {} with a level above 0.2; at best {:.0} % less",
            pairs.len(),
            contended.len(),
            100.0 * (1.0 - least)
        ),
    );
    let about = "Placement 1: both on all eight cores. Placement 2: each on four of its own. The \
                 contention level is that of placement 1. The programs are not the paper's; their \
                 threads share no lines, and there are no barriers.";
    let heading = "Fig. 13: pairs of programs with eight threads on the Xeon E5-2690";
    let numbered: Vec<(usize, &Pair)> = (1..).zip(&pairs).collect();
    let figure = Figure::new("fig-13", heading, about)
        .rows("pair", &numbered, |(_, pair)| pair.names.join(" + "))
        .labelled(|(number, _)| number.to_string())
        .column("level in placement 1", 2, |(_, pair)| pair.level)
        .column("time, placement 2 / 1", 3, |(_, pair)| pair.relative)
        .drawn("placement 2 / 1")
        .bars(1.0, "time on halves / on all");
    Ok((figure, vec![finding]))
}

fn pair(
    inputs: &StudyInputs,
    platform: &Platform,
    library: &Library,
    names: [&'static str; 2],
) -> Result<Pair> {
    let mut apps = Vec::new();
    for name in names {
        let program = platform.load(library.get(name)?)?;
        let rate = program.instructions()
            / program
                .phases
                .iter()
                .map(|phase| phase.instructions / phase.best_instructions_per_s)
                .sum::<f64>();
        let instructions = Some((rate * SOLO_S * f64::from(THREADS)) as u64);
        apps.push(AppSpec { threads: THREADS, instructions, ..AppSpec::new(program) });
    }
    let cpus: Vec<_> = platform.cpus.iter().collect();
    let (low, high) = cpus.split_at(cpus.len() / 2);
    let halves = [low, high].map(|half| CpuSet::from_iter(half.iter().copied()));
    let all = [platform.cpus.clone(), platform.cpus.clone()];
    let mut run = |places: [CpuSet; 2]| {
        for (app, place) in apps.iter_mut().zip(places) {
            app.may_run_on = Some(place);
            app.restart = Some(true);
        }
        let experiment = platform.experiment(apps.clone(), Method::FirstRun, 1);
        let ran = platform.run(inputs, &experiment, DEFAULT)?;
        let level = mean_of(ran.samples.iter().map(|one| one.level()));
        Ok::<_, Error>((mean_of(ran.first_times(0..names.len())), level))
    };
    let (together_s, level) = run(all)?;
    let (apart_s, _) = run(halves)?;
    Ok(Pair { names, level, relative: apart_s / together_s })
}
