//! `cpa`: programs whose misses stand out get more of the cache (Pons, Selfa, Sahuquillo, Petit and Pons, Improving
//! System Turnaround Time with Intel CAT by Identifying LLC Critical Applications, Euro-Par 2018: the Critical-Aware
//! approach).
//!
//! The abstract could be read, and the authors' public implementation (the class `CriticalAware` of their resource
//! manager); the article itself could not. docs/partitioning.md lists what is ours.

use std::collections::{BTreeMap, VecDeque};

use crate::partitioning::mask;
use crate::partitioning::online::Cache;
use crate::partitioning::steering::{Controller, INTERVAL_MS, Program, Setting, SteeringPolicy};
use crate::{
    Build, BuildOptions, CounterKind, LiveForm, Parameter, ParameterKind, PolicyEntry, ProcessId,
};

const DEVIATIONS: Parameter = Parameter {
    name: "deviations",
    kind: ParameterKind::Number,
    default: 3.0,
    min: 0.0,
    max: 100.0,
    summary: "standard deviations above the running mean of all programs' MPKI from which a program is critical",
};

const BETTER: Parameter = Parameter {
    name: "ipc-change",
    kind: ParameterKind::Number,
    default: 0.04,
    min: 0.0,
    max: 10.0,
    summary: "change of IPC, as a share of it, that counts as better or worse",
};

const IDLE: Parameter = Parameter {
    name: "idle-intervals",
    kind: ParameterKind::WholeNumber,
    default: 5.0,
    min: 0.0,
    max: 1e6,
    summary: "intervals in which nothing is changed after a change that was better",
};

const WARM_UP: Parameter = Parameter {
    name: "warm-up-intervals",
    kind: ParameterKind::WholeNumber,
    default: 10.0,
    min: 0.0,
    max: 1e6,
    summary: "intervals at the start that are left out",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "cpa",
    summary: "gives programs whose misses stand out more ways, and moves ways where the sum of IPCs rises",
    source: "Pons et al., Euro-Par 2018 (Critical-Aware), by its abstract and the authors' implementation",
    parameters: &[INTERVAL_MS, DEVIATIONS, BETTER, IDLE, WARM_UP],
    build: Build::Online(|options: &BuildOptions| {
        let rule = Rule {
            deviations: options.value(&DEVIATIONS),
            change: options.value(&BETTER),
            idle: options.value(&IDLE) as u32,
            warm_up: options.value(&WARM_UP) as u32,
        };
        let counters = vec![CounterKind::Instructions, CounterKind::Cycles, CounterKind::LlcMisses];
        let make = move || Box::new(CriticalAware::new(rule)) as Box<dyn Controller>;
        let interval_ms = options.value(&INTERVAL_MS);
        Box::new(SteeringPolicy::new("cpa", interval_ms, counters, false, Box::new(make)))
    }),
    live: LiveForm::AS_LIVE,
};

/// Intervals of the running mean.
const WINDOW: usize = 10;
/// A program that was critical in this share of its intervals stays critical.
const OFTEN: f64 = 0.5;
/// More critical programs than this: the cache is whole.
const MOST_CRITICAL: usize = 3;
/// Of 20 ways: those of the critical programs and of the others at the start, by the number of critical ones.
const START: [(f64, f64); MOST_CRITICAL] = [(12.0, 10.0), (13.0, 9.0), (14.0, 8.0)];
const OF_WAYS: f64 = 20.0;
/// The fewest ways of either side, as a share of all.
const LEAST_SHARE: f64 = 0.25;

#[derive(Debug, Clone, Copy)]
struct Rule {
    deviations: f64,
    change: f64,
    idle: u32,
    warm_up: u32,
}

/// What was done to the ways last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Start,
    Shrunk,
    Grown,
}

/// The IPC of all programs, of the critical ones and of the others.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ipc {
    all: f64,
    critical: f64,
    others: f64,
}

/// The ways of the critical programs, which lie at the end of the cache, and of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sides {
    critical: u32,
    others: u32,
    last: Last,
}

struct CriticalAware {
    rule: Rule,
    /// Mean MPKI of all programs in the last intervals.
    means: VecDeque<f64>,
    /// By program: intervals, and those of them in which its MPKI stood out.
    seen: BTreeMap<ProcessId, (u32, u32)>,
    warming: u32,
    critical: Vec<ProcessId>,
    sides: Option<Sides>,
    idle: u32,
    before: Option<Ipc>,
}

impl CriticalAware {
    fn new(rule: Rule) -> Self {
        Self {
            rule,
            means: VecDeque::new(),
            seen: BTreeMap::new(),
            warming: rule.warm_up,
            critical: Vec::new(),
            sides: None,
            idle: 0,
            before: None,
        }
    }

