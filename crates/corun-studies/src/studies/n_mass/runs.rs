//! Workloads on the paper's machine, under every schedule and under the policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::anyhow;
use corun_app::Result;
use corun_machine::{Machine, preset};
use corun_model::{
    LoadedProgram, Member, Model, ModelOptions, Outcome as Modelled, Running, Scratch,
};
use corun_policy::Nanoseconds;
use corun_profile::{Method, Profile};
use corun_sim::{AppSpec, Experiment, Hooks, RunResult, run_pinned};

use super::MACHINE;
use super::workloads::PROGRAMS;
use crate::harness::StudyInputs;
use crate::simulate::TunedPolicy;

/// Where nobody moves, programs of one phase run at one speed from the first moment to the last.
const PINNED_WINDOW: Nanoseconds = Nanoseconds(20_000_000_000);

/// The paper's hour (section 4.1) ends as two minutes do: all have their places after a second.
const WINDOW: Nanoseconds = Nanoseconds(120_000_000_000);

/// What is compared with the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scheme {
    /// Algorithm 2 alone.
    MaximumLocal,
    /// With penalties from the profiles; MPKI from them too, as in the paper.
    Known,
    /// With penalties from the machine's line over MPKI.
    Regression,
    /// With the line and MPKI as counted while the programs run.
    Measured,
}

impl Scheme {
    pub(super) const ALL: [Self; 4] =
        [Self::MaximumLocal, Self::Known, Self::Regression, Self::Measured];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MaximumLocal => "maximum-local",
            Self::Known => "n-mass",
            Self::Regression => "n-mass, regression",
            Self::Measured => "n-mass, all measured",
        }
    }

    fn policy(self) -> TunedPolicy {
        let (policy, parameters): (_, &[_]) = match self {
            Self::MaximumLocal => ("maximum-local", &[("profile-mpki", 1.0)]),
            Self::Known => ("n-mass", &[("profile-mpki", 1.0)]),
            Self::Regression => ("n-mass", &[("profile-mpki", 1.0), ("regression", 1.0)]),
            Self::Measured => ("n-mass", &[("regression", 1.0)]),
        };
        TunedPolicy { shown: self.name(), policy, parameters }
    }
}

/// The machine's model with the programs of all workloads.
pub(super) struct Runs<'a> {
    inputs: &'a StudyInputs,
    pub(super) model: Arc<Model>,
    pub(super) profiles: Vec<Profile>,
    programs: BTreeMap<&'static str, Arc<LoadedProgram>>,
}

impl<'a> Runs<'a> {
    pub(super) fn new(inputs: &'a StudyInputs) -> Result<Self> {
        Self::under(inputs, ModelOptions::default())
    }

    /// The same under other options of the model.
    pub(super) fn under(inputs: &'a StudyInputs, options: ModelOptions) -> Result<Self> {
        let machine = preset(MACHINE)?;
        let model = Arc::new(Model::new(Arc::new(machine), options)?);
        let library = inputs.spec()?;
        let (mut profiles, mut programs) = (Vec::new(), BTreeMap::new());
        for (bare, name) in PROGRAMS {
            let profile = library.get(name)?;
            programs.insert(bare, Arc::new(model.load(profile)?));
            profiles.push(profile.clone());
        }
        Ok(Self { inputs, model, profiles, programs })
    }

    pub(super) fn machine(&self) -> &Machine {
        self.model.machine()
    }

