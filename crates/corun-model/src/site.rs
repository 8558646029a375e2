//! Sites: the kinds of place a program can run at. Two CPUs with the same core type, the same
//! caches above them and the same way to local memory are one site, and share tables.

use corun_machine::{
    BandwidthDomain, BandwidthKind, Cache, CacheType, CoreType, Inclusion, KernelCosts, Machine,
    Smt,
};
use corun_profile::Phase;

use crate::bandwidth::mix::{RatesByMix, Traffic};
use crate::core::has_stream_prefetcher;
use crate::error::ModelError;
use crate::page_sets::PageSets;
use crate::single_use::LineLives;

/// Local memory latency in ns where the machine does not say: that of an idle server of the
/// 2010s as lmbench-like tools show it (80-100 ns).
pub const DEFAULT_MEMORY_LATENCY_NS: f64 = 90.0;

/// Throughput of a core with all hardware threads busy, relative to one thread, where the core
/// type says no yield: the gain of Hyper-Threading on server programs was 16 to 28 % (Marr et al.,
/// Intel Technology Journal 6(1), 2002), so that each of two threads runs at 0.6 of its speed.
pub const DEFAULT_SMT_THROUGHPUT: f64 = 1.2;

/// Cache line in bytes where the machine does not say.
pub(crate) const DEFAULT_LINE_BYTES: f64 = 64.0;

/// What is left of the lines after the time by which their life is told.
const HALF: f64 = 0.5;

/// A kind of place. Sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Site {
    pub(crate) core: CoreType,
    /// Clock of the machine's fastest core type (highest capacity), in MHz.
    pub(crate) reference_clock_mhz: f64,
    /// First-level data cache, its load-to-use latency, and that of instructions.
    pub(crate) l1_bytes: f64,
    pub(crate) l1_latency_ns: f64,
    pub(crate) l1_code_bytes: f64,
    /// The largest cache in front of the LLC; 0 where there is none.
    pub(crate) private_bytes: f64,
    /// Hit latency of that cache.
    pub(crate) private_latency_ns: f64,
    /// From one line to the next that one core reads out of that cache, and out of the LLC; 0 where the
    /// machine does not say.
    pub(crate) private_line_ns: f64,
    pub(crate) llc_line_ns: f64,
    pub(crate) llc_bytes: f64,
    /// Share of the LLC's lines that are still there after so many seconds in which nobody on the
    /// machine used them.
    pub(crate) survival: Vec<(f64, f64)>,
    /// How long a line of the LLC stays that a stream brought in, as a share of the time of those used again.
    pub(crate) single_use_life: f64,
    /// The same of a line that was used once, at random; as of a stream where the machine does not say.
    pub(crate) random_use_life: Option<f64>,
    /// The LLC's places for pages, where these fall on them at random.
    pub(crate) page_sets: Option<PageSets>,
    pub(crate) way_bytes: f64,
    pub(crate) line_bytes: f64,
    pub(crate) inclusion: Inclusion,
    pub(crate) llc_latency_ns: f64,
    pub(crate) memory_latency_ns: f64,
    /// The lowest peak on the way to local memory, in bytes a second.
    pub(crate) peak_bytes_per_s: f64,
    /// The most that a program alone draws of it.
    pub(crate) solo_share: f64,
    /// What one core draws of local memory, where that was measured; costs in seconds.
    pub(crate) core_rates: Option<RatesByMix>,
    /// What all CPUs together draw of it, where that was measured; costs in bytes of its controller's peak.
    pub(crate) memory_rates: Option<RatesByMix>,
    pub(crate) kernel: Kernel,
    /// Busy threads of its core that divide the core's private caches; 1 where they do not.
    pub(crate) sharers: u32,
    /// Was measured how long accesses wait in the memory by its traffic, and does the model go by that?
    pub(crate) has_measured_queue: bool,
}

/// What the kernel takes, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kernel {
    pub(crate) page_fault_ns: f64,
    /// The share of it that waits for memory.
    pub(crate) page_fault_memory_share: f64,
    /// Of a fault that maps up to 16 pages of a file.
    pub(crate) file_fault_ns: f64,
    /// Of a call on a file where the machine says it, since most calls of programs are such; else of
    /// one that does nothing.
    pub(crate) system_call_ns: f64,
    /// Of a call that touches neither files nor what memory is mapped to.
    pub(crate) light_call_ns: f64,
    /// Of a call that changes what memory is mapped to; as of one on a file where the machine does not say it.
    pub(crate) mapping_call_ns: f64,
    /// Of a call in which the thread sleeps; as of one on a file where the machine does not say it.
    pub(crate) sleeping_call_ns: f64,
    /// Of bytes that a system call reads or writes.
    pub(crate) transfer_ns_per_byte: f64,
    /// Of those of them that are written to a file; as of others where the machine does not say it.
    pub(crate) file_write_ns_per_byte: f64,
    /// Of a process's start and end.
    pub(crate) process_ns: f64,
}

