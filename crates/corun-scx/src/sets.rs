//! The sets of CPUs that are in use, and their numbers.

use std::collections::{BTreeMap, BTreeSet};

use corun_machine::{CpuId, CpuSet};

use crate::layout::{GROUPS, SETS, SETS_OF_CPU};

/// Numbers for sets of CPUs, and the threads that have them. A number whose last user left is given to another set as
/// late as possible: a thread that was born meanwhile may still have it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SetTable {
    sets: BTreeMap<u32, Entry>,
    /// When a number lost its last user, and the number.
    unused: BTreeSet<(u64, u32)>,
    freed: u64,
    /// The number of each thread's set, by the kernel's number of the thread.
    threads: BTreeMap<u32, u32>,
    untold: Untold,
    /// All numbers that were ever given are at most this: a thread may still wait in the queue of one.
    highest: u32,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    cpus: CpuSet,
    users: usize,
    freed_at: u64,
    /// A cgroup has it alone: its CPUs change, and the number stays.
    is_of_group: bool,
}

/// What changed since the kernel was told last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Untold {
    /// Numbers that have another set now, or none.
    pub(crate) numbers: BTreeSet<u32>,
    /// CPUs that are in other sets now.
    pub(crate) cpus: CpuSet,
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
    /// All room for cgroups is in use.
    #[error("more than {GROUPS} cgroups have CPUs")]
    Groups,
}

impl SetTable {
    /// One more user of a set of CPUs, and the set's number.
    ///
    /// # Errors
    /// When there is no room for one more set; the table is as before.
    pub(crate) fn enter(&mut self, cpus: &CpuSet) -> Result<u32, FullError> {
        let is_known = |entry: &&Entry| !entry.is_of_group && entry.cpus == *cpus;
        let known = self.sets.iter().find(|(_, entry)| is_known(entry));
        if let Some(number) = known.map(|(&number, _)| number) {
            self.join(number);
            return Ok(number);
        }
        self.enter_new(cpus, false)
    }

    /// A number that a cgroup has alone, until it is left.
    ///
    /// # Errors
    /// As [`Self::enter`].
    pub(crate) fn enter_group(&mut self, cpus: &CpuSet) -> Result<u32, FullError> {
        self.enter_new(cpus, true)
    }

    fn enter_new(&mut self, cpus: &CpuSet, is_of_group: bool) -> Result<u32, FullError> {
        let removable = self.removable(cpus)?;
        let free = (1..SETS).find(|number| !self.sets.contains_key(number));
        let longest_unused = self.unused.first().map(|&(_, number)| number);
        // Who was born with a number that is removed shall find CPUs that serve it.
        let number = removable.first().copied().or(free).or(longest_unused);
        let number = number.ok_or(FullError::Sets)?;
        for removed in removable {
            self.remove(removed);
        }
        if self.sets.contains_key(&number) {
            self.remove(number);
        }
        self.untold.numbers.insert(number);
        self.untold.cpus = self.untold.cpus.union(cpus);
        self.highest = self.highest.max(number);
        self.sets.insert(number, Entry { cpus: cpus.clone(), users: 1, freed_at: 0, is_of_group });
        Ok(number)
    }

    /// The number of a cgroup stands for other CPUs from now on.
    ///
    /// # Errors
    /// When one of these is in as many sets as it can be; the table is as before.
    pub(crate) fn change(&mut self, number: u32, cpus: &CpuSet) -> Result<(), FullError> {
        let Some(entry) = self.sets.get(&number) else { return Ok(()) };
        let new: CpuSet = cpus.iter().filter(|&cpu| !entry.cpus.contains(cpu)).collect();
        for removed in self.removable(&new)? {
            self.remove(removed);
        }
        let entry = self.sets.get_mut(&number).expect("a number in use is not removed");
        self.untold.numbers.insert(number);
        self.untold.cpus = self.untold.cpus.union(&entry.cpus).union(cpus);
        entry.cpus.clone_from(cpus);
        Ok(())
    }

