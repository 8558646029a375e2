//! DINO beside the other policies for machines of several nodes.

use std::sync::Arc;

use corun_app::{ComparisonSetup, Error, PolicySpec, Result};
use corun_model::LoadedProgram;
use corun_optimal::{Goal, Objective, PlacementProblem, SearchLimits};
use corun_profile::Mix;
use corun_sim::{Observation, RunResult};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;

use crate::harness::StudyInputs;
use crate::simulate::{drawable, loaded_by_name, model_of};

/// Machines with two nodes, and how many programs run on each.
const MACHINES: [(&str, usize); 3] =
    [("opteron-2350", 8), ("2x-gold-6138-4c", 8), ("2x-e5-2650", 12)];

/// What all are measured from, first.
pub(super) const POLICIES: [&str; 6] =
    ["linux-default", "dio-2010", "dio", "n-mass", "dino:most-page-moves=0", "dino"];

/// Nodes of the search for a best placement.
const MOST_NODES: u64 = 50_000;
/// Time that each program takes alone, in seconds.
const SECONDS: f64 = 15.0;

/// A mix on a machine.
pub(super) struct NodeMix {
    pub(super) machine: &'static str,
    /// Mean slowdown with the best placement held throughout, and whether that is proven to be the best of the model.
    pub(super) best: f64,
    pub(super) is_proven: bool,
    /// As [`POLICIES`].
    pub(super) mean_slowdown: Vec<f64>,
    pub(super) migrations: Vec<f64>,
}

/// So many mixes on each machine for each seed.
pub(super) fn all(
    inputs: &StudyInputs,
    observation: &Observation,
    mixes: u32,
) -> Result<Vec<NodeMix>> {
    let jobs: Vec<(usize, u64)> = (0..MACHINES.len())
        .flat_map(|machine| {
            let each = move |seed: u64| {
                (0..u64::from(mixes)).map(move |mix| (machine, seed << 20 | mix))
            };
            (1..=u64::from(inputs.seeds)).flat_map(each)
        })
        .collect();
    jobs.into_par_iter().map(|(machine, seed)| one(inputs, observation, machine, seed)).collect()
}

fn one(
    inputs: &StudyInputs,
    observation: &Observation,
    machine: usize,
    seed: u64,
) -> Result<NodeMix> {
    inputs.cancel.check()?;
    let (machine, programs) = MACHINES[machine];
    let model = model_of(machine)?;
    let library = inputs.spec()?;
    let mut names = drawable(&model, library);
    names.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
    names.truncate(programs);
    let loaded = loaded_by_name(library, &names, |profile| Ok(Arc::new(model.load(profile)?)))?;
    let mut mix = Mix::of_apps(&names).map_err(Error::input)?;
    for (app, &name) in mix.apps.iter_mut().zip(&names) {
        let alone = model.solo(&loaded[name], LoadedProgram::WHOLE, 0);
        app.instructions = Some((inputs.length_s(SECONDS) * alone.instructions_per_s).ceil() as u64);
    }
    let mut setup =
        ComparisonSetup::on(model.clone(), library, &loaded, &mix, None, 1, Vec::new())?;
    setup.observation = Some(observation.clone());
    let mut found = NodeMix {
        machine,
        best: f64::NAN,
        is_proven: false,
        mean_slowdown: Vec::new(),
        migrations: Vec::new(),
    };
    for policy in POLICIES {
        let run = setup.run(&PolicySpec::parse(policy)?, seed, inputs.cancel.flag())?;
        found.mean_slowdown.push(mean_slowdown(&run));
        found.migrations.push(run.apps.iter().map(|app| app.migrations as f64).sum());
    }
    let programs: Vec<Arc<LoadedProgram>> =
        setup.apps.iter().map(|app| app.program.clone()).collect();
    let limits = SearchLimits {
        nodes: MOST_NODES,
        cancel: Some(inputs.cancel.flag()),
        ..SearchLimits::default()
    };
    let best = PlacementProblem::new(&model, &programs)?
        .placer()?
        .solve(Objective::MeanSlowdown, Goal::Best, &limits);
    found.best = mean_slowdown(&setup.held(&best.cpu, inputs.cancel.flag())?);
    found.is_proven = best.proven;
    Ok(found)
}

fn mean_slowdown(run: &RunResult) -> f64 {
    let slowdowns: Option<Vec<f64>> = run.apps.iter().map(|app| app.slowdown).collect();
    slowdowns.and_then(|all| corun_metrics::mean_slowdown(&all)).unwrap_or(f64::NAN)
}
