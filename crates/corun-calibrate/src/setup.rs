//! Which experiments a machine needs: memory to run over, and who runs where.

use std::sync::Arc;

use corun_machine::{CpuId, Machine};

use crate::CalibrateError;
use crate::bench::{pin, together};
use crate::chains::RandomChains;
use crate::cpus::{Cpus, Neighbours, code_cache_bytes, data_caches};
use crate::experiment::clock::Clock;
use crate::experiment::core::Core;
use crate::experiment::fetching::Fetching;
use crate::experiment::idle::IdleSurvival;
use crate::experiment::kernel::KernelCalls;
use crate::experiment::ladder::Ladder;
use crate::experiment::loaded::{Loaded, OwnLoaded};
use crate::experiment::memory::MemoryLatency;
use crate::experiment::memory_walk::MemoryWalk;
use crate::experiment::next_line::NextLine;
use crate::experiment::parallelism::{CHAINS, MissesTo, Parallelism};
use crate::experiment::predictor::BranchPredictor;
use crate::experiment::prefetching::Prefetching;
use crate::experiment::rates::{CoreRates, Group, GroupRates, MEMORY_RATES};
use crate::experiment::siblings::Siblings;
use crate::experiment::streaming::StreamResistance;
use crate::experiment::tlb::Tlb;
use crate::experiment::transfer::Transfer;
use crate::experiment::window::Window;
use crate::figure::{CodeSource, Distance, Figure, Rate};
use crate::kernel::LINE_BYTES;
use crate::nearness::Sharers;
use crate::plan::Steps;
use crate::region::Region;
use crate::rounds::{Experiment, Planned};
use crate::surroundings::TimedCores;

/// CPUs beside which a CPU is tried that count as cores.
const TRIED_APART: usize = 8;
/// The least memory that a CPU goes over, and how much more than its share of the LLC.
const LEAST_REGION_BYTES: f64 = 16.0 * 1048576.0;
const TIMES_LLC_SHARE: f64 = 4.0;
/// The least memory of a core that is measured by itself.
const LEAST_OWN_BYTES: f64 = 96.0 * 1048576.0;
/// Memory latency is measured over so many times the LLC.
const MEMORY_TIMES_LLC: f64 = 4.0;
/// The least memory over which page walks are measured: no TLB reaches so far.
const LEAST_WALKED_BYTES: f64 = 64.0 * 1048576.0;
/// What stands for an LLC of unknown size.
const UNKNOWN_LLC_BYTES: f64 = 16.0 * 1048576.0;

/// What stands for a level-1 instruction cache of unknown size.
const USUAL_CODE_BYTES: f64 = 32.0 * 1024.0;
/// How many times the level-1 instruction cache code has at least that counts as beyond it.
const BEYOND_CODE_CACHE: f64 = 2.0;

/// The experiments of a machine, and what they stand on.
pub(crate) struct Setup {
    /// The experiments.
    pub(crate) experiments: Vec<Planned>,
    /// Whether the kernel gave huge pages.
    pub(crate) huge_pages: bool,
    /// Of the smallest set over which memory latency was measured.
    pub(crate) far_bytes: f64,
    /// NUMA nodes without memory for this process, by the kernel's numbers.
    pub(crate) nodes_without_memory: Vec<u32>,
}

/// A core type with the CPU that it is measured on and the caches that this CPU sees.
struct Site {
    core_type: usize,
    cpu: CpuId,
    caches: Vec<(u32, f64)>,
    /// What the level-1 instruction cache holds.
    code_bytes: f64,
}

impl Site {
    fn llc_bytes(&self) -> f64 {
        self.caches.last().map_or(UNKNOWN_LLC_BYTES, |cache| cache.1)
    }

    /// Bytes of the largest cache before the LLC.
    fn private_bytes(&self) -> f64 {
        match self.caches[..] {
            [.., private, _] => private.1,
            _ => self.llc_bytes() / 8.0,
        }
    }

