//! The event engine: what happens next, in integer nanoseconds. Between events every thread makes
//! progress at the rate that the model gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corun_machine::Machine;
use corun_model::{LoadedProgram, Model};
use corun_policy::{LoadedPredictor, Nanoseconds, Policy, Predictor};
use corun_profile::Method;
use corun_runtime::Runtime;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::backend::{Watched, runtime};
use crate::caps::Caps;
use crate::dispatch::CpuState;
use crate::domains::Domains;
use crate::energy::Meter;
use crate::lifecycle::AppRun;
use crate::observation::Observer;
use crate::parts::Parts;
use crate::rates::Rates;
use crate::result::{Placement, ThreadLife, WakeUp};
use crate::tables::Tables;
use crate::thread::{State, Thread};
use crate::timers::{NEVER, Timer, Timers};
use crate::{AppSpec, Experiment, LogEntry, RunResult, SimError};

/// Events of one moment before the engine says that time stands still.
const MOST_AT_ONCE: u32 = 1_000_000;
/// Simulated time without any progress before the engine says that it stalled.
const PATIENCE_NS: u64 = 100_000_000_000;
/// The scheduler's tick: slices and the steps of filling caches end at its multiples, so that
/// rates are computed once for all that ends together. It is as fine as the fastest kernel's
/// twice over (`CONFIG_HZ` is 1000 at most), and finer where slices are shorter than 3 ms.
const TICK_NS: u64 = 500_000;
/// Events between two tellings of how far the simulation is.
const TELL_EVERY: u64 = 4096;

/// How far a simulation is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Simulated time.
    pub simulated: Nanoseconds,
    /// Share of the experiment that is done, 0 to 1, as far as one can tell.
    pub share: f64,
}

/// How a caller watches and stops a long simulation.
#[derive(Default)]
pub struct Hooks<'a> {
    /// Ends the simulation with [`SimError::Cancelled`] once it is true.
    pub cancel: Option<&'a AtomicBool>,
    /// Called every few thousand events.
    pub progress: Option<&'a mut dyn FnMut(Progress)>,
}

/// Runs an experiment. Without policies, or with policies that announce no action, the machine is
/// left to the scheduler alone: that is `linux-default`.
///
/// The same experiment and policies give the same result to the last bit.
///
/// # Errors
/// [`SimError`]: a figure that is not usable, a policy whose needs cannot be met or that asks for
/// what cannot be done, a simulation that stalls, passes its limit or is cancelled.
pub fn run(
    experiment: &Experiment,
    policies: Vec<Box<dyn Policy>>,
    hooks: Hooks<'_>,
) -> Result<RunResult, SimError> {
    experiment.check()?;
    let homes = one_hot(experiment.model.machine().nodes().len());
    Engine::new(experiment, policies, &homes, Vec::new())?.run(hooks)
}

/// Whether all services of an experiment keep to their targets: what [`run`] says of them ([`crate::ServiceResult::is_met`]),
/// sooner. By [`Method::Window`] the requests that are to come are known, and a simulation ends once more of them were
/// answered late than a target allows. Of no service at all it is true.
///
/// # Errors
/// Those of [`run`], of what was simulated.
pub fn meets_targets(
    experiment: &Experiment,
    policies: Vec<Box<dyn Policy>>,
    mut hooks: Hooks<'_>,
) -> Result<bool, SimError> {
    experiment.check()?;
    let homes = one_hot(experiment.model.machine().nodes().len());
    let mut engine = Engine::new(experiment, policies, &homes, Vec::new())?;
    let most_late = engine.most_late();
    let misses = |engine: &Engine<'_>| {
        let mut late = engine.apps.iter().map(AppRun::late_requests).zip(&most_late);
        late.any(|(late, most)| late > *most)
    };
    if !engine.run_unless(misses, &mut hooks)? {
        return Ok(false);
    }
    let result = engine.into_result()?;
    Ok(result.apps.iter().filter_map(|app| app.service).all(|service| service.is_met()))
}