impl Kernel {
    /// Where the machine does not say, what `corun calibrate` finds on servers of today: a first touch
    /// with its page cleared, a call that does nothing, and a copy through the page cache. Starting and
    /// ending a process counts only where it was measured.
    pub(crate) const USUAL: Self = Self {
        page_fault_ns: 500.0,
        page_fault_memory_share: 0.0,
        file_fault_ns: 500.0,
        system_call_ns: 100.0,
        light_call_ns: 100.0,
        mapping_call_ns: 100.0,
        sleeping_call_ns: 100.0,
        transfer_ns_per_byte: 0.1,
        file_write_ns_per_byte: 0.1,
        process_ns: 0.0,
    };

    fn of(machine: &Machine) -> Self {
        let known = machine.spec().kernel.as_ref();
        // One figure at a time: rustc 1.95 at opt-level 1 reads `Option::or` of two fields of a defaulted struct
        // out of bounds.
        let figure = |of: fn(&KernelCosts) -> Option<f64>| known.and_then(of);
        let usual = Self::USUAL;
        let light_call_ns = figure(|kernel| kernel.system_call_ns).unwrap_or(usual.light_call_ns);
        let system_call_ns = figure(|kernel| kernel.file_call_ns).unwrap_or(light_call_ns);
        let transfer_ns_per_byte =
            figure(|kernel| kernel.transfer_ns_per_byte).unwrap_or(usual.transfer_ns_per_byte);
        let page_fault_ns = figure(|kernel| kernel.page_fault_ns).unwrap_or(usual.page_fault_ns);
        Self {
            page_fault_ns,
            page_fault_memory_share: figure(|kernel| kernel.page_fault_memory_share)
                .unwrap_or(usual.page_fault_memory_share),
            file_fault_ns: figure(|kernel| kernel.file_fault_ns).unwrap_or(page_fault_ns),
            system_call_ns,
            light_call_ns,
            mapping_call_ns: figure(|kernel| kernel.mapping_call_ns).unwrap_or(system_call_ns),
            sleeping_call_ns: figure(|kernel| kernel.sleeping_call_ns).unwrap_or(system_call_ns),
            transfer_ns_per_byte,
            file_write_ns_per_byte: figure(|kernel| kernel.file_write_ns_per_byte)
                .unwrap_or(transfer_ns_per_byte),
            process_ns: figure(|kernel| kernel.process_ns).unwrap_or(usual.process_ns),
        }
    }
}

