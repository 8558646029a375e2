//! The best placement, searched by several processes.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use corun_app::{
    Error, PlacementDocument, PlacementMethod, Result, Scenario, SearchProof, fingerprint,
};
use corun_model::{Demand, ModelOptions};
use corun_optimal::distributed::{
    Batch, BatchReport, Distribution, Grain, Incumbent, Pass, Prepared,
};
use corun_optimal::{Candidate, Goal, Objective, PlacementProblem};
use corun_profile::{Library, Profile};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::plan::PlannedModel;

/// The question, for another process of the same version.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Question {
    version: String,
    machine: String,
    profiles: Vec<String>,
    apps: Vec<String>,
    model: PlannedModel,
}

/// A placement that was found while a pass runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct BetterPlacement {
    pass: Pass,
    found: Candidate,
}

impl Question {
    fn of(scenario: &Scenario, apps: &[String]) -> Self {
        let mut profiles: Vec<String> = Vec::new();
        for profile in &scenario.profiles {
            let text = profile.to_toml();
            if !profiles.contains(&text) {
                profiles.push(text);
            }
        }
        Self {
            version: crate::VERSION.to_owned(),
            machine: scenario.machine().to_toml(),
            profiles,
            apps: apps.to_vec(),
            model: PlannedModel::of_options(&scenario.model.options()),
        }
    }

    fn scenario(&self) -> Result<Scenario> {
        if self.version != crate::VERSION {
            let (found, own) = (&self.version, crate::VERSION);
            return Err(Error::input(format!(
                "the search was begun by corun {found}, and this is corun {own}: install the same \
                 version everywhere"
            )));
        }
        let machine = corun_machine::Machine::from_toml(&self.machine, "the machine")?;
        let mut library = Library::default();
        for text in &self.profiles {
            let profile = Profile::from_toml(text, "a profile")?;
            let name = profile.name.clone();
            library.insert(profile, name)?;
        }
        Scenario::new(machine, &library, &self.apps, self.model.options()?)
    }
}

fn bytes<T: Serialize>(message: &T) -> Vec<u8> {
    // Numbers, strings, lists and structures of these.
    rmp_serde::to_vec_named(message).unwrap_or_default()
}

fn message<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    rmp_serde::from_slice(bytes)
        .map_err(|error| Error::input(format!("no message of this version of corun: {error}")))
}

/// Who coordinates a search.
pub struct SharedSearch {
    question: Question,
    scenario: Scenario,
    objective: Objective,
    goal: Goal,
    search: Distribution,
}

impl std::fmt::Debug for SharedSearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedSearch").field("search", &self.search).finish_non_exhaustive()
    }
}

impl SharedSearch {
    /// Splits the search for the best or the worst placement of programs, each on a CPU of its own,
    /// for so many workers.
    ///
    /// # Errors
    /// As [`PlacementMethod::place`].
    pub fn new(
        machine: corun_machine::Machine,
        library: &Library,
        apps: &[String],
        options: ModelOptions,
        (objective, goal): (Objective, Goal),
        workers: usize,
        grain: Grain,
    ) -> Result<Self> {
        let given = Scenario::new(machine, library, apps, options)?;
        given.one_cpu_each()?;
        objective.check(given.machine()).map_err(Error::from)?;
        let question = Question::of(&given, apps);
        // What the workers read, so that all see the same figures.
        let scenario = question.scenario()?;
        let problem = PlacementProblem::new(&scenario.model, &scenario.programs)?;
        let search = Distribution::new(&problem.placer()?, objective, goal, workers, grain);
        Ok(Self { question, scenario, objective, goal, search })
    }

    /// The question as bytes, for [`SearchWorker::new`].
    pub fn question(&self) -> Vec<u8> {
        bytes(&self.question)
    }

    /// A name for the question: the hash of all that it holds.
    pub fn hash(&self) -> String {
        fingerprint(&self.question)
    }

    /// Work for a worker that has none, with its number; none when there is nothing to hand out now.
    ///
    /// # Errors
    /// None but those of [`PlacementProblem::new`].
    pub fn next_batch(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let problem = PlacementProblem::new(&self.scenario.model, &self.scenario.programs)?;
        let batch = self.search.next_batch(&problem.placer()?);
        Ok(batch.map(|batch| (batch.id, bytes(&batch))))
    }

    /// Takes a worker's report.
    ///
    /// # Errors
    /// Bad input when it is none of this search.
    pub fn finish(&mut self, report: &[u8]) -> Result {
        let report: BatchReport = message(report)?;
        let problem = PlacementProblem::new(&self.scenario.model, &self.scenario.programs)?;
        self.search.finish(&problem.placer()?, report).map_err(Error::input)
    }

