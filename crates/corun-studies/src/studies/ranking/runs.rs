//! The runs: a mix on a machine under every policy, and held in its best placements.

use std::sync::Arc;

use corun_app::{ComparisonSetup, Error, PolicySpec, Result};
use corun_model::{LoadedProgram, Model};
use corun_policy::{ActionKind, Policy};
use corun_optimal::{Goal, Objective, PlacementProblem, SearchLimits};
use corun_profile::{Library, Mix, Profile};
use corun_sim::{Observation, RunResult};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::kept::{Folder, KeptMix};
use super::moments::Moments;
use crate::harness::StudyInputs;
use crate::simulate::{drawable, loaded_by_name, model_of};

/// Nodes of the search for a best placement: a bound on its work that is the same everywhere.
const MOST_NODES: u64 = 50_000;

/// What is compared on one machine.
pub(super) struct Contest<'a> {
    inputs: &'a StudyInputs,
    pub(super) machine: &'static str,
    programs: usize,
    library: &'a Library,
    policies: &'a [&'a str],
    observation: Observation,
    /// Time that each program takes alone.
    seconds: f64,
    /// Where runs are kept.
    folder: Option<&'a Folder>,
    model: Arc<Model>,
    /// Names of the programs that mixes are drawn from.
    drawable: Vec<&'a str>,
}

/// What programs of a mix suffered, by objective: the mean over programs, the worst of them, and worst over
/// least.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Suffered {
    pub(super) mean: f64,
    pub(super) worst: f64,
    pub(super) unfairness: f64,
}

/// What could be reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Best {
    /// The best placement for each objective, held throughout.
    pub(super) held: Suffered,
    /// Are all three proven to be the best of the model?
    pub(super) is_proven: bool,
    /// The best placement of each moment beside the one of the least mean slowdown that is held.
    pub(super) moments: Moments,
}

/// A mix on a machine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MixResult {
    pub(super) machine: String,
    pub(super) programs: Vec<String>,
    pub(super) best: Best,
    /// In the order of the policies; none where a policy is not for this machine.
    pub(super) by_policy: Vec<Option<Suffered>>,
}

impl Suffered {
    /// Means over runs that differ in their seed.
    pub(super) fn over(runs: &[RunResult]) -> Option<Self> {
        let of = |run: &RunResult| -> Option<Self> {
            let slowdowns: Vec<f64> =
                run.apps.iter().map(|app| app.slowdown).collect::<Option<_>>()?;
            Some(Self {
                mean: corun_metrics::mean_slowdown(&slowdowns)?,
                worst: corun_metrics::worst_slowdown(&slowdowns)?,
                unfairness: corun_metrics::unfairness(&slowdowns)?,
            })
        };
        let each: Vec<Self> = runs.iter().map(of).collect::<Option<_>>()?;
        let mean = |figure: fn(&Self) -> f64| {
            corun_metrics::mean(&each.iter().map(figure).collect::<Vec<f64>>())
        };
        Some(Self {
            mean: mean(|one| one.mean)?,
            worst: mean(|one| one.worst)?,
            unfairness: mean(|one| one.unfairness)?,
        })
    }
}

impl<'a> Contest<'a> {
    pub(super) fn new(
        inputs: &'a StudyInputs,
        machine: &'static str,
        programs: usize,
        library: &'a Library,
        policies: &'a [&'a str],
        observation: Observation,
        (seconds, folder): (f64, Option<&'a Folder>),
    ) -> Result<Self> {
        let model = model_of(machine)?;
        let drawable = drawable(&model, library);
        if drawable.len() < programs {
            return Err(Error::input(format!(
                "{machine}: {} programs can be loaded, and {programs} are to run",
                drawable.len()
            )));
        }
        Ok(Self {
            inputs,
            machine,
            programs,
            library,
            policies,
            observation,
            seconds,
            folder,
            model,
            drawable,
        })
    }

