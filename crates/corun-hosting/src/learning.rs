//! A host that learns what programs do from counters, and changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use corun_app::{Error, Result};
use corun_linux::Roots;
use corun_live::{
    Host, HostOptions, PerfSource, ProcessSelector, Processes, Rule, Source, StoredProfiles, Target,
};
use corun_machine::Machine;
use corun_model::Model;
use corun_policy::{
    CounterKind, CurveLearner, LearnedProgram, LibraryPredictor, Nanoseconds, Predictor,
};
use corun_profile::Library;

/// What is counted where the hardware can.
const COUNTERS: [CounterKind; 6] = [
    CounterKind::Instructions,
    CounterKind::Cycles,
    CounterKind::LlcMisses,
    CounterKind::LlcReferences,
    CounterKind::MemoryBytes,
    CounterKind::MemoryStalls,
];
/// After so many programs ended, the host is made anew: it would look for them for ever.
const MOST_ENDED: usize = 64;

/// A program that is counted: every process of a cgroup and of the groups below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedGroup {
    /// The program's name: groups of one name run one program.
    pub program: String,
    /// The group's path as in `/proc/PID/cgroup`.
    pub cgroup: String,
}

/// What a learning host goes by.
pub struct LearningSettings {
    /// Where the kernel's file systems are.
    pub roots: Roots,
    /// The machine that they are of.
    pub machine: Arc<Machine>,
    /// Profiles of programs that are known already: what others lose beside them is predicted by these.
    pub library: Library,
    /// Time between two looks.
    pub every: Nanoseconds,
    /// Of what was counted so long ago 1/e counts.
    pub window_s: f64,
}

/// Makes sources of counters for a host: for another host they have to begin anew.
type Sources = Box<dyn FnMut() -> Result<Vec<Box<dyn Source>>>>;

/// Learns what programs do from counters, and changes nothing.
pub struct Learning {
    settings: LearningSettings,
    sources: Sources,
    learner: CurveLearner,
    model: Arc<Model>,
    predictor: Arc<dyn Predictor>,
    host: Option<Host>,
    /// What the host was told of.
    counted: BTreeSet<CountedGroup>,
}

impl Learning {
    /// By the hardware's counters.
    ///
    /// # Errors
    /// Where they cannot be had, or there can be no model of the machine.
    pub fn by_hardware(settings: LearningSettings) -> Result<Self> {
        let roots = settings.roots.clone();
        let sources = move || -> Result<Vec<Box<dyn Source>>> {
            Ok(vec![Box::new(PerfSource::new(&roots, &COUNTERS).map_err(Error::failed)?)])
        };
        Self::new(settings, Box::new(sources))
    }

    /// By other sources of counters.
    ///
    /// # Errors
    /// Where they cannot be had, or there can be no model of the machine.
    pub fn new(settings: LearningSettings, mut sources: Sources) -> Result<Self> {
        // Better now than at the first look.
        sources()?;
        let model = Arc::new(Model::new(settings.machine.clone(), Default::default())?);
        let predictor: Arc<dyn Predictor> =
            Arc::new(LibraryPredictor::new(model.clone(), settings.library.clone()));
        let learner = CurveLearner::new(settings.every, settings.window_s);
        let counted = BTreeSet::new();
        Ok(Self { settings, sources, learner, model, predictor, host: None, counted })
    }

    /// Looks at the counters of these groups, at a moment that does not go back. Gives what could not be read, in words.
    ///
    /// # Errors
    /// Where the processes cannot be listed, or nothing counts any more. The next look begins anew.
    pub fn look(&mut self, groups: &[CountedGroup], now: Nanoseconds) -> Result<Vec<String>> {
        let wanted: BTreeSet<CountedGroup> = groups.iter().cloned().collect();
        if self.counted.difference(&wanted).count() > MOST_ENDED || wanted.is_empty() {
            self.host = None;
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let looked = self.look_at(&wanted, now);
        if looked.is_err() {
            self.host = None;
        }
        looked
    }

    fn look_at(
        &mut self,
        wanted: &BTreeSet<CountedGroup>,
        now: Nanoseconds,
    ) -> Result<Vec<String>> {
        let mut host = match self.host.take() {
            Some(host) => host,
            None => {
                self.counted.clear();
                self.new_host()?
            }
        };
        for new in wanted.difference(&self.counted) {
            let rule = Rule { cgroup: Some(new.cgroup.clone()), ..Rule::default() };
            let target = Target::new(new.program.as_str(), ProcessSelector::Rule(rule));
            host.add(target).map_err(Error::live)?;
        }
        self.counted.extend(wanted.iter().cloned());
        let tick = host.tick_at(now).map_err(Error::live)?;
        self.host = Some(host);
        Ok(tick.unread)
    }

    fn new_host(&mut self) -> Result<Host> {
        let LearningSettings { roots, machine, library, every, .. } = &self.settings;
        let mut policy = self.learner.policy();
        policy.predict_by(&self.predictor);
        let processes = Processes::new(roots, Vec::new()).map_err(Error::live)?;
        let mut sources = (self.sources)()?;
        let stored = StoredProfiles::new(roots, self.model.clone(), library.clone());
        sources.push(Box::new(stored));
        let options = HostOptions { tick_every: *every, interval: None };
        let host = Host::new(
            machine.clone(),
            vec![policy],
            Box::new(processes),
            sources,
            Vec::new(),
            roots.clone(),
            options,
        );
        host.map_err(Error::live)
    }

    /// What is known of the programs that ran since the look before the last, by name.
    pub fn running(&self) -> Vec<(String, LearnedProgram)> {
        if self.host.is_some() { self.learner.running() } else { Vec::new() }
    }
}
