//! Run queues: who of a CPU's threads runs, and for how long.
//!
//! The fair scheduler in outline: each thread's virtual runtime grows by its CPU time over its
//! weight; the least runs next, for a slice. Slices last 3 ms, more or less by a jitter, and start
//! at a random phase, so that CPUs do not march in step; they end at ticks, as the kernel's do.

use corun_policy::{Event, Nanoseconds, ThreadId};
use rand::RngExt;

use crate::cache::nearest_tick;
use crate::engine::Engine;
use crate::result::{Placement, WakeUp};
use crate::slots::SlotOrder;
use crate::thread::State;
use crate::timers::NEVER;

/// A woken thread takes the CPU from one that is ahead of it by so much virtual runtime
/// (`sched_wakeup_granularity_ns` of CFS, 1 ms before its scaling by CPUs).
const WAKEUP_GRANULARITY_NS: f64 = 1e6;

/// A CPU and its run queue.
#[derive(Debug, Clone)]
pub(crate) struct CpuState {
    pub(crate) running: Option<usize>,
    /// Slots of the threads that wait.
    pub(crate) queue: Vec<usize>,
    /// The queue's virtual time: never falls.
    pub(crate) min_vruntime: f64,
    pub(crate) slice_end: u64,
    /// When the running thread ends its phase or burst.
    pub(crate) due: u64,
    pub(crate) blocked_until: u64,
    pub(crate) order: Option<SlotOrder>,
    /// Does it have to choose anew?
    pub(crate) resched: bool,
}

impl Default for CpuState {
    fn default() -> Self {
        Self {
            running: None,
            queue: Vec::new(),
            min_vruntime: 0.0,
            slice_end: NEVER,
            due: NEVER,
            blocked_until: 0,
            order: None,
            resched: false,
        }
    }
}

impl CpuState {
    /// Runnable threads, the running one with them.
    pub(crate) fn load(&self) -> usize {
        self.queue.len() + usize::from(self.running.is_some())
    }

    pub(crate) fn is_free(&self, now: u64) -> bool {
        self.running.is_none() && self.queue.is_empty() && self.blocked_until <= now
    }
}

