//! `vbsc`: vector balancing and sorted co-scheduling (Merkel, Stoess and Bellosa, EuroSys 2010, as
//! Seo, Eom and Yeom port it in MLB, section 5.4.1).

use corun_machine::CpuId;

use crate::placement::running_averages::RunningAverages;
use crate::{
    Action, ActionKind, Build, BuildOptions, CounterKind, Interval, LiveForm, Nanoseconds, Needs,
    Parameter, ParameterKind, Plan, Policy, PolicyEntry, ThreadView, View,
};

const EPOCH: Parameter = Parameter {
    name: "epoch-ms",
    kind: ParameterKind::Number,
    default: 400.0,
    min: 1.0,
    max: 1e6,
    summary: "time in which each thread of a CPU has one slot",
};

/// Weight of the past in a thread's intensity, an epoch on.
const PAST: f64 = 0.5;

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "vbsc",
    summary: "mixes intensive and other threads on each CPU and orders their slots in step",
    source: "Merkel, Stoess, Bellosa, EuroSys 2010, as ported in Seo, Eom, Yeom, MLB, section 5.4.1",
    parameters: &[EPOCH],
    build: Build::Policy(|options: &BuildOptions| Box::new(Vbsc::new(options))),
    live: LiveForm::Untested { why: "it needs the order of time slots, which no kernel keeps" },
};

struct Vbsc {
    epoch: Nanoseconds,
    /// Bytes a second of CPU time of each thread.
    intensity: RunningAverages,
    /// CPUs that have an order.
    ordered: Vec<CpuId>,
}

impl Vbsc {
    fn new(options: &BuildOptions) -> Self {
        let epoch = Nanoseconds::from_secs_f64(options.value(&EPOCH) * 1e-3);
        Self { epoch, intensity: RunningAverages::of_traffic(PAST), ordered: Vec::new() }
    }

    /// A step for each CPU: its threads in their order, or none.
    fn plan(&mut self, view: &View<'_>, queues: &Queues<'_>) -> Plan {
        let mut plan = Plan::none();
        let before = std::mem::take(&mut self.ordered);
        for (queue, tasks) in queues.sorted().into_iter().enumerate() {
            let cpu = view.machine.cpus()[queue].id;
            if tasks.is_empty() {
                if before.contains(&cpu) {
                    let slot = self.epoch;
                    let reason = format!("CPU {cpu}: no program is left here");
                    plan.push(Action::OrderSlots { cpu, threads: Vec::new(), slot }, reason);
                }
                continue;
            }
            self.ordered.push(cpu);
            let slot = Nanoseconds((self.epoch.0 / tasks.len() as u64).max(1));
            let words: Vec<String> = tasks.iter().map(Task::words).collect();
            let reason = format!("CPU {cpu}: in the order {}", words.join(", "));
            let threads = tasks.iter().map(|task| task.thread.id).collect();
            plan.push(Action::OrderSlots { cpu, threads, slot }, reason);
        }
        plan
    }
}

impl Policy for Vbsc {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        Needs {
            interval: Interval::Time(self.epoch),
            counters: vec![CounterKind::MemoryBytes],
            controls: vec![ActionKind::OrderSlots],
            ..Needs::default()
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.intensity.measure(view);
        if self.intensity.is_empty() {
            return Plan::none();
        }
        let mut queues = Queues::new(view, &self.intensity.by_thread(view));
        queues.level_loads();
        queues.mix();
        self.plan(view, &queues)
    }
}

#[derive(Debug, Clone, Copy)]
struct Task<'a> {
    thread: &'a ThreadView,
    /// Bytes a second of CPU time; the mean of all for one that was not measured yet.
    intensity: f64,
}

impl Task<'_> {
    fn may_run_on(&self, cpu: CpuId) -> bool {
        self.thread.may_run_on.contains(cpu)
    }

    fn words(&self) -> String {
        format!("{} ({:.0} MB/s)", self.thread.program, self.intensity * 1e-6)
    }
}

/// The threads by CPU.
struct Queues<'a> {
    cpus: Vec<CpuId>,
    tasks: Vec<Vec<Task<'a>>>,
    /// Above it a thread is memory-intensive.
    mean: f64,
}

impl<'a> Queues<'a> {
    /// Each thread where it is, or where the fewest are.
    fn new(view: &View<'a>, intensity: &[Option<f64>]) -> Self {
        let cpus: Vec<CpuId> = view.machine.cpus().iter().map(|cpu| cpu.id).collect();
        let known: Vec<f64> = intensity.iter().copied().flatten().collect();
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let mut queues = Self { tasks: vec![Vec::new(); cpus.len()], cpus, mean };
        for (thread, intensity) in view.threads.iter().zip(intensity) {
            let task = Task { thread, intensity: intensity.unwrap_or(mean) };
            let here = thread.cpu.filter(|&cpu| task.may_run_on(cpu));
            let here = here.and_then(|cpu| view.machine.cpu_index(cpu));
            if let Some(queue) = here.or_else(|| queues.emptiest(&task)) {
                queues.tasks[queue].push(task);
            }
        }
        queues
    }

