//! `camps`: equal progress on big and small cores under contention (García García, doctoral thesis, UCM
//! 2021, chapter 4: contention-aware and fair scheduling for asymmetric multicores).

mod history;
mod monitor;
mod non_work_conserving;

use corun_machine::{CpuSet, Machine};

use self::history::History;
use self::monitor::{Limits, Monitor, clusters};
use self::non_work_conserving::{Cluster, Watch, bring, shelter};
use crate::asymmetric::by_thread::ByThread;
use crate::asymmetric::policy::{Sharing, SharingPolicy};
use crate::asymmetric::progress::{Programs, Progress, Worth, dynamic_weights};
use crate::asymmetric::sides::{Sides, is_runnable};
use crate::asymmetric::speedup::side_of;
use crate::asymmetric::{AMP_THRESHOLD, Cores, INTERVAL, Side, UNFAIRNESS_FACTOR, milliseconds};
use crate::{
    ActionKind, Build, BuildOptions, CounterKind, LiveForm, Nanoseconds, Parameter, ParameterKind,
    PolicyEntry, ProcessId, REQUEST_BYTES, ThreadId, View,
};

pub use self::history::phase_hit_rate;

const ENTRIES: Parameter = Parameter {
    name: "history-entries",
    kind: ParameterKind::WholeNumber,
    default: 22.0,
    min: 1.0,
    max: 10_000.0,
    summary: "phases that a thread's history table holds",
};

const DISTANCE: Parameter = Parameter {
    name: "phase-distance-percent",
    kind: ParameterKind::Number,
    default: 2.0,
    min: 0.0,
    max: 200.0,
    summary: "samples whose shares of L1 accesses and branches differ by at most this in all, in % of instructions, are of one phase",
};

const IDLING: Parameter = Parameter {
    name: "idle-big-cores",
    kind: ParameterKind::SWITCH,
    default: 1.0,
    min: 0.0,
    max: 1.0,
    summary: "1: hold big cores idle where a thread is never seen without contention; 0: never",
};

const SPINNING: Parameter = Parameter {
    name: "spin-notification",
    kind: ParameterKind::SWITCH,
    default: 1.0,
    min: 0.0,
    max: 1.0,
    summary: "1: heed threads that are told to wait in a loop, where the host tells; 0: take the loop for work",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: Camps::NAME,
    summary: "shares big cores so that threads progress alike, with contention counted in",
    source: "García García, thesis UCM 2021, section 4.3 (equations 4.1 to 4.4, algorithm 4.1)",
    parameters: &[INTERVAL, AMP_THRESHOLD, UNFAIRNESS_FACTOR, ENTRIES, DISTANCE, IDLING, SPINNING],
    build: Build::Policy(|options: &BuildOptions| {
        Box::new(SharingPolicy::new(options, Camps::new(options)))
    }),
    live: LiveForm::AS_LIVE,
};

/// Shares of the narrowest bandwidth on the way of a big core, where the machine file has no limits.
const LOW_SHARE: f64 = 0.05;
const HIGH_SHARE: f64 = 0.2;

/// What of the machine it goes by.
#[derive(Debug, Clone, Copy)]
struct Ground {
    limits: Limits,
    line_bytes: f64,
}

impl Ground {
    fn of(machine: &Machine, cores: &Cores) -> Self {
        let big = |llc: &&corun_machine::Llc| !llc.cpus.is_disjoint(&cores.big);
        let line_bytes = machine.llcs().iter().find(big).and_then(|llc| llc.cache?.line_bytes);
        Self {
            limits: limits(machine, cores),
            line_bytes: line_bytes.map_or(REQUEST_BYTES, f64::from),
        }
    }
}

struct Camps {
    interval: Nanoseconds,
    unfairness_factor: f64,
    entries: usize,
    distance: f64,
    idling: bool,
    heeds_spinning: bool,
    ground: Option<Ground>,
    monitors: ByThread<Monitor>,
    progress: Progress,
    /// Tables of programs with several threads, by process.
    programs: Vec<(ProcessId, History)>,
    watch: Option<Watch>,
}

impl Camps {
    fn new(options: &BuildOptions) -> Self {
        Self {
            interval: milliseconds(options.value(&INTERVAL)),
            unfairness_factor: options.value(&UNFAIRNESS_FACTOR),
            entries: options.value(&ENTRIES) as usize,
            distance: options.value(&DISTANCE),
            idling: options.is_on(&IDLING),
            heeds_spinning: options.is_on(&SPINNING),
            ground: None,
            monitors: ByThread::default(),
            progress: Progress::new(options.value(&AMP_THRESHOLD)),
            programs: Vec::new(),
            watch: None,
        }
    }

    fn ground(&mut self, machine: &Machine, cores: &Cores) -> Ground {
        *self.ground.get_or_insert_with(|| Ground::of(machine, cores))
    }