    /// One mix: different programs, drawn by a seed.
    pub(super) fn play(&self, seed: u64) -> Result<MixResult> {
        self.inputs.cancel.check()?;
        let mut names = self.drawable.clone();
        names.shuffle(&mut Pcg64Mcg::seed_from_u64(seed));
        names.truncate(self.programs);
        let load = |profile: &Profile| self.inputs.loaded_on(&self.model, profile);
        let loaded = loaded_by_name(self.library, &names, load)?;
        let mut mix = Mix::of_apps(&names).map_err(Error::input)?;
        for (app, &name) in mix.apps.iter_mut().zip(&names) {
            let alone = self.model.solo(&loaded[name], LoadedProgram::WHOLE, 0);
            app.instructions = Some((self.seconds * alone.instructions_per_s).ceil() as u64);
        }
        let mut setup = ComparisonSetup::on(
            self.model.clone(),
            self.library,
            &loaded,
            &mix,
            None,
            self.inputs.seeds,
            Vec::new(),
        )?;
        setup.observation = Some(self.observation.clone());
        let mut kept = match self.folder {
            Some(folder) => folder.read(self.machine, seed, &names)?,
            None => KeptMix::default(),
        };
        let best = match kept.best {
            Some(best) => best,
            None => self.best(&setup, seed)?,
        };
        kept.best = Some(best);
        for &policy in self.policies {
            if !kept.by_policy.contains_key(policy) {
                let suffered = self.under(&setup, policy)?;
                kept.by_policy.insert(policy.to_owned(), suffered);
                if let Some(folder) = self.folder {
                    folder.write(self.machine, seed, &kept)?;
                }
            }
        }
        let by_policy = self.policies.iter().map(|&policy| kept.by_policy[policy]).collect();
        let programs = names.into_iter().map(str::to_owned).collect();
        Ok(MixResult { machine: self.machine.to_owned(), programs, best, by_policy })
    }

    /// Why a policy does not run on the machine; none where it does.
    pub(super) fn unfit_for(&self, policy: &str) -> Result<Option<String>> {
        let machine = self.model.machine();
        let divides = |one: &mut Box<dyn Policy>| {
            let needs = one.needs().controls.contains(&ActionKind::Partition);
            needs && !one.do_without(ActionKind::Partition)
        };
        let can_divide =
            machine.llcs().iter().any(|llc| llc.cache.is_some_and(|one| one.can_be_partitioned));
        let mut policies = PolicySpec::parse(policy)?.build(1)?;
        if let Some(why) = policies.iter().find_map(|one| one.unfit_for(machine)) {
            return Ok(Some(why));
        }
        let lacks = !can_divide && policies.iter_mut().any(divides);
        Ok(lacks.then(|| "its caches cannot be divided".to_owned()))
    }

    fn under(&self, setup: &ComparisonSetup, policy: &str) -> Result<Option<Suffered>> {
        if self.unfit_for(policy)?.is_some() {
            return Ok(None);
        }
        let policy = PolicySpec::parse(policy)?;
        let run = |seed| setup.run(&policy, seed, self.inputs.cancel.flag());
        let runs = (1..=u64::from(self.inputs.seeds)).map(run).collect::<Result<Vec<_>>>()?;
        Ok(Suffered::over(&runs))
    }

    /// The best placements by the model, one for each objective, and what programs suffer in them; and the best placement of
    /// each of some moments, which `seed` draws.
    fn best(&self, setup: &ComparisonSetup, seed: u64) -> Result<Best> {
        let programs: Vec<Arc<LoadedProgram>> =
            setup.apps.iter().map(|app| app.program.clone()).collect();
        let problem = PlacementProblem::new(&self.model, &programs)?;
        let limits = SearchLimits {
            nodes: MOST_NODES,
            cancel: Some(self.inputs.cancel.flag()),
            ..SearchLimits::default()
        };
        let mut is_proven = true;
        let mut held = |objective| -> Result<(Suffered, Vec<usize>)> {
            let found = problem.placer()?.solve(objective, Goal::Best, &limits);
            is_proven &= found.proven;
            let run = setup.held(&found.cpu, self.inputs.cancel.flag())?;
            let suffered = Suffered::over(&[run]);
            Ok((suffered.ok_or_else(|| Error::input("a program got nothing done"))?, found.cpu))
        };
        let (of_mean, cpus) = held(Objective::MeanSlowdown)?;
        let worst = held(Objective::MaxSlowdown)?.0.worst;
        let unfairness = held(Objective::Unfairness)?.0.unfairness;
        let moments = Moments::of(&self.model, &programs, &cpus, seed, &limits)?;
        Ok(Best { held: Suffered { mean: of_mean.mean, worst, unfairness }, is_proven, moments })
    }
}
