//! Programs that a command starts together, and how it ends when they have.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use corun_app::{Error, Result};
use corun_linux::Roots;
use corun_live::Target;

use super::{Program, end_all, reap};

/// Programs and the clock that they start and end by.
#[derive(Debug)]
pub struct Started {
    programs: Vec<Program>,
    began: Instant,
    roots: Roots,
}

impl Started {
    /// Nothing is started yet.
    pub fn new(programs: Vec<Program>) -> Self {
        Self { programs, began: Instant::now(), roots: Roots::default() }
    }

    /// From now on the clock goes; [`Self::step`] starts the programs.
    pub fn begin(&mut self) -> Result {
        self.began = Instant::now();
        if !self.programs.is_empty() {
            // Processes that lose their parent are handed to us, so that they stay followed.
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                .map_err(io::Error::from)
                .context("cannot look after the programs' children")?;
        }
        Ok(())
    }

    /// Starts and ends what is due, and takes note of what ended. What the host is to follow from
    /// now on, each with its program's place.
    pub fn step(&mut self) -> Result<Vec<(usize, Target)>> {
        let elapsed = self.elapsed();
        let mut new = Vec::new();
        for (place, program) in self.programs.iter_mut().enumerate() {
            new.extend(program.start_if_due(elapsed, &self.roots)?.map(|target| (place, target)));
            program.end_if_due(elapsed);
        }
        self.reap()?;
        Ok(new)
    }

    /// Takes note of what ended.
    pub fn reap(&mut self) -> Result {
        if self.programs.is_empty() { Ok(()) } else { Ok(reap(&mut self.programs)?) }
    }

    /// Time since they began.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// All of them.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Names of the stored profiles that they have.
    pub fn profiles(&self) -> Vec<&str> {
        self.programs.iter().filter_map(Program::profile).collect()
    }

    /// Is there nothing more to come? Never where nothing was to be started.
    pub fn is_over(&self) -> bool {
        !self.programs.is_empty() && self.programs.iter().all(Program::is_over)
    }

    /// Ends what still runs, and waits for it.
    pub fn end(&mut self) -> Result {
        self.end_unless_hurried(&|| false)
    }

    /// As [`Self::end`]; once `hurried`, what still runs is killed.
    pub fn end_unless_hurried(&mut self, hurried: &dyn Fn() -> bool) -> Result {
        if self.programs.is_empty() {
            return Ok(());
        }
        Ok(end_all(&mut self.programs, self.began, hurried)?)
    }

    /// The command's end: of one program its own, of a mix whether all ended well.
    pub fn exit(&self, is_mix: bool) -> Result<String> {
        let last = self.programs.iter().filter_map(|program| program.runs.last());
        let bad = last.rev().find(|run| !run.ended_by_us && !run.status.success());
        match bad {
            None => Ok(String::new()),
            Some(_) if is_mix => Err(Error::Program(1)),
            Some(run) => {
                let code = run.status.code();
                let code = code.unwrap_or_else(|| 128 + run.status.signal().unwrap_or(0));
                Err(Error::Program(u8::try_from(code).unwrap_or(1)))
            }
        }
    }
}
