//! Policies by name: what the registry says of each, and how one is built.

use std::collections::BTreeMap;

use corun_input::{did_you_mean, similar_names};

use crate::partitioning::policy::PartitionPolicy;
use crate::{ParameterKind, Partitioner, Policy, registry};

/// What the registry says of a policy.
#[derive(Debug, Clone, Copy)]
pub struct PolicyEntry {
    /// The name by which it is asked for, in kebab-case.
    pub name: &'static str,
    /// One line: what it does.
    pub summary: &'static str,
    /// Where it comes from: author, venue, year, section.
    pub source: &'static str,
    /// What can be set, beside the seed.
    pub parameters: &'static [Parameter],
    /// How it is built. The options have been checked against `parameters`; [`build`] does both.
    pub build: Build,
    /// Was it evaluated as it runs on a real machine?
    pub live: LiveForm,
}

/// Was a policy evaluated under live conditions: late looks, noise, readings that fail, counters that are
/// missing or take turns? Hosts of real machines refuse one that was not, unless the user insists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveForm {
    /// It does no more harm there than it does where it sees everything, or than none does.
    Evaluated {
        /// The test or the study that shows it.
        by: &'static str,
    },
    /// It was not, or it did harm.
    Untested {
        /// What is known, for people.
        why: &'static str,
    },
}

impl LiveForm {
    /// Evaluated by the test that runs every policy in simulation as live, `crates/corun-app/tests/live_form.rs`.
    pub const AS_LIVE: Self = Self::Evaluated { by: "crates/corun-app/tests/live_form.rs" };
}

/// How a policy is built.
#[derive(Debug, Clone, Copy)]
pub enum Build {
    /// A policy as such.
    Policy(fn(&BuildOptions) -> Box<dyn Policy>),
    /// One that partitions LLCs, from its partitioner.
    Partitioner {
        /// Builds the partitioner.
        build: fn(&BuildOptions) -> Box<dyn Partitioner>,
        /// Does it cap bandwidth too?
        caps: bool,
    },
    /// One that partitions LLCs by what it measures while programs run: without them there is
    /// nothing that it could decide on.
    Online(fn(&BuildOptions) -> Box<dyn Policy>),
}

/// What a policy decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Who runs where.
    Placement,
    /// Who has which ways of the LLC where it runs.
    Partitioning,
}

impl PolicyEntry {
    /// The policy of this name, where there is one.
    pub fn named(name: &str) -> Option<&'static Self> {
        registry().iter().find(|entry| entry.name == name)
    }

    /// What it decides.
    pub const fn kind(&self) -> PolicyKind {
        match self.build {
            Build::Policy(_) => PolicyKind::Placement,
            Build::Partitioner { .. } | Build::Online(_) => PolicyKind::Partitioning,
        }
    }

    /// Can it decide without a host, from curves alone ([`build_partitioner`])?
    pub const fn partitions_by_curves(&self) -> bool {
        matches!(self.build, Build::Partitioner { .. })
    }

    /// The entry of a partitioning policy.
    pub(crate) const fn partitioning(
        name: &'static str,
        summary: &'static str,
        source: &'static str,
        parameters: &'static [Parameter],
        build: fn(&BuildOptions) -> Box<dyn Partitioner>,
    ) -> Self {
        let build = Build::Partitioner { build, caps: false };
        Self { name, summary, source, parameters, build, live: LiveForm::AS_LIVE }
    }
}

/// What can be set when a policy is built: a number, or a choice that is written by name or by number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// Its name, in kebab-case, with the unit.
    pub name: &'static str,
    /// Which values it takes.
    pub kind: ParameterKind,
    /// The value where none is given.
    pub default: f64,
    /// The lowest value allowed.
    pub min: f64,
    /// The highest value allowed.
    pub max: f64,
    /// One line: what it does.
    pub summary: &'static str,
}

impl Parameter {
    /// How many there are in lists, of which the first is not empty.
    pub(crate) const fn count(lists: &[&[Self]]) -> usize {
        let (mut count, mut list) = (0, 0);
        while list < lists.len() {
            count += lists[list].len();
            list += 1;
        }
        count
    }

    /// Lists, one after the other: what a policy has of its own and of those that it is made of. `ALL` is their [`Self::count`].
    pub(crate) const fn joined<const ALL: usize>(lists: &[&[Self]]) -> [Self; ALL] {
        assert!(ALL == Self::count(lists), "as many as the lists have");
        let mut all = [lists[0][0]; ALL];
        let (mut count, mut list) = (0, 0);
        while list < lists.len() {
            let mut place = 0;
            while place < lists[list].len() {
                all[count] = lists[list][place];
                count += 1;
                place += 1;
            }
            list += 1;
        }
        all
    }
}

