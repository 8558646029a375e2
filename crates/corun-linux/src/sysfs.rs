//! What `/sys/devices/system/cpu` says: which CPUs are on line, and which caches they have.

use std::io;
use std::path::PathBuf;

use corun_machine::{CpuId, CpuSet};

use crate::{Roots, files, if_there};

/// The file that lists the CPUs that are on line.
pub fn online_file(roots: &Roots) -> PathBuf {
    roots.sys.join("devices/system/cpu/online")
}

/// The CPUs that are on line.
///
/// # Errors
/// The kernel's answer, with the file; [`io::ErrorKind::InvalidData`] when it is no list of CPUs.
pub fn online_cpus(roots: &Roots) -> io::Result<CpuSet> {
    let file = online_file(roots);
    files::read(&file)?.parse().map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", file.display()))
    })
}

/// All CPUs that there can ever be on this machine; none where the kernel does not say.
///
/// # Errors
/// The kernel's answer, where it has the list and the list cannot be read.
pub fn possible_cpus(roots: &Roots) -> io::Result<Option<CpuSet>> {
    let text = if_there(files::read(&roots.sys.join("devices/system/cpu/possible")))?;
    Ok(text.and_then(|text| text.parse().ok()))
}

/// The kernel's number of a CPU's data cache of a level; none where it does not say.
pub fn cache_id(roots: &Roots, cpu: CpuId, level: &str) -> Option<u32> {
    let caches = roots.sys.join(format!("devices/system/cpu/cpu{cpu}/cache"));
    let of_level = |name: &String| {
        let read = |file: &str| files::text(&caches.join(name).join(file));
        read("level").as_deref() == Some(level) && read("type").as_deref() != Some("Instruction")
    };
    let name = files::names(&caches)?.into_iter().find(of_level)?;
    files::number(&caches.join(name).join("id"))
}
