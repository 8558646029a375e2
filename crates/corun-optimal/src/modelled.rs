//! The model's own optimum: placements judged by corun-model.

use std::sync::Arc;

use corun_machine::{Machine, Smt};
use corun_model::{
    BandwidthModel, Compatibility, Demand, Flow, LoadedProgram, Member, Model, ModelOptions,
    Outcome, Scratch,
};

use crate::contention::{Contention, Coupling, CpuSlot};
use crate::error::PlacementError;
use crate::placement::Placer;

/// Programs to be placed by a model, one thread each, each as a whole or in one phase throughout.
#[derive(Debug, Clone)]
pub struct PlacementProblem<'p> {
    model: &'p Model,
    programs: &'p [Arc<LoadedProgram>],
    phases: Vec<usize>,
    /// Share of pages by node; empty: local.
    homes: Vec<Vec<f64>>,
    /// Of each LLC its size in bytes.
    capacities: Vec<f64>,
    coupling: Coupling,
}

impl<'p> PlacementProblem<'p> {
    /// Each program as a whole ([`LoadedProgram::WHOLE`]), with its pages where it runs. The same `Arc` given
    /// twice is two equal programs, which saves the search their mirror images.
    ///
    /// # Errors
    /// [`PlacementError::NoProgram`], [`PlacementError::TooManyThreads`],
    /// [`PlacementError::TooManyLlcs`].
    pub fn new(
        model: &'p Model,
        programs: &'p [Arc<LoadedProgram>],
    ) -> Result<Self, PlacementError> {
        let machine = model.machine();
        let sizes = machine.llcs().iter().map(|llc| llc.cache.map_or(0, |cache| cache.size_bytes));
        let mut problem = Self {
            model,
            programs,
            phases: vec![LoadedProgram::WHOLE; programs.len()],
            homes: vec![Vec::new(); programs.len()],
            capacities: sizes.map(|bytes| bytes as f64).collect(),
            coupling: Coupling::Any,
        };
        problem.placer()?;
        problem.coupling = coupling(machine, model.options(), &problem.homes);
        Ok(problem)
    }

    /// Sets the phase of each program (index in [`LoadedProgram::phases`], or
    /// [`LoadedProgram::WHOLE`]).
    ///
    /// # Errors
    /// [`PlacementError::Length`] when they are not as many as programs,
    /// [`PlacementError::Phase`] when a program has no such phase.
    pub fn with_phases(mut self, phases: Vec<usize>) -> Result<Self, PlacementError> {
        self.check_length("phases", phases.len())?;
        for (program, &phase) in self.programs.iter().zip(&phases) {
            if phase >= program.phases.len() && phase != LoadedProgram::WHOLE {
                let phases = program.phases.len();
                return Err(PlacementError::Phase { program: program.name.clone(), phase, phases });
            }
        }
        self.phases = phases;
        Ok(self)
    }

    /// Sets each program's home: the node (index in [`Machine::nodes`]) that holds its pages;
    /// none: they are where it runs.
    ///
    /// # Errors
    /// [`PlacementError::Length`] when they are not as many as programs,
    /// [`PlacementError::Home`] when there is no such node.
    pub fn with_homes(mut self, homes: &[Option<usize>]) -> Result<Self, PlacementError> {
        self.check_length("homes", homes.len())?;
        let nodes = self.model.machine().nodes().len();
        for (program, home) in homes.iter().enumerate() {
            let mut pages = Vec::new();
            if let Some(node) = *home {
                if node >= nodes {
                    let program = self.programs[program].name.clone();
                    return Err(PlacementError::Home { program, node, nodes });
                }
                pages.resize(nodes, 0.0);
                pages[node] = 1.0;
            }
            self.homes[program] = pages;
        }
        self.coupling = coupling(self.model.machine(), self.model.options(), &self.homes);
        Ok(self)
    }

    fn check_length(&self, what: &'static str, found: usize) -> Result<(), PlacementError> {
        let programs = self.programs.len();
        if found == programs {
            Ok(())
        } else {
            Err(PlacementError::Length { what, found, programs })
        }
    }

    /// The question as the searches ask it.
    ///
    /// # Errors
    /// As [`PlacementProblem::new`].
    pub fn placer(&self) -> Result<Placer<'_, Self>, PlacementError> {
        let same = |one: usize, other: usize| {
            Arc::ptr_eq(&self.programs[one], &self.programs[other])
                && self.phases[one] == self.phases[other]
                && self.homes[one] == self.homes[other]
        };
        let lowest = |one: usize| (0..one).find(|&other| same(one, other)).unwrap_or(one);
        let mut nodes: Vec<usize> = self.homes.iter().filter_map(|home| home_node(home)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let programs = self.programs.len();
        Ok(Placer::new(self.model.machine(), self, programs)?
            .with_equals((0..programs).map(lowest).collect())
            .with_fixed_nodes(nodes))
    }

    /// The outcomes of all of `slots` together, into the scratch.
    fn solve(&self, slots: &[CpuSlot], shares: &[Demand], scratch: &mut ModelScratch) {
        let mut flows: Vec<Flow<'_>> = recycled(std::mem::take(&mut scratch.flows));
        flows.extend(slots.iter().zip(shares).map(|(slot, demand)| Flow {
            member: self.member(slot),
            demand: *demand,
            home: &self.homes[slot.program],
        }));
        self.model.couple(&flows, &mut scratch.scratch, &mut scratch.outcomes);
        scratch.flows = recycled(flows);
    }

