//! Answers to tasks.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use corun_app::{ComparisonSetup, Error, Result, figures};
use corun_model::{LoadedProgram, Model};
use corun_profile::{Library, Profile};
use serde::{Deserialize, Serialize};

use crate::plan::SweepPlan;
use crate::row::SweepRow;
use crate::task::{Bound, SweepTask, TaskKind};

/// The search for a bound ends by its number of nodes, never by the clock, so that the same inputs
/// give the same rows.
const NO_LIMIT_S: f64 = 1e9;

/// The rows of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRows {
    /// The task's place in [`SweepPlan::tasks`].
    pub task: usize,
    /// One row for a run, one a bound; one with an error where it failed.
    pub rows: Vec<SweepRow>,
}

/// Answers as bytes, for another process of the same version.
pub fn bytes_of(answers: &[TaskRows]) -> Vec<u8> {
    // Strings, numbers and lists of these.
    rmp_serde::to_vec_named(answers).unwrap_or_default()
}

/// Answers from the bytes of [`bytes_of`].
///
/// # Errors
/// Bad input when they are none.
pub fn answers(bytes: &[u8]) -> Result<Vec<TaskRows>> {
    rmp_serde::from_slice(bytes)
        .map_err(|error| Error::input(format!("no answers of this version of corun: {error}")))
}

/// A machine's model and the programs loaded on it.
struct LoadedMachine {
    model: Arc<Model>,
    loaded: Mutex<BTreeMap<String, Arc<LoadedProgram>>>,
}