impl Site {
    pub(crate) fn of(
        machine: &Machine,
        cpu: usize,
        peak_bytes_per_s: f64,
        solo_share: f64,
        sharers: u32,
    ) -> Result<Self, ModelError> {
        let at = machine.cpus()[cpu];
        let llc = &machine.llcs()[at.llc];
        let Some(cache) = llc.cache else {
            return Err(ModelError::Machine {
                machine: machine.name().to_owned(),
                figure: format!("the size of the last-level cache of CPU {}", at.id),
                found: "unknown".to_owned(),
                expected: "a size in KiB",
            });
        };
        let core = machine.core_types()[at.core_type].clone();
        check_core(machine, &core)?;
        let private = machine.private_cache(cpu);
        let survival = llc.object.map(|object| &machine.objects()[object].idle_survival);
        // Where is known how fast others outside push lines out, that says what they take of the whole
        // cache, at the rate of each program; the share of one slow chase would count it twice.
        let size = match survival {
            Some(known) if !known.is_empty() => cache.size_bytes,
            _ => cache.effective_bytes.unwrap_or(cache.size_bytes),
        } as f64;
        // 16 ways stand in where the machine does not say: it sets the step of the walk alone.
        let ways = f64::from(cache.ways.unwrap_or(16).max(1));
        let local = machine.memory_latency_ns(at.node, at.node);
        let memory_latency_ns = local.unwrap_or(DEFAULT_MEMORY_LATENCY_NS);
        positive(machine, "local memory latency in ns", memory_latency_ns)?;
        let part = f64::from(sharers.max(1));
        let private_bytes = private_bytes(machine, cpu, private, core.smt) / part;
        let l1 = l1_cache(machine, cpu, CacheType::Data);
        let l1_bytes = l1.map_or(size, |cache| cache.size_bytes as f64) / part;
        // Where the first level is the last private one, they are one and the same.
        let l1_bytes = if core.smt == Smt::FineGrained && private.is_some_and(|one| one.level == 1)
        {
            private_bytes
        } else {
            l1_bytes
        };
        Ok(Self {
            reference_clock_mhz: reference_clock(machine),
            l1_bytes,
            l1_latency_ns: l1
                .and_then(|cache| cache.latency_ns)
                .unwrap_or(4.0 / core.clock_mhz * 1e3),
            l1_code_bytes: l1_cache(machine, cpu, CacheType::Instruction)
                .map_or(l1_bytes, |cache| cache.size_bytes as f64 / part),
            private_bytes,
            private_latency_ns: private.map_or(0.0, |cache| latency_ns(cache, &core)),
            private_line_ns: private.map_or(0.0, line_ns),
            llc_line_ns: line_ns(&cache),
            llc_bytes: size,
            survival: survival
                .into_iter()
                .flatten()
                .map(|&(ms, share)| (ms * 1e-3, share))
                .collect(),
            single_use_life: cache.single_use_life,
            random_use_life: cache.random_use_life,
            page_sets: PageSets::of(&cache),
            way_bytes: size / ways,
            line_bytes: cache.line_bytes.map_or(DEFAULT_LINE_BYTES, f64::from),
            inclusion: cache.inclusion,
            llc_latency_ns: latency_ns(&cache, &core),
            memory_latency_ns,
            peak_bytes_per_s,
            solo_share,
            core_rates: core.memory_rates.as_ref().and_then(RatesByMix::of),
            memory_rates: memory_rates(machine, cpu),
            kernel: Kernel::of(machine),
            sharers,
            has_measured_queue: false,
            core,
        })
    }

    /// The site without what no replay of micro-traces reads: two sites that replays cannot tell apart are equal.
    pub(crate) fn for_replays(&self) -> Self {
        Self {
            reference_clock_mhz: 0.0,
            survival: Vec::new(),
            random_use_life: None,
            way_bytes: 0.0,
            line_bytes: 0.0,
            peak_bytes_per_s: 0.0,
            solo_share: 0.0,
            core_rates: None,
            memory_rates: None,
            kernel: Kernel::USUAL,
            sharers: 1,
            ..self.clone()
        }
    }

    /// The share of a phase's misses that the core's prefetchers foresee.
    pub(crate) fn foreseen(&self, phase: &Phase) -> f64 {
        if has_stream_prefetcher(&self.core) { phase.prefetchable } else { 0.0 }
    }

    /// Clock in Hz.
    pub(crate) fn clock_hz(&self) -> f64 {
        self.core.clock_mhz * 1e6
    }

    /// Of an instruction's traffic, the bytes of the kind by which the peak was measured that keep the memory as busy.
    pub(crate) fn busy_bytes(&self, traffic: Traffic) -> f64 {
        traffic.cost(self.memory_rates.as_ref()).unwrap_or(traffic.bytes)
    }

    /// Do its core's threads take turns in one pipeline?
    pub(crate) fn is_fine_grained(&self) -> bool {
        self.core.smt == Smt::FineGrained
    }

    /// Misses that a thread can have outstanding: all of the core's, or its part of them where the
    /// threads of a core are equal shares of an in-order pipeline.
    pub(crate) fn outstanding_misses(&self) -> f64 {
        let of_core = f64::from(self.core.outstanding_misses);
        if self.is_fine_grained() {
            (of_core / f64::from(self.core.threads)).max(1.0)
        } else {
            of_core
        }
    }

    /// The share of the LLC's lines that are still there when they were not used for so long.
    pub(crate) fn survives(&self, seconds: f64) -> f64 {
        let after = self.survival.partition_point(|point| point.0 <= seconds);
        let at = |index: usize| self.survival[index];
        let before = if after == 0 { (0.0, 1.0) } else { at(after - 1) };
        if let Some(&next) = self.survival.get(after) {
            return before.1 + (next.1 - before.1) * (seconds - before.0) / (next.0 - before.0);
        }
        // Beyond what was measured the last chance of being evicted holds on.
        let Some(earlier) = after.checked_sub(1) else { return 1.0 };
        let (time, share) = if earlier == 0 { (0.0, 1.0) } else { at(earlier - 1) };
        let rate = (share / before.1.max(1e-6)).ln().max(0.0) / (before.0 - time);
        before.1 * (-rate * (seconds - before.0)).exp()
    }

