//! Solutions of the model, remembered: a program's figures by occupancy, and the shares of a
//! cache group's members.
//!
//! What is remembered is a pure function of its key, so results are the same without.

use std::rc::Rc;

use corun_machine::{Cache, Machine};
use corun_model::{Demand, LoadedProgram, Member, Model, Scratch};
use rustc_hash::FxHashMap;

/// Steps in which occupancy is resolved while a cache fills.
pub(crate) const STEPS: usize = 64;

/// Entries of a table before it starts anew.
const MOST: usize = 1 << 14;
/// Capacities of cache parts for which a program's figures are kept at a time.
const MOST_CAPACITIES: usize = 64;

/// Who runs on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) slot: usize,
    pub(crate) cpu: usize,
    pub(crate) program: usize,
    pub(crate) phase: usize,
    /// Busy threads of its core that share its cache part; 1 where their number does not matter.
    pub(crate) busy: u32,
}

/// A program's figures by occupancy.
struct ByOccupancy {
    demands: [Option<Demand>; STEPS + 1],
    /// Of these the CPI, which is asked for most; not a number where it is not known yet.
    cpis: [f64; STEPS + 1],
}

/// The model's answers for an experiment's programs.
pub(crate) struct Tables<'a> {
    model: &'a Model,
    programs: Vec<&'a LoadedProgram>,
    /// By CPU: CPUs of the same kind, whose figures agree, have the same number.
    kinds: Vec<usize>,
    kind_count: usize,
    /// By program: where its first phase stands among all programs' phases.
    first_phases: Vec<usize>,
    memoise: bool,
    /// The largest [`Who::busy`].
    most_busy: usize,
    /// By phase, kind and busy threads: the figures for each capacity (its bits) that was asked for.
    by_occupancy: Vec<Vec<(u64, Box<ByOccupancy>)>>,
    shares: FxHashMap<Box<[u64]>, Rc<[Demand]>>,
    key: Vec<u64>,
    found: Vec<Demand>,
    members: Vec<Member<'a>>,
    pub(crate) scratch: Scratch,
}

impl<'a> Tables<'a> {
    pub(crate) fn new(model: &'a Model, programs: Vec<&'a LoadedProgram>, memoise: bool) -> Self {
        let kinds = kinds(model.machine());
        let kind_count = kinds.iter().max().map_or(0, |last| last + 1);
        let mut phases = 0;
        let first_phase = |program: &&LoadedProgram| {
            phases += program.phases.len();
            phases - program.phases.len()
        };
        let first_phases = programs.iter().map(first_phase).collect();
        let cpus = 0..model.machine().cpus().len();
        let divided = cpus.filter(|&cpu| model.divides_private_caches(cpu));
        let types = model.machine().core_types();
        let threads = divided.map(|cpu| types[model.machine().cpus()[cpu].core_type].threads);
        let most_busy = threads.max().unwrap_or(1).max(1) as usize;
        Self {
            model,
            programs,
            kinds,
            kind_count,
            first_phases,
            memoise,
            most_busy,
            by_occupancy: (0..phases * kind_count * most_busy).map(|_| Vec::new()).collect(),
            shares: FxHashMap::default(),
            key: Vec::new(),
            found: Vec::new(),
            members: Vec::new(),
            scratch: Scratch::new(),
        }
    }

