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

/// The library at a path, or the shipped one.
///
/// # Errors
/// A file that cannot be read or has mistakes.
pub fn open_library(path: Option<&Path>) -> Result<Library> {
    let library = match path {
        Some(path) => Library::load(path)?,
        None => Library::shipped()?,
    };
    Ok(library)
}
