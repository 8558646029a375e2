//! The sets of CPUs that are in use, and their numbers.

use std::collections::{BTreeMap, BTreeSet};

use corun_machine::CpuSet;

use crate::layout::{SETS, SETS_OF_CPU};

/// Numbers for sets of CPUs. A number whose last user left is given to another set as late as possible: a thread
/// that was born meanwhile may still have it.
#[derive(Debug, Default)]
pub(crate) struct SetTable {
    sets: BTreeMap<u32, Entry>,
    /// When a number lost its last user, and the number.
    unused: BTreeSet<(u64, u32)>,
    freed: u64,
}

#[derive(Debug)]
struct Entry {
    cpus: CpuSet,
    users: usize,
    freed_at: u64,
}

/// What a set's number is, and what has to be told to the kernel for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) number: u32,
    /// The number is new, or had another set: the CPUs whose lists of sets are others now.
    pub(crate) changed: Option<CpuSet>,
}

/// Why a set gets no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FullError {
    /// All numbers are in use.
    #[error("more than {} sets of CPUs are in use", SETS - 1)]
    Sets,
    /// A CPU is in as many sets as it can be.
    #[error("a CPU is in more than {SETS_OF_CPU} sets")]
    Cpu,
}

impl SetTable {
    /// One more user of a set of CPUs.
    ///
    /// # Errors
    /// When there is no room for one more set; the table is as before.
    pub(crate) fn enter(&mut self, cpus: &CpuSet) -> Result<Numbered, FullError> {
        let known = self.sets.iter().find(|(_, entry)| entry.cpus == *cpus);
        if let Some(number) = known.map(|(&number, _)| number) {
            self.join(number);
            return Ok(Numbered { number, changed: None });
        }
        let mut changed = cpus.clone();
        while cpus.iter().any(|cpu| self.of_cpu(cpu.0).count() >= SETS_OF_CPU) {
            let mut unused = self.unused.iter().map(|&(_, number)| number);
            let crowds = |number: &u32| !self.sets[number].cpus.is_disjoint(cpus);
            let number = unused.find(crowds).ok_or(FullError::Cpu)?;
            changed = changed.union(&self.remove(number));
        }
        let free = (1..SETS).find(|number| !self.sets.contains_key(number));
        let number = match (free, self.unused.first()) {
            (Some(number), _) => number,
            (None, Some(&(_, number))) => {
                changed = changed.union(&self.remove(number));
                number
            }
            (None, None) => return Err(FullError::Sets),
        };
        self.sets.insert(number, Entry { cpus: cpus.clone(), users: 1, freed_at: 0 });
        Ok(Numbered { number, changed: Some(changed) })
    }

    /// One user less.
    pub(crate) fn leave(&mut self, number: u32) {
        let Some(entry) = self.sets.get_mut(&number) else { return };
        entry.users = entry.users.saturating_sub(1);
        if entry.users == 0 {
            self.freed += 1;
            entry.freed_at = self.freed;
            self.unused.insert((self.freed, number));
        }
    }

    /// One more user of a set that has a number.
    pub(crate) fn join(&mut self, number: u32) {
        let Some(entry) = self.sets.get_mut(&number) else { return };
        if entry.users == 0 {
            self.unused.remove(&(entry.freed_at, number));
        }
        entry.users += 1;
    }

    fn remove(&mut self, number: u32) -> CpuSet {
        let entry = self.sets.remove(&number).expect("what is unused is in the table");
        self.unused.remove(&(entry.freed_at, number));
        entry.cpus
    }

    /// The CPUs of a number.
    pub(crate) fn cpus(&self, number: u32) -> Option<&CpuSet> {
        self.sets.get(&number).map(|entry| &entry.cpus)
    }

    /// The numbers of the sets that a CPU is in, ascending.
    pub(crate) fn of_cpu(&self, cpu: u32) -> impl Iterator<Item = u32> {
        let has = move |entry: &&Entry| entry.cpus.iter().any(|one| one.0 == cpu);
        self.sets.iter().filter(move |(_, entry)| has(entry)).map(|(&number, _)| number)
    }

    /// All numbers are below.
    pub(crate) fn end(&self) -> u32 {
        self.sets.keys().next_back().map_or(1, |last| last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    #[test]
    fn a_set_keeps_its_number_while_it_has_users() {
        let mut table = SetTable::default();
        let first = table.enter(&cpus("0-1")).unwrap();
        assert_eq!(first, Numbered { number: 1, changed: Some(cpus("0-1")) });
        assert_eq!(table.enter(&cpus("0-1")).unwrap(), Numbered { number: 1, changed: None });
        assert_eq!(table.enter(&cpus("1-2")).unwrap().number, 2);
        assert_eq!(table.of_cpu(1).collect::<Vec<_>>(), [1, 2]);
        table.leave(1);
        assert!(table.unused.is_empty());
        table.leave(1);
        assert_eq!(table.unused.len(), 1);
        // It comes back as it was.
        assert_eq!(table.enter(&cpus("0-1")).unwrap(), Numbered { number: 1, changed: None });
        assert!(table.unused.is_empty());
    }

    #[test]
    fn the_number_that_is_unused_for_longest_is_taken_first() {
        let mut table = SetTable::default();
        for cpu in 0..SETS - 1 {
            table.enter(&cpus(&cpu.to_string())).unwrap();
        }
        assert_eq!(table.enter(&cpus("500")), Err(FullError::Sets));
        table.leave(9);
        table.leave(4);
        let taken = table.enter(&cpus("500")).unwrap();
        assert_eq!(taken, Numbered { number: 9, changed: Some(cpus("8,500")) });
        assert_eq!(table.enter(&cpus("501")).unwrap().number, 4);
        assert_eq!(table.cpus(4), Some(&cpus("501")));
        assert_eq!(table.end(), SETS);
    }

    #[test]
    fn a_cpu_is_in_so_many_sets_and_no_more() {
        let mut table = SetTable::default();
        for other in 1..=SETS_OF_CPU {
            table.enter(&cpus(&format!("0,{other}"))).unwrap();
        }
        assert_eq!(table.enter(&cpus("0,99")), Err(FullError::Cpu));
        // One that nobody uses makes room.
        table.leave(7);
        let taken = table.enter(&cpus("0,99")).unwrap();
        assert_eq!(taken, Numbered { number: 7, changed: Some(cpus("0,7,99")) });
        assert_eq!(table.of_cpu(0).count(), SETS_OF_CPU);
        assert_eq!(table.of_cpu(7).count(), 0);
    }
}
