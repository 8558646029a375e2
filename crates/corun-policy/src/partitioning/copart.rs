//! `copart`: ways and memory bandwidth handed from programs that can spare them to those that need them, until
//! slowdowns are alike (Park, Park and Baek, CoPart, EuroSys 2019).
//!
//! The abstract could be read, and what later work says of it: each program supplies, keeps or demands each of the two
//! resources, and units are handed over by a matching of hospitals and residents. The article itself could not. All
//! thresholds are ours; docs/partitioning.md lists them.

mod allocation;

use std::collections::BTreeMap;

use self::allocation::{Allocation, Need, Resource, hand_over, unfairness};
use crate::partitioning::online::Cache;
use crate::partitioning::steering::{Controller, Program, Setting, SteeringPolicy};
use crate::{
    Build, BuildOptions, CounterKind, LiveForm, Parameter, ParameterKind, PolicyEntry, ProcessId,
};

const INTERVAL_MS: Parameter = Parameter {
    name: "interval-ms",
    kind: ParameterKind::Number,
    default: 100.0,
    min: 1.0,
    max: 1e6,
    summary: "time between decisions, in ms",
};

const ACCESS_SUPPLY: Parameter = Parameter {
    name: "supply-apkc",
    kind: ParameterKind::Number,
    default: 1.0,
    min: 0.0,
    max: 1e6,
    summary: "LLC references per 1000 cycles below which a program can spare ways",
};

const MISS_SUPPLY: Parameter = Parameter {
    name: "supply-miss-ratio",
    kind: ParameterKind::Number,
    default: 0.01,
    min: 0.0,
    max: 1.0,
    summary: "share of LLC references that miss below which a program can spare ways",
};

const MISS_DEMAND: Parameter = Parameter {
    name: "demand-miss-ratio",
    kind: ParameterKind::Number,
    default: 0.03,
    min: 0.0,
    max: 1.0,
    summary: "the same above which it demands ways",
};

const TRAFFIC_SUPPLY: Parameter = Parameter {
    name: "supply-traffic",
    kind: ParameterKind::Number,
    default: 0.5,
    min: 0.0,
    max: 1.0,
    summary: "share of its cap that a program draws below which it can spare bandwidth",
};

const TRAFFIC_DEMAND: Parameter = Parameter {
    name: "demand-traffic",
    kind: ParameterKind::Number,
    default: 0.9,
    min: 0.0,
    max: 1.0,
    summary: "the same above which it demands bandwidth",
};

const GAIN: Parameter = Parameter {
    name: "least-gain",
    kind: ParameterKind::Number,
    default: 0.05,
    min: 0.0,
    max: 10.0,
    summary: "change of IPC, as a share of it, below which a unit made no difference",
};

const RETRIES: Parameter = Parameter {
    name: "retries",
    kind: ParameterKind::WholeNumber,
    default: 3.0,
    min: 1.0,
    max: 1000.0,
    summary: "rounds without a fairer state after which the fairest one is kept",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "copart",
    summary: "hands ways and bandwidth from programs that can spare them to the slowest that need them",
    source: "Park, Park and Baek, CoPart, EuroSys 2019, from published descriptions",
    parameters: &[
        INTERVAL_MS,
        ACCESS_SUPPLY,
        MISS_SUPPLY,
        MISS_DEMAND,
        TRAFFIC_SUPPLY,
        TRAFFIC_DEMAND,
        GAIN,
        RETRIES,
    ],
    build: Build::Online(|options: &BuildOptions| {
        let limits = Limits {
            apkc: options.value(&ACCESS_SUPPLY),
            miss_ratio: [options.value(&MISS_SUPPLY), options.value(&MISS_DEMAND)],
            traffic: [options.value(&TRAFFIC_SUPPLY), options.value(&TRAFFIC_DEMAND)],
            gain: options.value(&GAIN),
            retries: options.value(&RETRIES) as u32,
        };
        let counters = vec![
            CounterKind::Instructions,
            CounterKind::Cycles,
            CounterKind::LlcReferences,
            CounterKind::LlcMisses,
        ];
        let make = move || Box::new(CoPart::new(limits)) as Box<dyn Controller>;
        let interval_ms = options.value(&INTERVAL_MS);
        Box::new(SteeringPolicy::new("copart", interval_ms, counters, true, Box::new(make)))
    }),
    live: LiveForm::AS_LIVE,
};

/// Intervals that a program is measured with all that there is: the first, in which the cache fills, is left out.
const PROFILED: u32 = 2;
/// Intervals without counts after which a program is not measured.
const PATIENCE: u32 = 10;
/// How much less fair than when it was kept a state has to become to be given up, as a share.
const DRIFT: f64 = 0.2;

#[derive(Debug, Clone, Copy)]
struct Limits {
    /// LLC references per 1000 cycles below which a program supplies ways.
    apkc: f64,
    /// Below the first a program supplies, above the second it demands.
    miss_ratio: [f64; 2],
    traffic: [f64; 2],
    gain: f64,
    retries: u32,
}