    /// The unused numbers that have to go so that none of the CPUs is in too many sets with one more.
    fn removable(&self, cpus: &CpuSet) -> Result<BTreeSet<u32>, FullError> {
        let mut removable = BTreeSet::new();
        for cpu in cpus.iter() {
            let stay = self.of_cpu(cpu).filter(|number| !removable.contains(number)).count();
            let surplus = (stay + 1).saturating_sub(SETS_OF_CPU);
            let unused = self.unused.iter().map(|&(_, number)| number);
            let here = |number: &u32| self.sets[number].cpus.contains(cpu);
            let more = unused.filter(here).filter(|number| !removable.contains(number));
            let more: Vec<u32> = more.take(surplus).collect();
            if more.len() < surplus {
                return Err(FullError::Cpu);
            }
            removable.extend(more);
        }
        Ok(removable)
    }

    /// One user less.
    pub(crate) fn leave(&mut self, number: u32) {
        let Some(entry) = self.sets.get_mut(&number) else { return };
        entry.users = entry.users.saturating_sub(1);
        if entry.users == 0 {
            self.freed += 1;
            entry.freed_at = self.freed;
            entry.is_of_group = false;
            self.unused.insert((self.freed, number));
        }
    }

    /// One more user of a set that has a number.
    fn join(&mut self, number: u32) {
        let Some(entry) = self.sets.get_mut(&number) else { return };
        if entry.users == 0 {
            self.unused.remove(&(entry.freed_at, number));
        }
        entry.users += 1;
    }

    fn remove(&mut self, number: u32) {
        let entry = self.sets.remove(&number).expect("what is unused is in the table");
        self.unused.remove(&(entry.freed_at, number));
        // A thread that was born with the number goes where its affinity allows, and does not wait for CPUs that
        // no longer serve the number.
        self.untold.numbers.insert(number);
        self.untold.cpus = self.untold.cpus.union(&entry.cpus);
    }

    /// A thread has a number that it entered: it leaves the one that it had before.
    pub(crate) fn give(&mut self, tid: u32, number: u32) {
        if let Some(before) = self.threads.insert(tid, number) {
            self.leave(before);
        }
    }

    /// A thread was found with a number: the CPUs of that number, of which it is a user from now on.
    pub(crate) fn find(&mut self, tid: u32, number: u32) -> Option<&CpuSet> {
        self.cpus(number)?;
        self.join(number);
        self.give(tid, number);
        self.cpus(number)
    }

    /// A thread has no set any more.
    pub(crate) fn forget(&mut self, tid: u32) {
        if let Some(number) = self.threads.remove(&tid) {
            self.leave(number);
        }
    }