    /// Each thread's slowdown in the interval.
    fn monitor(&mut self, view: &View<'_>, cores: &Cores, programs: &Programs) {
        let Ground { limits, line_bytes } = self.ground(view.machine, cores);
        let sums = clusters(view, cores, line_bytes);
        self.align_programs(view, programs);
        for (thread, monitor) in view.threads.iter().zip(self.monitors.values_mut()) {
            let llc = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu));
            let sum = llc.map_or(0.0, |index| sums[view.machine.cpus()[index].llc]);
            let calm = |btr: f64| btr < limits.low || sum < limits.high;
            let program = self.programs.binary_search_by_key(&thread.process, |one| one.0).ok();
            let program = program.map(|place| &mut self.programs[place].1);
            monitor.measure(thread, cores, line_bytes, calm, program, self.heeds_spinning);
        }
    }

    /// What the interval's time was worth to each thread.
    fn advance(&mut self, view: &View<'_>, cores: &Cores, programs: &Programs) {
        let monitors = self.monitors.values();
        let mut slowdowns: Vec<f64> = monitors.iter().map(|one| one.slowdown).collect();
        programs.share_out(&mut slowdowns);
        for (slowdown, monitor) in slowdowns.iter_mut().zip(self.monitors.values()) {
            *slowdown = monitor.with_spinning(*slowdown);
        }
        let mut speedups: Vec<f64> = monitors.iter().map(|one| one.speedup).collect();
        programs.share_out(&mut speedups);
        let weights = dynamic_weights(view.threads, self.unfairness_factor, &speedups);
        let worth = Worth { slowdowns: &slowdowns, speedups: &speedups, weights: &weights };
        self.progress.advance(view, cores, worth);
    }

    /// Tables for the processes that have several threads; of the others there are none.
    fn align_programs(&mut self, view: &View<'_>, programs: &Programs) {
        let several = || programs.of_several(view.threads);
        if several().eq(self.programs.iter().map(|(process, _)| *process)) {
            return;
        }
        let mut known = std::mem::take(&mut self.programs).into_iter().peekable();
        for process in several() {
            while known.next_if(|(one, _)| *one < process).is_some() {}
            let table = known.next_if(|(one, _)| *one == process).map(|(_, table)| table);
            let table = table.unwrap_or_else(|| History::new(self.entries, self.distance));
            self.programs.push((process, table));
        }
    }

    /// Leaves the non-work-conserving mode, or enters it.
    fn watch_or_not(&mut self, view: &View<'_>, cores: &Cores) {
        if let Some(mut watch) = self.watch.take() {
            if let Some(place) = runnable(view, watch.thread)
                && !watch.is_over(&self.monitors.values()[place])
            {
                self.watch = Some(watch);
            }
            return;
        }
        if !self.idling {
            return;
        }
        let mean_ms = self.progress.mean_ms();
        let threshold_ms = self.progress.threshold_ms(view.machine);
        let asks = |(place, monitor): (usize, &Monitor)| {
            let ahead_ms = self.progress.progress_ms[place] - mean_ms;
            let thread = &view.threads[place];
            let both = !thread.may_run_on.is_disjoint(&cores.big)
                && !thread.may_run_on.is_disjoint(&cores.small);
            (both
                && is_runnable(thread)
                && !monitor.spins
                && Watch::asks(monitor, ahead_ms, threshold_ms))
            .then(|| Watch::new(thread.id, monitor))
        };
        self.watch = self.monitors.values().iter().enumerate().find_map(asks);
    }

    /// A round of the non-work-conserving mode.
    fn calm(&self, view: &View<'_>, high: f64, sides: &mut Sides<'_>, watched: usize) {
        let monitors = self.monitors.values();
        bring(sides, watched, monitors);
        let on_big = |thread: &crate::ThreadView| side_of(thread, sides.cores) == Some(Side::Big);
        let thread = &view.threads[watched];
        if !on_big(thread) {
            // It arrives there with this plan; cores are held idle from the next round on.
            return;
        }
        let Some(index) = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu)) else { return };
        let cluster: &CpuSet = &view.machine.llcs()[view.machine.cpus()[index].llc].cpus;
        let member = |one: &usize| {
            let thread = &view.threads[*one];
            let here = thread.cpu.is_some_and(|cpu| cluster.contains(cpu));
            // One that must not wait counts asleep too: it may wake there at any moment.
            let counts = is_runnable(thread) || thread.important;
            here && on_big(thread) && counts && sides.side(*one) == Some(Side::Big)
        };
        let members: Vec<usize> = (0..view.threads.len()).filter(member).collect();
        let cluster = Cluster { threads: view.threads, monitors, members, high };
        cluster.calm(sides, watched, self.interval);
    }

    /// Algorithm 4.1.
    fn even_out(&self, high: f64, threshold_ms: f64, sides: &mut Sides<'_>) {
        let monitors = self.monitors.values();
        let progress_ms = &self.progress.progress_ms;
        let draws = |one: usize| match side_of(&sides.threads[one], sides.cores) {
            Some(Side::Big) => monitors[one].btr,
            // It comes with this plan.
            _ => monitors[one].expected_btr(),
        };
        let mut drawn: f64 = sides.awake_on(Side::Big).map(draws).sum();
        sides.even_out(progress_ms, threshold_ms, |ahead, behind| {
            let after = |one: usize| drawn - monitors[ahead].btr + monitors[one].expected_btr();
            let far = |one: usize| progress_ms[ahead] - progress_ms[one] >= 2.0 * threshold_ms;
            let suits = |one: &usize| after(*one) < high || far(*one);
            let calmest = || {
                behind.iter().copied().reduce(|best, next| {
                    if monitors[next].btr < monitors[best].btr { next } else { best }
                })
            };
            let chosen = behind.iter().copied().find(suits).or_else(calmest).unwrap_or(behind[0]);
            drawn = after(chosen);
            chosen
        });
    }
}