/// What is known of a program.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// Its IPC with the whole cache and no cap; 0 where it could not be measured.
    alone_ipc: Option<f64>,
    /// Of ways and of bandwidth: what it does with them at this time.
    needs: [Need; 2],
    /// Did the last unit of it make no difference?
    useless: [bool; 2],
    /// The IPC and what it had before the last round.
    before: Option<(f64, [i32; 2])>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// One program after the other has all that there is: who, and for how many intervals.
    Profiling(ProcessId, u32),
    /// Units are handed over; rounds since the fairest state.
    Exploring(u32),
    /// The fairest state is kept.
    Idle,
}

struct CoPart {
    limits: Limits,
    known: BTreeMap<ProcessId, Known>,
    phase: Phase,
    now: Allocation,
    best: Option<(f64, Allocation)>,
}

impl CoPart {
    fn new(limits: Limits) -> Self {
        Self {
            limits,
            known: BTreeMap::new(),
            phase: Phase::Exploring(0),
            now: Allocation::default(),
            best: None,
        }
    }

    /// Takes over who is here. Those who stay keep what they have, as far as newcomers leave it. Has anybody come or
    /// gone?
    fn follow(&mut self, programs: &[Program], cache: &Cache) -> bool {
        if self.now.is_of(programs) {
            return false;
        }
        self.known.retain(|process, _| programs.iter().any(|one| one.process == *process));
        let next = self.now.followed_by(programs, cache);
        for program in programs {
            let known = self.known.entry(program.process).or_default();
            *known = Known { alone_ipc: known.alone_ipc, ..Known::default() };
        }
        self.restart(programs, next);
        true
    }

    fn restart(&mut self, programs: &[Program], from: Allocation) {
        self.now = from;
        self.best = None;
        self.phase = Phase::Exploring(0);
        self.profile_next(programs);
    }

    /// Measures the next program of which it is not known how fast it can be.
    fn profile_next(&mut self, programs: &[Program]) {
        let unknown = |program: &&Program| self.known[&program.process].alone_ipc.is_none();
        if let Some(next) = programs.iter().find(unknown) {
            self.phase = Phase::Profiling(next.process, 0);
        } else if matches!(self.phase, Phase::Profiling(..)) {
            self.phase = Phase::Exploring(0);
        }
    }

    /// One more interval of the program that is being measured.
    fn profile(&mut self, programs: &[Program], process: ProcessId, intervals: u32) {
        let sample = programs.iter().find(|one| one.process == process).and_then(|one| one.sample);
        let Some(known) = self.known.get_mut(&process) else { return };
        let intervals = intervals + 1;
        match sample {
            Some(sample) if intervals >= PROFILED => known.alone_ipc = Some(sample.ipc),
            None if intervals >= PATIENCE => known.alone_ipc = Some(0.0),
            _ => {
                self.phase = Phase::Profiling(process, intervals);
                return;
            }
        }
        self.profile_next(programs);
    }

    /// IPC with all that there is over the IPC now. None where one of the two is not known.
    fn slowdown(&self, program: &Program) -> Option<f64> {
        let alone = self.known.get(&program.process)?.alone_ipc.filter(|&ipc| ipc > 0.0)?;
        let now = program.sample?.ipc;
        (now > 0.0).then(|| (alone / now).max(1.0))
    }

    /// A round: is this the fairest state so far? Then the next one.
    fn explore(&mut self, programs: &[Program], cache: &Cache, rounds: u32) {
        let slowdowns: Vec<Option<f64>> = programs.iter().map(|one| self.slowdown(one)).collect();
        let known: Vec<f64> = slowdowns.iter().copied().flatten().collect();
        // A reading that failed: this state is judged in the next interval.
        if known.len() < 2 || programs.iter().any(|one| one.sample.is_none()) {
            return;
        }
        let unfair = unfairness(&known);
        let is_fairest = self.best.as_ref().is_none_or(|(least, _)| unfair < *least);
        if is_fairest {
            self.best = Some((unfair, self.now.clone()));
        }
        let rounds = if is_fairest { 0 } else { rounds + 1 };
        self.classify(programs, cache);
        let needs = |place: usize| self.known[&programs[place].process].needs;
        let next = hand_over(&self.now, &slowdowns, needs, cache);
        match next.filter(|_| rounds < self.limits.retries) {
            Some(next) => {
                self.note(programs, &next);
                self.now = next;
                self.phase = Phase::Exploring(rounds);
            }
            None => {
                if let Some((_, best)) = &self.best {
                    self.now = best.clone();
                }
                self.phase = Phase::Idle;
            }
        }
    }

    /// Remembers with what each program was how fast, before it has something else.
    fn note(&mut self, programs: &[Program], next: &Allocation) {
        for (place, program) in programs.iter().enumerate() {
            let change = [Resource::Ways, Resource::Bandwidth]
                .map(|one| next.units(one)[place] as i32 - self.now.units(one)[place] as i32);
            if let (Some(known), Some(sample)) =
                (self.known.get_mut(&program.process), program.sample)
            {
                known.before = Some((sample.ipc, change));
            }
        }
    }