/// Answers the tasks of a plan; threads may share it.
pub struct Runner {
    plan: SweepPlan,
    tasks: Vec<SweepTask>,
    library: Library,
    grounds: Vec<LoadedMachine>,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl Runner {
    /// Reads the plan's machines and profiles.
    ///
    /// # Errors
    /// Bad input when a figure in them cannot be.
    pub fn new(plan: SweepPlan) -> Result<Self> {
        let options = plan.model.options()?;
        let mut library = Library::default();
        for (name, text) in &plan.profiles {
            let profile = Profile::from_toml(text, name)?;
            library.insert(profile, name.clone())?;
        }
        let ground = |text: &str, name: &str| -> Result<LoadedMachine> {
            let machine = corun_machine::Machine::from_toml(text, name)?;
            let model = Arc::new(Model::new(Arc::new(machine), options)?);
            Ok(LoadedMachine { model, loaded: Mutex::default() })
        };
        let grounds = plan
            .machines
            .iter()
            .map(|machine| ground(&machine.text, &machine.name))
            .collect::<Result<_>>()?;
        let tasks = plan.tasks();
        Ok(Self { plan, tasks, library, grounds })
    }

    /// The plan.
    pub fn plan(&self) -> &SweepPlan {
        &self.plan
    }

    /// The plan's tasks.
    pub fn tasks(&self) -> &[SweepTask] {
        &self.tasks
    }

    /// Answers tasks one after the other. Those of one machine and mix that follow one another share
    /// what takes time to set up. A task that fails, in whatever way, has a row that says why.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when `stop` is set; [`Error::Input`] for a task that the plan does not
    /// have.
    pub fn answer(&self, tasks: &[usize], stop: &AtomicBool) -> Result<Vec<TaskRows>> {
        let mut answers = Vec::with_capacity(tasks.len());
        let mut ready: Option<((usize, usize), Result<ComparisonSetup>)> = None;
        for &index in tasks {
            let count = self.tasks.len();
            let task = self.tasks.get(index).ok_or_else(|| {
                Error::input(format!("task {index}: the plan has {count}, counted from 0"))
            })?;
            let pair = (task.machine, task.mix);
            if ready.as_ref().is_none_or(|(of, _)| *of != pair) {
                ready = Some((pair, self.setup(task)));
            }
            let rows = match &ready {
                Some((_, Ok(setup))) => self.rows(task, setup, stop),
                Some((_, Err(error))) => Err(Error::input(text_of(error))),
                None => Ok(Vec::new()),
            };
            let rows = match rows {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => vec![SweepRow { error: Some(text_of(&error)), ..self.blank(task) }],
                Ok(rows) => rows,
            };
            answers.push(TaskRows { task: index, rows });
        }
        Ok(answers)
    }

    /// The row of a task that could not be answered.
    pub fn failed(&self, index: usize, why: &str) -> TaskRows {
        let row = |task| SweepRow { error: Some(why.to_owned()), ..self.blank(task) };
        TaskRows { task: index, rows: self.tasks.get(index).map(row).into_iter().collect() }
    }

    fn setup(&self, task: &SweepTask) -> Result<ComparisonSetup> {
        let ground = &self.grounds[task.machine];
        let mix = &self.plan.mixes[task.mix].mix;
        let mut loaded = BTreeMap::new();
        for name in mix.apps.iter().filter_map(|app| app.profile.as_deref()) {
            if !loaded.contains_key(name) {
                loaded.insert(name.to_owned(), ground.load(self.library.get(name)?)?);
            }
        }
        let model = Arc::clone(&ground.model);
        ComparisonSetup::on(model, &self.library, &loaded, mix, None, 1, Vec::new())
    }

    fn rows(
        &self,
        task: &SweepTask,
        setup: &ComparisonSetup,
        stop: &AtomicBool,
    ) -> Result<Vec<SweepRow>> {
        let caught = catch_unwind(AssertUnwindSafe(|| match task.ask {
            TaskKind::Bounds => self.bounds(task, setup, stop),
            TaskKind::Run { policy, seed } => Ok(vec![self.run(task, setup, policy, seed, stop)?]),
        }));
        caught.unwrap_or_else(|panic| {
            let what = panic.downcast_ref::<String>().map(String::as_str);
            let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Err(Error::input(format!("corun has a fault of its own: {what}")))
        })
    }

    fn run(
        &self,
        task: &SweepTask,
        setup: &ComparisonSetup,
        policy: usize,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<SweepRow> {
        let run = setup.run(&self.plan.policies[policy].chosen(), seed, stop)?;
        let found = figures(&[run])
            .ok_or_else(|| Error::input("a program got nothing done, so there is no slowdown"))?;
        Ok(SweepRow {
            apps: setup.apps.iter().map(|app| app.name.clone()).collect(),
            mean_slowdown: Some(found.mean_slowdown),
            stp: Some(found.stp),
            unfairness: Some(found.unfairness),
            worst_slowdown: Some(found.worst_slowdown),
            migrations: Some(found.migrations),
            llc_migrations: Some(found.llc_migrations),
            slowdown: found.slowdown,
            ..self.blank(task)
        })
    }

    fn bounds(
        &self,
        task: &SweepTask,
        setup: &ComparisonSetup,
        stop: &AtomicBool,
    ) -> Result<Vec<SweepRow>> {
        let found = setup.bounds(NO_LIMIT_S, stop)?.map_err(Error::input)?;
        let row_of = |bound: Bound, row: corun_app::ComparisonRow| SweepRow {
            policy: bound.name().to_owned(),
            kind: bound.name().to_owned(),
            apps: setup.apps.iter().map(|app| app.name.clone()).collect(),
            mean_slowdown: Some(row.mean_slowdown),
            stp: row.stp,
            unfairness: row.unfairness,
            worst_slowdown: row.worst_slowdown,
            standard_error: row.standard_error,
            proven: row.optimal_proven,
            slowdown: row.slowdown,
            ..self.blank(task)
        };
        let mut rows = Vec::new();
        for &bound in &self.plan.bounds {
            let row = match bound {
                Bound::Optimal => Some(found.optimal.clone()),
                Bound::Expected => found.expectation.clone(),
                Bound::Worst => Some(found.worst.clone()),
            };
            rows.extend(row.map(|row| row_of(bound, row)));
        }
        Ok(rows)
    }

    /// A task's row without figures.
    fn blank(&self, task: &SweepTask) -> SweepRow {
        let (machine, mix) = (&self.plan.machines[task.machine], &self.plan.mixes[task.mix]);
        let policy = match task.ask {
            TaskKind::Bounds => None,
            TaskKind::Run { policy, seed } => Some((&self.plan.policies[policy], seed)),
        };
        let kind = if policy.is_some() { "run" } else { "bounds" };
        SweepRow {
            machine: machine.name.clone(),
            mix: mix.name.clone(),
            apps: mix.mix.apps.iter().map(|app| app.shown_name().to_owned()).collect(),
            policy: policy.map_or("bounds", |(policy, _)| &policy.label).to_owned(),
            kind: kind.to_owned(),
            seed: policy.map(|(_, seed)| seed),
            machine_hash: machine.hash.clone(),
            mix_hash: mix.hash.clone(),
            policy_hash: policy.map(|(policy, _)| policy.hash.clone()).unwrap_or_default(),
            hash: self.plan.hash(task),
            version: self.plan.version.clone(),
            ..SweepRow::default()
        }
    }
}

impl LoadedMachine {
    fn load(&self, profile: &Profile) -> Result<Arc<LoadedProgram>> {
        let known = || self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = known().get(&profile.name) {
            return Ok(Arc::clone(program));
        }
        // Not under the lock: others need not wait. Whoever comes first is kept by all.
        let program = Arc::new(self.model.load(profile)?);
        Ok(Arc::clone(known().entry(profile.name.clone()).or_insert(program)))
    }
}

fn text_of(error: &Error) -> String {
    error.to_string()
}
