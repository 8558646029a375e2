//! A kind of node: a machine, its model, and the programs as the model holds them.

use std::sync::Arc;

use corun_app::{Cancel, Result};
use corun_machine::Machine;
use corun_model::{Demand, LoadedProgram, Model, ModelOptions, Outcome, Running, Scratch};
use corun_profile::Profile;
use rayon::prelude::*;
use serde::Deserialize;

use crate::place::KnownPlaces;
use crate::threads::Threads;

/// Which CPUs of a node are given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seats {
    /// One hardware thread of each core: a CPU that a program asks for is a core of its own.
    #[default]
    Cores,
    /// Every hardware thread, those of idle cores first.
    Threads,
}

/// A kind of node. Nodes of one kind are alike. A clone shares the programs.
#[derive(Clone)]
pub struct NodeKind {
    model: Arc<Model>,
    programs: Arc<Vec<Arc<LoadedProgram>>>,
    /// CPU indices by LLC, in the order in which they are given out.
    seats: Vec<Vec<u32>>,
    memory_mib: Option<u64>,
}

/// Working memory of predictions, one a thread.
#[derive(Debug, Default)]
pub struct Prediction {
    pub(crate) scratch: Scratch,
    pub(crate) demands: Vec<Demand>,
    pub(crate) outcomes: Vec<Outcome>,
    /// Of all threads that were predicted last, in their order.
    pub(crate) slowdowns: Vec<f64>,
    /// Threads of a node as they would be.
    pub(crate) threads: Threads,
    pub(crate) places: KnownPlaces,
}

impl Prediction {
    /// The slowdowns that were predicted last, in the order of the threads.
    pub(crate) fn slowdowns<'a>(&'a self) -> impl Iterator<Item = f64> + use<'a> {
        self.slowdowns.iter().copied()
    }
}

impl NodeKind {
    /// The model of a machine with all programs loaded. `memory_mib` replaces what the machine file says
    /// of the node's memory.
    ///
    /// # Errors
    /// A machine or a profile with a figure that cannot be.
    pub fn new(
        machine: Machine,
        profiles: &[Profile],
        seats: Seats,
        memory_mib: Option<u64>,
        options: ModelOptions,
    ) -> Result<Self> {
        Self::unless(machine, profiles, seats, memory_mib, options, &Cancel::default())
    }