    /// The threads that have a set, ascending.
    pub(crate) fn threads(&self) -> impl Iterator<Item = u32> + '_ {
        self.threads.keys().copied()
    }

    /// Has the thread a set?
    pub(crate) fn has(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// What the kernel has to be told before it is given a number; none where it knows all.
    pub(crate) fn untold(&self) -> Option<&Untold> {
        (self.untold != Untold::default()).then_some(&self.untold)
    }

    /// The kernel was told all.
    pub(crate) fn told(&mut self) {
        self.untold = Untold::default();
    }

    /// The CPUs of a number.
    pub(crate) fn cpus(&self, number: u32) -> Option<&CpuSet> {
        self.sets.get(&number).map(|entry| &entry.cpus)
    }

    /// The numbers of the sets that a CPU is in, ascending.
    pub(crate) fn of_cpu(&self, cpu: CpuId) -> impl Iterator<Item = u32> {
        let has = move |entry: &&Entry| entry.cpus.contains(cpu);
        self.sets.iter().filter(move |(_, entry)| has(entry)).map(|(&number, _)| number)
    }

    /// All numbers are below, those that are no longer in use too.
    pub(crate) fn end(&self) -> u32 {
        self.highest + 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cpus(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    /// The numbers and CPUs of which the kernel has to be told, which it is then.
    fn tell(table: &mut SetTable) -> Option<(Vec<u32>, CpuSet)> {
        let untold = table.untold().cloned();
        table.told();
        untold.map(|untold| (untold.numbers.into_iter().collect(), untold.cpus))
    }

    #[test]
    fn a_set_keeps_its_number_while_it_has_users() {
        let mut table = SetTable::default();
        assert_eq!(table.enter(&cpus("0-1")), Ok(1));
        assert_eq!(tell(&mut table), Some((vec![1], cpus("0-1"))));
        assert_eq!(table.enter(&cpus("0-1")), Ok(1));
        assert_eq!(tell(&mut table), None);
        assert_eq!(table.enter(&cpus("1-2")), Ok(2));
        assert_eq!(table.of_cpu(CpuId(1)).collect::<Vec<_>>(), [1, 2]);
        table.leave(1);
        assert!(table.unused.is_empty());
        table.leave(1);
        assert_eq!(table.unused.len(), 1);
        table.told();
        // It comes back as it was.
        assert_eq!((table.enter(&cpus("0-1")), tell(&mut table)), (Ok(1), None));
        assert!(table.unused.is_empty());
    }

    #[test]
    fn what_could_not_be_told_is_told_the_next_time() {
        let mut table = SetTable::default();
        let number = table.enter(&cpus("0-1")).unwrap();
        // The kernel says no: the thread has no plan, and the set no user.
        table.leave(number);
        assert_eq!(table.enter(&cpus("0-1")), Ok(number));
        assert_eq!(tell(&mut table), Some((vec![number], cpus("0-1"))));
    }

    #[test]
    fn a_thread_is_one_user_of_the_set_that_it_has_now() {
        let mut table = SetTable::default();
        let (first, second) = (table.enter(&cpus("0")).unwrap(), table.enter(&cpus("1")).unwrap());
        table.give(7, first);
        table.give(8, second);
        assert!(table.has(7) && !table.has(9));
        // Its number changed behind the table's back, and then it did not.
        assert_eq!(table.find(7, second), Some(&cpus("1")));
        assert_eq!(table.find(7, second), Some(&cpus("1")));
        assert_eq!((table.sets[&first].users, table.sets[&second].users), (0, 2));
        assert_eq!(table.unused.iter().map(|&(_, number)| number).collect::<Vec<_>>(), [first]);
        table.forget(7);
        table.forget(8);
        assert_eq!((table.sets[&second].users, table.unused.len()), (0, 2));
        assert_eq!(table.find(9, 99), None);
        assert_eq!(table.threads().count(), 0);
    }

    #[test]
    fn the_number_that_is_unused_for_longest_is_taken_first() {
        let mut table = SetTable::default();
        for cpu in 0..SETS - 1 {
            table.enter(&cpus(&cpu.to_string())).unwrap();
        }
        table.told();
        assert_eq!(table.enter(&cpus("500")), Err(FullError::Sets));
        table.leave(9);
        table.leave(4);
        assert_eq!(table.enter(&cpus("500")), Ok(9));
        assert_eq!(tell(&mut table), Some((vec![9], cpus("8,500"))));
        assert_eq!(table.enter(&cpus("501")), Ok(4));
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
        table.told();
        assert_eq!(table.enter(&cpus("0,99")), Ok(7));
        assert_eq!(tell(&mut table), Some((vec![7], cpus("0,7,99"))));
        assert_eq!(table.of_cpu(CpuId(0)).count(), SETS_OF_CPU);
        assert_eq!(table.of_cpu(CpuId(7)).count(), 0);
    }

    /// Sets 1 to 16 are of CPU 0, sets 17 to 32 of CPU 1: one more of both CPUs takes the place of two.
    #[test]
    fn a_number_that_goes_without_another_set_is_told_as_empty() {
        let mut table = SetTable::default();
        for (cpu, other) in (0..2).flat_map(|cpu| (0..SETS_OF_CPU).map(move |other| (cpu, other))) {
            table.enter(&cpus(&format!("{cpu},{}", 100 + 100 * cpu + other))).unwrap();
        }
        table.leave(32);
        table.leave(16);
        table.told();
        assert_eq!(table.enter(&cpus("0-1")), Ok(16));
        assert_eq!(tell(&mut table), Some((vec![16, 32], cpus("0-1,115,215"))));
        assert_eq!((table.cpus(32), table.end()), (None, 33));
    }

    #[test]
    fn a_groups_number_is_its_own_and_stays_when_its_cpus_change() {
        let mut table = SetTable::default();
        assert_eq!(table.enter(&cpus("0-1")), Ok(1));
        assert_eq!(table.enter_group(&cpus("0-1")), Ok(2));
        assert_eq!(table.enter_group(&cpus("0-1")), Ok(3));
        table.told();
        table.change(2, &cpus("1-2")).unwrap();
        assert_eq!(tell(&mut table), Some((vec![2], cpus("0-2"))));
        assert_eq!(table.of_cpu(CpuId(0)).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(table.of_cpu(CpuId(2)).collect::<Vec<_>>(), [2]);
        // No thread's set is the group's, however alike.
        assert_eq!(table.enter(&cpus("1-2")), Ok(4));
        // What no group has any more is any set.
        table.leave(3);
        table.leave(1);
        assert_eq!(table.enter(&cpus("0-1")), Ok(1));
        table.leave(1);
        assert_eq!(table.find(7, 3), Some(&cpus("0-1")));
    }

    #[test]
    fn a_group_that_finds_no_room_stays_where_it_is() {
        let mut table = SetTable::default();
        let group = table.enter_group(&cpus("0")).unwrap();
        for other in 0..SETS_OF_CPU {
            table.enter(&cpus(&format!("1,{}", 2 + other))).unwrap();
        }
        table.told();
        let before = table.clone();
        assert_eq!(table.change(group, &cpus("0-1")), Err(FullError::Cpu));
        assert_eq!(table, before);
        table.leave(5);
        table.change(group, &cpus("0-1")).unwrap();
        assert_eq!(tell(&mut table), Some((vec![group, 5], cpus("0-1,5"))));
    }

    #[test]
    fn a_set_without_room_changes_nothing() {
        let mut table = SetTable::default();
        for other in 2..2 + SETS_OF_CPU {
            for crowded in [0, 1] {
                table.enter(&cpus(&format!("{crowded},{}", other + 100 * crowded))).unwrap();
            }
        }
        // CPU 0 has room to make, CPU 1 has none.
        let unused = table.enter(&cpus("0,2")).unwrap();
        table.leave(unused);
        table.leave(unused);
        table.told();
        let before = table.clone();
        assert_eq!(table.enter(&cpus("0-1")), Err(FullError::Cpu));
        assert_eq!(table, before);
    }

    proptest! {
        /// Threads come with sets of four CPUs, by bits, and go; the kernel is told at times.
        #[test]
        fn users_are_threads_and_the_kernel_knows_what_it_was_told(
            steps in prop::collection::vec((0u32..40, 0u32..256, any::<bool>()), 0..400)
        ) {
            let mut table = SetTable::default();
            let mut kernel: BTreeMap<u32, CpuSet> = BTreeMap::new();
            for (tid, bits, is_told) in steps {
                let cpus: CpuSet = (0..8).filter(|cpu| bits >> cpu & 1 == 1).map(CpuId).collect();
                let before = table.clone();
                if cpus.is_empty() {
                    table.forget(tid);
                } else {
                    match table.enter(&cpus) {
                        Ok(number) => table.give(tid, number),
                        Err(_) => prop_assert_eq!(&table, &before),
                    }
                }
                if let Some(untold) = table.untold().filter(|_| is_told) {
                    for number in &untold.numbers {
                        kernel.insert(*number, table.cpus(*number).cloned().unwrap_or_default());
                    }
                    table.told();
                }
                let users: usize = table.sets.values().map(|entry| entry.users).sum();
                prop_assert_eq!(users, table.threads().count());
                let idle = table.sets.values().filter(|entry| entry.users == 0).count();
                prop_assert_eq!(idle, table.unused.len());
                prop_assert!((0..8).all(|cpu| table.of_cpu(CpuId(cpu)).count() <= SETS_OF_CPU));
                for (number, entry) in &table.sets {
                    let is_known = kernel.get(number) == Some(&entry.cpus);
                    prop_assert!(is_known || table.untold.numbers.contains(number));
                }
                // What the kernel takes for the set of a number that is gone has no CPUs: nobody waits there.
                for (number, cpus) in &kernel {
                    prop_assert!(*number < table.end());
                    let is_gone = table.cpus(*number).is_none();
                    let waits = is_gone && !table.untold.numbers.contains(number);
                    prop_assert!(!waits || cpus.is_empty());
                }
            }
        }
    }
}
