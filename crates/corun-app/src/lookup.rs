//! Machines, cores and libraries as they are named.

use std::path::Path;

use corun_machine::{Machine, NamedCore, THIS_MACHINE, ThisMachineError};
use corun_profile::Library;

use crate::{Error, Result};

/// The machine of a question that needs one and names none.
pub const DEFAULT_MACHINE: &str = "xeon-x5365";

/// A preset, a machine file, or `this` machine: as `corun calibrate` measured it. Where it has not
/// been measured, Linux does not tell bandwidths and latencies: they are assumed, and the machine's
/// warnings say so.
///
/// # Errors
/// No such preset or file, a file with mistakes, or a machine that does not tell what it is.
pub fn find_machine(name: &str) -> Result<Machine> {
    if name != THIS_MACHINE {
        return Ok(corun_machine::resolve(name)?);
    }
    match corun_machine::this_machine(Path::new("/"), &corun_machine::this_machine_files()) {
        Ok(machine) => Ok(machine),
        Err(ThisMachineError::File(error)) => Err(error.into()),
        Err(other) => Err(Error::failed(other)),
    }
}

/// A core by name: a generic one, `MACHINE` or `MACHINE:CORE_TYPE`, where the machine is a preset,
/// a machine file or `this`.
///
/// # Errors
/// As [`find_machine`], and for a core type that the machine does not have.
pub fn find_core(name: &str) -> Result<NamedCore> {
    let own = match name.split_once(':') {
        Some(("this", core_type)) => Some(Some(core_type)),
        None if name == "this" => Some(None),
        _ => None,
    };
    match own {
        Some(core_type) => Ok(NamedCore::of(find_machine("this")?, core_type)?),
        None => Ok(corun_machine::core(name)?),
    }
}

/// The largest file of profiles that is read. The largest shipped one has 300 kB.
const MOST_PROFILE_BYTES: u64 = 16 << 20;

/// Refuses a file of profiles that is too large or no plain file before anything of the file is read; in a
/// folder, of all its files. What cannot be looked at is left to who reads it.
fn refuse_large(path: &Path) -> Result {
    let files = match std::fs::read_dir(path) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(_) => vec![path.to_owned()],
    };
    for file in files {
        let Ok(facts) = std::fs::metadata(&file) else { continue };
        let shown = file.display();
        if !facts.is_file() && !facts.is_dir() {
            return Err(Error::input(format!("{shown}: found no plain file, expected profiles")));
        }
        if facts.is_file() && facts.len() > MOST_PROFILE_BYTES {
            let (found, most) = (facts.len(), MOST_PROFILE_BYTES);
            let message =
                format!("{shown}: found {found} bytes, expected profiles of at most {most}");
            return Err(Error::input(message));
        }
    }
    Ok(())
}

/// The library at a path, or the shipped one.
///
/// # Errors
/// A file that cannot be read or has mistakes, and one of more than 16 MiB, which is not read.
pub fn open_library(path: Option<&Path>) -> Result<Library> {
    let library = match path {
        Some(path) => {
            refuse_large(path)?;
            Library::load(path)?
        }
        None => Library::shipped()?,
    };
    Ok(library)
}
