//! Progress counters: time on CPUs, each part of it by what it was worth (García García, thesis UCM
//! 2021, equation 4.2; Saez et al., ACFS, for the same with another idea of a slowdown).
//!
//! The thesis adds 100 a tick; here the unit is a millisecond of the thread alone on a big core.

use corun_machine::Machine;

use super::by_thread::ByThread;
use super::sides::is_runnable;
use super::speedup::side_of;
use super::{Cores, Side, amp_threshold_ms};
use crate::{Nanoseconds, ProcessId, ThreadId, ThreadView, View};

/// A thread's account.
#[derive(Debug, Clone, Copy)]
struct Account {
    progress_ms: f64,
    /// Time on CPUs that is counted already, in seconds.
    counted_s: f64,
    /// Time on CPUs since the account was opened, in seconds.
    ran_s: f64,
    /// The same, each part of it times the slowdown then.
    slowdown_time_s: f64,
    /// Has it run on a small core since?
    was_on_small: bool,
    /// Its slowdown on a small core, as far as is known; none before the first interval.
    on_small: Option<f64>,
    asleep_since: Option<Nanoseconds>,
}

impl Account {
    /// Its mean slowdown; where that says nothing of small cores, its slowdown there.
    fn slowdown(&self) -> Option<f64> {
        let mean = self.slowdown_time_s / self.ran_s;
        if self.was_on_small && mean > 1.0 { Some(mean) } else { self.on_small }
    }

    /// Did it wake since the last look without the host saying so? It is awake, or ran and sleeps again.
    fn woke_unheard(&self, thread: &ThreadView, last: Nanoseconds, ran_s: f64) -> bool {
        let awake = is_runnable(thread);
        self.asleep_since.is_some_and(|since| awake || since <= last && ran_s > 0.0)
    }
}

/// What an interval was to each thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worth<'a> {
    pub(crate) slowdowns: &'a [f64],
    /// Speeds on a big core over those on a small one.
    pub(crate) speedups: &'a [f64],
    pub(crate) weights: &'a [f64],
}

/// The accounts of all threads.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    accounts: ByThread<Account>,
    /// In the order of the view's threads.
    pub(crate) progress_ms: Vec<f64>,
    last: Nanoseconds,
    /// By how much progress may differ, in ms; 0: as the machine's file says.
    threshold_asked_ms: f64,
}

impl Progress {
    pub(crate) fn new(threshold_asked_ms: f64) -> Self {
        Self { threshold_asked_ms, ..Self::default() }
    }

    /// By how much progress may differ before threads swap, in ms.
    pub(crate) fn threshold_ms(&self, machine: &Machine) -> f64 {
        amp_threshold_ms(machine, self.threshold_asked_ms)
    }

    /// The further behind, the higher the claim to a big core.
    pub(crate) fn claims(&self) -> Vec<f64> {
        self.progress_ms.iter().map(|progress| -progress).collect()
    }

    /// Opens accounts for new threads with the highest counter there is (section 4.3.3).
    pub(crate) fn align(&mut self, view: &View<'_>) {
        let highest = self.accounts.values().iter().map(|one| one.progress_ms).fold(0.0, f64::max);
        self.accounts.align(view.threads, |thread| Account {
            progress_ms: highest,
            counted_s: thread.counts.cpu_s().unwrap_or(0.0),
            ran_s: 0.0,
            slowdown_time_s: 0.0,
            was_on_small: false,
            on_small: None,
            asleep_since: None,
        });
        self.publish();
    }

    fn publish(&mut self) {
        self.progress_ms.clear();
        self.progress_ms.extend(self.accounts.values().iter().map(|one| one.progress_ms));
    }

    /// Counts an interval: each thread's time on CPUs by its slowdown and weight. A live host tells of no sleep: who sleeps
    /// and who has woken shows at these looks.
    pub(crate) fn advance(&mut self, view: &View<'_>, cores: &Cores, worth: Worth<'_>) {
        let last = std::mem::replace(&mut self.last, view.now);
        let seconds = (view.now.0.saturating_sub(last.0)) as f64 * 1e-9;
        for (place, thread) in view.threads.iter().enumerate() {
            let account = &mut self.accounts.values_mut()[place];
            let ran_s = time_on_cpus_s(thread, &mut account.counted_s, seconds);
            if account.woke_unheard(thread, last, ran_s) {
                let ran = Nanoseconds::from_secs_f64(ran_s);
                self.come_back(place, Nanoseconds(view.now.0.saturating_sub(ran.0)), view.machine);
            }
            let account = &mut self.accounts.values_mut()[place];
            let slowdown = worth.slowdowns[place].max(1.0);
            account.progress_ms += 1e3 * ran_s / (slowdown * worth.weights[place]);
            account.ran_s += ran_s;
            account.slowdown_time_s += ran_s * slowdown;
            account.was_on_small |= ran_s > 0.0 && side_of(thread, cores) == Some(Side::Small);
            let gains = Some(worth.speedups[place]).filter(|&speedup| speedup > 1.0);
            account.on_small = Some(gains.unwrap_or(cores.capacity_ratio));
            if !is_runnable(thread) {
                account.asleep_since.get_or_insert(view.now);
            }
        }
        self.publish();
    }

