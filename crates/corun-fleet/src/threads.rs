//! Threads of a node, with what each holds of its LLC.
//!
//! The law of space divides each LLC among its own threads, so who comes to one LLC, or goes, changes nothing on the
//! others. What each thread asks of the memory is therefore kept, and only LLCs with other threads than before are divided
//! anew. Bandwidth couples all threads of the node each time.

use corun_model::{Demand, LoadedProgram, Member};

use crate::kind::{NodeKind, Prediction};

/// A thread of a node.
#[derive(Debug, Clone, Copy)]
struct Thread {
    program: u32,
    cpu: u32,
    llc: u32,
    /// What it asks of the memory, as its LLC is divided.
    demand: Demand,
}

/// The threads of a node, in the order of its residents.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    all: Vec<Thread>,
    /// By LLC: has somebody come or gone since it was divided?
    stale: Vec<bool>,
}

// A derived one has no `clone_from` of its own: each prediction would allocate.
impl Clone for Threads {
    fn clone(&self) -> Self {
        Self { all: self.all.clone(), stale: self.stale.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.all.clone_from(&source.all);
        self.stale.clone_from(&source.stale);
    }
}

impl Threads {
    /// None, on a node of so many LLCs.
    pub(crate) fn none(llcs: usize) -> Self {
        Self { all: Vec::new(), stale: vec![false; llcs] }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds a program's threads behind all others.
    pub(crate) fn add(&mut self, kind: &NodeKind, program: usize, cpus: &[u32]) {
        for &cpu in cpus {
            let llc = kind.machine().cpus()[cpu as usize].llc;
            self.stale[llc] = true;
            let (program, llc) = (program as u32, llc as u32);
            self.all.push(Thread { program, cpu, llc, demand: Demand::default() });
        }
    }

    /// Takes threads away, by their places.
    pub(crate) fn remove(&mut self, places: std::ops::Range<usize>) {
        for one in self.all.drain(places) {
            self.stale[one.llc as usize] = true;
        }
    }

    /// Divides the LLCs anew on which somebody came or went.
    pub(crate) fn divide(&mut self, kind: &NodeKind, prediction: &mut Prediction) {
        let Prediction { scratch, demands, .. } = prediction;
        for llc in 0..self.stale.len() {
            if !std::mem::take(&mut self.stale[llc]) {
                continue;
            }
            let here = |one: &&Thread| one.llc as usize == llc;
            let members: Vec<Member<'_>> =
                self.all.iter().filter(here).map(|one| one.member(kind)).collect();
            let Some(first) = members.first() else { continue };
            let capacity_bytes = kind.model().llc_bytes(first.cpu);
            kind.model().share(capacity_bytes, &members, scratch, demands);
            let of_llc = self.all.iter_mut().filter(|one| one.llc as usize == llc);
            for (one, demand) in of_llc.zip(&*demands) {
                one.demand = *demand;
            }
        }
    }

    /// How slow all are together, into `prediction`'s slowdowns, in their order. Each LLC must be divided.
    pub(crate) fn couple(&self, kind: &NodeKind, prediction: &mut Prediction) {
        debug_assert!(!self.stale.contains(&true));
        let flows = self.all.iter().map(|one| (one.member(kind), &one.demand, &[][..]));
        let Prediction { scratch, slowdowns, .. } = prediction;
        slowdowns.clear();
        kind.model().paces(flows, scratch, |pace| slowdowns.push(pace.slowdown));
    }
}

impl Thread {
    fn member<'a>(&self, kind: &'a NodeKind) -> Member<'a> {
        Member {
            program: kind.program(self.program as usize),
            phase: LoadedProgram::WHOLE,
            cpu: self.cpu as usize,
        }
    }
}
