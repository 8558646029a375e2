//! The runs: services at loads, under a manner of sharing the machine.

use std::sync::Arc;

use corun_app::{Error, Result};
use corun_model::{LoadedProgram, Model};
use corun_policy::{BuildOptions, Nanoseconds, Policy};
use corun_profile::{Method, Service};
use corun_sim::{AppSpec, Experiment, Hooks};

use super::division::{FixedDivision, Held};
use crate::harness::StudyInputs;

/// Threads of a service: it can use every core.
pub(super) const THREADS: u32 = 8;
/// Cores and ways of the machine.
pub(super) const CORES: u32 = 8;
const WAYS: u32 = 20;
/// What a request takes alone on average, in seconds.
pub(super) const REQUEST_S: f64 = 0.002;
/// Standard deviation / mean of its instructions.
pub(super) const VARIATION: f64 = 0.5;
/// The target of the 99th percentile, as a multiple of that mean.
pub(super) const TARGET: f64 = 5.0;
/// Full load is found to this share of the requests at which all threads are busy.
const FULL_LOAD_STEP: f64 = 0.01;
/// Steps of the second service's load.
const STEPS: u32 = 10;

/// What runs beside the services.
pub(super) const BATCH: &str = "kernel-stencil";
/// A key-value store and a recogniser of speech, as Memcached and Sphinx in the paper.
pub(super) const SERVICES: [&str; 2] = ["memcached", "pocketsphinx"];

/// How the machine is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Unmanaged,
    Equal,
    Corun,
    Parties,
    /// PARTIES that takes nothing from a service but for another.
    Keeping,
    BestFixed,
}

impl Manner {
    pub(super) const ALL: [Self; 6] = [
        Self::Unmanaged,
        Self::Equal,
        Self::Corun,
        Self::Parties,
        Self::Keeping,
        Self::BestFixed,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unmanaged => "linux-default",
            Self::Equal => "equal parts",
            Self::Corun => "corun",
            Self::Parties => "parties",
            Self::Keeping => "parties:downsize-slack=1",
            Self::BestFixed => "best fixed",
        }
    }
}

/// How a run is managed.
struct Terms<'a> {
    /// Builds a policy for a seed.
    policy: Option<&'a dyn Fn(u64) -> Result<Box<dyn Policy>>>,
    /// Seconds before those that count.
    warm_up_s: f64,
}

/// Seconds before those that count where nothing is to be found out.
pub(super) const SETTLING_S: f64 = 2.0;

/// A service at full load.
struct FullService {
    program: Arc<LoadedProgram>,
    instructions: f64,
    requests_per_s: f64,
    target_ms: f64,
}

/// Two services, and what runs beside them.
pub(super) struct Scene {
    model: Arc<Model>,
    services: Vec<FullService>,
    batch: Vec<AppSpec>,
    /// Seconds that count in each run; before them, where a policy finds its division, and where it does not.
    seconds: f64,
    warm_up_s: f64,
    settling_s: f64,
}

impl Scene {
    pub(super) fn new(
        inputs: &StudyInputs,
        model: &Arc<Model>,
        (seconds, warm_up): (u32, u32),
    ) -> Result<Self> {
        let mut scene = Self {
            model: Arc::clone(model),
            services: Vec::new(),
            batch: Vec::new(),
            seconds: inputs.length_s(f64::from(seconds)),
            warm_up_s: inputs.length_s(f64::from(warm_up)),
            settling_s: inputs.length_s(SETTLING_S),
        };
        for name in SERVICES {
            let service = scene.measured_alone(inputs, inputs.shipped_on(model, name)?)?;
            scene.services.push(service);
        }
        Ok(scene)
    }

    /// Puts so many threads of [`BATCH`] beside the services.
    pub(super) fn put_beside(&mut self, inputs: &StudyInputs, batch: usize) -> Result<()> {
        let beside = AppSpec::new(inputs.shipped_on(&self.model, BATCH)?);
        let beside = AppSpec { instructions: Some(1_000_000_000_000), ..beside };
        self.batch = vec![beside; batch];
        Ok(())
    }

    /// Finds what full load is of a program, and its target.
    fn measured_alone(
        &self,
        inputs: &StudyInputs,
        program: Arc<LoadedProgram>,
    ) -> Result<FullService> {
        let best = self.model.solo(&program, LoadedProgram::WHOLE, 0).instructions_per_s;
        let busy_per_s = f64::from(THREADS) / REQUEST_S;
        let mut service = FullService {
            program,
            instructions: best * REQUEST_S,
            requests_per_s: busy_per_s,
            target_ms: TARGET * REQUEST_S * 1e3,
        };
        let (mut met, mut missed) = (0.0, 1.0);
        while missed - met > FULL_LOAD_STEP {
            let middle = f64::midpoint(met, missed);
            let apps = vec![service.app(middle, self.settling_s)];
            if self.meets(inputs, apps, 1, &self.unmanaged())? { met = middle } else { missed = middle }
        }
        service.requests_per_s = met * busy_per_s;
        Ok(service)
    }

    /// Full load of each service, in words.
    pub(super) fn full_loads(&self) -> Vec<String> {
        let of = |(name, one): (&&str, &FullService)| {
            let busy = 100.0 * one.requests_per_s * REQUEST_S / f64::from(THREADS);
            format!("{name} {:.0} requests/s, {busy:.0} % of what its threads could do", one.requests_per_s)
        };
        SERVICES.iter().zip(&self.services).map(of).collect()
    }

    fn parties(&self) -> u32 {
        SERVICES.len() as u32 + u32::from(!self.batch.is_empty())
    }