    /// The most bytes of an LRU cache that tables tell of: lines of one use that leave sooner give room to reuses that a
    /// larger LRU cache would hold, and so do places for pages that few fall on.
    pub(crate) fn most_bytes(&self) -> f64 {
        let most = self.llc_bytes / self.single_use_life;
        self.page_sets.map_or(most, |sets| sets.most(most))
    }

    /// Do programs outside the machine share the LLC, and is known how it replaces its lines beside them?
    pub(crate) fn has_outside(&self) -> bool {
        self.random_use_life.is_some() && !self.survival.is_empty()
    }

    /// How long lines of the LLC stay, relative to those that are used again.
    pub(crate) fn lives(&self) -> LineLives {
        let once = self.random_use_life.unwrap_or(self.single_use_life);
        let prefetching = self.core.prefetching.as_ref();
        let next_line = prefetching.and_then(|known| known.next_line).unwrap_or(0.0);
        LineLives::of(self.single_use_life, once, next_line)
    }

    /// The time in seconds for which a line of the LLC stays on average that was used again and that nobody on the machine
    /// uses, by the time after which half of such lines are left.
    pub(crate) fn life(&self) -> f64 {
        let (mut low, mut high) = (0.0, 1e-6);
        while self.survives(high) > HALF && high < 1e9 {
            high *= 2.0;
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if self.survives(middle) > HALF { low = middle } else { high = middle }
        }
        high / self.lives().median()
    }

    /// Misses of the LLC per 1000 instructions of a phase that holds `occupancy` bytes of it.
    pub(crate) fn llc_mpki(&self, phase: &Phase, occupancy: f64) -> f64 {
        let at = |bytes: f64| phase.curve.mpki(bytes.max(1.0)).value;
        let unwritten = at(self.curve_bytes(occupancy));
        unwritten + phase.dirty_share * (at(self.written_curve_bytes(occupancy)) - unwritten)
    }

    /// The size at which a program's own curve is read when it holds `occupancy` bytes of the LLC, for lines that it does not
    /// write: what is in the private cache is in the LLC, too, unless it holds what the other does not, and the capacities add.
    pub(crate) fn curve_bytes(&self, occupancy: f64) -> f64 {
        match self.inclusion {
            Inclusion::Inclusive | Inclusion::Neither => occupancy.max(self.private_bytes),
            Inclusion::NonInclusive => occupancy + self.private_bytes,
        }
    }

    /// The same for lines that it writes: those that the private cache writes back are new in the LLC when they leave it.
    pub(crate) fn written_curve_bytes(&self, occupancy: f64) -> f64 {
        match self.inclusion {
            Inclusion::Neither => occupancy + self.private_bytes,
            Inclusion::Inclusive | Inclusion::NonInclusive => self.curve_bytes(occupancy),
        }
    }

    /// The other way round; below 0 where the private cache alone is larger.
    pub(crate) fn occupancy_bytes(&self, curve_bytes: f64) -> f64 {
        match self.inclusion {
            Inclusion::Inclusive | Inclusion::Neither => curve_bytes,
            Inclusion::NonInclusive => curve_bytes - self.private_bytes,
        }
    }

    /// Bytes held of the LLC at which misses change where the curve does so at `curve_bytes`; below 0 where the private cache alone
    /// is larger.
    pub(crate) fn steps(&self, curve_bytes: f64) -> impl Iterator<Item = f64> {
        let of_written = self.inclusion == Inclusion::Neither;
        let written = of_written.then_some(curve_bytes - self.private_bytes);
        [self.occupancy_bytes(curve_bytes)].into_iter().chain(written)
    }

    /// Speed of each hardware thread relative to alone when `busy` threads of its core run: linear
    /// between 1 for one and the core type's yield over its threads for all. 1 on a fine-grained core,
    /// whose [`crate::pipeline`] asks who they are.
    pub(crate) fn smt_speed(&self, busy: u32) -> f64 {
        let threads = f64::from(self.core.threads);
        if busy <= 1 || threads <= 1.0 || self.is_fine_grained() {
            return 1.0;
        }
        let all = self.core.smt_yield.unwrap_or(DEFAULT_SMT_THROUGHPUT);
        let full = (all / threads).min(1.0);
        let more = (f64::from(busy) - 1.0) / (threads - 1.0);
        1.0 - (1.0 - full) * more.min(1.0)
    }
}

