//! A policy under observation: what it saw at the end of each interval.

use std::sync::{Arc, Mutex};

use corun_policy::{
    ActionKind, Event, Interval, Nanoseconds, Needs, Plan, Policy, PolicyWrapper, REQUEST_BYTES,
    ThreadView, View,
};

/// What was counted in an interval, over all programs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) at_s: f64,
    pub(super) bytes_per_s: f64,
    /// Requests that found the buffer full, a second.
    pub(super) retries_per_s: f64,
    /// CPUs with a program of the watched names in their run queue.
    pub(super) intensive_cpus: usize,
}

impl Sample {
    /// The contention level (eq. 1).
    pub(super) fn level(&self) -> f64 {
        let requests = self.bytes_per_s / REQUEST_BYTES;
        if requests > 0.0 { self.retries_per_s / requests } else { 0.0 }
    }
}

/// The samples of a run, shared with its policy.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples(Arc<Mutex<Vec<Sample>>>);

impl Samples {
    pub(super) fn take(&self) -> Vec<Sample> {
        self.0.lock().map(|mut samples| std::mem::take(&mut *samples)).unwrap_or_default()
    }

    fn push(&self, sample: Sample) {
        if let Ok(mut samples) = self.0.lock() {
            samples.push(sample);
        }
    }
}

/// Watches a policy, which does not see programs of the hidden name: what is no thread.
pub(super) struct Watched {
    pub(super) samples: Samples,
    /// Programs whose CPUs are counted.
    pub(super) intensive: Vec<String>,
    pub(super) hidden: Option<&'static str>,
}

/// Where the policy has no interval of its own: MLB's.
const INTERVAL: Nanoseconds = Nanoseconds(4_000_000_000);

impl Watched {
    fn sample(&self, view: &View<'_>) -> Sample {
        let sum = |of: fn(&ThreadView) -> Option<f64>| view.threads.iter().filter_map(of).sum();
        let mut cpus: Vec<u32> = view
            .threads
            .iter()
            .filter(|thread| self.intensive.contains(&thread.program))
            .filter_map(|thread| Some(thread.cpu?.0))
            .collect();
        cpus.sort_unstable();
        cpus.dedup();
        Sample {
            at_s: view.now.as_secs_f64(),
            bytes_per_s: sum(|thread| thread.rates.memory_bytes_per_s),
            retries_per_s: sum(|thread| thread.rates.memory_retries_per_s),
            intensive_cpus: cpus.len(),
        }
    }

    fn visible(&self, view: &View<'_>) -> Option<Vec<ThreadView>> {
        let hidden = self.hidden?;
        Some(view.threads.iter().filter(|one| one.program != hidden).cloned().collect())
    }
}

impl PolicyWrapper for Watched {
    fn needs(&self, policy: &dyn Policy) -> Needs {
        let mut needs = policy.needs();
        if needs.interval == Interval::Never {
            needs.interval = Interval::Time(INTERVAL);
        }
        if needs.controls.is_empty() {
            // A policy without any action would not be asked.
            needs.controls.push(ActionKind::SetWeight);
        }
        needs
    }

    fn on_event(
        &mut self,
        policy: &mut dyn Policy,
        event: &Event,
        view: &View<'_>,
    ) -> Option<Plan> {
        if !matches!(event, Event::Arrived(_) | Event::Exited(_)) {
            return None;
        }
        match self.visible(view) {
            Some(threads) => policy.on_event(event, &View { threads: &threads, ..*view }),
            None => policy.on_event(event, view),
        }
    }

    fn decide(&mut self, policy: &mut dyn Policy, view: &View<'_>) -> Plan {
        self.samples.push(self.sample(view));
        match self.visible(view) {
            Some(threads) => policy.decide(&View { threads: &threads, ..*view }),
            None => policy.decide(view),
        }
    }
}
