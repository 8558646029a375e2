//! Programs and threads from their arrival to their end.

use corun_policy::{Event, Nanoseconds, ProcessId, ThreadId, Totals};
use corun_profile::Method;
use rand::RngExt;

use crate::domains::full;
use crate::engine::Engine;
use crate::observation::weight_of_nice;
use crate::result::ThreadLife;
use crate::service::ServiceRun;
use crate::thread::{Done, Mask, State, Thread};
use crate::timers::{NEVER, Timer};

/// A program's runs.
#[derive(Debug, Clone)]
pub(crate) struct AppRun {
    /// Its threads' slots: the first, and how many.
    pub(crate) slots: std::ops::Range<usize>,
    /// Instructions of each stretch that each thread executes.
    pub(crate) lengths: Vec<f64>,
    /// Threads of the present run that have not ended.
    pub(crate) live: u32,
    /// Runs started.
    pub(crate) runs: u32,
    /// When the present run started.
    pub(crate) started: u64,
    /// Completion times in seconds.
    pub(crate) completions: Vec<f64>,
    /// Complete runs that the method waits for.
    pub(crate) wanted: usize,
    pub(crate) restarts: bool,
    /// Share of the run that was under way when it was killed.
    pub(crate) unfinished: f64,
    /// Killed.
    pub(crate) gone: bool,
    /// When it left for good; none while it is there.
    pub(crate) left: Option<u64>,
    pub(crate) migrations: u64,
    pub(crate) llc_migrations: u64,
    pub(crate) extrapolated: bool,
    /// Counts of threads that ended.
    pub(crate) past: Totals,
    /// Of their instructions, what was spun away.
    pub(crate) past_spun_instructions: f64,
    /// None where it is no service.
    pub(crate) service: Option<ServiceRun>,
}

impl AppRun {
    pub(crate) fn is_done(&self) -> bool {
        self.gone || self.completions.len() >= self.wanted
    }

    /// Share of the runs that are waited for.
    pub(crate) fn share(&self) -> f64 {
        match self.wanted {
            _ if self.gone => 1.0,
            // Nobody waits for a service.
            0 => 1.0,
            wanted => self.completions.len() as f64 / wanted as f64,
        }
    }
}