    /// Bytes of a set whose lines hit the LLC and hardly a cache before it, even where others take
    /// most of the LLC.
    fn llc_set_bytes(&self) -> f64 {
        (2.0 * self.private_bytes()).min((self.private_bytes() * self.llc_bytes()).sqrt())
    }

    /// Bytes of code that lies in the private cache beyond level 1, and in the LLC, where there are both.
    fn code_sets(&self) -> Vec<(CodeSource, usize)> {
        if self.caches.len() < 2 {
            return Vec::new();
        }
        let private = (self.code_bytes * self.private_bytes()).sqrt();
        let mut sets = vec![(CodeSource::Llc, self.llc_set_bytes() as usize)];
        if private >= BEYOND_CODE_CACHE * self.code_bytes {
            sets.push((CodeSource::Private, private as usize));
        }
        sets
    }

    /// By level, bytes of a set that hits there.
    fn cache_sets(&self) -> Vec<(u32, usize)> {
        let last = self.caches.len().saturating_sub(1);
        let bytes = |(place, &(level, bytes)): (usize, &(u32, f64))| {
            let set = if place == last && last > 0 { self.llc_set_bytes() } else { bytes / 2.0 };
            (level, set as usize)
        };
        self.caches.iter().enumerate().map(bytes).collect()
    }
}

/// The CPUs that run together, each with memory of its own.
struct Together<'a> {
    machine: &'a Machine,
    cpus: &'a Cpus,
    regions: Vec<Arc<Region>>,
    /// What all sets may take.
    memory_bytes: f64,
}

impl<'a> Together<'a> {
    /// Each CPU touches its memory, so that the memory is near.
    fn new(
        machine: &'a Machine,
        cpus: &'a Cpus,
        memory_bytes: f64,
    ) -> Result<Self, CalibrateError> {
        let most = (memory_bytes / 4.0 / cpus.together.len() as f64).max(LEAST_REGION_BYTES);
        let made = together(&cpus.together, |place| {
            let cpu = cpus.together[place];
            let llc =
                machine.cpu_index(cpu).map(|index| &machine.llcs()[machine.cpus()[index].llc]);
            let size = llc.and_then(|llc| llc.cache).map(|cache| cache.size_bytes as f64);
            let sharers = llc.map_or(1, |llc| llc.cpus.intersection(&cpus.allowed).len().max(1));
            let share = TIMES_LLC_SHARE * size.unwrap_or(UNKNOWN_LLC_BYTES) / sharers as f64;
            let is_measured = cpus.of_types.iter().any(|(_, measured)| *measured == cpu);
            let least = if is_measured { LEAST_OWN_BYTES } else { LEAST_REGION_BYTES };
            Region::new(share.max(least).min(most) as usize)
        })?;
        let made: Result<Vec<Region>, CalibrateError> = made.into_iter().collect();
        let regions = made?.into_iter().map(Arc::new).collect();
        Ok(Self { machine, cpus, regions, memory_bytes })
    }

    fn region(&self, cpu: CpuId) -> Option<Arc<Region>> {
        let place = self.cpus.together.iter().position(|&other| other == cpu)?;
        Some(Arc::clone(&self.regions[place]))
    }

    /// Those of the CPUs that run together, each with its own memory.
    fn group(&self, cpus: impl IntoIterator<Item = CpuId>) -> Group {
        let with_memory = |cpu| Some((cpu, self.region(cpu)?));
        let (cpus, regions) = cpus.into_iter().filter_map(with_memory).unzip();
        Group { cpus, regions }
    }

    fn of_node(&self, node: usize) -> Group {
        self.group(self.machine.nodes()[node].cpus.iter())
    }

    /// The CPUs of a node, each with memory of another node.
    fn across(&self, from: usize, to: usize) -> Group {
        let (here, there) = (self.of_node(from), self.of_node(to));
        let count = here.cpus.len().min(there.regions.len());
        Group { cpus: here.cpus[..count].to_vec(), regions: there.regions[..count].to_vec() }
    }
}

