//! Cores by name: two generic ones, one file each in `cores/`, and those of machines.

use include_dir::{Dir, include_dir};

use crate::{Cache, Machine, MachineError, preset, presets, resolve};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/cores");

/// A kind of core with the caches and the memory behind it.
#[derive(Debug, Clone)]
pub struct NamedCore {
    /// The machine that it is of; a generic core's has this one core.
    pub machine: Machine,
    /// Index in [`Machine::core_types`].
    pub core_type: usize,
}

impl NamedCore {
    /// A machine's core type by its name; without one the fastest, the first of equals.
    ///
    /// # Errors
    /// [`MachineError::UnknownCoreType`].
    pub fn of(machine: Machine, core_type: Option<&str>) -> Result<Self, MachineError> {
        let types = machine.core_types();
        let found = match core_type {
            Some(name) => types.iter().position(|one| one.name == name),
            None => Some(machine.fastest_core_type()),
        };
        // A type that no core has is as good as unknown.
        let used = |&core_type: &usize| machine.cpus().iter().any(|cpu| cpu.core_type == core_type);
        match found.filter(used) {
            Some(core_type) => Ok(Self { machine, core_type }),
            None => Err(MachineError::UnknownCoreType {
                machine: machine.name().to_owned(),
                name: core_type.unwrap_or_default().to_owned(),
                known: types.iter().map(|one| one.name.clone()).collect(),
            }),
        }
    }

    /// The first CPU of this core type, as an index in [`Machine::cpus`].
    pub fn cpu(&self) -> usize {
        let cpus = self.machine.cpus();
        cpus.iter().position(|cpu| cpu.core_type == self.core_type).unwrap_or(0)
    }

    /// What it is asked for by.
    pub fn name(&self) -> String {
        match self.machine.core_types() {
            [_] => self.machine.name().to_owned(),
            types => format!("{}:{}", self.machine.name(), types[self.core_type].name),
        }
    }

    /// Its private data and unified caches from the nearest on, and the LLC behind them; none
    /// where the machine does not say the LLC's size.
    pub fn caches(&self) -> Option<(Vec<Cache>, Cache)> {
        let cpu = self.machine.cpus()[self.cpu()];
        let domain = &self.machine.llcs()[cpu.llc];
        let llc = domain.cache?;
        let around = self.machine.data_caches(self.machine.cores()[cpu.core].object);
        let mut private: Vec<Cache> = around
            .into_iter()
            .filter(|&index| Some(index) != domain.object)
            .filter_map(|index| self.machine.objects()[index].cache)
            .filter(|cache| cache.level < llc.level)
            .collect();
        private.sort_by_key(|cache| cache.level);
        Some((private, llc))
    }
}

/// The names of the cores that come with the crate: the generic ones, then `MACHINE`, or
/// `MACHINE:CORE_TYPE` where it has several, of each preset.
pub fn core_names() -> Vec<String> {
    let files = FILES.files().filter_map(|file| file.path().to_str()?.strip_suffix(".toml"));
    let mut names: Vec<String> = files.map(str::to_owned).collect();
    names.sort_unstable();
    for machine in presets().into_iter().filter_map(|name| preset(name).ok()) {
        let cores = (0..machine.core_types().len())
            .map(|core_type| NamedCore { machine: machine.clone(), core_type }.name());
        names.extend(cores);
    }
    names
}

/// A core by name: a generic one, `MACHINE` for a machine's fastest core type, or
/// `MACHINE:CORE_TYPE`, the machine a preset or a file.
///
/// # Errors
/// [`MachineError::UnknownCoreType`], else as [`resolve`].
pub fn core(name: &str) -> Result<NamedCore, MachineError> {
    let file = format!("{name}.toml");
    if let Some(text) = FILES.get_file(&file).and_then(|file| file.contents_utf8()) {
        return NamedCore::of(Machine::from_toml(text, &format!("cores/{file}"))?, None);
    }
    match (resolve(name), name.rsplit_once(':')) {
        (Ok(machine), _) => NamedCore::of(machine, None),
        (Err(MachineError::Unknown { .. }), Some((machine, core_type))) => {
            NamedCore::of(resolve(machine)?, Some(core_type))
        }
        (Err(error), _) => Err(error),
    }
}

#[cfg(test)]
#[path = "cores_tests.rs"]
mod tests;
