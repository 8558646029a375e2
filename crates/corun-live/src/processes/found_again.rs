//! The list of threads that were found, filled again at each scan.

use corun_linux::TaskFacts;
use corun_policy::ThreadState;

use super::ScannedThread;

/// Fills the list of an earlier scan anew. A thread that stands where it stood keeps its memory, so that a scan at which
/// nobody came or went takes none.
pub(super) struct FoundAgain<'a> {
    found: &'a mut Vec<ScannedThread>,
    filled: usize,
}

impl<'a> FoundAgain<'a> {
    pub(super) fn new(found: &'a mut Vec<ScannedThread>) -> Self {
        Self { found, filled: 0 }
    }

    /// The next thread, in ascending order.
    pub(super) fn add(&mut self, facts: &TaskFacts, state: ThreadState, target: usize) {
        match self.found.get_mut(self.filled) {
            Some(one) if one.facts.task == facts.task => {
                one.facts.update(facts);
                (one.state, one.target) = (state, target);
            }
            other => {
                let new = ScannedThread { facts: facts.clone(), state, target };
                match other {
                    Some(one) => *one = new,
                    None => self.found.push(new),
                }
            }
        }
        self.filled += 1;
    }

    /// No thread comes any more.
    pub(super) fn finish(self) {
        self.found.truncate(self.filled);
    }
}

#[cfg(test)]
mod tests {
    use corun_linux::Task;

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