    /// Who is critical, and the limit of MPKI that decided. None where nothing was counted.
    fn find_critical(&mut self, programs: &[Program]) -> Option<(Vec<ProcessId>, f64)> {
        let mpki: Vec<f64> =
            programs.iter().filter_map(|one| one.sample.map(|sample| sample.llc_mpki)).collect();
        let mean = mean(mpki.iter().copied(), mpki.len())?;
        if self.means.len() == WINDOW {
            self.means.pop_front();
        }
        self.means.push_back(mean);
        let running = self::mean(self.means.iter().copied(), self.means.len())?;
        let squares = self.means.iter().map(|one| (one - running) * (one - running));
        let deviation = self::mean(squares, self.means.len())?.sqrt();
        let limit = running + self.rule.deviations * deviation;
        self.seen.retain(|process, _| programs.iter().any(|one| one.process == *process));
        let mut critical = Vec::new();
        for program in programs {
            let (intervals, outstanding) = self.seen.entry(program.process).or_default();
            let often = *intervals > 0 && f64::from(*outstanding) >= OFTEN * f64::from(*intervals);
            let stands_out = match program.sample {
                Some(sample) => {
                    *intervals += 1;
                    sample.llc_mpki >= limit && sample.llc_mpki > 0.0
                }
                None => false,
            };
            *outstanding += u32::from(stands_out);
            if stands_out || often {
                critical.push(program.process);
            }
        }
        Some((critical, limit))
    }

    /// The IPCs; none where one is not known.
    fn ipc(&self, programs: &[Program]) -> Option<Ipc> {
        let mut ipc = Ipc { all: 0.0, critical: 0.0, others: 0.0 };
        for program in programs {
            let own = program.sample?.ipc;
            ipc.all += own;
            if self.critical.contains(&program.process) {
                ipc.critical += own;
            } else {
                ipc.others += own;
            }
        }
        Some(ipc)
    }

    /// One way more or less for one side, as the sums of IPCs say.
    fn steer(&mut self, sides: Sides, now: Ipc, cache: &Cache) -> Sides {
        if self.idle > 0 {
            self.idle -= 1;
            return sides;
        }
        let Some(before) = self.before else { return sides };
        let (up, down) = (1.0 + self.rule.change, 1.0 - self.rule.change);
        if now.all > up * before.all {
            self.idle = self.rule.idle;
            return sides;
        }
        let is_equal = now.all >= down * before.all;
        let only_others_lost = !is_equal
            && now.others < down * before.others
            && now.critical >= down * before.critical;
        let least = ((LEAST_SHARE * f64::from(cache.ways)).round() as u32).max(cache.least_ways);
        let Sides { mut critical, mut others, last } = sides;
        let last = match (last, only_others_lost) {
            (Last::Start | Last::Grown, true) => {
                critical = (critical - 1).max(least);
                Last::Shrunk
            }
            (Last::Start | Last::Grown, false) => {
                others = (others - 1).max(least);
                Last::Shrunk
            }
            (Last::Shrunk, true) => {
                others = (others + 1).min(cache.ways);
                Last::Grown
            }
            (Last::Shrunk, false) => {
                critical = (critical + 1).min(cache.ways);
                Last::Grown
            }
        };
        Sides { critical, others, last }
    }

    fn settings(&self, programs: &[Program], cache: &Cache, limit: Option<f64>) -> Vec<Setting> {
        let of = |program: &Program| {
            let is_critical = self.critical.contains(&program.process);
            let mask = match self.sides {
                None => mask(0, cache.ways),
                Some(Sides { critical, .. }) if is_critical => {
                    mask(cache.ways - critical, critical)
                }
                Some(Sides { others, .. }) => mask(0, others),
            };
            let figure = program.sample.map_or("not counted".to_owned(), |sample| {
                let limit = limit.map_or(String::new(), |limit| format!(", limit {limit:.1}"));
                format!("{:.1} MPKI{limit}", sample.llc_mpki)
            });
            let kind = if is_critical { "critical" } else { "not critical" };
            Setting { mask, cap_mb_per_s: None, why: format!("{kind}, {figure}") }
        };
        programs.iter().map(of).collect()
    }
}

impl Controller for CriticalAware {
    fn step(&mut self, programs: &[Program], cache: &Cache) -> Vec<Setting> {
        if self.warming > 0 {
            self.warming -= 1;
            return self.settings(programs, cache, None);
        }
        let Some((critical, limit)) = self.find_critical(programs) else {
            return self.settings(programs, cache, None);
        };
        match self.sides {
            // Somebody became critical or no longer is: the cache is whole for an interval.
            Some(_) if critical != self.critical => {
                self.critical.clear();
                self.sides = None;
                self.idle = 0;
                self.before = None;
            }
            Some(sides) => {
                if let Some(now) = self.ipc(programs) {
                    self.sides = Some(self.steer(sides, now, cache));
                    self.before = Some(now);
                }
            }
            None => {
                self.critical = critical;
                self.sides = start(self.critical.len(), cache);
                self.before = self.ipc(programs);
            }
        }
        self.settings(programs, cache, Some(limit))
    }
}

/// The ways at the start; none: the cache is whole.
fn start(critical: usize, cache: &Cache) -> Option<Sides> {
    let (of_critical, of_others) = *START.get(critical.checked_sub(1)?)?;
    let ways = |of: f64| {
        let ways = (of / OF_WAYS * f64::from(cache.ways)).round() as u32;
        ways.clamp(cache.least_ways, cache.ways)
    };
    Some(Sides { critical: ways(of_critical), others: ways(of_others), last: Last::Start })
}

fn mean(values: impl Iterator<Item = f64>, count: usize) -> Option<f64> {
    (count > 0).then(|| values.sum::<f64>() / count as f64).filter(|mean| mean.is_finite())
}

#[cfg(test)]
mod tests;
