//! A division of cores and ways that is held throughout a run.

use corun_machine::{CpuSet, Machine};
use corun_policy::{Action, ActionKind, CachePart, Event, Needs, Plan, Policy, View};

/// Ways are shared out so many at a time where all divisions are tried.
pub(super) const WAYS_A_STEP: u32 = 4;

/// Cores and ways of each party, in their order: services, then all other programs together where there are any.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FixedDivision {
    pub(super) parts: Vec<(u32, u32)>,
}

impl FixedDivision {
    /// Equal parts; the first get what is left over.
    pub(super) fn equal(parties: u32, cores: u32, ways: u32) -> Self {
        let part = |of: u32, place: u32| of / parties + u32::from(place < of % parties);
        let parts = (0..parties).map(|place| (part(cores, place), part(ways, place)));
        Self { parts: parts.collect() }
    }

    /// All divisions in which every party has a core and a step of ways, and nothing is left over.
    pub(super) fn all(parties: u32, cores: u32, ways: u32) -> Vec<Self> {
        let mut all = Vec::new();
        for of_cores in shares(parties, cores) {
            for of_ways in shares(parties, ways / WAYS_A_STEP) {
                let ways = of_ways.iter().map(|share| share * WAYS_A_STEP);
                all.push(Self { parts: of_cores.iter().copied().zip(ways).collect() });
            }
        }
        all
    }
}

/// The ways of writing a number as a sum of so many numbers from 1 up, in order.
fn shares(parties: u32, of: u32) -> Vec<Vec<u32>> {
    match parties {
        0 => Vec::new(),
        1 if of > 0 => vec![vec![of]],
        _ => {
            let firsts = 1..of;
            firsts
                .flat_map(|first| {
                    shares(parties - 1, of - first).into_iter().map(move |rest| {
                        std::iter::once(first).chain(rest).collect()
                    })
                })
                .collect()
        }
    }
}

/// Holds a division.
pub(super) struct Held {
    division: FixedDivision,
    /// The services by name, in the division's order.
    services: Vec<String>,
    asked: Vec<CachePart>,
}

impl Held {
    pub(super) fn new(division: FixedDivision, services: Vec<String>) -> Self {
        Self { division, services, asked: Vec::new() }
    }

    fn party(&self, program: &str) -> usize {
        let named = self.services.iter().position(|one| one == program);
        named.unwrap_or(self.services.len()).min(self.division.parts.len() - 1)
    }

    /// The CPUs of a party: cores in the machine's order.
    fn cpus(&self, machine: &Machine, party: usize) -> CpuSet {
        let before: u32 = self.division.parts[..party].iter().map(|part| part.0).sum();
        let own = self.division.parts[party].0;
        let cores = machine.cores().iter().skip(before as usize).take(own as usize);
        cores.flat_map(|core| core.cpus.iter()).collect()
    }

    fn mask(&self, party: usize) -> u64 {
        let before: u32 = self.division.parts[..party].iter().map(|part| part.1).sum();
        ((1 << self.division.parts[party].1) - 1) << before
    }
}

impl Policy for Held {
    fn name(&self) -> &str {
        "fixed"
    }

    fn needs(&self) -> Needs {
        Needs {
            controls: vec![ActionKind::Place, ActionKind::Partition],
            ..Needs::default()
        }
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        matches!(event, Event::Arrived(_)).then(|| self.decide(view))
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        let mut plan = Plan::none();
        let mut parts: Vec<CachePart> = (0..self.division.parts.len())
            .map(|party| CachePart { mask: self.mask(party), threads: Vec::new() })
            .collect();
        for thread in view.threads {
            let party = self.party(&thread.program);
            parts[party].threads.push(thread.id);
            let cpus = self.cpus(view.machine, party);
            if thread.allowed != cpus {
                plan.push(Action::Allow { thread: thread.id, cpus }, "a fixed division");
            }
        }
        if parts != self.asked {
            self.asked.clone_from(&parts);
            plan.push(Action::Partition { llc: 0, parts }, "a fixed division");
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_are_all_there_are() {
        assert_eq!(shares(2, 4), [[1, 3], [2, 2], [3, 1]]);
        assert_eq!(shares(3, 8).len(), 21);
        assert_eq!(FixedDivision::all(2, 8, 20).len(), 7 * 4);
        assert_eq!(FixedDivision::all(3, 8, 20).len(), 21 * 6);
        assert_eq!(FixedDivision::equal(3, 8, 20).parts, [(3, 7), (3, 7), (2, 6)]);
    }
}