    /// The same, ended soon once the user wants to stop.
    ///
    /// # Errors
    /// As [`Self::new`], and the user's wish.
    pub(crate) fn unless(
        machine: Machine,
        profiles: &[Profile],
        seats: Seats,
        memory_mib: Option<u64>,
        options: ModelOptions,
        cancel: &Cancel,
    ) -> Result<Self> {
        let own_memory: Option<u64> =
            machine.nodes().iter().map(|node| node.memory_mib).sum::<Option<u64>>();
        let seats = seats_by_llc(&machine, seats);
        let model = Arc::new(Model::new(Arc::new(machine), options)?);
        let load = |profile: &Profile| {
            cancel.check()?;
            Ok(Arc::new(model.load(profile)?))
        };
        // The error of the first program, however they were shared out.
        let programs: Vec<Result<_>> = profiles.par_iter().map(load).collect();
        let programs = programs.into_iter().collect::<Result<_>>()?;
        Ok(Self {
            model,
            programs: Arc::new(programs),
            seats,
            memory_mib: memory_mib.or(own_memory),
        })
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        self.model.machine()
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The same kind with these programs for all from an index on. Each was loaded by the kind's own model.
    #[must_use]
    pub(crate) fn with_programs_from(&self, first: usize, more: &[Arc<LoadedProgram>]) -> Self {
        let kept = self.programs.iter().take(first).chain(more);
        Self { programs: Arc::new(kept.cloned().collect()), ..self.clone() }
    }

    /// A program as the model holds it.
    pub fn program(&self, program: usize) -> &LoadedProgram {
        &self.programs[program]
    }

    /// CPU indices by LLC, in the order in which they are given out.
    pub fn seats(&self) -> &[Vec<u32>] {
        &self.seats
    }

    /// CPUs that are given out.
    pub fn cpus(&self) -> u32 {
        self.seats.iter().map(|llc| llc.len() as u32).sum()
    }

    /// Memory in MiB, where known.
    pub fn memory_mib(&self) -> Option<u64> {
        self.memory_mib
    }

    /// Are the CPUs of each LLC alike, each a core of its own? Then how many of an LLC's CPUs a program has says all.
    pub(crate) fn llcs_have_equal_cpus(&self) -> bool {
        let cpus = self.machine().cpus();
        self.seats.iter().all(|llc| {
            let at = |index: usize| cpus[llc[index] as usize];
            (1..llc.len()).all(|one| {
                at(one).core_type == at(0).core_type
                    && (0..one).all(|other| at(other).core != at(one).core)
            })
        })
    }

    /// Can a program run faster because another LLC's programs come? Not where every local way to memory
    /// passes one bandwidth domain at most (docs/optimum.md, lemma 1).
    pub fn company_only_slows(&self) -> bool {
        let machine = self.machine();
        let one = |cpu: usize| machine.memory_path(cpu, machine.cpus()[cpu].node).len() <= 1;
        let plain = |cpu: usize| !self.model.divides_private_caches(cpu);
        self.seats.iter().flatten().all(|&cpu| one(cpu as usize) && plain(cpu as usize))
    }

    /// The slowdowns of threads that run together, in their order: of each its program and CPU index.
    /// Pages are on each thread's own node.
    pub fn slowdowns<'a>(
        &self,
        threads: impl Iterator<Item = (usize, u32)>,
        prediction: &'a mut Prediction,
    ) -> impl Iterator<Item = f64> + 'a {
        slowdowns(&self.model, &self.programs, threads, prediction)
    }

    /// The same by another model of this machine.
    pub(crate) fn slowdowns_by<'a>(
        &self,
        model: &Model,
        threads: impl Iterator<Item = (usize, u32)>,
        prediction: &'a mut Prediction,
    ) -> impl Iterator<Item = f64> + 'a {
        slowdowns(model, &self.programs, threads, prediction)
    }
}

fn slowdowns<'a>(
    model: &Model,
    programs: &[Arc<LoadedProgram>],
    threads: impl Iterator<Item = (usize, u32)>,
    prediction: &'a mut Prediction,
) -> impl Iterator<Item = f64> + 'a {
    let running: Vec<Running<'_>> = threads
        .map(|(program, cpu)| {
            Running::local(&programs[program], LoadedProgram::WHOLE, cpu as usize)
        })
        .collect();
    let Prediction { scratch, outcomes, .. } = prediction;
    model.solve(&running, scratch, outcomes);
    outcomes.iter().map(|one| one.slowdown)
}

/// Of each LLC the first threads of its cores, then the second ones and so on where all are given out.
fn seats_by_llc(machine: &Machine, seats: Seats) -> Vec<Vec<u32>> {
    let mut by_llc: Vec<Vec<(usize, u32)>> = vec![Vec::new(); machine.llcs().len()];
    for core in machine.cores() {
        for (thread, id) in core.cpus.iter().enumerate() {
            let index = machine.cpu_index(id).expect("a core's CPU is one of the machine's");
            if seats == Seats::Threads || thread == 0 {
                by_llc[machine.cpus()[index].llc].push((thread, index as u32));
            }
        }
    }
    let sorted = |mut llc: Vec<(usize, u32)>| {
        llc.sort_unstable();
        llc.into_iter().map(|(_, cpu)| cpu).collect()
    };
    by_llc.into_iter().map(sorted).collect()
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;

    use super::*;

    #[test]
    fn cores_are_given_out_once_and_threads_after_idle_cores() {
        let machine = preset("epyc-9554").unwrap();
        let cores = seats_by_llc(&machine, Seats::Cores);
        assert_eq!(cores.iter().map(Vec::len).collect::<Vec<_>>(), [8; 8]);
        let threads = seats_by_llc(&machine, Seats::Threads);
        assert_eq!(threads[0].len(), 16);
        let core = |cpu: u32| machine.cpus()[cpu as usize].core;
        let first: Vec<usize> = threads[0][..8].iter().map(|&cpu| core(cpu)).collect();
        let second: Vec<usize> = threads[0][8..].iter().map(|&cpu| core(cpu)).collect();
        assert_eq!(first, second);
    }
}