    pub(super) fn inputs(&self) -> &'a StudyInputs {
        self.inputs
    }

    /// A program by the paper's name.
    pub(super) fn program(&self, bare: &str) -> &Arc<LoadedProgram> {
        &self.programs[bare]
    }

    /// The first CPUs (indices) of each node.
    pub(super) fn cpus_of(&self, node: usize) -> Vec<usize> {
        let cpus = self.machine().cpus().iter().enumerate();
        cpus.filter(|(_, cpu)| cpu.node == node).map(|(index, _)| index).collect()
    }

    /// What the model says of programs at rest, each with the node it runs on and that of its memory.
    pub(super) fn at_rest(&self, running: &[(&str, usize, usize)]) -> Vec<Modelled> {
        let homes = [[1.0, 0.0], [0.0, 1.0]];
        let mut free = [self.cpus_of(0), self.cpus_of(1)];
        let running: Vec<Running<'_>> = running
            .iter()
            .map(|&(bare, node, home)| Running {
                member: Member {
                    program: self.program(bare),
                    phase: LoadedProgram::WHOLE,
                    cpu: free[node].remove(0),
                },
                home: &homes[home],
                group: None,
            })
            .collect();
        let mut out = Vec::new();
        self.model.solve(&running, &mut Scratch::new(), &mut out);
        out
    }

    fn experiment(&self, workload: &[&str], homes: &[usize], window: Nanoseconds) -> Experiment {
        let app = |(&bare, &home): (&&str, &usize)| AppSpec {
            name: bare.to_owned(),
            home: Some(home),
            ..AppSpec::new(Arc::clone(self.program(bare)))
        };
        let apps = workload.iter().zip(homes).map(app).collect();
        let mut experiment = Experiment::new(self.model.clone(), apps, Method::Window, 1);
        experiment.settings.window = window;
        experiment.settings.placements = 0;
        experiment
    }

    fn slowdowns(&self, result: &RunResult) -> Result<Vec<f64>> {
        let of = result.apps.iter().map(|app| app.slowdown);
        let none = || anyhow!("a program made no progress in its window");
        Ok(of.collect::<Option<Vec<f64>>>().ok_or_else(none)?)
    }

    /// Slowdowns with each program on a node for the whole time.
    pub(super) fn pinned(
        &self,
        workload: &[&str],
        homes: &[usize],
        nodes: &[usize],
    ) -> Result<Vec<f64>> {
        self.inputs.cancel.check()?;
        let mut free = [self.cpus_of(0), self.cpus_of(1)];
        let cpus: Vec<usize> = nodes.iter().map(|&node| free[node].remove(0)).collect();
        let hooks = Hooks { cancel: Some(self.inputs.cancel.flag()), progress: None };
        self.slowdowns(&run_pinned(&self.experiment(workload, homes, PINNED_WINDOW), &cpus, hooks)?)
    }

    /// The default: each program's mean slowdown over all schedules with half of them on each node.
    pub(super) fn default(&self, workload: &[&str], homes: &[usize]) -> Result<Vec<f64>> {
        let schedules = halves(workload.len());
        let mut sums = vec![0.0; workload.len()];
        for nodes in &schedules {
            let slowdowns = self.pinned(workload, homes, nodes)?;
            sums.iter_mut().zip(&slowdowns).for_each(|(sum, slowdown)| *sum += slowdown);
        }
        Ok(sums.into_iter().map(|sum| sum / schedules.len() as f64).collect())
    }

    /// Slowdowns under a policy.
    pub(super) fn scheduled(
        &self,
        workload: &[&str],
        homes: &[usize],
        scheme: Scheme,
    ) -> Result<Vec<f64>> {
        self.inputs.cancel.check()?;
        let policy = scheme.policy().build(1)?;
        let hooks = Hooks { cancel: Some(self.inputs.cancel.flag()), progress: None };
        let experiment = self.experiment(workload, homes, WINDOW);
        let result = corun_sim::run(&experiment, vec![policy], hooks)?;
        self.slowdowns(&result)
    }
}

/// All ways to have half of so many programs on each of two nodes.
pub(super) fn halves(count: usize) -> Vec<Vec<usize>> {
    (0u32..1 << count)
        .filter(|mask| mask.count_ones() as usize == count / 2)
        .map(|mask| (0..count).map(|place| (mask >> place & 1) as usize).collect())
        .collect()
}