    /// The queue with the fewest threads where a task may run, the first of equals.
    fn emptiest(&self, task: &Task<'_>) -> Option<usize> {
        let allowed = (0..self.cpus.len()).filter(|&queue| task.may_run_on(self.cpus[queue]));
        allowed.min_by_key(|&queue| self.tasks[queue].len())
    }

    /// Threads leave queues for ones that have two less, as the kernel balances its load.
    fn level_loads(&mut self) {
        // Each move makes the sum of squares of the lengths smaller.
        loop {
            let order = |queue: &usize| (std::cmp::Reverse(self.tasks[*queue].len()), *queue);
            let mut from: Vec<usize> = (0..self.tasks.len()).collect();
            from.sort_by_key(order);
            let movable = |&queue: &usize| {
                self.tasks[queue].iter().enumerate().find_map(|(place, task)| {
                    let to = self.emptiest(task)?;
                    let shorter = self.tasks[to].len() + 1 < self.tasks[queue].len();
                    shorter.then_some((queue, place, to))
                })
            };
            let Some((queue, place, to)) = from.iter().find_map(movable) else { return };
            let task = self.tasks[queue].remove(place);
            self.tasks[to].push(task);
        }
    }

    fn is_intensive(&self, task: &Task<'_>) -> bool {
        task.intensity > self.mean
    }

    fn intensive(&self, queue: usize) -> usize {
        self.tasks[queue].iter().filter(|task| self.is_intensive(task)).count()
    }

    /// Vector balancing: threads change places until no queue has two intensive threads more than
    /// another, so that what a queue's threads need differs as much as can be.
    fn mix(&mut self) {
        // Each exchange makes the sum of squares of the counts smaller.
        while let Some((from, up, to, down)) = self.uneven() {
            let (one, other) = (self.tasks[from][up], self.tasks[to][down]);
            self.tasks[from][up] = other;
            self.tasks[to][down] = one;
        }
    }

    /// The most intensive thread of a queue with too many, and the least of one with too few, that
    /// may run where the other is.
    fn uneven(&self) -> Option<(usize, usize, usize, usize)> {
        let counts: Vec<usize> = (0..self.cpus.len()).map(|queue| self.intensive(queue)).collect();
        let mut order: Vec<usize> = (0..self.cpus.len()).collect();
        order.sort_by_key(|&queue| (counts[queue], queue));
        for &from in order.iter().rev() {
            for &to in order.iter().take_while(|&&to| counts[to] + 1 < counts[from]) {
                let by_intensity = |one: &(usize, &Task<'_>), other: &(usize, &Task<'_>)| {
                    one.1.intensity.total_cmp(&other.1.intensity)
                };
                let leaving = self.tasks[from]
                    .iter()
                    .enumerate()
                    .filter(|(_, task)| self.is_intensive(task) && task.may_run_on(self.cpus[to]));
                let coming = self.tasks[to].iter().enumerate().filter(|(_, task)| {
                    !self.is_intensive(task) && task.may_run_on(self.cpus[from])
                });
                let pair = leaving.max_by(by_intensity).zip(coming.min_by(by_intensity));
                if let Some(((up, _), (down, _))) = pair {
                    return Some((from, up, to, down));
                }
            }
        }
        None
    }

    /// Sorted co-scheduling: half of the queues run their most intensive thread first, half last, so
    /// that not all run theirs in the same slot. Which half goes by the most intensive thread: 1st,
    /// 4th, 5th, 8th .. of the queues first, the others last.
    fn sorted(&self) -> Vec<Vec<Task<'a>>> {
        let mut sorted = self.tasks.clone();
        for tasks in &mut sorted {
            tasks.sort_by(|one, other| {
                other.intensity.total_cmp(&one.intensity).then(one.thread.id.cmp(&other.thread.id))
            });
        }
        let mut order: Vec<usize> =
            (0..sorted.len()).filter(|&at| !sorted[at].is_empty()).collect();
        let top = |queue: usize| sorted[queue][0].intensity;
        order.sort_by(|&one, &other| top(other).total_cmp(&top(one)).then(one.cmp(&other)));
        for (rank, &queue) in order.iter().enumerate() {
            if rank % 4 == 1 || rank % 4 == 2 {
                sorted[queue].reverse();
            }
        }
        sorted
    }
}

#[cfg(test)]
mod tests;