/// Load-to-use latency where the machine does not say: typical cycles of the level (4 for a first
/// level, 14 for a second, 44 for a third: Intel 64 and IA-32 Optimization Reference Manual,
/// table of Skylake's cache parameters).
fn latency_ns(cache: &Cache, core: &CoreType) -> f64 {
    let cycles = match cache.level {
        0 | 1 => 4.0,
        2 => 14.0,
        _ => 44.0,
    };
    cache.latency_ns.unwrap_or(cycles / core.clock_mhz * 1e3)
}

/// Of the controller of local memory, in bytes of its peak: what was measured of reads alone, and with written lines.
fn memory_rates(machine: &Machine, cpu: usize) -> Option<RatesByMix> {
    let domains = machine.bandwidth_domains();
    let path = machine.memory_path(cpu, machine.cpus()[cpu].node);
    let mut controllers = path
        .into_iter()
        .map(|domain| &domains[domain])
        .filter(|domain| domain.kind == BandwidthKind::MemoryController);
    let of_controller = |domain: &BandwidthDomain| {
        let rates = RatesByMix::of(domain.rates.as_ref()?)?;
        Some(rates.in_bytes_of_peak(domain.peak_mb_per_s * 1e6))
    };
    controllers.find_map(of_controller)
}

/// From one line to the next that one core reads out of a cache; 0 where that was not measured.
fn line_ns(cache: &Cache) -> f64 {
    let mb_per_s = cache.rates.and_then(|rates| rates.read_mb_per_s);
    let line_bytes = cache.line_bytes.map_or(DEFAULT_LINE_BYTES, f64::from);
    mb_per_s.map_or(0.0, |rate| line_bytes / rate * 1e3)
}

fn reference_clock(machine: &Machine) -> f64 {
    machine.core_types().get(machine.fastest_core_type()).map_or(0.0, |core| core.clock_mhz)
}

/// The largest cache in front of the LLC; 0 where there is none. The curves of programs count
/// instruction fetches too, so where a fine-grained core has split first-level caches alone, both
/// together filter them. (Elsewhere a unified cache stands behind them, or the split is small beside
/// what the model leaves out.)
fn private_bytes(machine: &Machine, cpu: usize, private: Option<&Cache>, smt: Smt) -> f64 {
    let Some(private) = private else { return 0.0 };
    let mut bytes = private.size_bytes;
    if smt == Smt::FineGrained && private.level == 1 && private.holds == CacheType::Data {
        let objects = machine.objects();
        let core = machine.cores()[machine.cpus()[cpu].core].object;
        let above = std::iter::successors(Some(core), |&index| objects[index].parent);
        let caches = above.filter_map(|index| objects[index].cache);
        let instructions = caches.filter(|cache| cache.holds == CacheType::Instruction);
        bytes += instructions.map(|cache| cache.size_bytes).sum::<u64>();
    }
    bytes as f64
}

/// The first-level cache that holds data, or instructions.
fn l1_cache(machine: &Machine, cpu: usize, holds: CacheType) -> Option<Cache> {
    let objects = machine.objects();
    let core = machine.cores()[machine.cpus()[cpu].core].object;
    let of = |index: usize| {
        let fits = |cache: &Cache| cache.holds == holds || cache.holds == CacheType::Unified;
        objects[index].cache.filter(|cache| cache.level == 1 && fits(cache))
    };
    let above = std::iter::successors(Some(core), |&index| objects[index].parent).find_map(of);
    above.or_else(|| objects[core].children.iter().find_map(|&index| of(index)))
}

fn positive(machine: &Machine, figure: &str, value: f64) -> Result<(), ModelError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(ModelError::Machine {
        machine: machine.name().to_owned(),
        figure: figure.to_owned(),
        found: value.to_string(),
        expected: "a number above 0",
    })
}

fn check_core(machine: &Machine, core: &CoreType) -> Result<(), ModelError> {
    let figure = |what: &str| format!("{what} of core type `{}`", core.name);
    positive(machine, &figure("clock_mhz"), core.clock_mhz)?;
    positive(machine, &figure("dispatch_width"), core.dispatch_width)?;
    positive(machine, &figure("capacity"), core.capacity)?;
    positive(machine, &figure("outstanding_misses"), f64::from(core.outstanding_misses))?;
    if let Some(smt_yield) = core.smt_yield {
        positive(machine, &figure("smt_yield"), smt_yield)?;
    }
    if core.branch_penalty_cycles.is_finite() && core.branch_penalty_cycles >= 0.0 {
        return Ok(());
    }
    Err(ModelError::Machine {
        machine: machine.name().to_owned(),
        figure: figure("branch_penalty_cycles"),
        found: core.branch_penalty_cycles.to_string(),
        expected: "a number >= 0",
    })
}