    pub(crate) fn program(&self, index: usize) -> &'a LoadedProgram {
        self.programs[index]
    }

    /// CPUs of one number are alike in all that a program's figures depend on.
    pub(crate) fn kind(&self, cpu: usize) -> usize {
        self.kinds[cpu]
    }

    /// Fills in how many of these have a core in common, where that matters.
    pub(crate) fn count_busy(&self, group: &mut [Who]) {
        if self.most_busy == 1 {
            return;
        }
        let cpus = self.model.machine().cpus();
        for place in 0..group.len() {
            let cpu = group[place].cpu;
            if self.model.divides_private_caches(cpu) {
                let mates = group.iter().filter(|other| cpus[other.cpu].core == cpus[cpu].core);
                group[place].busy = mates.count() as u32;
            }
        }
    }

    pub(crate) fn member(&self, who: Who) -> Member<'a> {
        Member { program: self.programs[who.program], phase: who.phase, cpu: who.cpu }
    }

    /// The step of a cache part that stands for an occupancy; at least one.
    pub(crate) fn step(occupancy: f64, capacity: f64) -> usize {
        let steps = occupancy / capacity * STEPS as f64;
        // Rounded by hand: `round` is a call on x86-64 as it was first, and this runs very often.
        let below = steps as usize;
        let nearest = if steps - below as f64 >= 0.5 { below + 1 } else { below };
        nearest.clamp(1, STEPS)
    }

    /// A program's figures when it holds so many steps of a cache part.
    pub(crate) fn at(&mut self, who: Who, step: usize, capacity: f64) -> Demand {
        if !self.memoise {
            return self.demand_at(who, step, capacity);
        }
        if let Some(known) = self.by_occupancy(who, capacity).demands[step] {
            return known;
        }
        let demand = self.demand_at(who, step, capacity);
        let table = self.by_occupancy(who, capacity);
        table.cpis[step] = demand.cpi;
        *table.demands[step].insert(demand)
    }

    /// The CPI of [`Tables::at`].
    pub(crate) fn cpi_at(&mut self, who: Who, step: usize, capacity: f64) -> f64 {
        if self.memoise {
            let known = self.by_occupancy(who, capacity).cpis[step];
            if !known.is_nan() {
                return known;
            }
        }
        self.at(who, step, capacity).cpi
    }

    fn demand_at(&self, who: Who, step: usize, capacity: f64) -> Demand {
        let bytes = capacity * step as f64 / STEPS as f64;
        self.model.demand_beside(&self.member(who), who.busy, bytes)
    }

    fn by_occupancy(&mut self, who: Who, capacity: f64) -> &mut ByOccupancy {
        let phase = self.first_phases[who.program] + who.phase;
        let place = phase * self.kind_count + self.kinds[who.cpu];
        let tables = &mut self.by_occupancy[place * self.most_busy + who.busy as usize - 1];
        let capacity = capacity.to_bits();
        let known = tables.iter().position(|(known, _)| *known == capacity);
        let place = known.unwrap_or_else(|| {
            if tables.len() >= MOST_CAPACITIES {
                tables.clear();
            }
            let fresh = ByOccupancy { demands: [None; STEPS + 1], cpis: [f64::NAN; STEPS + 1] };
            tables.push((capacity, Box::new(fresh)));
            tables.len() - 1
        });
        &mut tables[place].1
    }

    /// The figures of each member of a cache group at its share, in the members' order.
    pub(crate) fn shares(&mut self, capacity: f64, group: &[Who]) -> Rc<[Demand]> {
        self.key.clear();
        self.key.push(capacity.to_bits());
        for who in group {
            self.key.push((who.cpu as u64) << 32 | who.program as u64);
            self.key.push(who.phase as u64);
        }
        if let Some(known) = self.shares.get(self.key.as_slice()) {
            return Rc::clone(known);
        }
        self.members.clear();
        for who in group {
            let member = self.member(*who);
            self.members.push(member);
        }
        self.found.clear();
        self.model.share(capacity, &self.members, &mut self.scratch, &mut self.found);
        let found: Rc<[Demand]> = self.found.as_slice().into();
        if self.memoise {
            if self.shares.len() > MOST {
                self.shares.clear();
            }
            self.shares.insert(self.key.as_slice().into(), Rc::clone(&found));
        }
        found
    }
}

/// What a CPU's figures depend on besides the program.
#[derive(PartialEq)]
struct Kind {
    core_type: usize,
    llc: Option<Cache>,
    private: Option<Cache>,
    local_latency_ns: Option<f64>,
    peaks_mb_per_s: Vec<f64>,
}

fn kinds(machine: &Machine) -> Vec<usize> {
    let mut seen: Vec<Kind> = Vec::new();
    let kind_of = |(index, cpu): (usize, &corun_machine::Cpu)| {
        let domains = machine.bandwidth_domains();
        let path = machine.memory_path(index, cpu.node);
        let kind = Kind {
            core_type: cpu.core_type,
            llc: machine.llcs()[cpu.llc].cache,
            private: machine.private_cache(index).copied(),
            local_latency_ns: machine.memory_latency_ns(cpu.node, cpu.node),
            peaks_mb_per_s: path.iter().map(|&d| domains[d].peak_mb_per_s).collect(),
        };
        seen.iter().position(|other| *other == kind).unwrap_or_else(|| {
            seen.push(kind);
            seen.len() - 1
        })
    };
    machine.cpus().iter().enumerate().map(kind_of).collect()
}
