//! A subject that a switch turns on and off and the user's own commands measure.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::conduct::{Subject, SubjectError, Waited};
use super::metric::{Metric, MetricKind};
use super::sched_cache::SchedCache;
use super::shell;

/// What turns something on and off.
#[derive(Debug)]
pub enum Switch {
    /// The user's commands.
    Commands {
        /// Turns it on.
        on: String,
        /// Turns it off.
        off: String,
    },
    /// The kernel's switch of its own scheduling by last-level caches.
    SchedCache(Box<SchedCache>),
}

/// Measures by [`Metric`]s, and switches.
#[derive(Debug)]
pub struct Commands<'a> {
    switch: Switch,
    metrics: Vec<Metric>,
    /// By metric, the last count and when it was read.
    counts: Vec<Option<(f64, Instant)>>,
    /// By metric, how often in a row it failed.
    failures: Vec<u32>,
    interrupted: &'a AtomicBool,
    began: Instant,
    switched: bool,
}

/// How often in a row a metric may fail before the experiment ends.
const MOST_FAILURES: u32 = 5;
/// How soon an interruption is noticed.
const GLANCE: Duration = Duration::from_millis(50);

impl<'a> Commands<'a> {
    /// A subject; `interrupted` says when the user wants to stop. Nothing is run yet.
    pub fn new(switch: Switch, metrics: Vec<Metric>, interrupted: &'a AtomicBool) -> Self {
        Self {
            switch,
            counts: vec![None; metrics.len()],
            failures: vec![0; metrics.len()],
            metrics,
            interrupted,
            began: Instant::now(),
            switched: false,
        }
    }

    /// Reads every metric once, before anything is switched.
    ///
    /// # Errors
    /// The first metric that gives no number.
    pub fn check(&self) -> Result<(), SubjectError> {
        self.metrics.iter().try_for_each(|metric| metric.read().map(|_| ()))
    }

    fn switch_to(&mut self, is_on: bool) -> Result<(), SubjectError> {
        let (option, line) = match &mut self.switch {
            Switch::SchedCache(switch) => return switch.set(is_on),
            Switch::Commands { on, .. } if is_on => ("--on", &*on),
            Switch::Commands { off, .. } => ("--off", &*off),
        };
        match shell::output(line, shell::PATIENCE) {
            Ok(_) => Ok(()),
            Err(why) => Err(SubjectError(format!("the command of {option} (`{line}`) {why}"))),
        }
    }

    /// A metric's value since the last reading; none at a count's first.
    fn value(&mut self, index: usize) -> Result<Option<f64>, SubjectError> {
        let metric = &self.metrics[index];
        let number = metric.read()?;
        if metric.kind == MetricKind::Value {
            return Ok(Some(number));
        }
        let now = Instant::now();
        let before = self.counts[index].replace((number, now));
        let grown = |(count, then): (f64, Instant)| {
            let seconds = now.duration_since(then).as_secs_f64();
            // A count that fell was started anew.
            (seconds > 0.0 && number >= count).then(|| (number - count) / seconds)
        };
        Ok(before.and_then(grown))
    }
}

impl Subject for Commands<'_> {
    fn set(&mut self, policy_on: bool) -> Result<(), SubjectError> {
        self.switched = true;
        self.switch_to(policy_on)
    }

    fn measure(&mut self) -> Result<Vec<(String, f64)>, SubjectError> {
        let mut values = Vec::with_capacity(self.metrics.len());
        for index in 0..self.metrics.len() {
            match self.value(index) {
                Ok(value) => {
                    self.failures[index] = 0;
                    let name = &self.metrics[index].name;
                    values.extend(value.map(|value| (name.clone(), value)));
                }
                Err(error) => {
                    self.failures[index] += 1;
                    if self.failures[index] >= MOST_FAILURES {
                        let times = self.failures[index];
                        return Err(SubjectError(format!("{error} ({times} times in a row)")));
                    }
                }
            }
        }
        Ok(values)
    }

    fn wait(&mut self, time: Duration) -> Result<Waited, SubjectError> {
        let began = Instant::now();
        loop {
            if self.interrupted.load(Ordering::SeqCst) {
                return Ok(Waited::Interrupted);
            }
            let left = time.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(Waited::Passed);
            }
            std::thread::sleep(left.min(GLANCE));
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn restore(&mut self) -> Result<(), SubjectError> {
        match &mut self.switch {
            Switch::SchedCache(switch) => switch.put_back(),
            Switch::Commands { .. } if self.switched => self.switch_to(false),
            Switch::Commands { .. } => Ok(()),
        }
    }
}
