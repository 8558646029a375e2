//! All that a sweep needs, resolved: it can be sent elsewhere, and says what there is to do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use corun_app::{Error, PolicySpec, Result, fingerprint};
use corun_model::{Compatibility, ModelOptions};
use corun_policy::{BuildOptions, Policy};
use corun_profile::{Library, Mix, Profile};
use serde::{Deserialize, Serialize};

use crate::description::{Description, ModelChoice, PolicyChoice};
use crate::generate::{NamedMix, Sources, machine_at};
use crate::task::{Bound, SweepTask, TaskKind};

/// The most tasks of a sweep.
pub(crate) const MOST_TASKS: usize = 10_000_000;

/// The most mixes of a sweep, which are all in memory.
pub(crate) const MOST_MIXES: usize = 1_000_000;

/// Inputs with their contents, and the tasks that follow from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// The version of corun that made it: another one may answer otherwise.
    pub version: String,
    pub(crate) machines: Vec<PlannedMachine>,
    /// Profile files' texts by name.
    pub(crate) profiles: BTreeMap<String, String>,
    pub(crate) mixes: Vec<PlannedMix>,
    pub(crate) policies: Vec<PlannedPolicy>,
    pub(crate) seeds: Vec<u64>,
    pub(crate) bounds: Vec<Bound>,
    pub(crate) model: PlannedModel,
    pub(crate) unfit: Vec<UnsuitedPolicy>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlannedMachine {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) hash: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlannedMix {
    pub(crate) name: String,
    pub(crate) mix: Mix,
    /// Of the mix and the profiles in it.
    pub(crate) hash: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlannedPolicy {
    /// The name shown, with parameters.
    pub(crate) label: String,
    name: String,
    parameters: BTreeMap<String, f64>,
    pub(crate) hash: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlannedModel {
    space: String,
    bandwidth: String,
    pbbcache: bool,
    peak_mb_per_s: Option<f64>,
    solo_peak_share: Option<f64>,
}

/// A policy that is not for a machine: its tasks there are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnsuitedPolicy {
    /// Index of the policy in the plan.
    policy: usize,
    /// Index of the machine in the plan.
    machine: usize,
    /// What is left out and why, in words.
    pub why: String,
}

impl PlannedModel {
    fn of(choice: &ModelChoice) -> Result<Self> {
        let own = ModelOptions::default();
        let named = |given: &Option<String>, own: String| given.clone().unwrap_or(own);
        let planned = Self {
            space: named(&choice.space, own.space.to_string()),
            bandwidth: named(&choice.bandwidth, own.bandwidth.to_string()),
            pbbcache: choice.pbbcache,
            peak_mb_per_s: choice.peak_mb_per_s,
            solo_peak_share: choice.solo_peak_share,
        };
        planned.options()?;
        Ok(planned)
    }

    /// Options that were checked before.
    pub(crate) fn of_options(options: &ModelOptions) -> Self {
        Self {
            space: options.space.to_string(),
            bandwidth: options.bandwidth.to_string(),
            pbbcache: options.compatibility == Compatibility::Pbbcache,
            peak_mb_per_s: options.peak_mb_per_s,
            solo_peak_share: options.solo_peak_share,
        }
    }

    pub(crate) fn options(&self) -> Result<ModelOptions> {
        if self.pbbcache {
            return Ok(ModelOptions::pbbcache(self.peak_mb_per_s));
        }
        let wrong = |why: String| Error::input(format!("[model]: {why}"));
        Ok(ModelOptions {
            space: self.space.parse().map_err(|error| wrong(format!("space: {error}")))?,
            bandwidth: self
                .bandwidth
                .parse()
                .map_err(|error| wrong(format!("bandwidth: {error}")))?,
            peak_mb_per_s: self.peak_mb_per_s,
            solo_peak_share: self.solo_peak_share,
            ..ModelOptions::default()
        })
    }
}

impl PlannedPolicy {
    fn of(choice: &PolicyChoice) -> Result<Self> {
        let name = choice.name().trim().to_owned();
        let parameters = match choice {
            PolicyChoice::NamedMix(_) => BTreeMap::new(),
            PolicyChoice::Tuned(tuned) => tuned.parameters.clone(),
        };
        let parts = corun_app::policy_names(&name)?;
        if parts.len() > 1 && !parameters.is_empty() {
            let message =
                format!("policy `{name}`: found parameters, which one policy alone takes");
            return Err(Error::input(message));
        }
        let shown: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let label =
            if shown.is_empty() { name.clone() } else { format!("{name}({})", shown.join(",")) };
        let hash = fingerprint(&(&name, &parameters));
        let planned = Self { label, name, parameters, hash };
        planned.build(0)?;
        Ok(planned)
    }

    fn build(&self, seed: u64) -> Result<Vec<Box<dyn Policy>>> {
        let options = BuildOptions { seed, parameters: self.parameters.clone() };
        let one = |part: &str| corun_policy::build(part, &options).map_err(Error::input);
        corun_app::policy_names(&self.name)?.into_iter().map(one).collect()
    }

    pub(crate) fn chosen(&self) -> PolicySpec {
        let own = self.clone();
        PolicySpec::custom(self.label.clone(), move |seed| own.build(seed))
    }
}

impl SweepPlan {
    /// Looks everything up that a description names. Paths in it are relative to `folder`.
    ///
    /// # Errors
    /// Bad input: a machine, program, policy, parameter or file that is not there or cannot be, too
    /// many tasks.
    pub fn new(description: &Description, folder: &Path) -> Result<Self> {
        let library = match &description.profiles {
            Some(path) => Library::load(&folder.join(path))?,
            None => Library::shipped()?,
        };
        let mut machines: Vec<_> = description
            .machines
            .iter()
            .map(|name| machine_at(folder, name))
            .collect::<Result<_>>()?;
        once(&mut machines, |machine| machine.to_toml());
        let sources = Sources { description, folder, library: &library, most: MOST_MIXES };
        let mixes = sources.mixes(&machines[0])?;
        let mut policies: Vec<PlannedPolicy> =
            description.policies.iter().map(PlannedPolicy::of).collect::<Result<_>>()?;
        once(&mut policies, |policy| policy.hash.clone());
        let mut unfit = Vec::new();
        for (policy, planned) in policies.iter().enumerate() {
            for (machine, on) in machines.iter().enumerate() {
                let built = planned.build(0)?;
                if let Some(why) = built.iter().find_map(|one| one.unfit_for(on)) {
                    let why = format!("{} on {}: {why}", planned.label, on.name());
                    unfit.push(UnsuitedPolicy { policy, machine, why });
                }
            }
        }
        let mut bounds = description.bounds.clone();
        bounds.sort_unstable();
        bounds.dedup();
        let mut seeds = description.seeds.each();
        once(&mut seeds, |&seed| seed);
        let mut plan = Self {
            version: crate::VERSION.to_owned(),
            machines: machines.iter().map(planned_machine).collect(),
            mixes: Vec::new(),
            profiles: BTreeMap::new(),
            policies,
            seeds,
            bounds,
            model: PlannedModel::of(&description.model)?,
            unfit,
        };
        plan.check_count(mixes.len())?;
        plan.profiles = profiles(&library, &mixes)?;
        let hashes = plan.profiles.iter().map(|(name, text)| (name.as_str(), fingerprint(text)));
        let hashes = hashes.collect();
        plan.mixes = mixes.into_iter().map(|named| planned_mix(named, &hashes)).collect();
        Ok(plan)
    }

    /// # Errors
    /// Too many tasks, or none. Asked before mixes are hashed, which takes long where they are many.
    fn check_count(&self, mixes: usize) -> Result {
        let tasks = self.count(mixes);
        if tasks > MOST_TASKS {
            let message = format!("found {tasks} tasks, expected at most {MOST_TASKS}");
            return Err(Error::input(message));
        }
        if tasks == 0 {
            let why: Vec<&str> = self.unfit.iter().map(|unfit| unfit.why.as_str()).collect();
            return Err(Error::input(format!("no task is left: {}", why.join("; "))));
        }
        Ok(())
    }

    /// What is left out, as no policy for its machine.
    pub fn unfit(&self) -> &[UnsuitedPolicy] {
        &self.unfit
    }

    /// The plan as bytes, for another process of the same version.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings, numbers, lists and maps with string keys alone.
        rmp_serde::to_vec_named(self).unwrap_or_default()
    }

    /// A plan from bytes.
    ///
    /// # Errors
    /// Bad input when they are no plan, or one that another version of corun made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let plan: Self = rmp_serde::from_slice(bytes)
            .map_err(|error| Error::input(format!("no plan of a sweep: {error}")))?;
        if plan.version != crate::VERSION {
            let (found, own) = (&plan.version, crate::VERSION);
            return Err(Error::input(format!(
                "the plan was made by corun {found}, and this is corun {own}: install the same \
                 version everywhere"
            )));
        }
        Ok(plan)
    }

    fn count(&self, mixes: usize) -> usize {
        let pairs = self.machines.len() * self.policies.len() - self.unfit.len();
        let runs = pairs.saturating_mul(mixes).saturating_mul(self.seeds.len());
        let bounds = usize::from(!self.bounds.is_empty());
        runs.saturating_add(bounds * self.machines.len() * mixes)
    }

    /// All tasks, in the order of the results: by machine, mix, policy and seed, bounds first.
    pub fn tasks(&self) -> Vec<SweepTask> {
        let mut tasks = Vec::with_capacity(self.count(self.mixes.len()));
        for machine in 0..self.machines.len() {
            let unfit: BTreeSet<usize> = self
                .unfit
                .iter()
                .filter(|unfit| unfit.machine == machine)
                .map(|unfit| unfit.policy)
                .collect();
            for mix in 0..self.mixes.len() {
                if !self.bounds.is_empty() {
                    tasks.push(SweepTask { machine, mix, ask: TaskKind::Bounds });
                }
                for policy in (0..self.policies.len()).filter(|policy| !unfit.contains(policy)) {
                    for &seed in &self.seeds {
                        tasks.push(SweepTask { machine, mix, ask: TaskKind::Run { policy, seed } });
                    }
                }
            }
        }
        tasks
    }

    /// The hash of everything that a task's answer depends on: the version, the machine, the mix
    /// with its profiles, the model's choices, and the policy with its parameters and the seed, or
    /// the bounds.
    pub fn hash(&self, task: &SweepTask) -> String {
        let ground = (
            &self.version,
            &self.machines[task.machine].hash,
            &self.mixes[task.mix].hash,
            &self.model,
        );
        match task.ask {
            TaskKind::Bounds => fingerprint(&(ground, "bounds", &self.bounds)),
            TaskKind::Run { policy, seed } => {
                fingerprint(&(ground, &self.policies[policy].hash, seed))
            }
        }
    }
}

