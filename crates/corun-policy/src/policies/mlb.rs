//! `mlb`: memory-aware load balancing (Seo, Eom and Yeom, "MLB: A memory-aware load balancing for
//! mitigating memory contention", equations 1 and 4, algorithm 1).

mod queues;

use std::collections::VecDeque;
use std::sync::Arc;

use corun_machine::{BandwidthKind, CpuId, Machine};
use corun_model::{ContentionLaw, Model, ModelOptions};

use crate::{
    Action, ActionKind, Build, BuildOptions, CounterKind, Interval, Nanoseconds, Needs, Parameter,
    Plan, Policy, PolicyEntry, REQUEST_BYTES, ThreadId, View,
};
use queues::{Exchange, Limits, Queues, Task};

const INTERVAL: Parameter = Parameter {
    name: "interval-s",
    default: 4.0,
    min: 0.001,
    max: 1e4,
    summary: "seconds between two looks at the counters",
};

const WINDOW: Parameter = Parameter {
    name: "window-intervals",
    default: 20.0,
    min: 1.0,
    max: 1e4,
    summary: "predicted numbers that are averaged: the latest so many",
};

const ROUND: Parameter = Parameter {
    name: "round",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    summary: "0: a predicted number is rounded up, as in equation 4; 1: to the nearest, as in its text",
};

const TOLERANCE: Parameter = Parameter {
    name: "utilisation-tolerance",
    default: 0.1,
    min: 0.0,
    max: 1.0,
    summary: "two threads change places only if their shares of a CPU differ by at most this",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "mlb",
    summary: "gathers memory-intensive threads on as few CPUs as the contention asks for",
    source: "Seo, Eom, Yeom, MLB, sections 3.1 and 4 (equations 1 and 4, algorithm 1)",
    parameters: &[INTERVAL, WINDOW, ROUND, TOLERANCE],
    build: Build::Policy(|options: &BuildOptions| Box::new(Mlb::new(options))),
};

struct Mlb {
    interval: Nanoseconds,
    window: usize,
    to_nearest: bool,
    tolerance: f64,
    /// Eq. 4's constants, once they were looked for; none where the machine has no bound on its
    /// traffic.
    law: Option<Option<ContentionLaw>>,
    /// The latest predicted numbers.
    numbers: VecDeque<f64>,
    /// The list of intensive run queues, in the order in which they came to it.
    intensive: Vec<CpuId>,
    /// Bytes a second of CPU time of each thread that was measured, by ascending id.
    intensity: Vec<(ThreadId, f64)>,
}

impl Mlb {
    fn new(options: &BuildOptions) -> Self {
        Self {
            interval: Nanoseconds::from_secs_f64(options.value(&INTERVAL)),
            window: options.value(&WINDOW) as usize,
            to_nearest: options.value(&ROUND) >= 0.5,
            tolerance: options.value(&TOLERANCE),
            law: None,
            numbers: VecDeque::new(),
            intensive: Vec::new(),
            intensity: Vec::new(),
        }
    }

    /// Takes in each thread's traffic by its time on a CPU. One that did not run keeps what it had.
    fn measure(&mut self, view: &View<'_>) {
        let mut known = std::mem::take(&mut self.intensity).into_iter().peekable();
        for thread in view.threads {
            while known.next_if(|(id, _)| *id < thread.id).is_some() {}
            let before = known.next_if(|(id, _)| *id == thread.id).map(|(_, rate)| rate);
            let counters = &thread.counters;
            let ran = counters.cpu_share.filter(|&share| share > 0.0);
            let now = counters.memory_bytes_per_s.zip(ran).map(|(bytes, share)| bytes / share);
            let now = now.filter(|rate| rate.is_finite());
            self.intensity.extend(now.or(before).map(|rate| (thread.id, rate)));
        }
    }

    /// The final predicted number: the mean of the window, the newest number with it.
    fn predict(&mut self, level: f64, law: ContentionLaw, cpus: usize) -> usize {
        let number = law.streams(level);
        let number = if self.to_nearest { number.round() } else { number.ceil() };
        self.numbers.push_back(number.min(cpus as f64));
        if self.numbers.len() > self.window {
            self.numbers.pop_front();
        }
        let sum: f64 = self.numbers.iter().sum();
        (sum / self.numbers.len() as f64).round() as usize
    }