/// For each node the shares of pages of a program that is wholly there.
pub(crate) fn one_hot(nodes: usize) -> Vec<Vec<f64>> {
    let at = |home: usize| (0..nodes).map(|node| f64::from(u8::from(node == home))).collect();
    (0..nodes).map(at).collect()
}

pub(crate) struct Engine<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) model: &'a Model,
    pub(crate) machine: &'a Machine,
    pub(crate) now: u64,
    pub(crate) threads: Vec<Thread>,
    pub(crate) apps: Vec<AppRun>,
    pub(crate) cpus: Vec<CpuState>,
    pub(crate) domains: Domains,
    pub(crate) timers: Timers,
    pub(crate) tables: Tables<'a>,
    pub(crate) parts: Parts,
    pub(crate) caps: Caps,
    pub(crate) rates: Rates<'a>,
    /// None where no policy can do anything.
    pub(crate) runtime: Option<Runtime<Self>>,
    pub(crate) watched: Watched,
    /// What ties of placement are broken by.
    pub(crate) placing: Pcg64Mcg,
    /// What phases and lengths of slices are drawn from.
    pub(crate) slicing: Pcg64Mcg,
    /// Where each thread starts, by slot, instead of where the scheduler would put it.
    pub(crate) starts: Vec<usize>,
    /// Slots of threads that arrive now and have no place yet.
    pub(crate) arriving: Vec<usize>,
    pub(crate) next_thread: u64,
    pub(crate) next_process: u64,
    pub(crate) records: Vec<ThreadLife>,
    pub(crate) placements: Vec<Placement>,
    pub(crate) placements_dropped: u64,
    pub(crate) wake_ups: Vec<WakeUp>,
    pub(crate) wake_ups_dropped: u64,
    pub(crate) log: Vec<LogEntry>,
    pub(crate) window_over: bool,
    /// None where the machine's power is not known.
    pub(crate) meter: Option<Meter>,
    pub(crate) moving: u64,
    /// See [`TICK_NS`].
    pub(crate) tick_ns: u64,
    /// A thread came to or left a CPU's threads since balancing was last thought of.
    pub(crate) loads_changed: bool,
    /// The first slot's number among the streams that waits are drawn from.
    pub(crate) waits_from: usize,
    events: u64,
    at_once: u32,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        experiment: &'a Experiment,
        mut policies: Vec<Box<dyn Policy>>,
        homes: &'a [Vec<f64>],
        starts: Vec<usize>,
    ) -> Result<Self, SimError> {
        let model: &'a Model = &experiment.model;
        let machine = model.machine();
        let programs = distinct_programs(experiment);
        let loaded = experiment.apps.iter().map(|app| app.program.clone());
        let predictor: Arc<dyn Predictor> =
            Arc::new(LoadedPredictor::new(experiment.model.clone(), loaded));
        policies.iter_mut().for_each(|policy| policy.predict_by(&predictor));
        let observer = experiment
            .observation
            .clone()
            .map(|what| Observer::new(what, stream(experiment.seed, 3)));
        let watched = Watched::by(&policies, observer);
        let runtime = runtime(machine, policies, experiment.observation.as_ref())?;
        let mut engine = Self {
            experiment,
            model,
            machine,
            now: 0,
            threads: Vec::new(),
            apps: Vec::new(),
            cpus: (0..machine.cpus().len()).map(|_| CpuState::default()).collect(),
            domains: Domains::new(machine),
            timers: Timers::default(),
            tables: Tables::new(model, programs, experiment.settings.memoise),
            parts: Parts::new(machine),
            caps: Caps::default(),
            rates: Rates::new(machine, homes, experiment.settings.memoise),
            runtime,
            watched,
            placing: stream(experiment.seed, 1),
            slicing: stream(experiment.seed, 2),
            starts,
            arriving: Vec::new(),
            next_thread: 0,
            next_process: 0,
            records: Vec::new(),
            placements: Vec::new(),
            placements_dropped: 0,
            wake_ups: Vec::new(),
            wake_ups_dropped: 0,
            log: Vec::new(),
            window_over: false,
            meter: Meter::new(machine),
            moving: 0,
            tick_ns: TICK_NS.min(experiment.settings.slice.0 / 6).max(1),
            loads_changed: false,
            waits_from: 0,
            events: 0,
            at_once: 0,
        };
        engine.make_threads();
        for (app, spec) in experiment.apps.iter().enumerate() {
            engine.timers.set(spec.start.0, Timer::Arrive(app));
            if let Some(kill) = spec.kill {
                engine.timers.set(kill.0, Timer::Kill(app));
            }
        }
        if experiment.method == Method::Window {
            engine.timers.set(experiment.settings.window.0, Timer::WindowEnds);
        }
        Ok(engine)
    }

    pub(crate) fn run(mut self, mut hooks: Hooks<'_>) -> Result<RunResult, SimError> {
        self.run_unless(|_| false, &mut hooks)?;
        self.into_result()
    }

    /// Runs to the end, and gives true; or until `stops` is true after an event, and gives false.
    fn run_unless(
        &mut self,
        stops: impl Fn(&Self) -> bool,
        hooks: &mut Hooks<'_>,
    ) -> Result<bool, SimError> {
        loop {
            self.advance()?;
            if self.finished() {
                return Ok(true);
            }
            if stops(self) {
                return Ok(false);
            }
            // With hundreds of programs on one cache an event takes milliseconds.
            if hooks.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
                return Err(SimError::Cancelled);
            }
            if self.events.is_multiple_of(TELL_EVERY) {
                self.tell(hooks);
            }
        }
    }

    /// Of each program, how many of the requests that count may be late: as many as a target allows, and any number
    /// where it cannot be told before the end. To be asked before the first event.
    fn most_late(&self) -> Vec<u64> {
        let end = match self.experiment.method {
            Method::Window => Some(self.experiment.settings.window.0),
            Method::Restart3 | Method::FirstRun => None,
        };
        let of = |(run, spec): (&AppRun, &AppSpec)| {
            let service = run.service.as_ref().zip(end);
            service.map_or(u64::MAX, |(service, end)| service.most_late(spec.start.0, end))
        };
        self.apps.iter().zip(&self.experiment.apps).map(of).collect()
    }

    /// Handles all that happens at the next moment.
    pub(crate) fn advance(&mut self) -> Result<(), SimError> {
        let next = self.next_time();
        self.watch(next)?;
        if let Some(meter) = &mut self.meter {
            meter.pass(next - self.now);
        }
        self.now = next;
        self.events += 1;
        self.finish_steps();
        self.finish_dues();
        while let Some(timer) = self.timers.due(self.now) {
            self.fire(timer);
        }
        self.place_arrivals();
        self.finish_slices();
        self.settle()
    }

    pub(crate) fn next_time(&self) -> u64 {
        let of_cpus = self.cpus.iter().map(|cpu| cpu.due.min(cpu.slice_end)).min();
        let decision = match (&self.runtime, &self.watched.observer) {
            (None, _) => NEVER,
            (Some(_), Some(observer)) => observer.next_tick(),
            (Some(runtime), None) => runtime.next_due().map_or(NEVER, |due| due.0),
        };
        let others = self.timers.next().min(self.parts.next_step());
        others.min(of_cpus.unwrap_or(NEVER)).min(decision)
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Kill(app) => self.kill(app),
            Timer::Arrive(app) => self.start_run(app),
            Timer::Wake(slot, sleep) => self.wake(slot, sleep),
            Timer::Request(app) => self.request(app),
            Timer::WeightEnds(slot, change) => self.weight_ends(slot, change),
            Timer::PagesMoved(slot, moves) => self.pages_moved(slot, moves),
            Timer::IdleEnds(cpu) => {
                self.cpus[cpu].resched = true;
                self.loads_changed = true;
            }
            Timer::Balance(domain) => self.balance(domain),
            Timer::WindowEnds => self.window_over = true,
        }
    }

    /// Who runs where, then what the policies say to it, then how fast it all goes.
    fn settle(&mut self) -> Result<(), SimError> {
        self.reschedule();
        self.consult()?;
        self.note_wake_ups();
        if self.watched.observer.is_some() {
            self.admit_unpartitioned();
        }
        self.update_rates()?;
        if let Some(meter) = &mut self.meter {
            meter.look(self.machine, &self.cpus);
        }
        self.arm_balancing();
        Ok(())
    }

    /// Has everything that the method waits for happened?
    fn finished(&self) -> bool {
        match self.experiment.method {
            Method::Window => self.window_over,
            Method::Restart3 | Method::FirstRun => self.apps.iter().all(AppRun::is_done),
        }
    }

    fn watch(&mut self, next: u64) -> Result<(), SimError> {
        if next == NEVER {
            return Err(self.stalled("nothing is left to happen"));
        }
        self.at_once = if next == self.now { self.at_once + 1 } else { 0 };
        if self.at_once > MOST_AT_ONCE {
            return Err(self.stalled("time stands still"));
        }
        let limit = self.experiment.settings.limit.0;
        if next > limit && self.experiment.method != Method::Window {
            let runs = self.apps.iter().map(|app| app.completions.len().to_string());
            return Err(SimError::TimeLimit {
                limit_s: limit as f64 / 1e9,
                completions: runs.collect::<Vec<_>>().join(", "),
            });
        }
        let waiting_in_vain = self.threads.iter().any(Thread::is_runnable)
            && self.threads.iter().all(|thread| match thread.state {
                State::Running => thread.outcome.instructions_per_s <= 0.0,
                State::Sleeping => false,
                _ => true,
            });
        if !waiting_in_vain {
            self.moving = next;
        } else if next - self.moving > PATIENCE_NS {
            return Err(self.stalled("threads wait and none makes progress"));
        }
        Ok(())
    }

    fn tell(&self, hooks: &mut Hooks<'_>) {
        if let Some(progress) = &mut hooks.progress {
            let share = match self.experiment.method {
                Method::Window => self.now as f64 / self.experiment.settings.window.0 as f64,
                _ => self.apps.iter().map(AppRun::share).fold(1.0, f64::min),
            };
            progress(Progress { simulated: Nanoseconds(self.now), share: share.min(1.0) });
        }
    }

    /// The error of a simulation that does not move, with who is where.
    pub(crate) fn stalled(&self, why: &'static str) -> SimError {
        SimError::Stalled { at: Nanoseconds(self.now), why, dump: self.dump() }
    }

    /// What a thread's waits are drawn from.
    pub(crate) fn waits_stream(&self, slot: usize) -> Pcg64Mcg {
        stream(self.experiment.seed, 16 + (self.waits_from + slot) as u64)
    }

    /// What a service's arrivals and the instructions of its requests are drawn from.
    pub(crate) fn requests_stream(&self, app: usize) -> Pcg64Mcg {
        // Beyond the streams of all threads that an experiment can have.
        stream(self.experiment.seed, (1 << 32) + app as u64)
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }
}

/// A stream of random numbers of a seed. Streams of one seed must not repeat each other: there is a
/// large odd step between them.
fn stream(seed: u64, number: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// The experiment's programs, each once, in order of first use.
fn distinct_programs(experiment: &Experiment) -> Vec<&LoadedProgram> {
    let mut programs: Vec<&LoadedProgram> = Vec::new();
    for app in &experiment.apps {
        if !programs.iter().any(|known| std::ptr::eq(*known, &*app.program)) {
            programs.push(&app.program);
        }
    }
    programs
}
