//! The kinds of core: what tells them apart, their clocks and capacities.

use std::collections::BTreeMap;

use super::files::Root;
use super::{CPU, Facts};
use crate::{CoreType, CpuId, CpuSet};

/// The kernel's scale of `cpu_capacity`: the fastest CPU of the machine.
const FULL_CAPACITY: f64 = 1024.0;
/// Stands for a clock that nothing tells.
const ASSUMED_MHZ: f64 = 2000.0;

/// What tells one kind of core from another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Hybrid Intel: the name of the performance-monitoring unit, `cpu_core` or `cpu_atom`.
    Unit(String),
    /// Arm: the part number, and the capacity, larger first.
    Part(std::cmp::Reverse<u32>, String),
}

/// The core types, and by core (in the order given) the place of its type.
pub(super) fn all(root: &Root, facts: &mut Facts, cores: &[CpuSet]) -> (Vec<CoreType>, Vec<usize>) {
    let units = units(root);
    let capacity = |cpu: CpuId| root.number::<u32>(&format!("{CPU}/cpu{cpu}/cpu_capacity"));
    let kind = |cpu: CpuId, facts: &Facts| {
        if let Some((name, _)) = units.iter().find(|(_, cpus)| cpus.contains(cpu)) {
            return Kind::Unit(name.clone());
        }
        let info = facts.cpuinfo.get(&cpu.0);
        let part = info.and_then(|info| info.get("CPU part")).unwrap_or_default();
        Kind::Part(std::cmp::Reverse(capacity(cpu).unwrap_or(0)), part.to_owned())
    };
    let first = |core: &CpuSet| core.first().unwrap_or_default();
    let kinds: Vec<Kind> = cores.iter().map(|core| kind(first(core), facts)).collect();
    let mut places: BTreeMap<&Kind, Vec<usize>> = BTreeMap::new();
    for (core, kind) in kinds.iter().enumerate() {
        places.entry(kind).or_default().push(core);
    }
    let mut types: Vec<CoreType> = Vec::new();
    let mut of_core = vec![0; cores.len()];
    let mut capacities = Vec::new();
    for (kind, members) in &places {
        let cpus: Vec<CpuId> = members.iter().flat_map(|&core| cores[core].iter()).collect();
        let threads = members.iter().map(|&core| cores[core].len()).max().unwrap_or(1) as u32;
        let clock_mhz = clock_mhz(root, facts, &cpus);
        let name = unused(name_of(kind, places.len()), &types);
        types.push(CoreType::new(&name, clock_mhz.unwrap_or(ASSUMED_MHZ), threads));
        if clock_mhz.is_none() {
            facts.warn(&format!("the clock of the cores is unknown: {ASSUMED_MHZ} MHz"));
        }
        capacities.push(cpus.iter().filter_map(|&cpu| capacity(cpu)).max().filter(|&c| c > 0));
        for &core in members {
            of_core[core] = types.len() - 1;
        }
    }
    facts.warn(
        "dispatch width, reorder buffer, outstanding misses and branch penalty of the cores are \
         the defaults of a machine file",
    );
    relative_capacities(facts, &mut types, &capacities);
    (types, of_core)
}

/// Capacities relative to the fastest type: as the kernel tells, else by clock.
fn relative_capacities(facts: &mut Facts, types: &mut [CoreType], told: &[Option<u32>]) {
    if types.len() < 2 {
        return;
    }
    let by_kernel: Option<Vec<f64>> =
        told.iter().map(|one| one.map(|one| f64::from(one) / FULL_CAPACITY)).collect();
    let raw = by_kernel.unwrap_or_else(|| {
        facts.warn("the capacities of the core types are unknown: they go by clock alone");
        types.iter().map(|one| one.clock_mhz).collect()
    });
    let most = raw.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    for (one, raw) in types.iter_mut().zip(raw) {
        one.capacity = raw / most;
    }
}

/// The performance-monitoring units of a hybrid machine and their CPUs.
fn units(root: &Root) -> Vec<(String, CpuSet)> {
    let named = ["cpu_core", "cpu_atom", "cpu_lowpower"];
    let unit = |name: &&str| {
        let cpus = root.cpus(&format!("sys/devices/{name}"), &["cpus"], &[])?;
        Some(((*name).to_owned(), cpus))
    };
    named.iter().filter_map(unit).collect()
}

fn name_of(kind: &Kind, kinds: usize) -> String {
    match kind {
        Kind::Unit(name) => name.clone(),
        Kind::Part(..) if kinds == 1 => "core".to_owned(),
        Kind::Part(capacity, part) if part.is_empty() => format!("capacity-{}", capacity.0),
        Kind::Part(_, part) => format!("part-{part}"),
    }
}

fn unused(name: String, types: &[CoreType]) -> String {
    let taken = |name: &str| types.iter().any(|one| one.name == name);
    if !taken(&name) {
        return name;
    }
    let mut number = 2;
    while taken(&format!("{name}-{number}")) {
        number += 1;
    }
    format!("{name}-{number}")
}

/// The highest clock of these CPUs that cpufreq, else `/proc/cpuinfo` tells.
fn clock_mhz(root: &Root, facts: &Facts, cpus: &[CpuId]) -> Option<f64> {
    let highest = |clock: &dyn Fn(CpuId) -> Option<f64>| {
        let sane = |mhz: &f64| mhz.is_finite() && *mhz > 0.0 && *mhz < 1e6;
        cpus.iter().filter_map(|&cpu| clock(cpu).filter(sane)).max_by(f64::total_cmp)
    };
    let cpufreq = |cpu: CpuId| {
        let khz: f64 = root.number(&format!("{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq"))?;
        Some(khz / 1000.0)
    };
    let cpuinfo = |cpu: CpuId| {
        let info = facts.cpuinfo.get(&cpu.0)?;
        // x86, Power, and System z and Itanium in turn.
        let keys = ["cpu MHz", "clock", "cpu MHz dynamic"];
        let text = keys.iter().find_map(|key| info.get(key))?;
        text.trim_end_matches("MHz").trim().parse().ok()
    };
    highest(&cpufreq).or_else(|| highest(&cpuinfo))
}