#[cfg(test)]
mod tests {
    use corun_machine::{Machine, ObjectSpec, preset};
    use corun_profile::{CurvePoint, InstructionMix, MissRateCurve};

    use super::*;

    /// The first CPU of a preset with another LLC.
    fn with_llc(change: impl Fn(&mut ObjectSpec)) -> Site {
        let mut spec = preset("epyc-9554").unwrap().spec().clone();
        fn visit(object: &mut ObjectSpec, see: &mut impl FnMut(&mut ObjectSpec)) {
            see(object);
            object.objects.iter_mut().for_each(|one| visit(one, see));
        }
        for object in &mut spec.objects {
            visit(object, &mut |one| {
                if one.level == Some(3) {
                    change(one);
                }
            });
        }
        let machine = Machine::from_spec(spec).unwrap();
        Site::of(&machine, 0, 1e11, 0.95, 1).unwrap()
    }

    /// The same whose LLC others outside the machine use.
    fn shared(idle_survival: &[(f64, f64)]) -> Site {
        with_llc(|llc| {
            llc.effective_kib = Some(4096);
            llc.idle_survival = idle_survival.to_vec();
        })
    }

    /// 20 misses within 1 MiB, which the private cache has, 8 within 2 MiB and none within 4; of the lines a quarter is written.
    #[test]
    fn capacities_add_as_the_llc_takes_what_the_private_cache_had() {
        const MIB: u64 = 1 << 20;
        let points = [(MIB, 20.0), (2 * MIB, 8.0), (4 * MIB, 0.0)];
        let points = points.map(|(bytes, mpki)| CurvePoint { bytes, mpki }).to_vec();
        let phase = Phase {
            instructions: 1_000_000,
            threads: 1,
            data_accesses_pki: 400.0,
            mix: InstructionMix::default(),
            prefetchable: 0.0,
            memory_level_parallelism: 1.0,
            dirty_share: 0.25,
            footprint_bytes: 4 * MIB,
            curve: MissRateCurve::new(points).unwrap(),
            core: None,
        };
        let cases = [
            (Inclusion::Inclusive, [20.0, 20.0, 8.0]),
            (Inclusion::NonInclusive, [20.0, 8.0, 4.0]),
            (Inclusion::Neither, [20.0, 20.0 - 3.0, 8.0 - 1.0]),
        ];
        for (inclusion, expected) in cases {
            let site = with_llc(|llc| llc.inclusion = Some(inclusion));
            for (held_mib, expected) in (0..).zip(expected) {
                let found = site.llc_mpki(&phase, f64::from(held_mib) * MIB as f64);
                assert!((found - expected).abs() < 1e-9, "{inclusion:?}, {held_mib}: {found}");
            }
            // Where the curve has a point, misses have one.
            let steps: Vec<f64> = site.steps(2.0 * MIB as f64).collect();
            let expected: &[u64] = match inclusion {
                Inclusion::Inclusive => &[2],
                Inclusion::NonInclusive => &[1],
                Inclusion::Neither => &[2, 1],
            };
            assert_eq!(steps, expected.iter().map(|mib| (mib * MIB) as f64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn lines_are_gone_as_was_measured_and_beyond_at_the_last_rate() {
        let site = shared(&[(2.0, 0.8), (10.0, 0.5)]);
        let left = |ms: f64| site.survives(ms * 1e-3);
        for (ms, share) in [(0.0, 1.0), (1.0, 0.9), (2.0, 0.8), (6.0, 0.65), (10.0, 0.5)] {
            assert!((left(ms) - share).abs() < 1e-12, "{ms} ms: {}", left(ms));
        }
        // From 2 to 10 ms 5 of 8 lines stayed; so do those from 10 to 18 ms.
        assert!((left(18.0) - 0.5 * 0.625).abs() < 1e-12, "{}", left(18.0));
        assert_eq!(shared(&[]).survives(1e3), 1.0);
    }

    #[test]
    fn neighbours_outside_are_counted_once() {
        assert_eq!(shared(&[]).llc_bytes, 4096.0 * 1024.0);
        assert_eq!(shared(&[(2.0, 0.8)]).llc_bytes, 32.0 * 1024.0 * 1024.0);
    }
}