    /// What each program does with what it has. A unit that made no difference is demanded no more; one whose
    /// loss made a difference is spared no more.
    fn classify(&mut self, programs: &[Program], cache: &Cache) {
        for (place, program) in programs.iter().enumerate() {
            let (Some(sample), Some(known)) =
                (program.sample, self.known.get_mut(&program.process))
            else {
                continue;
            };
            let seldom = |apki: f64| apki * sample.ipc < self.limits.apkc;
            // Who hardly asks the cache gains nothing by it, however many of its references miss.
            let misses = match sample.llc_apki {
                Some(apki) if apki > 0.0 && !seldom(apki) => sample.llc_mpki / apki,
                _ => 0.0,
            };
            let traffic =
                self.now.cap_bytes_per_s(place, cache).map(|cap| sample.bytes_per_s / cap);
            let limits = [self.limits.miss_ratio, self.limits.traffic];
            for (resource, figure) in [Some(misses), traffic].into_iter().enumerate() {
                let [supply, demand] = limits[resource];
                let by_figure = match figure {
                    Some(figure) if figure > demand => Need::Demand,
                    Some(figure) if figure < supply => Need::Supply,
                    _ => Need::Keep,
                };
                let change = known
                    .before
                    .filter(|(ipc, _)| *ipc > 0.0)
                    .map(|(ipc, change)| (sample.ipc / ipc - 1.0, change[resource].signum()));
                if let Some((gain, 1)) = change {
                    known.useless[resource] = gain < self.limits.gain;
                }
                known.needs[resource] = match (by_figure, change) {
                    (_, Some((gain, -1))) if gain < -self.limits.gain => Need::Demand,
                    (Need::Demand, _) if known.useless[resource] => Need::Keep,
                    _ => by_figure,
                };
            }
        }
    }

    /// Has the state that is kept become less fair?
    fn has_drifted(&self, programs: &[Program]) -> bool {
        let known: Vec<f64> = programs.iter().filter_map(|one| self.slowdown(one)).collect();
        let least = self.best.as_ref().map_or(0.0, |(least, _)| *least);
        known.len() == programs.len() && unfairness(&known) > least + DRIFT
    }

    fn settings(&self, programs: &[Program], cache: &Cache) -> Vec<Setting> {
        if let Phase::Profiling(process, _) = self.phase {
            return profiling(programs, process, cache);
        }
        let masks = self.now.masks();
        let of = |(place, program): (usize, &Program)| {
            let [ways, bandwidth] =
                self.known.get(&program.process).map_or([Need::Keep; 2], |one| one.needs);
            let slowdown = match self.slowdown(program) {
                Some(slowdown) => format!("{slowdown:.2} x slower than with all"),
                None => "slowdown not known".to_owned(),
            };
            Setting {
                mask: masks[place],
                cap_mb_per_s: self.now.cap_bytes_per_s(place, cache).map(|cap| cap * 1e-6),
                why: format!(
                    "{slowdown}; {} ways, {} bandwidth",
                    ways.in_words(),
                    bandwidth.in_words()
                ),
            }
        };
        programs.iter().enumerate().map(of).collect()
    }
}

/// All ways but the fewest for one program, these for the others.
fn profiling(programs: &[Program], process: ProcessId, cache: &Cache) -> Vec<Setting> {
    use crate::partitioning::mask;
    let most = cache.ways - cache.least_ways;
    let of = |program: &Program| {
        let is_measured = program.process == process;
        let mask = if is_measured { mask(0, most) } else { mask(most, cache.least_ways) };
        let why = if is_measured { "measured with all" } else { "another is measured with all" };
        Setting { mask, cap_mb_per_s: None, why: why.to_owned() }
    };
    programs.iter().map(of).collect()
}

impl Controller for CoPart {
    fn step(&mut self, programs: &[Program], cache: &Cache) -> Vec<Setting> {
        let is_anew = self.follow(programs, cache);
        if self.now.is_empty() {
            // More programs than partitions: ways cannot be shared out.
            let whole = |_: &Program| Setting {
                mask: crate::partitioning::mask(0, cache.ways),
                cap_mb_per_s: None,
                why: "more programs than partitions".to_owned(),
            };
            return programs.iter().map(whole).collect();
        }
        match self.phase {
            // What was counted so far was with other settings.
            _ if is_anew => {}
            Phase::Profiling(process, intervals) => self.profile(programs, process, intervals),
            Phase::Exploring(rounds) => self.explore(programs, cache, rounds),
            Phase::Idle if self.has_drifted(programs) => {
                self.restart(programs, self.now.clone());
            }
            Phase::Idle => {}
        }
        self.settings(programs, cache)
    }
}

#[cfg(test)]
mod tests;
