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

/// What stands for the shipped programs in a list of libraries.
const SHIPPED: &str = "shipped";

/// The library at a path, or the shipped one. A path that is not there is a list, divided by commas, of files and
/// folders, and of `shipped` for the shipped programs. Of a name that several of them have, the first counts.
///
/// # Errors
/// A file that cannot be read or has mistakes, and one of more than 16 MiB, which is not read.
pub fn open_library(path: Option<&Path>) -> Result<Library> {
    let Some(path) = path else { return Ok(Library::shipped()?) };
    let is_list = |text: &&str| (text.contains(',') || *text == SHIPPED) && !path.exists();
    let parts = path.to_str().filter(is_list);
    let Some(parts) = parts else { return load(path) };
    let mut all = Library::default();
    for part in parts.split(',') {
        let library = if part == SHIPPED { Library::shipped()? } else { load(Path::new(part))? };
        for profile in library.iter() {
            if all.find(&profile.name).is_none() {
                all.insert(profile.clone(), part.to_owned())?;
            }
        }
    }
    Ok(all)
}

fn load(path: &Path) -> Result<Library> {
    refuse_large(path)?;
    Ok(Library::load(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_profiles_stand_beside_the_shipped_ones_and_before_them() {
        let folder = tempfile::tempdir().unwrap();
        let shipped = Library::shipped().unwrap();
        let write = |name: &str, of: &str| {
            let mut profile = shipped.get(of).unwrap().clone();
            profile.name = name.to_owned();
            let path = folder.path().join(format!("{name}.toml"));
            profile.save(&path).unwrap();
            path.display().to_string()
        };
        let (mine, other) = (write("mine", "xz"), write("sort", "flac"));
        let open = |list: &str| open_library(Some(Path::new(list)));
        let all = open(&format!("{mine},{other},shipped")).unwrap();
        assert_eq!(all.iter().count(), shipped.iter().count() + 1);
        assert_eq!(all.get("sort").unwrap().data, shipped.get("flac").unwrap().data);
        let all = open(&format!("shipped,{other}")).unwrap();
        assert_eq!(all.get("sort").unwrap().data, shipped.get("sort").unwrap().data);
        assert_eq!(open("shipped").unwrap().iter().count(), shipped.iter().count());
        assert!(open(&format!("{mine},/no/such")).is_err());
        // A file's own comma makes no list.
        let comma = folder.path().join("a,b.toml");
        std::fs::copy(&mine, &comma).unwrap();
        assert_eq!(open_library(Some(&comma)).unwrap().iter().count(), 1);
    }
}
