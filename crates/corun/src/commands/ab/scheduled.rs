//! A subject that is this machine under a policy: what the daemon would do, on and off.

use std::time::{Duration, Instant};

use corun_live::ab::{Commands, Subject, SubjectError, Waited};
use corun_live::{Host, Target};

use super::throughput::Throughput;
use super::whose::{News, Whose};
use crate::failure::Failure;
use corun_hosting::{DecisionPrinter, Placer, undone};

/// Longest time between two looks at whether the host has something to do.
const GLANCE: Duration = Duration::from_millis(50);

/// Two backends that are compared under one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Backends {
    /// Of the blocks whose effect is asked for.
    pub(super) tried: Placer,
    /// Of the other blocks.
    pub(super) against: Placer,
}

/// Programs, by turns under a policy and as the kernel has them, or under it by two backends.
pub(super) struct Scheduled<'a> {
    whose: &'a mut Whose,
    backends: Option<Backends>,
    /// The metrics; what they switch is nothing.
    measured: Commands<'a>,
    /// In place of metrics, where there are none.
    throughput: Option<Throughput>,
    host: Option<Host>,
    printer: DecisionPrinter,
}

impl<'a> Scheduled<'a> {
    pub(super) fn new(
        whose: &'a mut Whose,
        backends: Option<Backends>,
        measured: Commands<'a>,
        throughput: Option<Throughput>,
    ) -> Self {
        Self {
            whose,
            backends,
            measured,
            throughput,
            host: None,
            printer: DecisionPrinter::default(),
        }
    }

    /// Everything as before, and the policy forgotten: the next block begins anew.
    fn turn_off(&mut self) -> Result<(), SubjectError> {
        let Some(mut host) = self.host.take() else { return Ok(()) };
        let undone = host.undo();
        if undone.iter().any(|one| one.outcome.is_err()) {
            let undone: Vec<_> = undone.iter().collect();
            return Err(SubjectError(format!("{}; corun restore", undone::in_a_line(&undone))));
        }
        Ok(())
    }

    /// Programs that were started again are the policy's too. What ended for good, in words.
    fn look_after_programs(&mut self) -> Result<Option<String>, SubjectError> {
        let News { new, over } = self.whose.step().map_err(subject_error)?;
        self.follow(new)?;
        Ok(over)
    }

    /// Programs that were started just now.
    pub(super) fn follow(&mut self, new: Vec<Target>) -> Result<(), SubjectError> {
        for target in new {
            if let Some(throughput) = &mut self.throughput {
                throughput.follow(target.clone())?;
            }
            if let Some(host) = &mut self.host {
                host.add(target).map_err(|error| SubjectError(error.to_string()))?;
            }
        }
        Ok(())
    }

    fn tick_if_due(&mut self) -> Result<(), SubjectError> {
        let Some(host) = &mut self.host else { return Ok(()) };
        if host.now() >= host.next_tick() {
            let tick = host.tick().map_err(|error| SubjectError(error.to_string()))?;
            self.printer.tick(host, &tick);
        }
        Ok(())
    }
}

impl Subject for Scheduled<'_> {
    fn set(&mut self, policy_on: bool) -> Result<(), SubjectError> {
        self.turn_off()?;
        let backend = self.backends.map(|both| if policy_on { both.tried } else { both.against });
        if policy_on || backend.is_some() {
            self.host = Some(self.whose.host(false, backend).map_err(subject_error)?);
            self.tick_if_due()?;
        }
        Ok(())
    }

    fn measure(&mut self) -> Result<Vec<(String, f64)>, SubjectError> {
        match &mut self.throughput {
            Some(throughput) => throughput.measure(),
            None => self.measured.measure(),
        }
    }

    fn wait(&mut self, time: Duration) -> Result<Waited, SubjectError> {
        let began = Instant::now();
        loop {
            if let Some(what) = self.look_after_programs()? {
                return Ok(Waited::Over(what));
            }
            self.tick_if_due()?;
            let left = time.saturating_sub(began.elapsed());
            let waited = self.measured.wait(left.min(GLANCE))?;
            if waited != Waited::Passed || left.is_zero() {
                return Ok(waited);
            }
        }
    }

    fn now(&self) -> Duration {
        self.measured.now()
    }

    fn restore(&mut self) -> Result<(), SubjectError> {
        self.turn_off()
    }
}

fn subject_error(why: Failure) -> SubjectError {
    SubjectError(why.report().trim().to_owned())
}
