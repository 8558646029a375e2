//! A program alone with 1, 2, 3 .. ways of an LLC: the curves that way partitioning looks at.

use corun_profile::{MeasuredOn, Profile, SoloRow, SoloTable, TableFigures};

use crate::core::{Cause, CpiStack};
use crate::error::ModelError;
use crate::model::Model;
use crate::program::{LoadedProgram, Member};

/// A program alone with some ways of an LLC, over its whole execution: phases count by their
/// instructions, and what is per cycle or second by their time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WaysFigures {
    /// Ways that it has, from 1.
    pub ways: u32,
    /// Speed with all ways / speed with these.
    pub slowdown: f64,
    /// Instructions per cycle.
    pub ipc: f64,
    /// LLC accesses per 1000 instructions.
    pub llc_apki: f64,
    /// LLC misses per 1000 instructions.
    pub llc_mpki: f64,
    /// LLC misses per 1000 cycles.
    pub llc_mpkc: f64,
    /// Bytes of the LLC held.
    pub occupancy_bytes: f64,
    /// Memory traffic in bytes a second, write-backs included.
    pub bytes_per_s: f64,
    /// Lines missed a second.
    pub misses_per_s: f64,
    /// Share of cycles stalled on LLC hits, 0 to 1.
    pub llc_hit_stalls: f64,
    /// Share of cycles stalled on memory, 0 to 1.
    pub memory_stalls: f64,
    /// Share of cycles stalled with a miss of the private cache outstanding, 0 to 1.
    pub l2_miss_stalls: f64,
    /// Share of cycles stalled for any reason, 0 to 1. Of a recording with micro-traces: all
    /// cycles but those of base, dependences and hits in the first level; without: all but those that dispatch at full
    /// width takes.
    pub total_stalls: f64,
    /// Where the cycles go; of a recording only.
    pub stack: Option<CpiStack>,
    /// Was a figure read outside the measured range?
    pub extrapolated: bool,
}

impl Model {
    /// Ways of a CPU's LLC; 16 where the machine does not say.
    pub fn llc_ways(&self, cpu: usize) -> u32 {
        let site = self.site(cpu);
        (site.llc_bytes / site.way_bytes).round() as u32
    }

    /// The CPU on which a program alone runs fastest; the first of equals.
    pub fn fastest_cpu(&self, program: &LoadedProgram) -> usize {
        let mut best = (0, 0.0);
        for cpu in 0..self.machine().cpus().len() {
            let speed = self.solo(program, LoadedProgram::WHOLE, cpu).instructions_per_s;
            if speed > best.1 {
                best = (cpu, speed);
            }
        }
        best.0
    }

    /// A program alone on a CPU with each number of ways of its LLC, from 1 to all.
    pub fn by_ways(&self, program: &LoadedProgram, cpu: usize) -> Vec<WaysFigures> {
        let all = self.llc_ways(cpu);
        let mut figures: Vec<WaysFigures> =
            (1..=all).map(|ways| self.with_ways(program, cpu, ways)).collect();
        let fastest = figures.last().map_or(1.0, |whole| whole.ipc);
        for one in &mut figures {
            one.slowdown = fastest / one.ipc;
        }
        figures
    }

    /// All but the slowdown: that is against its speed with all ways.
    fn with_ways(&self, program: &LoadedProgram, cpu: usize, ways: u32) -> WaysFigures {
        let site = self.site(cpu);
        let capacity = f64::from(ways) * site.way_bytes;
        let table = self.table(&Member { program, phase: LoadedProgram::WHOLE, cpu });
        let (knot, stack) = table.alone(site, capacity);
        let demand = table.demand_of(knot);
        let ipc = 1.0 / knot.cpi;
        let total = knot.total_stalls.clamp(0.0, 1.0);
        let memory = knot.memory_stalls.clamp(0.0, total);
        let mut figures = WaysFigures {
            ways,
            slowdown: 1.0,
            ipc,
            llc_apki: demand.llc_apki,
            llc_mpki: knot.mpki,
            llc_mpkc: knot.mpki * ipc,
            occupancy_bytes: knot.bytes,
            bytes_per_s: knot.bytes_per_s,
            misses_per_s: knot.misses_per_s,
            llc_hit_stalls: (knot.llc_hit_cpi * ipc).min(total - memory),
            memory_stalls: memory,
            l2_miss_stalls: knot.l2_miss_stalls.clamp(0.0, 1.0),
            total_stalls: total,
            stack: None,
            extrapolated: demand.extrapolated,
        };
        if let Some(stack) = stack {
            // Shares of the sums: between knots a share by itself is off by a little.
            let unstalled = [Cause::Base, Cause::Dependences, Cause::FirstLevel];
            let unstalled: f64 = unstalled.map(|cause| stack.of(cause)).iter().sum();
            figures.memory_stalls = stack.of(Cause::Memory) * ipc;
            figures.llc_hit_stalls = stack.of(Cause::Llc) * ipc;
            figures.total_stalls = 1.0 - unstalled * ipc;
            figures.l2_miss_stalls = (figures.memory_stalls + figures.llc_hit_stalls).min(1.0);
            figures.stack = Some(stack);
        }
        figures
    }

    /// The machine at a CPU as a table of solo figures names it.
    pub fn measured_on(&self, cpu: usize) -> MeasuredOn {
        let site = self.site(cpu);
        MeasuredOn {
            machine: self.machine().name().to_owned(),
            clock_mhz: site.core.clock_mhz,
            private_cache_bytes: site.private_bytes.max(site.l1_bytes) as u64,
            inclusive_llc: !site.inclusion.capacities_add(),
            way_bytes: site.way_bytes as u64,
            line_bytes: site.line_bytes as u32,
            memory_latency_ns: site.memory_latency_ns,
            llc_latency_ns: site.llc_latency_ns,
        }
    }

    /// The table that a measurement of the program with 1, 2, 3 .. ways would give on its fastest
    /// CPU of this machine, by the model. The store buffer never fills in it.
    ///
    /// # Errors
    /// As [`Self::load`], and when such a table cannot be: a way no larger than the private cache
    /// that an inclusive LLC holds.
    pub fn solo_table(&self, profile: &Profile) -> Result<SoloTable, ModelError> {
        let program = self.load(profile)?;
        let cpu = self.fastest_cpu(&program);
        let rows = self.by_ways(&program, cpu).into_iter().map(|one| SoloRow {
            ways: one.ways,
            figures: one.solo_figures(self.site(cpu).line_bytes),
        });
        SoloTable::new(self.measured_on(cpu), rows.collect())
            .map_err(|fault| ModelError::Profile { program: profile.name.clone(), fault })
    }
}

impl WaysFigures {
    fn solo_figures(&self, line_bytes: f64) -> TableFigures {
        TableFigures {
            ipc: self.ipc,
            llc_references_pki: self.llc_apki,
            llc_misses_pki: self.llc_mpki,
            llc_references_pkc: self.llc_apki * self.ipc,
            llc_misses_pkc: self.llc_mpkc,
            llc_usage_kib: self.occupancy_bytes / 1024.0,
            bandwidth_mb_per_s: self.bytes_per_s * 1e-6,
            miss_bandwidth_mb_per_s: self.misses_per_s * line_bytes * 1e-6,
            stalls_l2_miss: self.l2_miss_stalls,
            stalls_l3_miss: self.memory_stalls,
            stalls_total: self.total_stalls,
            stalls_store_buffer: 0.0,
        }
    }
}
