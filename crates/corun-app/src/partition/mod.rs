//! Who shares which ways of an LLC: by a policy, as given, or the best there is.

mod document;
mod masks;
mod optimum;
mod scenario;

use anyhow::anyhow;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use corun_model::Compatibility;
use corun_optimal::Goal;
use corun_optimal::partition::{Kind, PartitionObjective};
use corun_policy::{
    BuildOptions, Input, Partition, PolicyEntry, PolicyKind, WaysCurve, build_partitioner, registry,
};

pub use self::document::{
    ParetoDocument, ParetoEntry, PartitionDocument, PartitionEntry, PartitionFigures,
};
pub use self::scenario::PartitionScenario;
use crate::placement::TARGET_SLOWDOWN;
use crate::{Error, Result};

/// A policy that keeps everybody to a slowdown.
const KEEPS_TO_TARGET: &str = "fair-clusters";

/// The name of given masks.
const USER: &str = "user";

/// What is asked for.
#[derive(Debug, Clone)]
pub struct PartitionRequest {
    /// Masks, one a program; the policy is not asked then.
    pub masks: Vec<u64>,
    /// A partitioning policy, or `optimal` or `worst`.
    pub policy: Option<String>,
    /// May given masks overlap?
    pub allow_overlap: bool,
    /// May the optimum let programs share the ways of a cluster?
    pub cluster: bool,
    /// All policies and optima side by side?
    pub all: bool,
    /// What partitions are judged by.
    pub objective: PartitionObjective,
    /// How long a search may take, in seconds.
    pub time_limit_s: Option<f64>,
    /// Slowdown that nobody shall exceed: policies that know such a target keep to it, and every partition
    /// says who is slower by the model.
    pub target_slowdown: Option<f64>,
    /// The front of unfairness against throughput, too?
    pub pareto: bool,
    /// Policies' parameters.
    pub set: Vec<(String, f64)>,
    /// Seed of the policies that draw at random.
    pub seed: u64,
}

impl PartitionRequest {
    /// Looks at names alone.
    ///
    /// # Errors
    /// Nothing asked for, or a policy or parameter that is not known.
    pub fn check(&self) -> Result {
        Wanted::of(self)?;
        self.known_parameters()
    }

    /// Decides and judges.
    ///
    /// # Errors
    /// As [`Self::check`]; masks that cannot be; a policy or a search that has no partition for
    /// these programs; [`Error::Interrupted`] when the caller wants to stop.
    pub fn answer(
        &self,
        ground: &PartitionScenario,
        stop: &AtomicBool,
    ) -> Result<PartitionDocument> {
        let wanted = Wanted::of(self)?;
        self.known_parameters()?;
        let fits =
            ground.curves.len() as u64 * u64::from(ground.least_ways) <= u64::from(ground.ways);
        // With --all alone nobody asked for strict partitioning.
        let cluster = self.cluster || (self.policy.is_none() && !fits);
        let kind = if cluster { Kind::Cluster } else { Kind::Strict };
        let objective = self.objective;
        let search =
            |goal, kind| optimum::search(ground, objective, self.time_limit_s, (goal, kind), stop);
        let chosen = match wanted {
            Wanted::Masks(masks) => {
                let partition = masks::partition(masks, ground, self.allow_overlap)?;
                PartitionEntry::new(ground, USER, objective, &partition)
            }
            Wanted::Policy(name) => {
                let partition = self.decide(name, ground)?;
                PartitionEntry::new(ground, name, objective, &partition)
            }
            Wanted::Search(goal) => search(goal, kind)?,
        };
        let front = if self.pareto { Some(self.front(ground, kind, stop)?) } else { None };
        let mut others = Vec::new();
        if self.all {
            for kind in [Kind::Cluster, Kind::Strict] {
                let name = optimum::name(Goal::Best, kind);
                others.push(or_why_not(name, search(Goal::Best, kind))?);
            }
            for entry in policies() {
                let decided = self.decide(entry.name, ground);
                let entry_of =
                    |partition| PartitionEntry::new(ground, entry.name, objective, &partition);
                others.push(or_why_not(entry.name, decided.map(entry_of))?);
            }
            if chosen.policy == USER {
                others.push(chosen.clone());
            }
            let best = others.iter().filter(|entry| entry.proven.is_some());
            if let Some(best) = best.filter_map(|entry| entry.value).next() {
                others.iter_mut().for_each(|entry| entry.measure(objective, best));
            }
        }
        let mut document = PartitionDocument::new(ground, objective, chosen, others);
        document.pareto = front;
        if let Some(target) = self.target_slowdown {
            document.compare_with_target(target);
        }
        Ok(document)
    }

    fn front(
        &self,
        ground: &PartitionScenario,
        kind: Kind,
        stop: &AtomicBool,
    ) -> Result<ParetoDocument> {
        optimum::front(ground, self.time_limit_s, kind, stop)
    }