/// Who spins on a small core does not come to a big one for it (section 4.3.5).
fn keep_spinning_off(sides: &mut Sides<'_>) {
    let threads = sides.threads;
    for (place, thread) in threads.iter().enumerate() {
        if thread.spins == Some(true) && sides.side(place) == Some(Side::Small) {
            sides.keep(place);
        }
    }
}

/// A thread's place in the view, if it is runnable.
fn runnable(view: &View<'_>, id: ThreadId) -> Option<usize> {
    view.threads.iter().position(|one| one.id == id && is_runnable(one))
}

/// The machine file's limits; else shares of the narrowest peak between big cores and memory.
fn limits(machine: &Machine, cores: &Cores) -> Limits {
    let calibration = machine.calibration();
    let peaks = machine
        .cpus()
        .iter()
        .enumerate()
        .filter(|(_, cpu)| cores.big.contains(cpu.id))
        .flat_map(|(index, cpu)| machine.memory_path(index, cpu.node))
        .map(|domain| machine.bandwidth_domains()[domain].peak_mb_per_s);
    let narrowest = peaks.fold(f64::INFINITY, f64::min);
    let bytes = |stated: Option<f64>, share: f64| stated.unwrap_or(share * narrowest) * 1e6;
    Limits {
        low: bytes(calibration.low_btr_mb_per_s, LOW_SHARE),
        high: bytes(calibration.high_btr_mb_per_s, HIGH_SHARE),
    }
}

impl Sharing for Camps {
    const NAME: &'static str = "camps";

    fn counters(&self) -> Vec<CounterKind> {
        vec![
            CounterKind::Instructions,
            CounterKind::LlcMisses,
            CounterKind::L1Accesses,
            CounterKind::Branches,
        ]
    }

    fn controls(&self) -> Vec<ActionKind> {
        self.idling.then_some(ActionKind::IdleCpu).into_iter().collect()
    }

    fn do_without(&mut self, control: ActionKind) -> bool {
        let idles = control == ActionKind::IdleCpu;
        self.idling &= !idles;
        idles
    }

    fn align(&mut self, view: &View<'_>, _cores: &Cores) {
        let (entries, distance) = (self.entries, self.distance);
        self.monitors.align(view.threads, |_| Monitor::new(entries, distance));
        self.progress.align(view);
    }

    fn measure(&mut self, view: &View<'_>, cores: &Cores) {
        let programs = Programs::of(view.threads);
        self.monitor(view, cores, &programs);
        self.advance(view, cores, &programs);
        self.watch_or_not(view, cores);
    }

    fn slept(&mut self, id: ThreadId, view: &View<'_>) {
        self.progress.slept(id, view.now);
    }

    fn woke(&mut self, id: ThreadId, view: &View<'_>) {
        self.progress.woke(id, view);
    }

    fn reserve(&self, sides: &mut Sides<'_>) {
        if let Some(watch) = self.watch {
            shelter(sides, watch.thread);
        }
        if self.heeds_spinning {
            keep_spinning_off(sides);
        }
    }

    fn claims(&self, _view: &View<'_>) -> Vec<f64> {
        self.progress.claims()
    }

    fn swap(&mut self, view: &View<'_>, sides: &mut Sides<'_>) {
        let high = self.ground(view.machine, sides.cores).limits.high;
        match self.watch.and_then(|watch| runnable(view, watch.thread)) {
            Some(watched) => self.calm(view, high, sides, watched),
            None => {
                sides.release();
                self.even_out(high, self.progress.threshold_ms(view.machine), sides);
            }
        }
    }

    fn planned(&mut self, _view: &View<'_>, sides: &Sides<'_>, counted: bool) {
        for (place, monitor) in self.monitors.values_mut().iter_mut().enumerate() {
            let side = sides.side(place);
            // Who moves between two rounds ran on both sides in this interval.
            monitor.left_on = if counted || monitor.left_on == side { side } else { None };
        }
    }
}

#[cfg(test)]
mod tests;