/// Keeps the first of those that are equal.
pub(crate) fn once<T, K: Ord>(all: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let mut known = BTreeSet::new();
    all.retain(|one| known.insert(key(one)));
}

fn planned_machine(machine: &corun_machine::Machine) -> PlannedMachine {
    let text = machine.to_toml();
    PlannedMachine { name: machine.name().to_owned(), hash: fingerprint(&text), text }
}

/// The texts of all profiles that the mixes name.
fn profiles(library: &Library, mixes: &[NamedMix]) -> Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    for named in mixes {
        for name in named.mix.apps.iter().filter_map(|app| app.profile.as_deref()) {
            if !texts.contains_key(name) {
                let profile: &Profile = library.get(name)?;
                texts.insert(name.to_owned(), profile.to_toml());
            }
        }
    }
    Ok(texts)
}

/// `profiles`: the hash of each profile's text by name.
fn planned_mix(named: NamedMix, profiles: &BTreeMap<&str, String>) -> PlannedMix {
    let NamedMix { name, mix } = named;
    let used: Vec<Option<&String>> = mix
        .apps
        .iter()
        .map(|app| app.profile.as_deref().and_then(|profile| profiles.get(profile)))
        .collect();
    let hash = fingerprint(&(&mix, used));
    PlannedMix { name, mix, hash }
}
