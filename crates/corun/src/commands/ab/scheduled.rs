//! A subject that is this machine under a policy: what the daemon would do, on and off.

use std::time::{Duration, Instant};

use corun_live::Host;
use corun_live::ab::{Commands, Subject, SubjectError, Waited};

use super::throughput::Throughput;
use crate::commands::daemon::{Config, host};
use crate::commands::hosting::{Teller, undone_in_words};

/// Longest time between two looks at whether the host has something to do.
const GLANCE: Duration = Duration::from_millis(50);

/// The programs of a daemon's configuration, by turns under its policy and as the kernel has them.
pub(super) struct Scheduled<'a> {
    config: Config,
    /// The metrics; what they switch is nothing.
    measured: Commands<'a>,
    /// In place of metrics, where there are none.
    throughput: Option<Throughput>,
    host: Option<Host>,
    teller: Teller,
}

impl<'a> Scheduled<'a> {
    pub(super) fn new(
        config: Config,
        measured: Commands<'a>,
        throughput: Option<Throughput>,
    ) -> Self {
        Self { config, measured, throughput, host: None, teller: Teller::default() }
    }

    /// Everything as before, and the policy forgotten: the next block begins anew.
    fn turn_off(&mut self) -> Result<(), SubjectError> {
        let Some(mut host) = self.host.take() else { return Ok(()) };
        let undone = host.undo();
        if undone.iter().any(|one| one.outcome.is_err()) {
            let undone: Vec<_> = undone.iter().collect();
            return Err(SubjectError(format!("{}; corun restore", undone_in_words(&undone))));
        }
        Ok(())
    }

    fn rounds_due(&mut self) -> Result<(), SubjectError> {
        let Some(host) = &mut self.host else { return Ok(()) };
        if host.now() >= host.next_round() {
            let round = host.round().map_err(|error| SubjectError(error.to_string()))?;
            self.teller.round(host, &round);
        }
        Ok(())
    }
}

impl Subject for Scheduled<'_> {
    fn set(&mut self, policy_on: bool) -> Result<(), SubjectError> {
        self.turn_off()?;
        if policy_on {
            let made = host(&self.config, false);
            self.host = Some(made.map_err(|why| SubjectError(why.report().trim().to_owned()))?);
            self.rounds_due()?;
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
            self.rounds_due()?;
            let left = time.saturating_sub(began.elapsed());
            let waited = self.measured.wait(left.min(GLANCE))?;
            if waited == Waited::Interrupted || left.is_zero() {
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
