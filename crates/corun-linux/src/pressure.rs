//! Time lost to a resource that was short: pressure stall information, of the machine (`/proc/pressure`) and of
//! cgroups of version 2 (`cpu.pressure`, `memory.pressure`, `io.pressure`).

use std::path::Path;
use std::time::Duration;

use crate::{Roots, files};

/// What may be short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// CPU time.
    Cpu,
    /// Memory: pages that are read back, reclaimed or waited for.
    Memory,
    /// Disks and what is like them.
    Io,
}

impl Resource {
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

/// Time lost since the machine or the group began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// During which at least one thread waited for the resource.
    pub some: Duration,
    /// During which all threads that were not idle waited for it.
    pub full: Duration,
}

impl Pressure {
    /// Of the whole machine; none where the kernel was built or started without it.
    pub fn of_machine(roots: &Roots, resource: Resource) -> Option<Self> {
        Self::parse(&files::text(&roots.proc.join("pressure").join(resource.name()))?)
    }

    /// Of a cgroup's folder; none in version 1, and for the root group.
    pub fn of_group(folder: &Path, resource: Resource) -> Option<Self> {
        Self::parse(&files::text(&folder.join(format!("{}.pressure", resource.name())))?)
    }

    /// The lines `some` and `full`, of which `total` is in microseconds. Kernels before 5.13 have no `full` for CPUs.
    fn parse(text: &str) -> Option<Self> {
        let total = |kind: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(kind))?;
            let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
            total.parse().ok().map(Duration::from_micros)
        };
        Some(Self { some: total("some ")?, full: total("full ").unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_microseconds() {
        let text = "some avg10=0.00 avg60=1.00 avg300=0.18 total=2500000\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n";
        let found = Pressure::parse(text).unwrap();
        let expected =
            Pressure { some: Duration::from_millis(2500), full: Duration::from_millis(1) };
        assert_eq!(found, expected);
        let old = Pressure::parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=7").unwrap();
        assert_eq!(old, Pressure { some: Duration::from_micros(7), full: Duration::ZERO });
        for none in ["", "full total=3", "some total=x", "some avg10=0.00"] {
            assert_eq!(Pressure::parse(none), None, "{none}");
        }
    }

    #[test]
    fn the_files_of_the_machine_and_of_a_group_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::below(folder.path());
        std::fs::create_dir_all(roots.proc.join("pressure")).unwrap();
        std::fs::write(roots.proc.join("pressure/io"), "some total=5\nfull total=3\n").unwrap();
        std::fs::write(folder.path().join("memory.pressure"), "some total=9\nfull total=0\n")
            .unwrap();
        let io = Pressure::of_machine(&roots, Resource::Io).unwrap();
        assert_eq!(io.full, Duration::from_micros(3));
        assert_eq!(Pressure::of_machine(&roots, Resource::Memory), None);
        let memory = Pressure::of_group(folder.path(), Resource::Memory).unwrap();
        assert_eq!(memory.some, Duration::from_micros(9));
    }
}
