//! `camps`: equal progress on big and small cores under contention (García García, doctoral thesis, UCM
//! 2021, chapter 4: contention-aware and fair scheduling for asymmetric multicores).

mod history;
mod monitor;
mod non_work_conserving;

use corun_machine::{CpuSet, Machine};

use self::history::History;
use self::monitor::{Limits, Monitor, clusters};
use self::non_work_conserving::{Cluster, Watch, bring};
use crate::asymmetry::by_thread::ByThread;
use crate::asymmetry::progress::{Progress, dynamic_weights, of_programs};
use crate::asymmetry::sides::{Sides, is_runnable};
use crate::asymmetry::speedup::side_of;
use crate::asymmetry::{
    AMP_THRESHOLD, Cores, INTERVAL, Side, UNFAIRNESS_FACTOR, amp_threshold_ms, milliseconds,
    one_core_type,
};
use crate::{
    ActionKind, Build, BuildOptions, CounterKind, Event, Interval, Nanoseconds, Needs, Parameter,
    Plan, Policy, PolicyEntry, ProcessId, REQUEST_BYTES, ThreadId, View,
};

pub use self::history::phase_hit_rate;

const ENTRIES: Parameter = Parameter {
    name: "history-entries",
    default: 22.0,
    min: 1.0,
    max: 10_000.0,
    summary: "phases that a thread's history table holds",
};

const DISTANCE: Parameter = Parameter {
    name: "phase-distance-percent",
    default: 2.0,
    min: 0.0,
    max: 200.0,
    summary: "samples whose shares of L1 accesses and branches differ by at most this in all, in % of instructions, are of one phase",
};

const IDLING: Parameter = Parameter {
    name: "idle-big-cores",
    default: 1.0,
    min: 0.0,
    max: 1.0,
    summary: "1: hold big cores idle where a thread is never seen without contention; 0: never",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "camps",
    summary: "shares big cores so that threads progress alike, with contention counted in",
    source: "García García, thesis UCM 2021, section 4.3 (equations 4.1 to 4.4, algorithm 4.1)",
    parameters: &[INTERVAL, AMP_THRESHOLD, UNFAIRNESS_FACTOR, ENTRIES, DISTANCE, IDLING],
    build: Build::Policy(|options: &BuildOptions| Box::new(Camps::new(options))),
};

/// Shares of the narrowest bandwidth on the way of a big core, where the machine file has no limits.
const LOW_SHARE: f64 = 0.05;
const HIGH_SHARE: f64 = 0.2;

/// What of the machine it goes by.
#[derive(Debug, Clone)]
struct Ground {
    cores: Cores,
    limits: Limits,
    threshold_ms: f64,
    line_bytes: f64,
}