/// What a policy is built with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BuildOptions {
    /// Seed of the policies that draw at random; the same seed gives the same plans.
    pub seed: u64,
    /// Parameters by name; those not given keep their defaults.
    pub parameters: BTreeMap<String, f64>,
}

impl BuildOptions {
    /// The value given for a parameter, else its default.
    pub fn value(&self, parameter: &Parameter) -> f64 {
        self.parameters.get(parameter.name).copied().unwrap_or(parameter.default)
    }

    /// Is a switch ([`ParameterKind::SWITCH`]) on?
    pub(crate) fn is_on(&self, parameter: &Parameter) -> bool {
        self.value(parameter) != 0.0
    }
}

/// Why a policy was not built.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// There is no policy of this name.
    #[error("`{name}` is no policy{}: expected one of {known}", did_you_mean(*.nearest))]
    UnknownPolicy {
        /// The name that was found.
        name: String,
        /// The name that is most like it, where one is.
        nearest: Option<&'static str>,
        /// The names there are.
        known: String,
    },
    /// The policy places threads and does not partition.
    #[error("policy `{policy}` does not partition caches")]
    NoPartitioner {
        /// The policy.
        policy: &'static str,
    },
    /// The policy partitions by what it measures, and has no curves to decide from.
    #[error(
        "policy `{policy}` decides by what it measures while programs run, and not from curves"
    )]
    OnlyOnline {
        /// The policy.
        policy: &'static str,
    },
    /// The policy has no parameter of this name.
    #[error("policy `{policy}` has no parameter `{name}`: expected {known}")]
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// The name that was found.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A parameter's value cannot be.
    #[error("policy `{policy}`: parameter `{name}` is {value}: expected {expected}")]
    Value {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        name: &'static str,
        /// What was found.
        value: f64,
        /// What it may be, in words.
        expected: String,
    },
}

/// Builds the policy of a name.
///
/// # Errors
/// [`BuildError`] when there is no such policy, it has no such parameter, or a parameter does not
/// take the value.
pub fn build(name: &str, options: &BuildOptions) -> Result<Box<dyn Policy>, BuildError> {
    let entry = checked(name, options)?;
    Ok(match entry.build {
        Build::Policy(build) | Build::Online(build) => build(options),
        Build::Partitioner { build, caps } => {
            Box::new(PartitionPolicy::new(entry.name, build(options), caps))
        }
    })
}

/// Builds the partitioner of a policy's name: the decision alone, without a host.
///
/// # Errors
/// As [`build`], and [`BuildError::NoPartitioner`] for a policy that does not partition.
pub fn build_partitioner(
    name: &str,
    options: &BuildOptions,
) -> Result<Box<dyn Partitioner>, BuildError> {
    let entry = checked(name, options)?;
    match entry.build {
        Build::Partitioner { build, .. } => Ok(build(options)),
        Build::Policy(_) => Err(BuildError::NoPartitioner { policy: entry.name }),
        Build::Online(_) => Err(BuildError::OnlyOnline { policy: entry.name }),
    }
}

fn checked(name: &str, options: &BuildOptions) -> Result<&'static PolicyEntry, BuildError> {
    let entry = PolicyEntry::named(name).ok_or_else(|| unknown_policy(name))?;
    for (name, &value) in &options.parameters {
        check(entry, name, value)?;
    }
    Ok(entry)
}

fn check(entry: &PolicyEntry, name: &str, value: f64) -> Result<(), BuildError> {
    let Some(parameter) = entry.parameters.iter().find(|parameter| parameter.name == name) else {
        let names: Vec<&str> = entry.parameters.iter().map(|parameter| parameter.name).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(BuildError::UnknownParameter {
            policy: entry.name,
            name: name.to_owned(),
            known,
        });
    };
    if parameter.takes(value) {
        return Ok(());
    }
    let (policy, name, expected) = (entry.name, parameter.name, parameter.expected());
    Err(BuildError::Value { policy, name, value, expected })
}

fn unknown_policy(name: &str) -> BuildError {
    let names: Vec<&'static str> = registry().iter().map(|entry| entry.name).collect();
    let nearest = similar_names(name, &names).first().copied();
    let known = names.join(", ");
    BuildError::UnknownPolicy { name: name.to_owned(), nearest, known }
}
