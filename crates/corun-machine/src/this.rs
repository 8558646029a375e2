//! This machine: as `corun calibrate` measured it, or, where it did not, as Linux shows it with
//! assumed memory.

use std::path::{Path, PathBuf};

use crate::{DiscoverError, Machine, MachineError, MachineSpec, ObjectSpec, SpecError, discover};

/// The name that stands for the machine the program runs on.
pub const THIS_MACHINE: &str = "this";
/// The file name of a calibrated machine in its folder.
const FILE_NAME: &str = "this-machine.toml";

/// Why this machine is not known.
#[derive(Debug, thiserror::Error)]
pub enum ThisMachineError {
    /// Its calibrated file cannot be read or has mistakes.
    #[error(transparent)]
    File(#[from] MachineError),
    /// Linux does not show it.
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    /// What Linux shows and what is assumed contradict each other.
    #[error(transparent)]
    Assumed(#[from] SpecError),
}

/// The calibrated file of the user: `$XDG_DATA_HOME/corun/this-machine.toml`, by default under
/// `~/.local/share`. None where neither variable gives an absolute path.
pub fn user_machine_file() -> Option<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))?;
    Some(data.join("corun").join(FILE_NAME))
}

/// The calibrated file of all users.
pub fn system_machine_file() -> PathBuf {
    Path::new("/var/lib/corun").join(FILE_NAME)
}

/// Where a calibrated file of this machine is looked for: the user's own counts before that of all.
pub fn this_machine_files() -> Vec<PathBuf> {
    user_machine_file().into_iter().chain([system_machine_file()]).collect()
}

/// The machine under a root (`/` for the one that runs this): the first of the files that exists,
/// where it describes the machine that Linux shows there, else what Linux shows, with assumed
/// memory. A file of another machine is passed over, and the machine's warnings say so.
///
/// # Errors
/// A file that is there and cannot be read or has mistakes, or a machine that Linux does not show.
pub fn this_machine(root: &Path, files: &[PathBuf]) -> Result<Machine, ThisMachineError> {
    let found = discover(root)?;
    let mut passed_over = Vec::new();
    for path in files.iter().filter(|path| path.exists()) {
        let calibrated = Machine::load(path)?;
        match found.difference(&calibrated) {
            None => return Ok(calibrated),
            Some(why) => passed_over.push(format!(
                "{} describes another machine ({why}) and is passed over: corun calibrate writes \
                 it anew",
                path.display()
            )),
        }
    }
    let mut machine = found.with_assumed_memory()?;
    for warning in passed_over {
        machine.warn(warning);
    }
    Ok(machine)
}

impl Machine {
    /// What first tells this machine from another one, of what Linux shows: the processor, the CPUs
    /// and who shares which cache. None where nothing does; what is measured is not looked at.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.title() != other.title() {
            return Some(format!("its processor is `{}`, not `{}`", other.title(), self.title()));
        }
        let (ours, theirs) = (self.cpu_set(), other.cpu_set());
        if ours != theirs {
            return Some(format!("its CPUs are {theirs}, not {ours}"));
        }
        let (ours, theirs) = (self.caches_by_cpus(), other.caches_by_cpus());
        let missing =
            |from: &[String], of: &[String]| of.iter().find(|cache| !from.contains(cache)).cloned();
        if let Some(cache) = missing(&ours, &theirs) {
            return Some(format!("it has {cache}"));
        }
        missing(&theirs, &ours).map(|cache| format!("it lacks {cache}"))
    }

    /// Is all that is known of this machine known of the other one too, but for how much memory its nodes have? Linux shows
    /// more or less of that while a virtual machine runs, as its host takes memory and gives it back.
    pub fn is_known_as(&self, other: &Self) -> bool {
        without_memory_sizes(self.spec()) == without_memory_sizes(other.spec())
    }

    fn caches_by_cpus(&self) -> Vec<String> {
        let caches = self.objects().iter().filter_map(|object| {
            let cache = object.cache.as_ref()?;
            let name = crate::view::cache_name(cache.level, cache.holds);
            Some(format!("{name} of {} KiB at CPUs {}", cache.size_bytes / 1024, object.cpus))
        });
        caches.collect()
    }

    /// Which parts that `corun calibrate` writes this machine lacks, by names for people; empty where it has all.
    pub fn unmeasured(&self) -> Vec<&'static str> {
        let spec = self.spec();
        let figures = spec.figures();
        let inclusion_told = self
            .llcs()
            .iter()
            .filter_map(|llc| llc.cache)
            .all(|cache| figures.contains(&format!("cache.L{}.inclusion", cache.level)));
        let types = &spec.core_types;
        let llcs_known = self
            .llcs()
            .iter()
            .all(|llc| llc.cache.is_some_and(|cache| cache.effective_bytes.is_some()));
        let domains = &spec.bandwidth_domains;
        let parts = [
            ("clock with one core busy", types.iter().all(|one| one.clock_alone_mhz.is_some())),
            ("effective LLC capacity", llcs_known),
            // Other processors do not tell.
            ("inclusion of the LLC", inclusion_told || cfg!(not(target_arch = "x86_64"))),
            ("execution latencies", types.iter().all(|one| one.execution.is_some())),
            ("instruction fetching", types.iter().all(|one| one.fetching.is_some())),
            ("TLB reach", types.iter().all(|one| !one.tlb.is_empty())),
            ("outstanding LLC hits", types.iter().all(|one| one.outstanding_llc_hits.is_some())),
            ("prefetching", types.iter().all(|one| one.prefetching.is_some())),
            ("bandwidth of one core", types.iter().all(|one| one.memory_rates.is_some())),
            ("loaded latency", domains.iter().any(|domain| !domain.loaded_latency.is_empty())),
            ("kernel costs", spec.kernel.is_some()),
        ];
        parts.into_iter().filter(|(_, known)| !known).map(|(name, _)| name).collect()
    }
}

fn without_memory_sizes(spec: &MachineSpec) -> MachineSpec {
    let mut spec = spec.clone();
    let mut left: Vec<&mut ObjectSpec> = spec.objects.iter_mut().collect();
    while let Some(object) = left.pop() {
        object.memory_mib = None;
        left.extend(&mut object.objects);
    }
    spec
}

#[cfg(test)]
#[path = "this_tests.rs"]
mod tests;
