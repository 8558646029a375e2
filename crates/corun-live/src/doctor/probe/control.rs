//! Energy, affinity, cgroups, memory.

use corun_linux::{Roots, files};
use corun_scx::LoadError;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use crate::doctor::facts::{Cgroups, EnergyZone, MemoryFacts, SchedExt, Shape};

/// The energy counters. Of a captured tree the file's presence counts.
pub(super) fn energy(roots: &Roots) -> Vec<EnergyZone> {
    let folder = roots.sys.join("class/powercap");
    let zones = files::names(&folder).unwrap_or_default();
    let zone = |name: &String| {
        let zone = folder.join(name);
        let counter = zone.join("energy_uj");
        if !counter.is_file() {
            return None;
        }
        let name = files::text(&zone.join("name")).unwrap_or_else(|| name.clone());
        let name = super::one_line(name);
        Some(EnergyZone { name, readable: !roots.are_here() || files::readable(&counter) })
    };
    zones.iter().filter_map(zone).collect()
}

/// Sets a thread of this process to the CPUs that it may use already.
pub(super) fn affinity() -> Option<bool> {
    let own = std::thread::spawn(|| {
        let set = sched_getaffinity(None).ok()?;
        Some(sched_setaffinity(None, &set).is_ok())
    });
    own.join().ok().flatten()
}

/// What the kernel has for corun's scheduler; nothing is loaded. A captured tree tells as far as it has the files.
pub(super) fn sched_ext(roots: &Roots) -> Option<SchedExt> {
    let lacks_file = |found: SchedExt| Some(found).filter(|_| roots.are_here());
    match corun_scx::check(roots) {
        Ok(()) => Some(SchedExt::Ready),
        Err(LoadError::NoSchedExt) => lacks_file(SchedExt::Absent),
        Err(LoadError::Another(by)) => Some(SchedExt::InUse { by: super::one_line(by) }),
        Err(LoadError::TooOld { missing }) => Some(SchedExt::Incomplete { missing }),
        Err(why @ LoadError::NoTypes { .. }) => {
            lacks_file(SchedExt::Unreadable { why: why.to_string() })
        }
        Err(other) => Some(SchedExt::Unreadable { why: other.to_string() }),
    }
}

/// CPU sets in cgroups: version 1 first, since a hierarchy of version 1 takes the controller away
/// from version 2.
pub(super) fn cgroups(roots: &Roots) -> Cgroups {
    if files::names(&roots.sys).is_none() {
        return Cgroups::default();
    }
    let old = roots.cgroup.join("cpuset");
    let old_there = ["cpuset.cpus", "cpus"].iter().any(|name| old.join(name).is_file());
    let unified = [roots.cgroup.clone(), roots.cgroup.join("unified")]
        .into_iter()
        .find(|folder| folder.join("cgroup.controllers").is_file());
    let controllers = unified
        .as_ref()
        .and_then(|folder| files::text(&folder.join("cgroup.controllers")))
        .unwrap_or_default();
    let new_there = controllers.split_whitespace().any(|one| one == "cpuset");
    let (cpuset_version, told) = if old_there {
        (Some(1), Some(old.join("tasks")))
    } else if new_there {
        (Some(2), unified.as_ref().map(|folder| folder.join("cgroup.subtree_control")))
    } else {
        (None, None)
    };
    Cgroups {
        cpuset_version,
        mounted: Some(old_there || unified.is_some()),
        writable: told.filter(|_| roots.are_here()).map(|file| files::writable(&file)),
    }
}

/// NUMA nodes and whether their pages can move.
pub(super) fn memory(roots: &Roots, shape: Option<&Shape>) -> MemoryFacts {
    let counters = files::text(&roots.proc.join("vmstat")).filter(|text| text.contains("nr_"));
    MemoryFacts {
        nodes: shape.map(|shape| shape.numa_nodes),
        migration: counters.map(|text| text.contains("pgmigrate_success")),
        balancing: files::switch(&roots.proc.join("sys/kernel/numa_balancing")),
    }
}
