//! Figures of a program alone at other places than its best: with its memory on another node, on a
//! slower core.

use crate::model::Model;
use crate::outcome::Outcome;
use crate::program::{Flow, LoadedPhase, LoadedProgram, Member};
use crate::scratch::Scratch;

impl Model {
    /// NUMA penalty (Majo and Gross, ISMM 2011, equation 1): cycles per instruction with all memory
    /// on another node / with local memory, alone, over all phases by their time; on the CPU that
    /// is best for the program, and the mean over the other nodes. None on a machine of one node.
    pub(crate) fn numa_penalty(&self, program: &LoadedProgram) -> Option<f64> {
        let nodes = self.machine().nodes().len();
        if nodes < 2 {
            return None;
        }
        let (cpu, local_s) = self.best_cpu(program)?;
        let here = self.machine().cpus()[cpu].node;
        let mut scratch = Scratch::new();
        let mut remote_s = 0.0;
        for node in (0..nodes).filter(|&node| node != here) {
            let mut home = vec![0.0; nodes];
            home[node] = 1.0;
            remote_s += seconds(program, |phase| {
                let member = Member { program, phase, cpu };
                let demand = self.demand_alone(program, phase, cpu);
                let mut out: Vec<Outcome> = Vec::with_capacity(1);
                self.couple(&[Flow { member, demand, home: &home }], &mut scratch, &mut out);
                out[0].instructions_per_s
            });
        }
        Some(remote_s / (nodes - 1) as f64 / local_s)
    }

    /// Speedup factor (García García, thesis UCM 2021, section 3.3): instructions a second on a core of
    /// the type of the highest capacity / on one of the lowest, alone, over all phases by their time.
    /// None on a machine of one core type.
    pub(crate) fn speedup_factor(&self, program: &LoadedProgram) -> Option<f64> {
        let machine = self.machine();
        let capacity = |cpu: usize| machine.core_types()[machine.cpus()[cpu].core_type].capacity;
        let by_capacity = |one: &usize, other: &usize| capacity(*one).total_cmp(&capacity(*other));
        let fastest = self.one_cpu_a_site().max_by(by_capacity)?;
        let slowest = self.one_cpu_a_site().min_by(by_capacity)?;
        if machine.cpus()[fastest].core_type == machine.cpus()[slowest].core_type {
            return None;
        }
        let alone = |cpu: usize| {
            seconds(program, |phase| self.solo(program, phase, cpu).instructions_per_s)
        };
        Some(alone(slowest) / alone(fastest))
    }

    /// The CPU (index) on which the program alone takes the least time, and that time.
    fn best_cpu(&self, program: &LoadedProgram) -> Option<(usize, f64)> {
        let times = self.one_cpu_a_site().map(|cpu| {
            (cpu, seconds(program, |phase| self.solo(program, phase, cpu).instructions_per_s))
        });
        times.min_by(|(_, one), (_, other)| one.total_cmp(other))
    }
}

/// Time of all phases one after the other, in seconds.
fn seconds(program: &LoadedProgram, mut instructions_per_s: impl FnMut(usize) -> f64) -> f64 {
    let of = |(index, phase): (usize, &LoadedPhase)| phase.instructions / instructions_per_s(index);
    program.phases.iter().enumerate().map(of).sum()
}