impl Engine<'_> {
    /// Makes a slot for each thread of each program, and the programs' books.
    pub(crate) fn make_threads(&mut self) {
        let experiment = self.experiment;
        let mut programs: Vec<*const corun_model::LoadedProgram> = Vec::new();
        for (app, spec) in experiment.apps.iter().enumerate() {
            let pointer = std::sync::Arc::as_ptr(&spec.program);
            let program = programs.iter().position(|&known| known == pointer);
            let program = program.unwrap_or_else(|| {
                programs.push(pointer);
                programs.len() - 1
            });
            let user: Mask = match &spec.may_run_on {
                None => full(self.machine.cpus().len()),
                Some(cpus) => self.mask(cpus),
            };
            let weight = match &self.experiment.observation {
                Some(_) => weight_of_nice(spec.weight),
                None => spec.weight,
            };
            let first = self.threads.len();
            for index in 0..spec.threads {
                let slot = self.threads.len();
                self.threads.push(Thread {
                    app,
                    index,
                    program,
                    id: ThreadId(u64::MAX),
                    process: ProcessId(u64::MAX),
                    state: State::Absent,
                    cpu: 0,
                    ran_on: None,
                    user: user.clone(),
                    allowed: user.clone(),
                    weight,
                    base_weight: weight,
                    weight_changes: 0,
                    page_moves: 0,
                    pages_to: None,
                    vruntime: 0.0,
                    waiting_since: 0,
                    home: None,
                    stretch: 0,
                    phase: 0,
                    mix: None,
                    done: Done::default(),
                    since_barrier: Done::default(),
                    request: None,
                    at_barrier: false,
                    spinning: false,
                    outcome: corun_model::Outcome::default(),
                    clock: 0.0,
                    since: 0,
                    totals: Totals::default(),
                    spun_instructions: 0.0,
                    burst_left: NEVER,
                    sleeps: 0,
                    woken_at: None,
                    waits: self.waits_stream(slot),
                    fresh: false,
                    extrapolated: false,
                });
            }
            let stretch = spec.run_instructions() / spec.program.instructions();
            let part = stretch / f64::from(spec.threads);
            let restarts = spec.restarts(experiment.method);
            let thrice = experiment.method == Method::Restart3 && restarts;
            self.apps.push(AppRun {
                slots: first..self.threads.len(),
                lengths: spec.program.sequence.iter().map(|one| one.instructions * part).collect(),
                live: 0,
                runs: 0,
                started: 0,
                completions: Vec::new(),
                wanted: match spec.service {
                    Some(_) => 0,
                    None if thrice => 3,
                    None => 1,
                },
                restarts,
                unfinished: 0.0,
                gone: false,
                left: None,
                migrations: 0,
                llc_migrations: 0,
                extrapolated: false,
                past: Totals::default(),
                past_spun_instructions: 0.0,
                service: spec.service.map(|service| {
                    ServiceRun::new(service, spec.start.0, self.requests_stream(app))
                }),
            });
        }
    }

    /// A run of a program starts: a new process.
    pub(crate) fn start_run(&mut self, app: usize) {
        if self.apps[app].gone {
            return;
        }
        let process = ProcessId(self.next_process);
        self.next_process += 1;
        let run = self.apps[app].runs;
        let slots = self.apps[app].slots.clone();
        self.apps[app].runs += 1;
        self.apps[app].started = self.now;
        self.apps[app].live = slots.len() as u32;
        let home = self.experiment.apps[app].home;
        for slot in slots {
            let id = ThreadId(self.next_thread);
            self.next_thread += 1;
            // Every run of a program, and its run alone, waits at the same points for as long.
            let waits = self.waits_stream(slot);
            let program = self.tables.program(self.threads[slot].program);
            let phase = program.sequence[0].phase;
            let thread = &mut self.threads[slot];
            thread.waits = waits;
            thread.id = id;
            thread.process = process;
            thread.ran_on = None;
            thread.allowed = thread.user.clone();
            thread.weight = thread.base_weight;
            thread.weight_changes += 1;
            thread.page_moves += 1;
            thread.pages_to = None;
            thread.home = home;
            thread.stretch = 0;
            thread.phase = phase;
            thread.mix = program.phases[phase].mix;
            thread.done = Done::default();
            thread.since_barrier = Done::default();
            (thread.at_barrier, thread.spinning) = (false, false);
            thread.outcome = corun_model::Outcome::default();
            thread.since = self.now;
            thread.totals = Totals::default();
            thread.spun_instructions = 0.0;
            thread.woken_at = None;
            thread.fresh = true;
            self.draw_burst(slot);
            self.records.push(ThreadLife {
                id,
                process,
                app,
                index: self.threads[slot].index,
                run,
                start: Nanoseconds(self.now),
                end: None,
            });
            self.threads[slot].state = State::Displaced;
            self.arriving.push(slot);
            self.watched.threads_changed = true;
            self.watched.happened.push(Event::Arrived(id));
        }
        self.open_service(app);
    }

    /// Places the threads that arrive now as the kernel places what is forked. Who is first of
    /// those who start together is drawn by lot.
    pub(crate) fn place_arrivals(&mut self) {
        let mut arriving = std::mem::take(&mut self.arriving);
        for left in (2..=arriving.len()).rev() {
            arriving.swap(left - 1, self.placing.random_range(0..left));
        }
        for slot in arriving.drain(..) {
            if self.threads[slot].state != State::Displaced {
                continue;
            }
            let cpu = self.starts.get(slot).copied().unwrap_or_else(|| self.idlest(slot));
            self.catch_up(cpu);
            self.threads[slot].cpu = cpu;
            self.threads[slot].vruntime = self.cpus[cpu].min_vruntime;
            self.put(slot, cpu);
        }
        self.arriving = arriving;
    }

    /// Stretches and bursts that end now, and barriers that are reached.
    pub(crate) fn finish_dues(&mut self) {
        let mut open: Vec<usize> = Vec::new();
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].due > self.now {
                continue;
            }
            self.cpus[cpu].due = NEVER;
            self.rates.stale = true;
            let Some(slot) = self.cpus[cpu].running else { continue };
            self.threads[slot].account(self.now);
            let app = self.threads[slot].app;
            if !self.next_stretch(slot) {
                self.end_thread(slot);
                open.push(app);
            } else if self.is_at_barrier(slot) {
                if self.arrive_at_barrier(slot) {
                    open.push(app);
                }
            } else if self.has_answered(slot) {
                self.answer(slot);
            } else if self.threads[slot].burst_left == 0 {
                self.sleep(slot);
            }
        }
        open.into_iter().for_each(|app| self.open_barrier(app));
    }

    /// Brings a thread whose stretch is over into the next; false when there is none.
    fn next_stretch(&mut self, slot: usize) -> bool {
        let app = self.threads[slot].app;
        let before = self.threads[slot].phase;
        let program = self.tables.program(self.threads[slot].program);
        let sequence = &program.sequence;
        loop {
            let lengths = &self.apps[app].lengths;
            let thread = &mut self.threads[slot];
            let over = -thread.done.left_of(lengths[thread.stretch]);
            if over < 0.0 {
                break;
            }
            if thread.stretch + 1 < lengths.len() {
                thread.stretch += 1;
            } else if let Some(service) = &mut self.apps[app].service {
                service.turns += 1;
                thread.stretch = 0;
            } else {
                return false;
            }
            thread.phase = sequence[thread.stretch].phase;
            thread.mix = program.phases[thread.phase].mix;
            thread.done = Done::default();
            // What was executed beyond the stretch's end, within the last nanosecond.
            thread.done.add(over);
        }
        if self.threads[slot].phase != before
            && let Some((_, part)) = self.rates.rated[self.threads[slot].cpu]
        {
            self.parts.mark(part);
        }
        true
    }

    fn end_thread(&mut self, slot: usize) {
        let thread = &self.threads[slot];
        let app = thread.app;
        let length = self.apps[app].lengths[thread.stretch];
        // The exact end lies within the last nanosecond.
        let late_s = -thread.done.left_of(length) / thread.outcome.instructions_per_s;
        let end_s = (self.now - self.apps[app].started) as f64 * 1e-9 - late_s;
        self.remove(slot);
        self.apps[app].live -= 1;
        if self.apps[app].live > 0 {
            return;
        }
        self.apps[app].completions.push(end_s);
        if self.apps[app].restarts {
            self.start_run(app);
        } else {
            self.apps[app].left = Some(self.now);
        }
    }

    /// A thread is no more.
    fn remove(&mut self, slot: usize) {
        self.take(slot, State::Absent);
        // Its slot's next thread is another, even on the same CPU.
        let cpu = self.threads[slot].cpu;
        if let Some((rated, part)) = self.rates.rated[cpu]
            && rated == slot
        {
            self.parts.mark(part);
            self.rates.rated[cpu] = None;
            self.rates.stale = true;
            self.cpus[cpu].due = NEVER;
        }
        self.parts.forget(slot);
        self.threads[slot].request = None;
        self.caps.forget(self.threads[slot].id);
        let thread = &self.threads[slot];
        let app = &mut self.apps[thread.app];
        app.past.add(&thread.totals);
        app.past_spun_instructions += thread.spun_instructions;
        app.extrapolated |= thread.extrapolated;
        // Records are by ascending id, one for each id.
        self.records[thread.id.0 as usize].end = Some(Nanoseconds(self.now));
        self.watched.happened.push(Event::Exited(thread.id));
        self.watched.threads_changed = true;
    }

    pub(crate) fn kill(&mut self, app: usize) {
        if self.apps[app].left.is_some() {
            return;
        }
        let slots = self.apps[app].slots.clone();
        for thread in self.threads[slots.clone()].iter_mut().filter(|one| one.is_present()) {
            thread.account(self.now);
        }
        self.apps[app].unfinished = self.present_run(&self.apps[app]);
        for slot in slots {
            if self.threads[slot].is_present() {
                self.remove(slot);
            }
        }
        self.apps[app].live = 0;
        self.apps[app].close_service();
        self.apps[app].gone = true;
        self.apps[app].left = Some(self.now);
    }

    fn jittered(&mut self, slot: usize, ms: f64) -> u64 {
        let jitter = self.experiment.settings.jitter;
        let swing = jitter * (2.0 * self.threads[slot].waits.random::<f64>() - 1.0);
        ((ms * 1e6 * (1.0 + swing)) as u64).max(1)
    }

    fn draw_burst(&mut self, slot: usize) {
        let io = self.experiment.apps[self.threads[slot].app].io;
        self.threads[slot].burst_left = match io {
            Some(io) => self.jittered(slot, io.cpu_ms),
            None => NEVER,
        };
    }

    fn sleep(&mut self, slot: usize) {
        let Some(io) = self.experiment.apps[self.threads[slot].app].io else { return };
        let wait = self.jittered(slot, io.wait_ms);
        self.take(slot, State::Sleeping);
        self.draw_burst(slot);
        self.threads[slot].sleeps += 1;
        let sleep = self.threads[slot].sleeps;
        self.timers.set(self.now + wait, Timer::Wake(slot, sleep));
        self.watched.happened.push(Event::Slept(self.threads[slot].id));
    }

    pub(crate) fn wake(&mut self, slot: usize, sleep: u64) {
        let thread = &self.threads[slot];
        if thread.state != State::Sleeping || thread.sleeps != sleep {
            return;
        }
        let home = thread.cpu;
        self.watched.happened.push(Event::Woke(thread.id));
        self.threads[slot].woken_at = Some(self.now);
        self.threads[slot].totals.wakeups += 1.0;
        let cpu = self.wake_up_cpu(slot);
        self.catch_up(home);
        // Who slept long gets no more than a slice's advantage.
        let floor = self.cpus[home].min_vruntime - self.experiment.settings.slice.0 as f64;
        self.threads[slot].vruntime = self.threads[slot].vruntime.max(floor);
        self.put(slot, cpu);
        self.preempt(slot, cpu);
    }
}