    /// What a policy decides.
    fn decide(&self, name: &str, ground: &PartitionScenario) -> Result<Partition> {
        let parameters = self.parameters(name, ground);
        let options = BuildOptions { seed: self.seed, parameters };
        let mut partitioner =
            build_partitioner(name, &options).map_err(|error| Error::input(error.to_string()))?;
        let curves: Vec<&WaysCurve> = ground.curves.iter().map(AsRef::as_ref).collect();
        let input = Input {
            curves: &curves,
            ways: ground.ways,
            least_ways: ground.least_ways,
            peak_bytes_per_s: ground.peak_bytes_per_s,
        };
        let mut partition = Partition::default();
        partitioner.partition(&input, &mut partition).map_err(|error| {
            let failure = Error::input(format!("{name}: {error}"));
            match error {
                corun_policy::PartitionError::TooManyPrograms { .. } => failure.hint(
                    "a policy that clusters programs: --policy fair-clusters, --policy lfoc or --policy kpart",
                ),
                _ => failure,
            }
        })?;
        if partition.cluster.len() != ground.curves.len() {
            return Err(Error::failed(anyhow!("{name} left a program out")));
        }
        Ok(partition)
    }

    /// # Errors
    /// Bad input for a parameter that no partitioning policy has.
    fn known_parameters(&self) -> Result {
        let known = || policies().flat_map(|entry| entry.parameters).map(|one| one.name);
        match self.set.iter().find(|(key, _)| !known().any(|name| name == key)) {
            Some((key, _)) => Err(Error::unknown("parameter", key, known())),
            None => Ok(()),
        }
    }

    /// The parameters that were set for a policy; with `--all`, those that it has.
    fn parameters(&self, name: &str, ground: &PartitionScenario) -> BTreeMap<String, f64> {
        let own = |key: &str| {
            let mut of_policy = policies().filter(|entry| entry.name == name);
            of_policy.any(|entry| entry.parameters.iter().any(|one| one.name == key))
        };
        let mut parameters = BTreeMap::new();
        // PBBCache grants one way short.
        if ground.scenario.model.options().compatibility == Compatibility::Pbbcache
            && own("one-way-short")
        {
            parameters.insert("one-way-short".to_owned(), 1.0);
        }
        if let Some(target) = self.target_slowdown.filter(|_| own(TARGET_SLOWDOWN)) {
            parameters.insert(TARGET_SLOWDOWN.to_owned(), target);
        }
        let set = self.set.iter().filter(|(key, _)| own(key) || !self.all);
        parameters.extend(set.cloned());
        parameters
    }
}

/// An entry, or one that says why there is no such partition.
fn or_why_not(name: &str, entry: Result<PartitionEntry>) -> Result<PartitionEntry> {
    match entry {
        Err(Error::Input { message, .. }) => Ok(PartitionEntry::without(name, message)),
        other => other,
    }
}

/// What was asked for beside `--all`.
enum Wanted<'a> {
    Masks(&'a [u64]),
    Policy(&'a str),
    Search(Goal),
}

impl<'a> Wanted<'a> {
    fn of(asked: &'a PartitionRequest) -> Result<Self> {
        if !asked.masks.is_empty() {
            if let Some(name) = &asked.policy {
                let message = format!("found policy `{name}` and masks: expected one of them");
                return Err(Error::input(message));
            }
            return Ok(Self::Masks(&asked.masks));
        }
        let Some(name) = asked.policy.as_deref() else {
            if asked.all || asked.pareto {
                return Ok(Self::Search(Goal::Best));
            }
            if asked.target_slowdown.is_some() {
                return Ok(Self::Policy(KEEPS_TO_TARGET));
            }
            let expected = "expected a policy, masks, --all, --pareto or --target-slowdown";
            return Err(Error::input(format!("nothing to partition by: {expected}"))
                .hint("--policy NAME, --masks 0x3,0x7c,.., or --all"));
        };
        match name {
            "optimal" => return Ok(Self::Search(Goal::Best)),
            "worst" => return Ok(Self::Search(Goal::Worst)),
            _ if policies().any(|entry| entry.name == name) => return Ok(Self::Policy(name)),
            _ => {}
        }
        if let Some(entry) = PolicyEntry::named(name) {
            if entry.kind() == PolicyKind::Partitioning {
                let message = format!(
                    "policy `{name}` decides by what it measures while programs run: there is nothing \
                     to decide beforehand"
                );
                return Err(Error::input(message).hint(format!("corun compare --policy {name} ..")));
            }
            let message = format!("policy `{name}` places programs and does not partition caches");
            return Err(Error::input(message).hint(format!("corun place --policy {name} ..")));
        }
        let known = ["optimal", "worst"].into_iter().chain(policies().map(|entry| entry.name));
        Err(Error::unknown("partitioning policy", name, known))
    }
}

/// The policies that partition.
fn policies() -> impl Iterator<Item = &'static PolicyEntry> {
    registry().iter().filter(|entry| entry.partitions_by_curves())
}