impl Engine<'_> {
    /// Puts a runnable thread that is in no queue into a CPU's. Its virtual runtime is carried
    /// over relative to the queue that it comes from.
    pub(crate) fn put(&mut self, slot: usize, cpu: usize) {
        self.loads_changed = true;
        if self.threads[slot].cpu != cpu {
            self.catch_up(self.threads[slot].cpu);
            self.catch_up(cpu);
        }
        let thread = &mut self.threads[slot];
        if thread.cpu != cpu {
            let lag = thread.vruntime - self.cpus[thread.cpu].min_vruntime;
            thread.vruntime = self.cpus[cpu].min_vruntime + lag;
        }
        thread.account(self.now);
        thread.cpu = cpu;
        thread.state = State::Runnable;
        thread.waiting_since = self.now;
        let queue = &mut self.cpus[cpu];
        queue.queue.push(slot);
        if queue.running.is_none() {
            self.choose(cpu);
        } else if queue.slice_end == NEVER {
            let phase: f64 = self.slicing.random();
            let slice = self.experiment.settings.slice.0 as f64 * phase;
            self.cpus[cpu].slice_end = nearest_tick(self.now, slice, self.tick_ns);
        }
    }

    /// Brings a queue's virtual time up to the least of its threads'.
    pub(crate) fn catch_up(&mut self, cpu: usize) {
        if let Some(running) = self.cpus[cpu].running {
            self.threads[running].account(self.now);
        }
        let queue = &self.cpus[cpu];
        let times = queue.queue.iter().chain(&queue.running);
        let least = times.map(|&slot| self.threads[slot].vruntime).reduce(f64::min);
        if let Some(least) = least {
            self.cpus[cpu].min_vruntime = self.cpus[cpu].min_vruntime.max(least);
        }
    }

    /// Takes a thread off its CPU or out of its queue; its progress is counted up to now.
    pub(crate) fn take(&mut self, slot: usize, then: State) {
        self.loads_changed = true;
        self.threads[slot].account(self.now);
        let cpu = self.threads[slot].cpu;
        let queue = &mut self.cpus[cpu];
        match self.threads[slot].state {
            State::Running => {
                queue.running = None;
                queue.resched = true;
            }
            State::Runnable => queue.queue.retain(|&other| other != slot),
            State::Absent | State::Displaced | State::Sleeping => {}
        }
        self.threads[slot].state = then;
    }

    /// A thread woke on a CPU: does it take it at once?
    pub(crate) fn preempt(&mut self, slot: usize, cpu: usize) {
        let Some(running) = self.cpus[cpu].running else { return };
        self.threads[running].account(self.now);
        self.renew_slots(cpu);
        let woken = &self.threads[slot];
        let ahead = self.threads[running].vruntime - woken.vruntime;
        self.cpus[cpu].resched |= match self.place_in_order(slot, cpu) {
            Some(place) => self.place_in_order(running, cpu).is_none_or(|other| place < other),
            None => self.cpus[cpu].order.is_none() && ahead > WAKEUP_GRANULARITY_NS / woken.weight,
        };
    }

    /// Ends slices whose time has come.
    pub(crate) fn finish_slices(&mut self) {
        for cpu in &mut self.cpus {
            if cpu.slice_end <= self.now {
                cpu.slice_end = NEVER;
                cpu.resched = true;
            }
        }
    }

    /// Lets every CPU that has to choose anew do so; one that finds nothing looks elsewhere.
    pub(crate) fn reschedule(&mut self) {
        // First all choose among their own, so that nobody takes what another was about to run.
        let mut bare: Vec<usize> = Vec::new();
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].resched {
                self.choose(cpu);
                if self.cpus[cpu].is_free(self.now) {
                    bare.push(cpu);
                }
            }
        }
        for cpu in bare {
            self.pull(cpu);
        }
    }

    fn choose(&mut self, cpu: usize) {
        self.cpus[cpu].resched = false;
        let before = self.cpus[cpu].running.take();
        if let Some(slot) = before {
            self.threads[slot].account(self.now);
            self.threads[slot].state = State::Runnable;
            self.threads[slot].waiting_since = self.now;
            self.cpus[cpu].queue.push(slot);
        }
        if self.cpus[cpu].blocked_until > self.now {
            self.cpus[cpu].slice_end = NEVER;
            return;
        }
        let turn = self.turn(cpu);
        let fair = || {
            let key = |&slot: &usize| (self.threads[slot].vruntime, self.threads[slot].id);
            self.cpus[cpu].queue.iter().copied().min_by(|first, second| {
                let (first, second) = (key(first), key(second));
                first.0.total_cmp(&second.0).then(first.1.cmp(&second.1))
            })
        };
        let Some(slot) = turn.or_else(fair) else {
            self.cpus[cpu].slice_end = NEVER;
            return;
        };
        if before != Some(slot) {
            self.threads[slot].totals.context_switches += 1.0;
        }
        self.start(slot, cpu);
    }

    fn start(&mut self, slot: usize, cpu: usize) {
        let queue = &mut self.cpus[cpu];
        queue.queue.retain(|&other| other != slot);
        queue.running = Some(slot);
        let thread = &mut self.threads[slot];
        thread.account(self.now);
        thread.state = State::Running;
        queue.min_vruntime = queue.min_vruntime.max(thread.vruntime);
        let epoch_end = queue.order.as_ref().map_or(NEVER, SlotOrder::epoch_end);
        let turn = queue.order.as_ref().and_then(|it| it.turn(thread.id, thread.totals.cpu_ns));
        queue.slice_end = match turn {
            Some((_, left)) => epoch_end.min(self.now + left),
            None if queue.queue.is_empty() => epoch_end,
            None => {
                let settings = &self.experiment.settings;
                let swing = settings.jitter * (2.0 * self.slicing.random::<f64>() - 1.0);
                let slice = settings.slice.0 as f64 * (1.0 + swing);
                epoch_end.min(nearest_tick(self.now, slice, self.tick_ns))
            }
        };
    }

    /// Of the queued threads that have something left of their slots the first in the CPU's order.
    fn turn(&mut self, cpu: usize) -> Option<usize> {
        self.renew_slots(cpu);
        let queued = self.cpus[cpu].queue.iter().copied();
        queued.filter_map(|slot| Some((self.place_in_order(slot, cpu)?, slot))).min().map(|it| it.1)
    }

    fn renew_slots(&mut self, cpu: usize) {
        let threads = &self.threads;
        if let Some(order) = &mut self.cpus[cpu].order {
            order.renew(self.now, |id| {
                threads
                    .iter()
                    .find(|thread| thread.id == id)
                    .map_or(0, |thread| thread.totals.cpu_ns)
            });
        }
    }

    /// A thread's place in its CPU's order, while something is left of its slot.
    fn place_in_order(&self, slot: usize, cpu: usize) -> Option<usize> {
        let thread = &self.threads[slot];
        let order = self.cpus[cpu].order.as_ref()?;
        order.turn(thread.id, thread.totals.cpu_ns).map(|(place, _)| place)
    }

    /// A thread came onto a CPU: counts a migration when it ran elsewhere before.
    pub(crate) fn note_placement(&mut self, slot: usize, cpu: usize) {
        let thread = &mut self.threads[slot];
        let before = thread.ran_on.replace(cpu);
        if before == Some(cpu) {
            return;
        }
        if let Some(before) = before {
            let app = &mut self.apps[thread.app];
            app.migrations += 1;
            let llc = |cpu: usize| self.machine.cpus()[cpu].llc;
            app.llc_migrations += u64::from(llc(before) != llc(cpu));
        }
        if self.placements.len() < self.experiment.settings.placements {
            self.placements.push(Placement { at: Nanoseconds(self.now), thread: thread.id, cpu });
        } else {
            self.placements_dropped += 1;
        }
    }

    /// Notes who woke and is on a CPU now, when policies have said what they had to.
    pub(crate) fn note_wake_ups(&mut self) {
        let running = self.cpus.iter().filter_map(|cpu| cpu.running);
        for slot in running {
            let thread = &mut self.threads[slot];
            let Some(at) = thread.woken_at.take() else { continue };
            if self.wake_ups.len() < self.experiment.settings.wake_ups {
                let (at, waited) = (Nanoseconds(at), Nanoseconds(self.now - at));
                self.wake_ups.push(WakeUp { at, thread: thread.id, waited });
            } else {
                self.wake_ups_dropped += 1;
            }
        }
    }

    /// Tells which threads came on and off CPUs since it was last asked.
    /// A thread that went from one LLC to another without a pause went off and came on.
    pub(crate) fn note_switches(&mut self) {
        let place = |(cpu, state): (usize, &CpuState)| {
            Some((self.threads[state.running?].id, self.machine.cpus()[cpu].llc))
        };
        let mut on_now: Vec<(ThreadId, usize)> =
            self.cpus.iter().enumerate().filter_map(place).collect();
        on_now.sort_unstable();
        if on_now == self.watched.on_cpus {
            return;
        }
        let on_before = std::mem::replace(&mut self.watched.on_cpus, on_now);
        let on_now = &self.watched.on_cpus;
        let missing = |from: &[(ThreadId, usize)], other: &[(ThreadId, usize)]| {
            let lacks = |one: &&(ThreadId, usize)| other.binary_search(one).is_err();
            from.iter().filter(lacks).map(|(id, _)| *id).collect::<Vec<_>>()
        };
        let on = missing(on_now, &on_before);
        let off = missing(&on_before, on_now);
        self.watched.happened.push(Event::Switched { on, off });
    }

    /// Who runs and waits where, for people.
    pub(crate) fn dump(&self) -> String {
        let name = |slot: &usize| {
            let thread = &self.threads[*slot];
            format!("{} (thread {})", self.experiment.apps[thread.app].name, thread.id.0)
        };
        let mut text = String::new();
        for (index, cpu) in self.cpus.iter().enumerate() {
            let id = self.machine.cpus()[index].id;
            let running = cpu.running.as_ref().map_or_else(|| "nobody".to_owned(), name);
            let waiting: Vec<String> = cpu.queue.iter().map(name).collect();
            let blocked = if cpu.blocked_until > self.now { ", held idle" } else { "" };
            text +=
                &format!("CPU {id}: {running} runs{blocked}; waiting: [{}]\n", waiting.join(", "));
        }
        text
    }
}