impl Setup {
    /// The experiments of this machine, in at most so much memory, which is touched.
    ///
    /// # Errors
    /// When there is not enough memory, or a thread cannot be held on a CPU.
    pub(crate) fn new(
        machine: &Machine,
        cpus: &Cpus,
        quick: bool,
        memory_bytes: f64,
        go_on: &mut dyn FnMut() -> Result<(), CalibrateError>,
    ) -> Result<Self, CalibrateError> {
        go_on()?;
        let steps = Steps::new(quick);
        let mut setup = Self {
            experiments: Vec::new(),
            huge_pages: true,
            far_bytes: f64::INFINITY,
            nodes_without_memory: Vec::new(),
        };
        let together = Together::new(machine, cpus, memory_bytes)?;
        go_on()?;
        let pages = steps.pages(memory_bytes);
        let apart = RandomChains::line_a_page(pages.clone())?;
        go_on()?;
        let side_by_side = RandomChains::side_by_side(pages)?;
        for (place, &(core_type, cpu)) in cpus.of_types.iter().enumerate() {
            pin(cpu)?;
            go_on()?;
            let caches = data_caches(machine, cpu);
            let code_bytes = code_cache_bytes(machine, cpu).unwrap_or(USUAL_CODE_BYTES);
            let site = Site { core_type, cpu, caches, code_bytes };
            let chains = RandomChains::side_by_side(steps.ladder(&site.caches, memory_bytes))?;
            go_on()?;
            setup.huge_pages &= chains.has_huge_pages();
            let largest = chains.sizes().last().map_or(0, |lines| lines * LINE_BYTES);
            setup.far_bytes = setup.far_bytes.min(largest as f64);
            let core = TimedCores::one(core_type, cpu);
            setup.add(&core, Clock::new(core_type, cpu, &cpus.from(cpu)));
            setup.add(&core, Core::new(core_type, cpu));
            setup.add(&core, BranchPredictor::new(core_type, cpu));
            setup.add(&core, Fetching::new(core_type, cpu, code_bytes, &site.code_sets()));
            setup.add(&core, Tlb::new(core_type, cpu, site.private_bytes(), &apart, &side_by_side));
            let neighbours = Neighbours::of(machine, &cpus.allowed, cpu);
            setup.add_memory(&site, &chains, (&together, &neighbours), &steps)?;
            go_on()?;
            setup.add_neighbours(&site, &neighbours, &together);
            if place == 0 {
                setup.add_machine(&site, &chains, &together, &neighbours)?;
            }
            setup.add(&core, Ladder::new(core_type, cpu, site.caches, &chains));
        }
        Ok(setup)
    }

    /// Of cores that have to be free meanwhile.
    fn add(&mut self, cores: &TimedCores, experiment: impl Experiment + 'static) {
        self.add_beside(experiment, Some(cores.clone()), None);
    }

    /// Of cores that have to be free meanwhile, and CPUs that have to share a cache.
    fn add_beside(
        &mut self,
        experiment: impl Experiment + 'static,
        cores: Option<TimedCores>,
        sharers: Option<Sharers>,
    ) {
        self.experiments.push(Planned { experiment: Box::new(experiment), sharers, cores });
    }