    /// By the scheduler alone.
    fn unmanaged(&self) -> Terms<'static> {
        Terms { policy: None, warm_up_s: self.settling_s }
    }

    /// Fixed divisions that are tried: equal parts, then all others.
    fn candidates(&self, inputs: &StudyInputs) -> Vec<FixedDivision> {
        let equal = FixedDivision::equal(self.parties(), CORES, WAYS);
        let mut all = FixedDivision::all(self.parties(), CORES, WAYS);
        all.retain(|one| *one != equal);
        all.insert(0, equal);
        all.into_iter().step_by(inputs.every(3, "fixed divisions")).collect()
    }

    /// How many these are.
    pub(super) fn divisions(&self, inputs: &StudyInputs) -> usize {
        self.candidates(inputs).len()
    }

    /// The greatest load of the second service in % at which both targets are met; 0 where there is none.
    pub(super) fn greatest(&self, inputs: &StudyInputs, load: u32, manner: Manner) -> Result<u32> {
        let (mut met, mut missed) = (0, STEPS + 1);
        let mut divisions = self.candidates(inputs);
        while missed - met > 1 {
            let middle = u32::midpoint(met, missed);
            let loads = [f64::from(load) / 100.0, f64::from(middle) / f64::from(STEPS)];
            let is_met = self.is_met(inputs, loads, manner, &mut divisions)?;
            if is_met { met = middle } else { missed = middle }
        }
        Ok(met * 100 / STEPS)
    }

    /// `divisions`: those to try where the best is looked for, in an order of which the one that meets the targets then is
    /// the first: most often that one meets them at the next load, too.
    fn is_met(
        &self,
        inputs: &StudyInputs,
        loads: [f64; 2],
        manner: Manner,
        divisions: &mut [FixedDivision],
    ) -> Result<bool> {
        let names = || SERVICES.map(str::to_owned).to_vec();
        let held = |division: FixedDivision| -> Result<bool> {
            let build = |_| Ok(Box::new(Held::new(division.clone(), names())) as Box<dyn Policy>);
            self.meets_with_all_seeds(inputs, loads, &Terms { policy: Some(&build), ..self.unmanaged() })
        };
        let online = |name: &str, parameters: &[(&str, f64)]| -> Result<bool> {
            let build = |seed| -> Result<Box<dyn Policy>> {
                let parameters =
                    parameters.iter().map(|&(key, value)| (key.to_owned(), value)).collect();
                let options = BuildOptions { seed, parameters };
                corun_policy::build(name, &options).map_err(Error::failed)
            };
            let warm_up_s = self.warm_up_s;
            let terms = Terms { policy: Some(&build), warm_up_s };
            self.meets_with_all_seeds(inputs, loads, &terms)
        };
        match manner {
            Manner::Unmanaged => self.meets_with_all_seeds(inputs, loads, &self.unmanaged()),
            Manner::Equal => held(FixedDivision::equal(self.parties(), CORES, WAYS)),
            Manner::Corun => online("corun", &[]),
            Manner::Parties => online("parties", &[]),
            Manner::Keeping => online("parties", &[("downsize-slack", 1.0)]),
            Manner::BestFixed => {
                for place in 0..divisions.len() {
                    let division = &divisions[place];
                    if self.has_cores_for(loads, division) && held(division.clone())? {
                        divisions[..=place].rotate_right(1);
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Could the cores of each service do its work, each as fast as alone? Where they could not its queue grows
    /// without end.
    fn has_cores_for(&self, loads: [f64; 2], division: &FixedDivision) -> bool {
        let wanted = loads.into_iter().zip(&self.services);
        let mut wanted = wanted.map(|(load, one)| load * one.requests_per_s * REQUEST_S);
        let has = |(cores, _): &(u32, u32)| wanted.next().is_none_or(|one| one < f64::from(*cores));
        division.parts.iter().all(has)
    }

    fn meets_with_all_seeds(
        &self,
        inputs: &StudyInputs,
        loads: [f64; 2],
        terms: &Terms<'_>,
    ) -> Result<bool> {
        for seed in 1..=u64::from(inputs.seeds) {
            let apps = self.services.iter().zip(loads);
            let apps = apps.map(|(one, load)| one.app(load, terms.warm_up_s));
            let apps = apps.chain(self.batch.iter().cloned()).collect();
            if !self.meets(inputs, apps, seed, terms)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Do all services meet their targets?
    fn meets(
        &self,
        inputs: &StudyInputs,
        apps: Vec<AppSpec>,
        seed: u64,
        terms: &Terms<'_>,
    ) -> Result<bool> {
        inputs.cancel.check()?;
        let mut one = Experiment::new(Arc::clone(&self.model), apps, Method::Window, seed);
        one.settings.placements = 0;
        one.settings.window = Nanoseconds::from_secs_f64(self.seconds + terms.warm_up_s);
        let policy = terms.policy.map(|build| build(seed)).transpose()?;
        let hooks = Hooks { cancel: Some(inputs.cancel.flag()), progress: None };
        Ok(corun_sim::meets_targets(&one, policy.into_iter().collect(), hooks)?)
    }
}

impl FullService {
    /// The service at a share of its full load.
    fn app(&self, load: f64, warm_up_s: f64) -> AppSpec {
        let service = Service {
            requests_per_s: load * self.requests_per_s,
            instructions: self.instructions,
            variation: Some(VARIATION),
            percentile: 99.0,
            target_ms: self.target_ms,
            warm_up_s,
        };
        AppSpec {
            threads: THREADS,
            service: Some(service),
            ..AppSpec::new(Arc::clone(&self.program))
        }
    }
}
