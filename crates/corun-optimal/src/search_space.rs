//! What a search looks through: the LLCs with their CPU slots and symmetries, the programs, and who knows slowdowns.

use corun_machine::Machine;
use serde::{Deserialize, Serialize};

use crate::contention::{Contention, CpuSlot};
use crate::cpu_slots::{CpuSlots, SlotAssignment};
use crate::objective::{Criterion, Goal, Objective, PartialScore};
use crate::symmetry::Symmetry;

/// LLCs that are mirror images of one another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Orbit {
    /// Ascending.
    pub(crate) llcs: Vec<usize>,
}

pub(crate) struct SearchSpace<'a, C> {
    pub(crate) machine: &'a Machine,
    pub(crate) contention: &'a C,
    pub(crate) programs: usize,
    /// Of each program the lowest one that is its equal.
    pub(crate) equals: Vec<usize>,
    pub(crate) llcs: Vec<CpuSlots>,
    pub(crate) symmetry: Symmetry,
    pub(crate) orbits: Vec<Orbit>,
    /// Of each LLC its place in `orbits`.
    pub(crate) orbit_of: Vec<usize>,
    /// Of each CPU its LLC and position there.
    pub(crate) place_of: Vec<(usize, usize)>,
}

impl<'a, C: Contention> SearchSpace<'a, C> {
    /// `equals`: of each program the lowest one that is its equal. `fixed_nodes`: nodes that hold
    /// somebody's pages by name.
    pub(crate) fn new(
        machine: &'a Machine,
        contention: &'a C,
        equals: Vec<usize>,
        fixed_nodes: &[usize],
    ) -> Self {
        let llcs: Vec<CpuSlots> =
            (0..machine.llcs().len()).map(|llc| CpuSlots::of_llc(machine, llc)).collect();
        let symmetry = Symmetry::of(machine, &llcs, fixed_nodes);
        let lowest = symmetry.orbits();
        let mut orbits: Vec<Orbit> = Vec::new();
        let mut orbit_of = vec![0; llcs.len()];
        for llc in 0..llcs.len() {
            if lowest[llc] == llc {
                orbits.push(Orbit { llcs: Vec::new() });
                orbit_of[llc] = orbits.len() - 1;
            } else {
                orbit_of[llc] = orbit_of[lowest[llc]];
            }
            orbits[orbit_of[llc]].llcs.push(llc);
        }
        let mut place_of = vec![(0, 0); machine.cpus().len()];
        for (llc, slots) in llcs.iter().enumerate() {
            for (position, &cpu) in slots.cpus.iter().enumerate() {
                place_of[cpu] = (llc, position);
            }
        }
        let programs = equals.len();
        Self { machine, contention, programs, equals, llcs, symmetry, orbits, orbit_of, place_of }
    }

    pub(crate) fn cpus(&self) -> usize {
        self.place_of.len()
    }

    pub(crate) fn everybody(&self) -> u32 {
        if self.programs == 32 { u32::MAX } else { (1 << self.programs) - 1 }
    }

    pub(crate) fn slots_of(&self, llc: usize, assignment: &SlotAssignment) -> Vec<CpuSlot> {
        let cpus = &self.llcs[llc].cpus;
        assignment
            .iter()
            .map(|&(program, position)| CpuSlot { program, cpu: cpus[position] })
            .collect()
    }

    /// What placements of this space are judged by.
    pub(crate) fn criterion(&self, objective: Objective, goal: Goal) -> Criterion {
        let packages = self.machine.packages();
        let power = self.machine.power().filter(|_| objective.is_of_power());
        let busy = match goal {
            Goal::Best => {
                let mut sizes = vec![0; packages.len()];
                self.machine.cpus().iter().for_each(|cpu| sizes[cpu.package] += 1);
                sizes.sort_unstable_by(|one, other| other.cmp(one));
                let mut room = 0;
                let needed = sizes.iter().take_while(|&&size| {
                    let is_short = room < self.programs;
                    room += size;
                    is_short
                });
                needed.count()
            }
            Goal::Worst => packages.len().min(self.programs),
        };
        let packages_w = power.map_or(0.0, |power| power.package_active_w * busy as f64);
        Criterion::new(objective, goal, self.programs, packages_w)
    }

    /// What these programs draw but for their packages, as a bound of a criterion that asks for it: their cores, and
    /// looking for the worst the traffic that they ask for. Looking for the best no traffic is taken for granted.
    pub(crate) fn drawn(
        &self,
        criterion: &Criterion,
        slots: &[CpuSlot],
        shares: &[C::Share],
    ) -> PartialScore {
        let Some(power) = self.machine.power().filter(|_| criterion.objective.is_of_power()) else {
            return criterion.drawing(0.0);
        };
        let (_, cores) = self.machine.busy(slots.iter().map(|slot| slot.cpu));
        let bytes_per_s = match criterion.goal {
            Goal::Best => 0.0,
            Goal::Worst => shares.iter().map(|share| self.contention.traffic(share)).sum(),
        };
        criterion.drawing(power.above_idle_w(0, cores, bytes_per_s))
    }

