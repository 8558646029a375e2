//! Algorithm 1 on run queues: which threads change places.

use corun_machine::CpuId;

use crate::{ThreadState, ThreadView};

/// A thread in a run queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Task {
    /// Its place among the view's threads.
    thread: usize,
    /// Bytes a second of CPU time; none before it was measured.
    intensity: Option<f64>,
    /// Its share of a CPU; none before it was measured.
    utilisation: Option<f64>,
    /// Does it want a CPU?
    runnable: bool,
}

impl Task {
    pub(super) fn new(thread: usize, view: &ThreadView, intensity: Option<f64>) -> Self {
        let runnable = view.state != ThreadState::Sleeping;
        Self { thread, intensity, utilisation: view.rates.cpu_share, runnable }
    }
}

/// Two threads that change places.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Exchange {
    /// Who goes to an intensive run queue, by its place among the view's threads.
    pub(super) up: usize,
    /// Who leaves it.
    pub(super) down: usize,
    pub(super) up_intensity: f64,
    pub(super) down_intensity: f64,
    /// The CPU of the intensive run queue.
    pub(super) to: CpuId,
}

/// What bounds the balancing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limits {
    /// Run queues that may be intensive.
    pub(super) predicted: usize,
    /// How far apart the utilisation of two threads that change places may be.
    pub(super) tolerance: f64,
}

/// All run queues, one a CPU.
#[derive(Debug)]
pub(super) struct Queues {
    cpus: Vec<CpuId>,
    /// By CPU.
    tasks: Vec<Vec<Task>>,
}

impl Queues {
    pub(super) fn new(cpus: impl Iterator<Item = CpuId>) -> Self {
        let cpus: Vec<CpuId> = cpus.collect();
        let tasks = vec![Vec::new(); cpus.len()];
        Self { cpus, tasks }
    }

    pub(super) fn add(&mut self, cpu: usize, task: Task) {
        self.tasks[cpu].push(task);
    }

    /// One round: the list shrinks by a run queue, or threads change places and the list grows as
    /// far as that needs. Numbers are the algorithm's lines.
    pub(super) fn balance(
        &mut self,
        list: &mut Vec<CpuId>,
        limits: Limits,
        threads: &[ThreadView],
    ) -> Vec<Exchange> {
        let mut intensive = self.present(list);
        let exchanges = self.round(&mut intensive, limits, threads);
        list.clear();
        list.extend(intensive.iter().map(|&queue| self.cpus[queue]));
        exchanges
    }

    fn round(
        &mut self,
        intensive: &mut Vec<usize>,
        limits: Limits,
        threads: &[ThreadView],
    ) -> Vec<Exchange> {
        // 4-8: more intensive run queues than streams would make such a level.
        if limits.predicted < intensive.len() {
            let lowest = (0..intensive.len()).min_by(|&one, &other| {
                self.sum(intensive[one]).total_cmp(&self.sum(intensive[other]))
            });
            intensive.remove(lowest.unwrap_or_default());
            return Vec::new();
        }
        let Some(mean) = self.mean() else { return Vec::new() };
        // 9-13: the run queue of the highest thread outside, unless all inside are higher. Printed is "no
        // higher": then streams that are alike stay outside for good, though the list may grow.
        let Some((source, highest)) = self.highest_outside(intensive) else { return Vec::new() };
        let lowest = intensive.iter().filter_map(|&queue| self.lowest(queue)).reduce(f64::min);
        if lowest.is_some_and(|lowest| highest < lowest) {
            return Vec::new();
        }
        let mut exchanges = Vec::new();
        // 19-22: its memory-intensive threads, the highest first.
        for up in self.above(source, mean) {
            let partner = |queues: &Self, queue| queues.partner(queue, &up, mean, limits, threads);
            // 30-38: the first run queue of the list with a thread that is not intensive.
            let mut found =
                intensive.iter().find_map(|&queue| Some((queue, partner(self, queue)?)));
            // 14-17, 23-29: none has; one more becomes intensive, which may be the source itself.
            while found.is_none() && intensive.len() < limits.predicted {
                let Some(next) = self.highest_queue_outside(intensive) else { break };
                intensive.push(next);
                if next == source {
                    return exchanges;
                }
                found = partner(self, next).map(|down| (next, down));
            }
            // 39: they change places.
            if let Some((queue, down)) = found {
                exchanges.push(self.exchange(source, &up, queue, down));
            }
        }
        exchanges
    }

    /// Which of so many threads belong on the list's run queues and stay there: those above the mean,
    /// unless their CPU has two more than another, which the host is to even out.
    pub(super) fn to_hold(&self, list: &[CpuId], threads: usize) -> Vec<bool> {
        let mut hold = vec![false; threads];
        let mean = self.mean().unwrap_or(f64::INFINITY);
        for queue in self.present(list) {
            if self.is_crowded(queue) {
                continue;
            }
            let above = |task: &&Task| task.intensity.is_some_and(|intensity| intensity > mean);
            for task in self.tasks[queue].iter().filter(above) {
                hold[task.thread] = true;
            }
        }
        hold
    }

