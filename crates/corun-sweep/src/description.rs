//! The description of a sweep, as a TOML file or a document. docs/scaling.md is its reference.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use corun_input::{Fault, FileError, PathStep, TomlFile};
use corun_profile::Method;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::task::Bound;

/// Most seeds a policy.
const MOST_SEEDS: u64 = 10_000;

/// What is to be asked: every machine with every mix, with every policy and every seed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Version of the schema: 1, also where absent.
    #[serde(default = "this_version")]
    pub version: u32,
    /// Presets, machine files or `this`.
    pub machines: Vec<String>,
    /// A table of solo figures, a profile or a folder of profiles; none: the shipped library.
    pub profiles: Option<PathBuf>,
    /// Policies; none: bounds alone.
    #[serde(default)]
    pub policies: Vec<PolicyChoice>,
    /// The seeds of each policy's runs.
    #[serde(default)]
    pub seeds: Seeds,
    /// Rows of the best and the worst placement, and of random ones.
    #[serde(default)]
    pub bounds: Vec<Bound>,
    /// Length of every program, in instructions; none: 150e9.
    pub instructions: Option<u64>,
    /// When a run ends and what counts, of mixes that are not files.
    #[serde(default)]
    pub method: Method,
    /// The model's choices.
    #[serde(default)]
    pub model: ModelChoice,
    /// Mixes one by one.
    #[serde(default)]
    pub mix: Vec<ListedMix>,
    /// All mixes of so many different programs.
    #[serde(default)]
    pub combinations: Vec<Combinations>,
    /// Mixes drawn at random.
    #[serde(default)]
    pub random: Vec<DrawnMixes>,
    /// Mixes drawn at random by class of program.
    #[serde(default)]
    pub classes: Vec<DrawnByClass>,
    /// Files with a mix a line.
    #[serde(default)]
    pub workloads: Vec<WorkloadFile>,
}

/// A policy, by name or with parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum PolicyChoice {
    /// `dio`, or two that act together, `dio+lfoc`.
    NamedMix(String),
    /// With parameters.
    Tuned(TunedPolicy),
}

// An untagged enum would say of a wrong parameter only that the whole is no policy.
impl<'de> Deserialize<'de> for PolicyChoice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ChoiceVisitor)
    }
}

struct ChoiceVisitor;

impl<'de> Visitor<'de> for ChoiceVisitor {
    type Value = PolicyChoice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a policy's name, or { name = \"..\", parameters = { .. } }")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<PolicyChoice, E> {
        Ok(PolicyChoice::NamedMix(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PolicyChoice, A::Error> {
        let tuned = TunedPolicy::deserialize(MapAccessDeserializer::new(map));
        tuned.map(PolicyChoice::Tuned)
    }
}

/// A policy with parameters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedPolicy {
    /// One policy.
    pub name: String,
    /// By name; those not given keep their defaults.
    #[serde(default, deserialize_with = "corun_policy::deserialize_parameters")]
    pub parameters: BTreeMap<String, f64>,
}

impl PolicyChoice {
    /// The policy's name.
    pub fn name(&self) -> &str {
        match self {
            Self::NamedMix(name) => name,
            Self::Tuned(tuned) => &tuned.name,
        }
    }
}

/// Which seeds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a number of seeds, from 1 up, or a list of seeds")]
pub enum Seeds {
    /// From 1 to this.
    Count(u64),
    /// These.
    Listed(Vec<u64>),
}

impl Default for Seeds {
    fn default() -> Self {
        Self::Count(1)
    }
}

impl Seeds {
    /// One by one.
    pub fn each(&self) -> Vec<u64> {
        match self {
            Self::Count(count) => (1..=*count).collect(),
            Self::Listed(listed) => listed.clone(),
        }
    }
}

/// The model's choices, by the names that the command line has.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelChoice {
    /// Law of space in a shared cache.
    pub space: Option<String>,
    /// Model of bandwidth.
    pub bandwidth: Option<String>,
    /// Do as the public simulator does.
    #[serde(default)]
    pub pbbcache: bool,
    /// Instead of the machine's, in MB/s (1e6 bytes a second).
    pub peak_mb_per_s: Option<f64>,
    /// The most that a program alone draws of a peak.
    pub solo_peak_share: Option<f64>,
}

/// A mix by its programs, or a mix file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedMix {
    /// The name shown; none: the programs, or the file.
    pub name: Option<String>,
    /// Programs; one may stand again.
    #[serde(default)]
    pub apps: Vec<String>,
    /// A mix file, beside the description or by its whole path.
    pub file: Option<PathBuf>,
}

/// All mixes of `size` different programs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combinations {
    /// Programs of a mix.
    pub size: usize,
    /// Out of these; none: the whole library.
    pub from: Option<Vec<String>>,
}

/// Mixes of programs drawn at random.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnMixes {
    /// Programs of a mix.
    pub size: usize,
    /// How many mixes.
    pub count: usize,
    /// The same seed draws the same mixes.
    #[serde(default)]
    pub seed: u64,
    /// Out of these; none: the whole library.
    pub from: Option<Vec<String>>,
    /// May a program stand in a mix twice?
    #[serde(default)]
    pub repeats: bool,
}