    fn member(&self, slot: &CpuSlot) -> Member<'p> {
        Member {
            program: &self.programs[slot.program],
            phase: self.phases[slot.program],
            cpu: slot.cpu,
        }
    }
}

fn home_node(home: &[f64]) -> Option<usize> {
    home.iter().position(|&pages| pages > 0.0)
}

/// How far the model's answers couple groups on different LLCs; the proofs are in docs/optimum.md.
fn coupling(machine: &Machine, options: ModelOptions, homes: &[Vec<f64>]) -> Coupling {
    if options.bandwidth == BandwidthModel::None {
        return Coupling::Apart;
    }
    let ways = ways(machine, options, homes);
    let of_llc =
        |llc: usize| ways.iter().filter(move |(of, _)| *of == llc).flat_map(|(_, way)| way);
    let llcs = machine.llcs().len();
    let meet = |a: usize, b: usize| of_llc(a).any(|domain| of_llc(b).any(|other| other == domain));
    if !(0..llcs).any(|a| (a + 1..llcs).any(|b| meet(a, b))) {
        return Coupling::Apart;
    }
    // A thread that is slowed in its core's pipeline asks less of the memory: others may gain by it.
    if machine.core_types().iter().any(|core| core.smt == Smt::FineGrained) {
        return Coupling::Any;
    }
    // A flow that is cut by its bus asks less of the next domain, so that others may gain by it.
    if ways.iter().any(|(_, way)| way.len() > 1) {
        return Coupling::Any;
    }
    if ways.iter().all(|(_, way)| *way == ways[0].1) { Coupling::Common } else { Coupling::Growing }
}

/// Each CPU's LLC and the bandwidth domains that a program there may pass, one entry a home.
fn ways(machine: &Machine, options: ModelOptions, homes: &[Vec<f64>]) -> Vec<(usize, Vec<usize>)> {
    let domains = machine.bandwidth_domains();
    let controller = corun_machine::BandwidthKind::MemoryController;
    let has_controller = domains.iter().any(|domain| domain.kind == controller);
    // The model puts all traffic through one more domain.
    let one_more = options.peak_mb_per_s.is_some() && !has_controller;
    let is_single = options.compatibility == Compatibility::Pbbcache
        && (options.peak_mb_per_s.is_some() || has_controller);
    let mut nodes: Vec<Option<usize>> = homes.iter().map(|home| home_node(home)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut ways = Vec::new();
    for (cpu, at) in machine.cpus().iter().enumerate() {
        for home in &nodes {
            let mut way = machine.memory_path(cpu, home.unwrap_or(at.node));
            if is_single {
                way.clear();
            }
            if is_single || one_more {
                way.push(domains.len());
            }
            ways.push((at.llc, way));
        }
    }
    ways
}

/// Working memory of the model's calls.
#[derive(Default)]
pub struct ModelScratch {
    scratch: Scratch,
    members: Vec<Member<'static>>,
    flows: Vec<Flow<'static>>,
    outcomes: Vec<Outcome>,
}

impl std::fmt::Debug for ModelScratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelScratch").finish_non_exhaustive()
    }
}

/// An empty vector in the memory of another: collected in place, as the layouts agree.
fn recycled<A, B>(mut vec: Vec<A>) -> Vec<B> {
    vec.clear();
    vec.into_iter().filter_map(|_| None).collect()
}

impl Contention for PlacementProblem<'_> {
    type Share = Demand;
    type Scratch = ModelScratch;

    fn share(&self, group: &[CpuSlot], scratch: &mut ModelScratch, shares: &mut Vec<Demand>) {
        shares.clear();
        let Some(first) = group.first() else { return };
        let llc = self.model.machine().cpus()[first.cpu].llc;
        let mut members: Vec<Member<'_>> = recycled(std::mem::take(&mut scratch.members));
        members.extend(group.iter().map(|slot| self.member(slot)));
        self.model.share(self.capacities[llc], &members, &mut scratch.scratch, shares);
        scratch.members = recycled(members);
    }

    fn couple(
        &self,
        slots: &[CpuSlot],
        shares: &[Demand],
        scratch: &mut ModelScratch,
        slowdowns: &mut Vec<f64>,
    ) {
        self.solve(slots, shares, scratch);
        slowdowns.extend(scratch.outcomes.iter().map(|outcome| outcome.slowdown));
    }

    fn traffic(&self, share: &Demand) -> f64 {
        share.bytes_per_s
    }

    fn lighter(&self, one: &Demand, other: &Demand) -> Demand {
        one.felt(other, f64::min)
    }

    fn heavier(&self, one: &Demand, other: &Demand) -> Demand {
        one.felt(other, f64::max)
    }

    fn passing(&self, slots: &[CpuSlot], shares: &[Demand], scratch: &mut ModelScratch) -> f64 {
        self.solve(slots, shares, scratch);
        scratch.outcomes.iter().map(|outcome| outcome.bytes_per_s).sum()
    }

    fn coupling(&self) -> Coupling {
        self.coupling
    }
}
