//! `mlb`: memory-aware load balancing (Seo, Eom and Yeom, "MLB: A memory-aware load balancing for
//! mitigating memory contention", equations 1 and 4, algorithm 1).

mod queues;

use std::collections::VecDeque;
use std::sync::Arc;

use corun_machine::{BandwidthKind, CpuId, CpuSet, Machine};
use corun_model::{ContentionLaw, Model, ModelOptions};

use crate::placement::running_averages::RunningAverages;
use crate::{
    Action, ActionKind, Build, BuildOptions, CounterKind, Event, Interval, LiveForm, Nanoseconds,
    Needs, Parameter, ParameterKind, Plan, Policy, PolicyEntry, REQUEST_BYTES, ThreadId,
    ThreadView, View,
};
use queues::{Exchange, Limits, Queues, Task};

const INTERVAL: Parameter = Parameter {
    name: "interval-s",
    kind: ParameterKind::Number,
    default: 4.0,
    min: 0.001,
    max: 1e4,
    summary: "seconds between two looks at the counters",
};

const WINDOW: Parameter = Parameter {
    name: "window-intervals",
    kind: ParameterKind::WholeNumber,
    default: 20.0,
    min: 1.0,
    max: 1e4,
    summary: "predicted numbers that are averaged: the latest so many",
};

const ROUND: Parameter = Parameter {
    name: "round",
    kind: ParameterKind::Choice(&["up", "nearest"]),
    default: 0.0,
    min: 0.0,
    max: 1.0,
    summary: "0: a predicted number is rounded up, as in equation 4; 1: to the nearest, as in its text",
};

const TOLERANCE: Parameter = Parameter {
    name: "utilisation-tolerance",
    kind: ParameterKind::Number,
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
    live: LiveForm::Untested {
        why: "its contention level needs memory requests that are sent again, which nothing counts there",
    },
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
    /// Bytes a second of CPU time of each thread, as last measured.
    intensity: RunningAverages,
    /// Threads that are held on the intensive run queues' CPUs.
    held: Vec<ThreadId>,
}

impl Mlb {
    fn new(options: &BuildOptions) -> Self {
        Self {
            interval: Nanoseconds::from_secs_f64(options.value(&INTERVAL)),
            window: options.value(&WINDOW) as usize,
            to_nearest: options.is_on(&ROUND),
            tolerance: options.value(&TOLERANCE),
            law: None,
            numbers: VecDeque::new(),
            intensive: Vec::new(),
            intensity: RunningAverages::of_traffic(0.0),
            held: Vec::new(),
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

    /// The run queues as the view has them.
    fn queues(&self, view: &View<'_>) -> Queues {
        let mut queues = Queues::new(view.machine.cpus().iter().map(|cpu| cpu.id));
        let intensities = self.intensity.by_thread(view);
        for (index, (thread, intensity)) in view.threads.iter().zip(intensities).enumerate() {
            if let Some(cpu) = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu)) {
                queues.add(cpu, Task::new(index, thread, intensity));
            }
        }
        queues
    }

    fn law(&mut self, machine: &Machine) -> Option<ContentionLaw> {
        *self.law.get_or_insert_with(|| law_of(machine))
    }

    /// The exchanges, then who is held on the intensive run queues' CPUs and who no more.
    fn plan(&mut self, view: &View<'_>, queues: &Queues, exchanges: &[Exchange]) -> Plan {
        let mut plan = Plan::none();
        for exchange in exchanges {
            let (up, down) = (&view.threads[exchange.up], &view.threads[exchange.down]);
            let rate = |bytes: f64| format!("{:.0} MB/s while it runs", bytes * 1e-6);
            let reason = format!(
                "{}: {}, to CPU {}, for memory-intensive threads; {} ({}) changes places with it",
                up.program,
                rate(exchange.up_intensity),
                exchange.to,
                down.program,
                rate(exchange.down_intensity)
            );
            plan.push(Action::Swap { first: up.id, second: down.id }, reason);
        }
        let place = CpuSet::from_iter(self.intensive.iter().copied());
        let hold = queues.to_hold(&self.intensive, view.threads.len());
        self.held.clear();
        for (index, thread) in view.threads.iter().enumerate() {
            let moved = exchanges.iter().any(|one| one.up == index || one.down == index);
            let cpus = if hold[index] {
                thread.may_run_on.intersection(&place)
            } else {
                thread.may_run_on.clone()
            };
            if hold[index] {
                self.held.push(thread.id);
            }
            if moved || thread.allowed != cpus && !cpus.is_empty() {
                plan.push(
                    Action::Allow { thread: thread.id, cpus },
                    words(thread, hold[index], &place),
                );
            }
        }
        plan
    }
}

fn words(thread: &ThreadView, hold: bool, place: &CpuSet) -> String {
    if hold {
        format!("{}: kept to CPUs {place}, for memory-intensive threads", thread.program)
    } else {
        format!("{}: may run on any CPU", thread.program)
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
            ..Needs::default()
        }
    }

    /// When a thread ends, those held on a CPU that now has two more than another are let go, so that
    /// the host can even out its load.
    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        if !matches!(event, Event::Exited(_)) || self.held.is_empty() {
            return None;
        }
        let queues = self.queues(view);
        let mut plan = Plan::none();
        self.held.retain(|&id| {
            let Some(thread) = view.thread(id) else { return false };
            let at = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu));
            let go = at.is_some_and(|queue| queues.is_crowded(queue));
            if go {
                let cpus = thread.may_run_on.clone();
                let reason = format!("{}: may run on any CPU, others have fewer", thread.program);
                plan.push(Action::Allow { thread: id, cpus }, reason);
            }
            !go
        });
        Some(plan)
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.intensity.measure(view);
        let cpus = view.machine.cpus().len();
        let Some(law) = self.law(view.machine) else { return Plan::none() };
        let Some(level) = level(view, law.level(cpus as f64)) else { return Plan::none() };
        let predicted = self.predict(level, law, cpus);
        let mut queues = self.queues(view);
        let limits = Limits { predicted, tolerance: self.tolerance };
        let exchanges = queues.balance(&mut self.intensive, limits, view.threads);
        self.plan(view, &queues, &exchanges)
    }
}

/// The contention level (eq. 1): retries for each request that retired. Where nobody counts retries
/// it is estimated from how busy the memory is, at most `most`. None where that is unknown too.
fn level(view: &View<'_>, most: f64) -> Option<f64> {
    let (mut bytes, mut retries, mut counted) = (0.0, 0.0, true);
    let mut any = false;
    for counters in view.threads.iter().map(|thread| &thread.rates) {
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

/// Eq. 4's constants, from 1, 2, .. streams in the model.
fn law_of(machine: &Machine) -> Option<ContentionLaw> {
    let model = Model::new(Arc::new(machine.clone()), ModelOptions::default()).ok()?;
    model.contention_law().ok().flatten()
}

#[cfg(test)]
mod tests;
