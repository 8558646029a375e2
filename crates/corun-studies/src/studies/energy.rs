//! Energy: what placement policies draw for the work that they do, and what that costs in slowdown, over seeded mixes.

use std::sync::Arc;

use corun_app::{ComparisonSetup, Error, PolicyFigures, PolicySpec, Result, figures};
use corun_metrics::mean;
use corun_model::{LoadedProgram, Model};
use corun_optimal::{Goal, Objective, PlacementProblem, SearchLimits, WithinTarget};
use corun_profile::{Library, Mix};
use corun_report::counted;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;

use super::ranking::{Half, half_of};
use crate::harness::{AsLiveArgs, Estimate, Figure, Page, Programs, Study, StudyInputs, no_options};
use crate::simulate::{drawable, loaded_by_name, model_of};

pub(super) const STUDY: Study = Study {
    name: "energy",
    summary: "Energy for the work done under placement policies, and its cost in slowdown, over seeded mixes",
    programs: Programs::BuiltIn,
    seeds: Some(20),
    has_quick: false,
    options: no_options,
    page,
    explained_in: "docs/policies.md",
};

/// The preset whose file has power figures.
const MACHINE: &str = "xeon-x5365";
/// Programs of a mix.
const SIZES: [usize; 4] = [2, 4, 6, 8];
/// Time that a program takes alone.
const SECONDS: f64 = 15.0;

const BASELINE: &str = "linux-default";
const POLICIES: [&str; 9] = [
    BASELINE,
    "linux-power-saving",
    "dio-power",
    "dio",
    "corun",
    "corun:objective=3",
    "corun:objective=3:target-slowdown=1.1",
    "corun:objective=4",
    "corun:objective=3:profiles=0",
];
/// The slowdown that nobody shall exceed under the policy and in the placement with such a target.
const TARGET_SLOWDOWN: f64 = 1.1;
/// The placements of least energy by the model, held throughout: of all, and of those in which nobody is slower than
/// [`TARGET_SLOWDOWN`], or where there are none the one in which the slowest is the least slow.
const OPTIMA: [&str; 2] = ["best placement by energy", "the same, nobody slower than 1.1"];

/// A mix under [`POLICIES`], then in [`OPTIMA`].
struct Played {
    size: usize,
    /// Are both optima proven?
    is_proven: bool,
    /// Is there a placement in which nobody is slower than [`TARGET_SLOWDOWN`]?
    has_kept: bool,
    under: Vec<PolicyFigures>,
}

fn page(inputs: &StudyInputs) -> Result<Page> {
    let model = model_of(MACHINE)?;
    let library = half_of(inputs.shipped()?.iter().collect(), Half::Judged)?;
    let jobs: Vec<(usize, u64)> = SIZES
        .into_iter()
        .flat_map(|size| (1..=u64::from(inputs.seeds)).map(move |seed| (size, seed)))
        .collect();
    let played: Vec<Played> = jobs
        .into_par_iter()
        .map(|(size, seed)| play(inputs, (&model, &library), size, seed))
        .collect::<Result<_>>()?;
    let proven = played.iter().filter(|one| one.is_proven).count();
    let kept = played.iter().filter(|one| one.has_kept).count();
    let about = format!(
        "{} of each number of programs, drawn by their seed from the half of the shipped programs on which policies are \
         judged, on {MACHINE}; policies see the machine as live ({}). Energy is above idle, for what a program does in \
         a second alone; with the delay it is times how many times as long that takes. Means over mixes, in % of the same mix \
         under {BASELINE}: below 0 is less. The best placements by the model's energy are proven on {proven} of {}, and \
         then simulated as the policies are. On {} there is a placement in which the model has nobody slower than \
         {TARGET_SLOWDOWN}; on the others the row is of the placement in which the slowest is the least slow.",
        counted(inputs.seeds as usize, "mix"),
        AsLiveArgs::default().settings(),
        counted(played.len(), "mix"),
        counted(kept, "mix")
    );
    let figures = SIZES.into_iter().map(|size| figure(size, &played)).collect();
    Ok(Page::new("Energy for the work done", about, Vec::new(), figures))
}