    /// Does another CPU have at least two threads less?
    pub(super) fn is_crowded(&self, queue: usize) -> bool {
        let least = (0..self.cpus.len()).map(|other| self.load(other)).min().unwrap_or(0);
        self.load(queue) > least + 1
    }

    /// The list's run queues that still have threads.
    fn present(&self, list: &[CpuId]) -> Vec<usize> {
        let find = |cpu: &CpuId| self.cpus.binary_search(cpu).ok();
        list.iter().filter_map(find).filter(|&queue| self.load(queue) > 0).collect()
    }

    /// Threads that want the CPU.
    fn load(&self, queue: usize) -> usize {
        self.tasks[queue].iter().filter(|task| task.runnable).count()
    }

    /// Threads that may change places: measured, and not alone on their CPU.
    fn movable(&self, queue: usize) -> impl Iterator<Item = (usize, &Task, f64)> {
        let shared = self.load(queue) > 1;
        self.tasks[queue].iter().enumerate().filter_map(move |(place, task)| {
            let known = task.intensity.filter(|_| shared && task.runnable)?;
            task.utilisation.map(|_| (place, task, known))
        })
    }

    /// The mean intensity of all threads (line 3).
    fn mean(&self) -> Option<f64> {
        let known = || self.tasks.iter().flatten().filter_map(|task| task.intensity);
        let count = known().count();
        (count > 0).then(|| known().sum::<f64>() / count as f64)
    }

    fn sum(&self, queue: usize) -> f64 {
        self.tasks[queue].iter().filter_map(|task| task.intensity).sum()
    }

    fn lowest(&self, queue: usize) -> Option<f64> {
        self.movable(queue).map(|(_, _, intensity)| intensity).reduce(f64::min)
    }

    fn outside<'a>(&self, intensive: &'a [usize]) -> impl Iterator<Item = usize> + use<'a> {
        (0..self.cpus.len()).filter(|queue| !intensive.contains(queue))
    }

    /// The run queue outside the list with the highest thread, and that thread's intensity; the
    /// first of equals.
    fn highest_outside(&self, intensive: &[usize]) -> Option<(usize, f64)> {
        let highest = |queue: usize| {
            let most = self.movable(queue).map(|(_, _, intensity)| intensity).reduce(f64::max)?;
            Some((queue, most))
        };
        let first_most =
            |best: (usize, f64), next: (usize, f64)| if next.1 > best.1 { next } else { best };
        self.outside(intensive).filter_map(highest).reduce(first_most)
    }

    /// The run queue outside the list whose threads' intensities have the highest sum, of those in
    /// which threads can change places.
    fn highest_queue_outside(&self, intensive: &[usize]) -> Option<usize> {
        let candidates = self.outside(intensive).filter(|&queue| self.movable(queue).count() > 1);
        let sums = candidates.map(|queue| (queue, self.sum(queue)));
        sums.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(queue, _)| queue)
    }

    /// A run queue's movable threads above the mean, the highest first.
    fn above(&self, queue: usize, mean: f64) -> Vec<Task> {
        let mut above: Vec<(Task, f64)> = self
            .movable(queue)
            .filter(|&(_, _, intensity)| intensity > mean)
            .map(|(_, task, intensity)| (*task, intensity))
            .collect();
        above.sort_by(|one, other| other.1.total_cmp(&one.1));
        above.into_iter().map(|(task, _)| task).collect()
    }

    /// The lowest thread of a run queue that is not above the mean and with which `up` may change
    /// places: as busy as it, and free to run on the same CPUs.
    fn partner(
        &self,
        queue: usize,
        up: &Task,
        mean: f64,
        limits: Limits,
        threads: &[ThreadView],
    ) -> Option<usize> {
        let fits = |task: &Task| {
            let apart = (task.utilisation.unwrap_or(0.0) - up.utilisation.unwrap_or(0.0)).abs();
            apart <= limits.tolerance
                && threads[task.thread].may_run_on == threads[up.thread].may_run_on
        };
        let candidates = self.movable(queue).filter(|&(_, _, intensity)| intensity <= mean);
        candidates
            .filter(|(_, task, _)| fits(task))
            .min_by(|one, other| one.2.total_cmp(&other.2))
            .map(|(place, _, _)| place)
    }

    fn exchange(&mut self, source: usize, up: &Task, queue: usize, down: usize) -> Exchange {
        let place = self.tasks[source].iter().position(|task| task.thread == up.thread);
        let place = place.unwrap_or_default();
        let lower = std::mem::replace(&mut self.tasks[queue][down], *up);
        self.tasks[source][place] = lower;
        Exchange {
            up: up.thread,
            down: lower.thread,
            up_intensity: up.intensity.unwrap_or_default(),
            down_intensity: lower.intensity.unwrap_or_default(),
            to: self.cpus[queue],
        }
    }
}