/// Mixes with so many programs of each class, drawn at random.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnByClass {
    /// How many mixes.
    pub count: usize,
    /// The same seed draws the same mixes.
    #[serde(default)]
    pub seed: u64,
    /// On which machine programs are classified; none: the first of the sweep.
    pub machine: Option<String>,
    /// Streaming programs of a mix.
    #[serde(default)]
    pub streaming: usize,
    /// Sensitive programs of a mix.
    #[serde(default)]
    pub sensitive: usize,
    /// Light-sharing programs of a mix.
    #[serde(default)]
    pub light_sharing: usize,
}

/// A file with a mix a line: programs with commas between them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// Beside the description, or by its whole path.
    pub file: PathBuf,
}

fn this_version() -> u32 {
    Description::VERSION
}

impl TomlFile for Description {
    const VERSION: u32 = 1;

    fn check(&self) -> Result<(), Fault> {
        if self.machines.is_empty() {
            return Err(refused("machines", "found none, expected at least one"));
        }
        if self.policies.is_empty() && self.bounds.is_empty() {
            return Err(refused("policies", "found none and no bounds, expected at least one"));
        }
        let seeds = self.seeds.each_len();
        if seeds == 0 || seeds > MOST_SEEDS {
            let why = format!("found {seeds} seeds, expected 1 to {MOST_SEEDS}");
            return Err(refused("seeds", why));
        }
        if self.instructions == Some(0) {
            return Err(refused("instructions", "found 0, expected a whole number >= 1"));
        }
        self.model.check()?;
        self.check_mixes()
    }
}

impl ModelChoice {
    fn check(&self) -> Result<(), Fault> {
        let given = [
            ("space", self.space.is_some()),
            ("bandwidth", self.bandwidth.is_some()),
            ("solo_peak_share", self.solo_peak_share.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) if self.pbbcache => {
                let why = "pbbcache chooses space, bandwidth and solo_peak_share: expected none of \
                           them beside it";
                Err(Fault {
                    path: vec![PathStep::Key("model"), PathStep::Key(key)],
                    why: why.into(),
                })
            }
            _ => Ok(()),
        }
    }
}

impl Description {
    /// Reads a description as a JSON document, as other programs make it.
    ///
    /// # Errors
    /// [`FileError`] as [`Self::from_toml`], without lines.
    pub fn from_json(text: &str) -> Result<Self, FileError> {
        let file = "the description";
        let description: Self = serde_json::from_str(text)
            .map_err(|error| FileError::whole(file, error.to_string()))?;
        let whole = |fault: Fault| FileError::of_fault(file, &fault);
        if description.version != Self::VERSION {
            let found = description.version;
            let why = format!("found {found}, expected {}", Self::VERSION);
            return Err(whole(refused("version", why)));
        }
        description.check().map_err(whole)?;
        Ok(description)
    }

    fn check_mixes(&self) -> Result<(), Fault> {
        let none = self.mix.is_empty()
            && self.combinations.is_empty()
            && self.random.is_empty()
            && self.classes.is_empty()
            && self.workloads.is_empty();
        if none {
            let why = "found no mix: expected [[mix]], [[combinations]], [[random]], [[classes]] \
                       or [[workloads]]";
            return Err(refused("mix", why));
        }
        for (index, mix) in self.mix.iter().enumerate() {
            let why = match (mix.apps.is_empty(), &mix.file) {
                (true, None) => "found no program and no file, expected programs or a file",
                (false, Some(_)) => "found programs and a file, expected either apps or file",
                _ => continue,
            };
            return Err(inside("mix", index, "apps", why));
        }
        for (index, all) in self.combinations.iter().enumerate() {
            positive("combinations", index, "size", all.size)?;
            some("combinations", index, all.from.as_deref())?;
        }
        for (index, drawn) in self.random.iter().enumerate() {
            positive("random", index, "size", drawn.size)?;
            positive("random", index, "count", drawn.count)?;
            some("random", index, drawn.from.as_deref())?;
        }
        for (index, drawn) in self.classes.iter().enumerate() {
            positive("classes", index, "count", drawn.count)?;
            let size = [drawn.streaming, drawn.sensitive, drawn.light_sharing];
            let size = size.into_iter().fold(0, usize::saturating_add);
            positive("classes", index, "sensitive", size)?;
        }
        Ok(())
    }
}

impl Seeds {
    fn each_len(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Listed(listed) => listed.len() as u64,
        }
    }
}

/// Programs of a mix and mixes of a generator at most.
const MOST: usize = 1_000_000;

fn positive(
    table: &'static str,
    index: usize,
    key: &'static str,
    found: usize,
) -> Result<(), Fault> {
    if (1..=MOST).contains(&found) {
        return Ok(());
    }
    Err(inside(table, index, key, format!("found {found}, expected 1 to {MOST}")))
}

/// # Errors
/// An empty list of programs to choose from, which is not the whole library.
fn some(table: &'static str, index: usize, from: Option<&[String]>) -> Result<(), Fault> {
    if from.is_none_or(|from| !from.is_empty()) {
        return Ok(());
    }
    let why = "found none, expected at least one program, or no `from` for the whole library";
    Err(inside(table, index, "from", why))
}

fn inside(table: &'static str, index: usize, key: &'static str, why: impl Into<String>) -> Fault {
    Fault {
        path: vec![PathStep::Key(table), PathStep::Index(index), PathStep::Key(key)],
        why: why.into(),
    }
}

fn refused(key: &'static str, why: impl Into<String>) -> Fault {
    Fault { path: vec![PathStep::Key(key)], why: why.into() }
}