fn play(
    inputs: &StudyInputs,
    (model, library): (&Arc<Model>, &Library),
    size: usize,
    seed: u64,
) -> Result<Played> {
    inputs.cancel.check()?;
    let mut names = drawable(model, library);
    names.shuffle(&mut Pcg64Mcg::seed_from_u64(seed << 8 | size as u64));
    names.truncate(size);
    let loaded = loaded_by_name(library, &names, |profile| inputs.loaded_on(model, profile))?;
    let mut mix = Mix::of_apps(&names).map_err(Error::input)?;
    for (app, &name) in mix.apps.iter_mut().zip(&names) {
        let alone = model.solo(&loaded[name], LoadedProgram::WHOLE, 0);
        app.instructions = Some((SECONDS * alone.instructions_per_s).ceil() as u64);
    }
    let mut setup =
        ComparisonSetup::on(model.clone(), library, &loaded, &mix, None, 1, Vec::new())?;
    setup.observation = Some(AsLiveArgs::default().observation()?);
    let nothing_done = || Error::input("a program got nothing done");
    let mut under = Vec::new();
    for policy in POLICIES {
        let run = setup.run(&PolicySpec::parse(policy)?, seed, inputs.cancel.flag())?;
        under.push(figures(&[run]).ok_or_else(nothing_done)?);
    }
    let programs: Vec<Arc<LoadedProgram>> =
        setup.apps.iter().map(|app| app.program.clone()).collect();
    let limits = SearchLimits { cancel: Some(inputs.cancel.flag()), ..SearchLimits::default() };
    let problem = PlacementProblem::new(model, &programs)?;
    let placer = problem.placer()?;
    let best = placer.solve(Objective::Energy, Goal::Best, &limits);
    let (within, has_kept) =
        match placer.solve_within(TARGET_SLOWDOWN, Objective::Energy, &limits) {
            WithinTarget::Kept(found) => (found, true),
            WithinTarget::Exceeded(found) => (found, false),
        };
    for held in [&best, &within] {
        let run = setup.held(&held.cpu, inputs.cancel.flag())?;
        under.push(figures(&[run]).ok_or_else(nothing_done)?);
    }
    Ok(Played { size, is_proven: best.proven && within.proven, has_kept, under })
}

/// A table of the mixes of one size.
fn figure(size: usize, played: &[Played]) -> Figure {
    let mixes: Vec<&Played> = played.iter().filter(|one| one.size == size).collect();
    let rows: Vec<(usize, &str)> = POLICIES.into_iter().chain(OPTIMA).enumerate().collect();
    let changes = |place: usize, of: &dyn Fn(&PolicyFigures) -> Option<f64>| -> Option<Vec<f64>> {
        let change = |mix: &&Played| Some(100.0 * (of(&mix.under[place])? / of(&mix.under[0])? - 1.0));
        mixes.iter().map(change).collect()
    };
    let energy = |place: usize| changes(place, &|one| one.energy_per_work_j);
    let product = |place: usize| changes(place, &|one| one.energy_delay_per_work_j);
    let slowdown = |place: usize| changes(place, &|one| Some(one.mean_slowdown));
    let worst = |place: usize| {
        mean(&mixes.iter().map(|mix| mix.under[place].worst_slowdown).collect::<Vec<f64>>())
    };
    let beyond = |place: usize| {
        let over = mixes.iter().filter(|mix| mix.under[place].worst_slowdown > TARGET_SLOWDOWN);
        over.count() as f64
    };
    let heading = format!("{size} programs on {MACHINE}");
    let about = format!(
        "Change against {BASELINE} in %, with half the 95 % interval of the energy's; the slowest program's slowdown, mean over \
         mixes; of {} those in which a program is slower than 1.1",
        counted(mixes.len(), "mix")
    );
    Figure::new(format!("programs-{size}"), heading, about)
        .rows("policy", &rows, |(_, name)| (*name).to_owned())
        .column("energy", 1, |&(place, _)| mean(&energy(place)?))
        .column("+-", 1, |&(place, _)| Estimate::of(&energy(place)?).interval)
        .column("energy x delay", 1, |&(place, _)| mean(&product(place)?))
        .column("mean slowdown", 1, |&(place, _)| mean(&slowdown(place)?))
        .column("slowest", 3, |&(place, _)| worst(place))
        .column("mixes beyond 1.1", 0, |&(place, _)| beyond(place))
        .table()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(energy: f64, slowdown: f64) -> PolicyFigures {
        PolicyFigures {
            mean_slowdown: slowdown,
            stp: 1.0,
            unfairness: 1.0,
            worst_slowdown: slowdown,
            spread: None,
            worst_over_best: None,
            migrations: 0.0,
            llc_migrations: 0.0,
            slowdown: vec![slowdown],
            energy_per_work_j: Some(energy),
            energy_delay_per_work_j: Some(energy * slowdown),
        }
    }

    /// Two mixes, in which a policy takes 20 and 40 % less energy than the baseline: 30 % on average, and the mean
    /// of the interval's two ends is a standard error of 10 times 12.706.
    #[test]
    fn changes_are_those_worked_by_hand() {
        let mix = |energy: f64| {
            let mut each = vec![under(50.0, 1.0); POLICIES.len() + OPTIMA.len()];
            each[2] = under(energy, 1.2);
            Played { size: 4, is_proven: true, has_kept: true, under: each }
        };
        let figure = figure(4, &[mix(40.0), mix(30.0)]);
        assert_eq!(figure.column("energy")[..3], ["0.0", "0.0", "-30.0"]);
        assert_eq!(figure.column("+-")[2], "127.1");
        assert_eq!(figure.column("energy x delay")[2], "-16.0");
        assert_eq!(figure.column("mean slowdown")[2], "20.0");
        assert_eq!(figure.column("mixes beyond 1.1")[1..3], ["0", "2"]);
    }
}