    fn law(&mut self, machine: &Machine) -> Option<ContentionLaw> {
        *self.law.get_or_insert_with(|| law_of(machine))
    }

    fn plan(&self, view: &View<'_>, exchanges: &[Exchange], predicted: usize) -> Plan {
        let mut plan = Plan::none();
        for exchange in exchanges {
            let (up, down) = (&view.threads[exchange.up], &view.threads[exchange.down]);
            let rate = |bytes: f64| format!("{:.0} MB/s while it runs", bytes * 1e-6);
            let reason = format!(
                "{}: {}, to CPU {}, one of at most {predicted} for memory-intensive threads; {} \
                 ({}) changes places with it",
                up.program,
                rate(exchange.up_intensity),
                exchange.to,
                down.program,
                rate(exchange.down_intensity)
            );
            plan.push(Action::Swap { first: up.id, second: down.id }, reason);
            // Changed places, not held: balancing of load goes on as it did.
            for thread in [up, down] {
                let cpus = thread.allowed.clone();
                let reason = format!("{}: free to be balanced as before", thread.program);
                plan.push(Action::Allow { thread: thread.id, cpus }, reason);
            }
        }
        plan
    }
}

impl Policy for Mlb {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(self.interval),
            counters: vec![CounterKind::MemoryBytes],
            controls: vec![ActionKind::Place],
            solo_figures: false,
            by_ways: false,
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.measure(view);
        let cpus = view.machine.cpus().len();
        let Some(law) = self.law(view.machine) else { return Plan::none() };
        let Some(level) = level(view, law.level(cpus as f64)) else { return Plan::none() };
        let predicted = self.predict(level, law, cpus);
        let mut queues = Queues::new(view.machine.cpus().iter().map(|cpu| cpu.id));
        let mut known = self.intensity.iter().peekable();
        for (index, thread) in view.threads.iter().enumerate() {
            let intensity = known.next_if(|(id, _)| *id == thread.id).map(|(_, rate)| *rate);
            if let Some(cpu) = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu)) {
                queues.add(cpu, Task::new(index, thread, intensity));
            }
        }
        let limits = Limits { predicted, tolerance: self.tolerance };
        let exchanges = queues.balance(&mut self.intensive, limits, view.threads);
        self.plan(view, &exchanges, predicted)
    }
}

/// The contention level (eq. 1): retries for each request that retired. Where nobody counts retries
/// it is estimated from how busy the memory is, at most `most`. None where that is unknown too.
fn level(view: &View<'_>, most: f64) -> Option<f64> {
    let (mut bytes, mut retries, mut counted) = (0.0, 0.0, true);
    let mut any = false;
    for counters in view.threads.iter().map(|thread| &thread.counters) {
        let Some(rate) = counters.memory_bytes_per_s else { continue };
        any = true;
        bytes += rate;
        match counters.memory_retries_per_s {
            Some(again) => retries += again,
            None => counted = false,
        }
    }
    if !any {
        return None;
    }
    if counted {
        return Some(if bytes > 0.0 { retries / (bytes / REQUEST_BYTES) } else { 0.0 });
    }
    let busy = bytes / peak_bytes_per_s(view.machine)?;
    Some(if busy < 1.0 { (busy / (1.0 - busy)).min(most) } else { most })
}

/// What all memory controllers carry together.
fn peak_bytes_per_s(machine: &Machine) -> Option<f64> {
    let controllers = machine.bandwidth_domains().iter();
    let controllers = controllers.filter(|one| one.kind == BandwidthKind::MemoryController);
    let peak: f64 = controllers.map(|one| one.peak_mb_per_s * 1e6).sum();
    (peak > 0.0).then_some(peak)
}

/// Eq. 4's constants: the machine file's, else from 1, 2, .. streams in the model.
fn law_of(machine: &Machine) -> Option<ContentionLaw> {
    let model = Model::new(Arc::new(machine.clone()), ModelOptions::default()).ok()?;
    model.contention_law().ok().flatten()
}

#[cfg(test)]
mod tests;