    /// What the packages of these slots draw beyond the least that packages draw in any placement.
    pub(crate) fn packages_drawn(&self, criterion: &Criterion, slots: &[CpuSlot]) -> PartialScore {
        let power = self.machine.power().filter(|_| criterion.goal == Goal::Best);
        let beyond_w = power.map_or(0.0, |power| {
            let (packages, _) = self.machine.busy(slots.iter().map(|slot| slot.cpu));
            (power.package_active_w * packages as f64 - criterion.packages_w()).max(0.0)
        });
        criterion.drawing(beyond_w)
    }

    /// The slowdowns of a whole placement: the CPU of each program.
    pub(crate) fn slowdowns(&self, cpus: &[usize], scratch: &mut C::Scratch) -> Vec<f64> {
        self.outcome(cpus, false, scratch).0
    }

    /// The slowdowns of a whole placement, and what the machine draws above idle in watts, where the objective asks for
    /// that and it is known.
    pub(crate) fn judged(
        &self,
        objective: Objective,
        cpus: &[usize],
        scratch: &mut C::Scratch,
    ) -> (Vec<f64>, Option<f64>) {
        self.outcome(cpus, objective.is_of_power(), scratch)
    }

    /// The score of a whole placement.
    pub(crate) fn score(
        &self,
        criterion: &Criterion,
        cpus: &[usize],
        scratch: &mut C::Scratch,
    ) -> f64 {
        let (slowdowns, above_idle_w) = self.judged(criterion.objective, cpus, scratch);
        criterion.score_of(&slowdowns, above_idle_w)
    }

    /// What the machine draws above idle in watts, where that is known.
    pub(crate) fn above_idle_w(
        &self,
        slots: &[CpuSlot],
        shares: &[C::Share],
        scratch: &mut C::Scratch,
    ) -> Option<f64> {
        self.machine.power()?;
        let bytes_per_s = self.contention.passing(slots, shares, scratch);
        self.machine.power_above_idle_w(slots.iter().map(|slot| slot.cpu), bytes_per_s)
    }

    fn outcome(
        &self,
        cpus: &[usize],
        with_power: bool,
        scratch: &mut C::Scratch,
    ) -> (Vec<f64>, Option<f64>) {
        let mut slots = Vec::with_capacity(self.programs);
        let mut shares = Vec::with_capacity(self.programs);
        for llc in 0..self.llcs.len() {
            let first = slots.len();
            let here = |&(_, &cpu): &(usize, &usize)| self.place_of[cpu].0 == llc;
            let group = cpus.iter().enumerate().filter(here);
            slots.extend(group.map(|(program, &cpu)| CpuSlot { program, cpu }));
            if slots.len() > first {
                let mut of_group = Vec::with_capacity(slots.len() - first);
                self.contention.share(&slots[first..], scratch, &mut of_group);
                shares.append(&mut of_group);
            }
        }
        let mut coupled = Vec::with_capacity(self.programs);
        self.contention.couple(&slots, &shares, scratch, &mut coupled);
        let mut slowdowns = vec![0.0; self.programs];
        for (slot, slowdown) in slots.iter().zip(coupled) {
            slowdowns[slot.program] = slowdown;
        }
        let above_idle_w =
            if with_power { self.above_idle_w(&slots, &shares, scratch) } else { None };
        (slowdowns, above_idle_w)
    }

    /// The placement's lowest mirror image: LLCs in order of the programs, then CPUs.
    pub(crate) fn lowest(&self, cpus: &[usize]) -> CpuPlacement {
        let images = self.symmetry.maps().into_iter().map(|map| self.renamed(cpus, &map));
        let lowest = images.min();
        lowest.unwrap_or_else(|| self.renamed(cpus, &(0..self.llcs.len()).collect::<Vec<_>>()))
    }

    fn renamed(&self, cpus: &[usize], map: &[usize]) -> CpuPlacement {
        let mut places: Vec<(usize, usize)> =
            cpus.iter().map(|&cpu| (map[self.place_of[cpu].0], self.place_of[cpu].1)).collect();
        self.sort_equals(&mut places);
        let mut placed = vec![0; self.programs];
        for (llc, slots) in self.llcs.iter().enumerate() {
            let assignment: SlotAssignment = places
                .iter()
                .enumerate()
                .filter(|(_, place)| place.0 == llc)
                .map(|(program, place)| (program, place.1))
                .collect();
            for (program, position) in slots.lowest(&assignment) {
                placed[program] = slots.cpus[position];
            }
        }
        CpuPlacement { llc: places.iter().map(|place| place.0).collect(), cpu: placed }
    }

    /// Equal programs take their places in ascending order.
    pub(crate) fn sort_equals<T: Ord + Copy>(&self, places: &mut [T]) {
        for first in 0..self.programs {
            let equals: Vec<usize> =
                (first..self.programs).filter(|&other| self.equals[other] == first).collect();
            if equals.len() > 1 {
                let mut of_class: Vec<T> = equals.iter().map(|&program| places[program]).collect();
                of_class.sort_unstable();
                for (&program, place) in equals.iter().zip(of_class) {
                    places[program] = place;
                }
            }
        }
    }
}

/// Where the programs sit. The order is the order of ties.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct CpuPlacement {
    /// LLC of each program.
    pub(crate) llc: Vec<usize>,
    /// CPU index of each program.
    pub(crate) cpu: Vec<usize>,
}