    /// Takes back the work of a worker that is gone.
    pub fn lost(&mut self, id: u64) {
        self.search.lost(id);
    }

    /// Takes the news that a worker found a better placement.
    ///
    /// # Errors
    /// Bad input when it is no such news.
    pub fn tighten(&mut self, news: &[u8]) -> Result {
        let BetterPlacement { pass, found } = message(news)?;
        self.search.tighten(&pass, &found);
        Ok(())
    }

    /// Is the answer there?
    pub fn is_done(&self) -> bool {
        self.search.is_done()
    }

    /// Parts that nobody looks into at present.
    pub fn parts_open(&self) -> usize {
        self.search.parts_open()
    }

    /// The best placement that is known, as [`PlacementMethod::place`] gives it, with the nodes visited and
    /// those that a bound cut.
    ///
    /// # Errors
    /// None but those of [`PlacementProblem::new`].
    pub fn answer(&self) -> Result<(PlacementDocument, u64, u64)> {
        let problem = PlacementProblem::new(&self.scenario.model, &self.scenario.programs)?;
        let found = self.search.result(&problem.placer()?);
        let proof = SearchProof {
            gap: found.gap,
            proven: Some(found.proven),
            solver_seconds: Some(found.seconds),
        };
        let name = PlacementMethod::Search(self.goal, None);
        let answer = PlacementDocument::new(
            &self.scenario,
            &found.cpu,
            Some(name.name()),
            self.objective,
            proof,
        );
        Ok((answer, found.nodes, found.pruned))
    }
}

type Hear = dyn Fn(Vec<u8>) + Send + Sync;

/// A pass with its tables and the best placement that is known in it.
struct PreparedPass {
    pass: Pass,
    prepared: Prepared<Demand>,
    incumbent: Incumbent,
}

/// A worker of a search; threads may share it.
pub struct SearchWorker {
    scenario: Scenario,
    ready: Mutex<Option<Arc<PreparedPass>>>,
    hear: Arc<Hear>,
}

impl std::fmt::Debug for SearchWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Searcher").finish_non_exhaustive()
    }
}

impl SearchWorker {
    /// Reads the question; `hear` is told at once of better placements that are found here, as
    /// news for [`SharedSearch::tighten`] and the other workers' [`Self::tighten`].
    ///
    /// # Errors
    /// Bad input when it is none, or one that another version of corun asked.
    pub fn new(question: &[u8], hear: impl Fn(Vec<u8>) + Send + Sync + 'static) -> Result<Self> {
        let question: Question = message(question)?;
        let scenario = question.scenario()?;
        Ok(Self { scenario, ready: Mutex::new(None), hear: Arc::new(hear) })
    }

    /// Looks into a batch for its slice of time; gives the report.
    ///
    /// # Errors
    /// Bad input when it is no batch.
    pub fn work(&self, batch: &[u8], stop: Option<&AtomicBool>) -> Result<Vec<u8>> {
        let batch: Batch = message(batch)?;
        let problem = PlacementProblem::new(&self.scenario.model, &self.scenario.programs)?;
        let placer = problem.placer()?;
        let ready = {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            match &*ready {
                Some(known) if known.pass == batch.pass => Arc::clone(known),
                _ => {
                    let (hear, pass) = (Arc::clone(&self.hear), batch.pass.clone());
                    let incumbent = Incumbent::new(batch.incumbent.clone()).telling(move |found| {
                        hear(bytes(&BetterPlacement { pass: pass.clone(), found: found.clone() }));
                    });
                    let prepared = placer.prepare(&batch.pass);
                    let made = PreparedPass { pass: batch.pass.clone(), prepared, incumbent };
                    Arc::clone(ready.insert(Arc::new(made)))
                }
            }
        };
        Ok(bytes(&placer.work(&ready.prepared, &batch, &ready.incumbent, stop)))
    }

    /// Prunes by what somebody else found from now on.
    ///
    /// # Errors
    /// Bad input when it is no such news.
    pub fn tighten(&self, news: &[u8]) -> Result {
        let BetterPlacement { pass, found } = message(news)?;
        // While the tables are being made there is nobody who could use it: the next batch has it.
        if let Ok(ready) = self.ready.try_lock()
            && let Some(ready) = ready.as_ref().filter(|ready| ready.pass == pass)
        {
            ready.incumbent.tighten(&found);
        }
        Ok(())
    }
}