struct Camps {
    interval: Nanoseconds,
    threshold_asked_ms: f64,
    unfairness_factor: f64,
    entries: usize,
    distance: f64,
    idling: bool,
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
            threshold_asked_ms: options.value(&AMP_THRESHOLD),
            unfairness_factor: options.value(&UNFAIRNESS_FACTOR),
            entries: options.value(&ENTRIES) as usize,
            distance: options.value(&DISTANCE),
            idling: options.value(&IDLING) >= 0.5,
            ground: None,
            monitors: ByThread::default(),
            progress: Progress::default(),
            programs: Vec::new(),
            watch: None,
        }
    }

    fn ground(&self, machine: &Machine) -> Option<Ground> {
        let cores = Cores::of(machine)?;
        let line_bytes = machine
            .llcs()
            .iter()
            .find(|llc| !llc.cpus.is_disjoint(&cores.big))
            .and_then(|llc| llc.cache?.line_bytes)
            .map_or(REQUEST_BYTES, f64::from);
        Some(Ground {
            limits: limits(machine, &cores),
            threshold_ms: amp_threshold_ms(machine, self.threshold_asked_ms),
            cores,
            line_bytes,
        })
    }

    fn align(&mut self, view: &View<'_>) {
        let (entries, distance) = (self.entries, self.distance);
        self.monitors.align(view.threads, |_| Monitor::new(entries, distance));
        self.progress.align(view);
    }

    /// The performance monitor's round: slowdowns and progress.
    fn measure(&mut self, view: &View<'_>, ground: &Ground) {
        let Ground { cores, limits, line_bytes, .. } = ground;
        let sums = clusters(view, cores, *line_bytes);
        self.align_programs(view);
        for (thread, monitor) in view.threads.iter().zip(self.monitors.values_mut()) {
            let llc = thread.cpu.and_then(|cpu| view.machine.cpu_index(cpu));
            let sum = llc.map_or(0.0, |index| sums[view.machine.cpus()[index].llc]);
            let calm = |btr: f64| btr < limits.low || sum < limits.high;
            let program = self.programs.binary_search_by_key(&thread.process, |one| one.0).ok();
            let mut program = program.map(|place| &mut self.programs[place].1);
            monitor.measure(thread, cores, *line_bytes, calm, &mut program);
        }
        let monitors = self.monitors.values();
        let mut slowdowns: Vec<f64> = monitors.iter().map(|one| one.slowdown).collect();
        of_programs(view.threads, &mut slowdowns);
        let mut speedups: Vec<f64> = monitors.iter().map(|one| one.speedup).collect();
        of_programs(view.threads, &mut speedups);
        let weights = dynamic_weights(view.threads, self.unfairness_factor, &speedups);
        self.progress.advance(view, &slowdowns, &weights);
    }

    /// Tables for the processes that have several threads; of the others there are none.
    fn align_programs(&mut self, view: &View<'_>) {
        let mut processes: Vec<ProcessId> = view.threads.iter().map(|one| one.process).collect();
        processes.sort_unstable();
        let several: Vec<ProcessId> = processes
            .chunk_by(|a, b| a == b)
            .filter(|same| same.len() > 1)
            .map(|same| same[0])
            .collect();
        if several.iter().eq(self.programs.iter().map(|(process, _)| process)) {
            return;
        }
        let mut known = std::mem::take(&mut self.programs).into_iter().peekable();
        for process in several {
            while known.next_if(|(one, _)| *one < process).is_some() {}
            let table = known.next_if(|(one, _)| *one == process).map(|(_, table)| table);
            let table = table.unwrap_or_else(|| History::new(self.entries, self.distance));
            self.programs.push((process, table));
        }
    }

    /// The core scheduler's round. `counted`: at the end of an interval.
    fn plan(&mut self, view: &View<'_>, counted: bool) -> Plan {
        let Some(ground) = self.ground.take().or_else(|| self.ground(view.machine)) else {
            return Plan::none();
        };
        self.align(view);
        if counted {
            self.measure(view, &ground);
            self.watch_or_not(view, &ground);
        }
        let mut sides = Sides::new(view, &ground.cores);
        sides.place_new();
        let claims: Vec<f64> = self.progress.progress_ms.iter().map(|progress| -progress).collect();
        sides.balance(&claims);
        if counted {
            match self.watch.and_then(|watch| runnable(view, watch.thread)) {
                Some(watched) => self.calm(view, &ground, &mut sides, watched),
                None => {
                    sides.release();
                    self.swap(&ground, &mut sides);
                }
            }
        }
        for (place, monitor) in self.monitors.values_mut().iter_mut().enumerate() {
            let side = sides.side(place);
            // Who moves between two rounds ran on both sides in this interval.
            monitor.left_on = if counted || monitor.left_on == side { side } else { None };
        }
        let plan = sides.plan;
        self.ground = Some(ground);
        plan
    }

    /// Leaves the non-work-conserving mode, or enters it.
    fn watch_or_not(&mut self, view: &View<'_>, ground: &Ground) {
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
        let asks = |(place, monitor): (usize, &Monitor)| {
            let ahead_ms = self.progress.progress_ms[place] - mean_ms;
            let thread = &view.threads[place];
            let both = !thread.may_run_on.is_disjoint(&ground.cores.big)
                && !thread.may_run_on.is_disjoint(&ground.cores.small);
            (both && is_runnable(thread) && Watch::asks(monitor, ahead_ms, ground.threshold_ms))
                .then(|| Watch::new(thread.id, monitor))
        };
        self.watch = self.monitors.values().iter().enumerate().find_map(asks);
    }

    /// A round of the non-work-conserving mode.
    fn calm(&self, view: &View<'_>, ground: &Ground, sides: &mut Sides<'_>, watched: usize) {
        let monitors = self.monitors.values();
        bring(sides, watched, monitors);
        let on_big = |thread: &crate::ThreadView| side_of(thread, &ground.cores) == Some(Side::Big);
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
            here && on_big(thread) && is_runnable(thread) && sides.side(*one) == Some(Side::Big)
        };
        let members: Vec<usize> = (0..view.threads.len()).filter(member).collect();
        let cluster =
            Cluster { threads: view.threads, monitors, members, high: ground.limits.high };
        cluster.calm(sides, watched, self.interval);
    }

    /// Algorithm 4.1.
    fn swap(&self, ground: &Ground, sides: &mut Sides<'_>) {
        let monitors = self.monitors.values();
        let progress_ms = self.progress.progress_ms.clone();
        let of_side = sides.movable(Side::Big).map(|one| monitors[one].btr);
        let mut drawn: f64 = of_side.sum();
        sides.even_out(&progress_ms, ground.threshold_ms, |ahead, behind| {
            let after = |one: usize| drawn - monitors[ahead].btr + monitors[one].expected_btr();
            let far =
                |one: usize| progress_ms[ahead] - progress_ms[one] >= 2.0 * ground.threshold_ms;
            let suits = |one: &usize| after(*one) < ground.limits.high || far(*one);
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

impl Policy for Camps {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn needs(&self) -> Needs {
        let mut controls = vec![ActionKind::Place];
        controls.extend(self.idling.then_some(ActionKind::IdleCpu));
        Needs {
            interval: Interval::Time(self.interval),
            counters: vec![
                CounterKind::Instructions,
                CounterKind::LlcMisses,
                CounterKind::L1Accesses,
                CounterKind::Branches,
            ],
            controls,
            solo_figures: false,
            by_ways: false,
        }
    }

    fn do_without(&mut self, control: ActionKind) -> bool {
        let idles = control == ActionKind::IdleCpu;
        self.idling &= !idles;
        idles
    }

    fn unfit_for(&self, machine: &Machine) -> Option<String> {
        one_core_type(machine)
    }

    fn on_event(&mut self, event: &Event, view: &View<'_>) -> Option<Plan> {
        match event {
            Event::Arrived(_) => Some(self.plan(view, false)),
            Event::Slept(id) => {
                self.progress.slept(*id, view.now);
                None
            }
            Event::Woke(id) => {
                let threshold_ms = amp_threshold_ms(view.machine, self.threshold_asked_ms);
                self.progress.align(view);
                self.progress.woke(*id, view.now, threshold_ms);
                Some(self.plan(view, false))
            }
            Event::Exited(_) | Event::Switched { .. } => None,
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Plan {
        self.plan(view, true)
    }
}

#[cfg(test)]
mod tests;
