//! What patterns over command lines said of each process, so that a command line is seldom read.

use std::collections::BTreeMap;

use corun_linux::procfs::{Process, Stat};
use globset::GlobMatcher;

/// How often a command line is read after its process began to execute a program: some programs write another
/// text there once they have started.
const READS: u32 = 5;

/// The answers, by process and target. A process's user decides how long its command line is and can make it
/// slow to match, so an answer is kept until the process executes another program.
#[derive(Debug, Default)]
pub(super) struct CommandLines {
    known: BTreeMap<u32, Program>,
}

/// The program that a process executes.
#[derive(Debug)]
struct Program {
    start_ticks: u64,
    start_stack: u64,
    name: String,
    answers: BTreeMap<usize, Answer>,
}

#[derive(Debug, Default)]
struct Answer {
    fits: bool,
    reads: u32,
}

impl CommandLines {
    /// Does the command line fit the pattern of a target?
    pub(super) fn fits(
        &mut self,
        process: &Process,
        stat: &Stat,
        target: usize,
        pattern: &GlobMatcher,
    ) -> bool {
        let begun = || Program {
            start_ticks: stat.start_ticks,
            start_stack: stat.start_stack,
            name: stat.name.clone(),
            answers: BTreeMap::new(),
        };
        let program = self.known.entry(stat.pid).or_insert_with(begun);
        if !program.is_of(stat) {
            *program = begun();
        }
        let answer = program.answers.entry(target).or_default();
        if answer.reads < READS {
            answer.reads += 1;
            let text = process.command_line().unwrap_or_default().join(" ");
            answer.fits = pattern.is_match(text);
        }
        answer.fits
    }

    /// Forgets processes that ended; `listed` are those that are there, ascending.
    pub(super) fn forget_ended(&mut self, listed: &[u32]) {
        self.known.retain(|pid, _| listed.binary_search(pid).is_ok());
    }
}

impl Program {
    fn is_of(&self, stat: &Stat) -> bool {
        self.start_ticks == stat.start_ticks
            && self.start_stack == stat.start_stack
            && self.name == stat.name
    }
}