    /// What one core does with its caches and memory.
    fn add_memory(
        &mut self,
        site: &Site,
        chains: &RandomChains,
        (together, neighbours): (&Together<'_>, &Neighbours),
        steps: &Steps,
    ) -> Result<(), CalibrateError> {
        let (core_type, cpu) = (site.core_type, site.cpu);
        let core = TimedCores::one(core_type, cpu);
        let most = CHAINS[CHAINS.len() - 1];
        let far = chains.of_at_least((MEMORY_TIMES_LLC * site.llc_bytes()) as usize / LINE_BYTES);
        let near = chains.of_at_least(site.llc_set_bytes() as usize / LINE_BYTES);
        let places = chains.places(far, most);
        self.add(&core, Parallelism::new(core_type, cpu, MissesTo::Memory, places.clone()));
        if let [.., (_, private_bytes), (level, _)] = site.caches[..] {
            let far = places[most * 5 / 8].clone();
            // Which lines are left does not depend on who uses the core, and a look takes long.
            let idle = IdleSurvival::new(core_type, cpu, level, private_bytes, far)?;
            self.add_beside(idle, None, None);
        }
        let walked = (MEMORY_TIMES_LLC * site.llc_bytes())
            .max(LEAST_WALKED_BYTES)
            .min(together.memory_bytes / 8.0) as usize;
        let walked = RandomChains::near_and_far(walked / LINE_BYTES)?;
        self.add(&core, MemoryWalk::new(core_type, cpu, walked));
        let hits = chains.places(near, most);
        self.add(&core, Parallelism::new(core_type, cpu, MissesTo::Llc, hits));
        let pair = [places[most / 8].clone(), places[most / 2].clone()];
        self.add(&core, Window::new(core_type, cpu, pair, steps.filler_step));
        // A CPU that a quota leaves no time beside others still has its own turn.
        let region = match together.region(cpu) {
            Some(region) => region,
            None => Arc::new(Region::new(LEAST_OWN_BYTES as usize)?),
        };
        if let [.., (_, private_bytes), (level, llc_bytes)] = site.caches[..] {
            let far = places[most * 7 / 8].clone();
            let other = neighbours.same_llc.iter().find(|&&other| together.region(other).is_some());
            let at = (core_type, [cpu, *other.unwrap_or(&cpu)], level);
            let most = together.memory_bytes / 8.0;
            let streams = StreamResistance::new(at, [private_bytes, llc_bytes], most, far)?;
            self.add_beside(streams, None, Sharers::of_last_cache(together.machine, &at.1));
        }
        let lines = (2.0 * site.llc_bytes()).min(together.memory_bytes / 8.0) as usize / LINE_BYTES;
        self.add(&core, Prefetching::new(core_type, cpu, Arc::clone(&region), lines)?);
        self.add(&core, NextLine::new(core_type, cpu, Arc::clone(&region)));
        let own = places[most / 4].clone();
        self.add(&core, OwnLoaded::new(core_type, cpu, own, Arc::clone(&region)));
        self.add(&core, CoreRates::new(core_type, cpu, region, site.cache_sets()));
        Ok(())
    }

    /// What other CPUs cost this one.
    fn add_neighbours(&mut self, site: &Site, neighbours: &Neighbours, together: &Together<'_>) {
        let cpu = site.cpu;
        let threads = together.group(std::iter::once(cpu).chain(neighbours.same_core.clone()));
        if threads.cpus.len() > 1 {
            let sharers = Sharers::of_core(&threads.cpus);
            let core = TimedCores::one(site.core_type, cpu);
            self.add_beside(Siblings::of_core(site.core_type, threads), Some(core), sharers);
        }
        for &other in neighbours.same_llc.iter().take(TRIED_APART) {
            let pair = together.group([cpu, other]);
            if pair.cpus.len() == 2 {
                let cores = TimedCores::of(together.machine, &pair.cpus);
                self.add_beside(Siblings::apart(pair), cores, None);
            }
        }
    }

    /// What is measured once, from the first core type's CPU.
    fn add_machine(
        &mut self,
        site: &Site,
        chains: &RandomChains,
        together: &Together<'_>,
        neighbours: &Neighbours,
    ) -> Result<(), CalibrateError> {
        let (machine, cpu) = (together.machine, site.cpu);
        let core = TimedCores::one(site.core_type, cpu);
        let far = chains.of_at_least((MEMORY_TIMES_LLC * site.llc_bytes()) as usize / LINE_BYTES);
        if machine.nodes().len() > 1 {
            self.add_nodes(site, together);
        } else {
            self.add(&core, MemoryLatency::new(vec![(0, cpu, 0, chains.chain(far))]));
        }
        for node in 0..machine.nodes().len() {
            let group = together.of_node(node);
            if !group.cpus.is_empty() {
                let rates = MEMORY_RATES.map(|rate| (rate, Figure::NodeRate(node, rate)));
                self.add_rates(machine, group, rates.to_vec());
            }
        }
        if !neighbours.other_llcs.is_empty()
            && let Some(index) = machine.cpu_index(cpu)
        {
            let llc = machine.cpus()[index].llc;
            let group = together.group(machine.llcs()[llc].cpus.iter());
            self.add_rates(machine, group, vec![(Rate::Mixed, Figure::LlcRate(llc))]);
        }
        let others = together.cpus.together.iter().copied().filter(|&other| other != cpu);
        let others = together.group(others);
        if !others.cpus.is_empty() {
            let all: Vec<CpuId> = std::iter::once(cpu).chain(others.cpus.clone()).collect();
            let loaded = Loaded::new(cpu, chains.places(far, 4).remove(3), others);
            let cores = TimedCores::of(machine, &all);
            self.add_beside(loaded, cores, Sharers::of_last_cache(machine, &all));
        }
        let pairs = [
            (Distance::SameCore, &neighbours.same_core),
            (Distance::SameLlc, &neighbours.same_llc),
            (Distance::OtherLlc, &neighbours.other_llcs),
            (Distance::OtherNode, &neighbours.other_nodes),
        ];
        for (distance, others) in pairs {
            let other = others.iter().find(|other| together.region(**other).is_some());
            if let Some(&other) = other.filter(|_| together.cpus.together.contains(&cpu)) {
                let sharers = match distance {
                    Distance::SameCore => Sharers::of_core(&[cpu, other]),
                    Distance::SameLlc => Sharers::of_last_cache(machine, &[cpu, other]),
                    Distance::OtherLlc | Distance::OtherNode => None,
                };
                let cores = TimedCores::of(machine, &[cpu, other]);
                self.add_beside(Transfer::new(distance, [cpu, other]), cores, sharers);
            }
        }
        self.add(&core, KernelCalls::new(cpu, self.huge_pages));
        Ok(())
    }

    /// What the CPUs of a group reach together.
    fn add_rates(&mut self, machine: &Machine, group: Group, points: Vec<(Rate, Figure)>) {
        let sharers = Sharers::of_last_cache(machine, &group.cpus);
        let cores = TimedCores::of(machine, &group.cpus);
        self.add_beside(GroupRates::new(group, points), cores, sharers);
    }

    /// Latencies and rates between NUMA nodes.
    fn add_nodes(&mut self, site: &Site, together: &Together<'_>) {
        let machine = together.machine;
        let nodes = machine.nodes();
        let most = together.memory_bytes / 8.0 / nodes.len() as f64;
        let lines = (2.0 * site.llc_bytes()).min(most) as usize / LINE_BYTES;
        let mut ways = Vec::new();
        for (to, node) in nodes.iter().enumerate() {
            let Ok(memory) = RandomChains::on_node(lines.max(1), node.os_index) else {
                self.nodes_without_memory.push(node.os_index);
                continue;
            };
            for from in 0..nodes.len() {
                if let Some(&cpu) = together.of_node(from).cpus.first() {
                    ways.push((from, cpu, to, memory.chain(0)));
                }
            }
        }
        if !ways.is_empty() {
            let cores = ways.iter().map(|way| way.1).collect::<Vec<_>>();
            let cores = TimedCores::of(machine, &cores);
            self.add_beside(MemoryLatency::new(ways), cores, None);
        }
        let with_cpus: Vec<usize> =
            (0..nodes.len()).filter(|&node| !together.of_node(node).cpus.is_empty()).collect();
        for (place, &from) in with_cpus.iter().enumerate() {
            let to = with_cpus[(place + 1) % with_cpus.len()];
            if to != from {
                let link = vec![(Rate::Mixed, Figure::LinkRate(from))];
                self.add_rates(machine, together.across(from, to), link);
            }
        }
    }
}
