//! Which events this machine's counters know, and how the kernel is asked for each.

mod encode;
mod format;
mod generic;
mod platform;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use corun_machine::CpuSet;

pub use encode::EventError;
pub use platform::{Meaning, PlatformEvent, PlatformEvents};

use crate::{Roots, files};
use format::Format;

/// How the kernel is asked for an event on one kind of counter (`perf_event_attr`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoding {
    /// The kernel's number of the kind of counter: `type`.
    pub kind: u32,
    /// `config`.
    pub config: u64,
    /// `config1`.
    pub config1: u64,
    /// `config2`.
    pub config2: u64,
    /// `config3`.
    pub config3: u64,
    /// Is only what programs do counted?
    pub user_only: bool,
    /// Is only what the kernel does counted?
    pub kernel_only: bool,
    /// Index among the machine's kinds of core counters, where it counts on those alone: its
    /// counts add up with those of the other kinds.
    pub core: Option<usize>,
}

/// An event that was asked for by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerfEvent {
    /// As it was asked for.
    pub name: String,
    /// One for each kind of core that has it, or one.
    pub encodings: Vec<Encoding>,
    /// Does it count nanoseconds?
    pub is_time: bool,
    /// Is it the kernel that counts, rather than hardware?
    pub is_software: bool,
}

/// A kind of counter that the kernel shows: `/sys/bus/event_source/devices/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pmu {
    /// Its name: `cpu`, `cpu_core`, `uncore_imc_0`.
    pub name: String,
    /// The kernel's number of it.
    pub kind: u32,
    /// Does it sit in cores, so that it can count for a thread?
    pub is_core: bool,
    /// Does it count outside of cores, for all that share something? (It has a `cpumask`.)
    pub is_uncore: bool,
    /// The CPUs that have it; none: all.
    pub cpus: Option<CpuSet>,
    formats: BTreeMap<String, Format>,
    /// The kernel's own names and what they stand for.
    pub(super) events: BTreeMap<String, String>,
}

/// The counters of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pmus {
    /// By name.
    all: Vec<Pmu>,
    is_told: bool,
}

impl Pmus {
    /// Reads what the kernel shows under `/sys/bus/event_source/devices`; what cannot be read there
    /// is left out.
    pub fn read(roots: &Roots) -> Self {
        let folder = roots.sys.join("bus/event_source/devices");
        let names = files::names(&folder);
        let is_told = names.is_some();
        let all = names.unwrap_or_default().iter().filter_map(|name| pmu(&folder, name)).collect();
        Self { all, is_told }
    }

    /// Does the kernel show any such list?
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Those outside of cores.
    pub fn uncore(&self) -> impl Iterator<Item = &Pmu> {
        self.all.iter().filter(|pmu| pmu.is_uncore)
    }

    /// Those in cores.
    pub fn cores(&self) -> impl Iterator<Item = &Pmu> {
        self.all.iter().filter(|pmu| pmu.is_core)
    }

    /// Has this machine hardware counters that can count for a thread?
    pub fn has_hardware(&self) -> bool {
        self.cores().next().is_some()
    }

    /// The names of the kinds of core counters: `cpu`, or `cpu_atom` and `cpu_core`.
    pub fn core_names(&self) -> Vec<&str> {
        self.cores().map(|pmu| pmu.name.as_str()).collect()
    }

    /// All names that can be asked for here, in alphabetical order.
    pub fn known_names(&self) -> Vec<String> {
        let has_hardware = self.has_hardware();
        let generic = generic::NAMES.iter().filter(|one| one.is_software() || has_hardware);
        let mut names: Vec<String> = generic.map(|one| one.name.to_owned()).collect();
        for pmu in &self.all {
            for event in pmu.events.keys() {
                if pmu.is_core {
                    names.push(event.clone());
                }
                names.push(format!("{}/{event}/", pmu.name));
            }
        }
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn pmu(folder: &Path, name: &str) -> Option<Pmu> {
    let folder = folder.join(name);
    let kind = files::number(&folder.join("type"))?;
    let cpus = files::text(&folder.join("cpus")).and_then(|list| list.parse::<CpuSet>().ok());
    let formats = texts(folder.join("format")).filter_map(|(name, text)| {
        let format = Format::parse(&text)?;
        Some((name, format))
    });
    // A name with a dot says how another one's count is scaled, or its unit.
    let events = texts(folder.join("events")).filter(|(name, _)| !name.contains('.'));
    Some(Pmu {
        is_core: name == "cpu" || cpus.is_some(),
        is_uncore: folder.join("cpumask").is_file(),
        cpus: cpus.filter(|cpus| !cpus.is_empty()),
        formats: formats.collect(),
        events: events.collect(),
        name: name.to_owned(),
        kind,
    })
}

/// A folder's files and what is in each.
fn texts(folder: PathBuf) -> impl Iterator<Item = (String, String)> {
    let names = files::names(&folder).unwrap_or_default().into_iter();
    names.filter_map(move |name| {
        let text = files::text(&folder.join(&name))?;
        Some((name, text))
    })
}
