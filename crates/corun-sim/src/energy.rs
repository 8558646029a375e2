//! What the machine draws: its idle power, more for each package with a busy core, for each busy core
//! and for each byte to and from memory ([`PowerModel`]).

use corun_machine::{Machine, PowerModel};
use fixedbitset::FixedBitSet;

use crate::dispatch::CpuState;

/// Energy of a run by where it went, in joules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Energy {
    /// What the idle machine would have drawn.
    pub idle_j: f64,
    /// Packages with a busy core.
    pub packages_j: f64,
    /// Busy cores.
    pub cores_j: f64,
    /// Memory traffic.
    pub memory_j: f64,
}

impl Energy {
    /// All but what the idle machine would have drawn: what the energy-delay product counts
    /// (Blagodurov et al., TOCS 2010, section 6).
    pub fn above_idle_j(&self) -> f64 {
        self.packages_j + self.cores_j + self.memory_j
    }
}

/// Counts busy cores and packages over time. Two hardware threads of a core are one busy core.
pub(crate) struct Meter {
    power: PowerModel,
    cores: FixedBitSet,
    packages: FixedBitSet,
    core_ns: u64,
    package_ns: u64,
}

impl Meter {
    /// None for a machine whose power is not known.
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        Some(Self {
            power: *machine.power()?,
            cores: FixedBitSet::with_capacity(machine.cores().len()),
            packages: FixedBitSet::with_capacity(machine.packages().len()),
            core_ns: 0,
            package_ns: 0,
        })
    }

    /// So much time passes with the cores busy that were so at the last look.
    pub(crate) fn pass(&mut self, ns: u64) {
        self.core_ns += ns * self.cores.count_ones(..) as u64;
        self.package_ns += ns * self.packages.count_ones(..) as u64;
    }

    /// Who is busy from now on.
    pub(crate) fn look(&mut self, machine: &Machine, cpus: &[CpuState]) {
        self.cores.clear();
        self.packages.clear();
        for (cpu, state) in machine.cpus().iter().zip(cpus) {
            if state.running.is_some() {
                self.cores.insert(cpu.core);
                self.packages.insert(cpu.package);
            }
        }
    }

    /// What was drawn in so many nanoseconds with so many bytes to and from memory.
    pub(crate) fn energy(&self, ns: u64, bytes: f64) -> Energy {
        Energy {
            idle_j: self.power.idle_w * ns as f64 * 1e-9,
            packages_j: self.power.package_active_w * self.package_ns as f64 * 1e-9,
            cores_j: self.power.core_w * self.core_ns as f64 * 1e-9,
            memory_j: self.power.w_per_gb_per_s * bytes * 1e-9,
        }
    }
}