    pub(crate) fn slept(&mut self, id: ThreadId, now: Nanoseconds) {
        if let Some(place) = self.accounts.place(id) {
            self.accounts.values_mut()[place].asleep_since = Some(now);
        }
    }

    pub(crate) fn woke(&mut self, id: ThreadId, view: &View<'_>) {
        self.align(view);
        if let Some(place) = self.accounts.place(id) {
            self.come_back(place, view.now, view.machine);
        }
    }

    /// A thread that slept for longer than a swap there and back takes it comes back with at least the
    /// lowest counter of the others (section 4.3.3).
    fn come_back(&mut self, place: usize, at: Nanoseconds, machine: &Machine) {
        let threshold_ms = self.threshold_ms(machine);
        let account = &mut self.accounts.values_mut()[place];
        let Some(since) = account.asleep_since.take() else { return };
        let Some(slowdown) = account.slowdown() else { return };
        let slept_ms = at.0.saturating_sub(since.0) as f64 * 1e-6;
        let others = self.progress_ms.iter().enumerate().filter(|(one, _)| *one != place);
        let lowest = others.map(|(_, &progress)| progress).fold(f64::INFINITY, f64::min);
        if slept_ms > there_and_back_ms(threshold_ms, slowdown) && lowest.is_finite() {
            account.progress_ms = account.progress_ms.max(lowest);
            self.progress_ms[place] = account.progress_ms;
        }
    }

    /// The mean of all counters.
    pub(crate) fn mean_ms(&self) -> f64 {
        self.progress_ms.iter().sum::<f64>() / self.progress_ms.len().max(1) as f64
    }
}

/// Time on CPUs since the last interval, of which `counted_s` is what was counted by then; by the share
/// of this interval where the host keeps no sum.
pub(crate) fn time_on_cpus_s(thread: &ThreadView, counted_s: &mut f64, interval_s: f64) -> f64 {
    match thread.counts.cpu_s() {
        Some(cpu_s) => (cpu_s - std::mem::replace(counted_s, cpu_s)).max(0.0),
        None => thread.rates.cpu_share.unwrap_or(0.0) * interval_s,
    }
}

/// How long a thread that was just swapped to a small core waits for its big core: it is ahead of
/// the other by the threshold, and falls behind by as much, at 1 - 1 / slowdown a unit of time.
pub(crate) fn there_and_back_ms(threshold_ms: f64, slowdown: f64) -> f64 {
    2.0 * threshold_ms / (1.0 - 1.0 / slowdown)
}

/// Which threads are of one program.
#[derive(Debug)]
pub(crate) struct Programs {
    /// Indices of threads, program by program.
    order: Vec<usize>,
    /// By thread, how many threads of its program are runnable, at least 1.
    runnable: Vec<f64>,
}

impl Programs {
    pub(crate) fn of(threads: &[ThreadView]) -> Self {
        let mut order: Vec<usize> = (0..threads.len()).collect();
        order.sort_by_key(|&one| threads[one].process);
        let mut runnable = vec![1.0; threads.len()];
        for same in order.chunk_by(|&a, &b| threads[a].process == threads[b].process) {
            let count = same.iter().filter(|&&one| is_runnable(&threads[one])).count();
            same.iter().for_each(|&one| runnable[one] = count.max(1) as f64);
        }
        Self { order, runnable }
    }

    /// The processes with several threads, in ascending order.
    pub(crate) fn of_several(&self, threads: &[ThreadView]) -> impl Iterator<Item = ProcessId> {
        self.order
            .chunk_by(|&a, &b| threads[a].process == threads[b].process)
            .filter(|same| same.len() > 1)
            .map(|same| threads[same[0]].process)
    }

    /// Slowdowns of whole programs: what one big core would do for a thread, divided by the program's
    /// runnable threads (section 4.3.5).
    pub(crate) fn share_out(&self, values: &mut [f64]) {
        for (value, runnable) in values.iter_mut().zip(&self.runnable) {
            *value = 1.0 + (*value - 1.0) / runnable;
        }
    }
}

/// Weights that favour who gains most by big cores (equation 4.4); those of the threads where the
/// unfairness factor is 1 or all gain alike.
pub(crate) fn dynamic_weights(threads: &[ThreadView], factor: f64, speedups: &[f64]) -> Vec<f64> {
    let weight = |thread: &ThreadView| if thread.weight > 0.0 { thread.weight } else { 1.0 };
    let least = speedups.iter().copied().fold(f64::INFINITY, f64::min);
    let most = speedups.iter().copied().fold(0.0, f64::max);
    let gains = |speedup: f64| {
        if most > least { (factor - 1.0) * (speedup - least) / (most - least) } else { 0.0 }
    };
    threads
        .iter()
        .zip(speedups)
        .map(|(thread, &speedup)| weight(thread) * (1.0 + gains(speedup)))
        .collect()
}
