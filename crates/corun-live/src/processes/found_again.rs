//! The list of threads that were found, filled again at each scan.

use std::iter::Peekable;
use std::vec::IntoIter;

use corun_linux::{Task, TaskFacts};
use corun_machine::CpuSet;
use corun_policy::ThreadState;
use corun_scx::ThreadRecord;

use super::ScannedThread;

/// Fills the list of an earlier scan anew. A thread that was there keeps its memory, so that a scan at which nobody came or
/// went takes none.
pub(super) struct FoundAgain<'a> {
    found: &'a mut Vec<ScannedThread>,
    /// So many stand where they stood.
    filled: usize,
    /// The rest of the earlier scan's, once somebody came or went.
    rest: Option<Peekable<IntoIter<ScannedThread>>>,
}

impl<'a> FoundAgain<'a> {
    pub(super) fn new(found: &'a mut Vec<ScannedThread>) -> Self {
        Self { found, filled: 0, rest: None }
    }

    /// The next thread, in ascending order.
    pub(super) fn add(&mut self, facts: &TaskFacts, state: ThreadState, target: usize) {
        match self.known(facts.task) {
            Some(one) => {
                one.facts.update(facts);
                (one.state, one.target) = (state, target);
            }
            None => self.found.push(ScannedThread { facts: facts.clone(), state, target }),
        }
    }

    /// The next thread, in ascending order, with its affinity.
    pub(super) fn add_record(
        &mut self,
        record: &ThreadRecord<'_>,
        affinity: &CpuSet,
        target: usize,
    ) {
        match self.known(record.task) {
            Some(one) => {
                let ran = one.facts.cpu_ns != record.cpu_ns;
                record.update(&mut one.facts, affinity);
                (one.state, one.target) = (state(record.wants_cpu, ran), target);
            }
            None => {
                let (facts, state) = (record.facts(affinity), state(record.wants_cpu, true));
                self.found.push(ScannedThread { facts, state, target });
            }
        }
    }

    /// The thread as the earlier scan found it, at its place among those of this scan.
    fn known(&mut self, task: Task) -> Option<&mut ScannedThread> {
        if self.rest.is_none() {
            if self.found.get(self.filled).is_some_and(|one| one.facts.task == task) {
                self.filled += 1;
                return self.found.get_mut(self.filled - 1);
            }
            self.rest = Some(self.found.split_off(self.filled).into_iter().peekable());
        }
        let rest = self.rest.as_mut()?;
        while rest.next_if(|one| one.facts.task < task).is_some() {}
        let known = rest.next_if(|one| one.facts.task == task)?;
        self.found.push(known);
        self.found.last_mut()
    }

    /// No thread comes any more.
    pub(super) fn finish(self) {
        if self.rest.is_none() {
            self.found.truncate(self.filled);
        }
    }
}

/// What a thread does that wants a CPU or not, and ran since the last scan or is new.
pub(super) fn state(wants_cpu: bool, ran: bool) -> ThreadState {
    match (wants_cpu, ran) {
        (true, false) => ThreadState::Runnable,
        (true, true) => ThreadState::Running,
        (false, _) => ThreadState::Sleeping,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fixture;

    #[test]
    fn a_list_that_is_filled_again_is_as_if_it_were_new() {
        let fact = |tid: u32, cpus: &str| {
            let task = Task { pid: 7, tid, start_ticks: 5 };
            fixture::facts(task, &cpus.parse().unwrap())
        };
        let mut found = Vec::new();
        let mut fill = |threads: &[TaskFacts]| {
            let mut again = FoundAgain::new(&mut found);
            for facts in threads {
                again.add(facts, ThreadState::Sleeping, 3);
            }
            again.finish();
            let new = |facts: &TaskFacts| ScannedThread {
                facts: facts.clone(),
                state: ThreadState::Sleeping,
                target: 3,
            };
            assert_eq!(found, threads.iter().map(new).collect::<Vec<_>>());
        };
        fill(&[fact(7, "0-3"), fact(8, "0-3"), fact(9, "0-3")]);
        let renamed = TaskFacts { name: "other".to_owned(), cpu_ns: 9, nice: 4, ..fact(9, "2") };
        fill(&[fact(7, "1"), fact(8, "0-3"), renamed.clone()]);
        fill(&[fact(7, "1"), renamed.clone(), fact(12, "0")]);
        fill(&[fact(1, "1"), fact(7, "1"), renamed, fact(12, "0"), fact(13, "0")]);
        fill(&[]);
    }
}
