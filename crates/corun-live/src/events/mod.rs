//! Which events this machine's counters know, and how the kernel is asked for each.

mod encode;
mod format;
mod generic;
mod platform;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use corun_machine::CpuSet;

pub use encode::EventError;
pub(crate) use platform::{Meaning, Platform};

use crate::Roots;
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
pub struct Event {
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
pub(crate) struct Pmu {
    pub(crate) name: String,
    pub(crate) kind: u32,
    /// Does it sit in cores, so that it can count for a thread?
    pub(crate) is_core: bool,
    /// The CPUs that have it; none: all.
    pub(crate) cpus: Option<CpuSet>,
    formats: BTreeMap<String, Format>,
    /// The kernel's own names and what they stand for.
    pub(crate) events: BTreeMap<String, String>,
}

/// The counters of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pmus {
    all: Vec<Pmu>,
}

impl Pmus {
    /// Reads what the kernel shows under `/sys/bus/event_source/devices`; what cannot be read there
    /// is left out.
    pub fn read(roots: &Roots) -> Self {
        let folder = roots.sys.join("bus/event_source/devices");
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut all: Vec<Pmu> = names.filter_map(|entry| pmu(&entry.path())).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Self { all }
    }

    /// Those in cores.
    pub(crate) fn cores(&self) -> impl Iterator<Item = &Pmu> {
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

fn pmu(folder: &Path) -> Option<Pmu> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let kind = read(&folder.join("type"))?.parse().ok()?;
    let cpus = read(&folder.join("cpus")).and_then(|list| list.parse::<CpuSet>().ok());
    let formats = files(&folder.join("format")).filter_map(|(name, text)| {
        let format = Format::parse(&text)?;
        Some((name, format))
    });
    // A name with a dot says how another one's count is scaled, or its unit.
    let events = files(&folder.join("events")).filter(|(name, _)| !name.contains('.'));
    Some(Pmu {
        is_core: name == "cpu" || cpus.is_some(),
        cpus: cpus.filter(|cpus| !cpus.is_empty()),
        formats: formats.collect(),
        events: events.collect(),
        name,
        kind,
    })
}

fn read(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

fn files(folder: &Path) -> impl Iterator<Item = (String, String)> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, read(&entry.path())?)))
}
