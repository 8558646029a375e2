//! `balancer`: programs that make little of the cache are kept to few ways, and those that draw most are capped while
//! memory is slow (Navarro-Torres, Alastruey-Benedé, Ibáñez and Viñals, BALANCER, The Journal of Supercomputing 79,
//! 2023).
//!
//! The abstract and a summary could be read: of two mechanisms one goes by hits for the space held and the other by
//! the latency of memory, the first is applied first. The article itself could not. All thresholds are ours;
//! docs/partitioning.md lists them.

use std::collections::BTreeMap;

use crate::partitioning::mask;
use crate::partitioning::online::Cache;
use crate::partitioning::online::window::Sample;
use crate::partitioning::steering::{Controller, INTERVAL_MS, Program, Setting, SteeringPolicy};
use crate::{
    Build, BuildOptions, CounterKind, LiveForm, Parameter, ParameterKind, PolicyEntry, ProcessId,
};

const WASTE: Parameter = Parameter {
    name: "waste-share",
    kind: ParameterKind::Number,
    default: 0.25,
    min: 0.0,
    max: 1.0,
    summary: "hits for the space held, as a share of the median of all, below which a program wastes its space",
};

const BUSY: Parameter = Parameter {
    name: "busy-share",
    kind: ParameterKind::Number,
    default: 0.8,
    min: 0.0,
    max: 1.0,
    summary: "share of the peak from which on memory is slow and whoever draws most is capped",
};

const CALM: Parameter = Parameter {
    name: "calm-share",
    kind: ParameterKind::Number,
    default: 0.6,
    min: 0.0,
    max: 1.0,
    summary: "share of the peak below which caps are raised",
};

const LEAST_CAP: Parameter = Parameter {
    name: "least-cap",
    kind: ParameterKind::Number,
    default: 0.5,
    min: 0.01,
    max: 1.0,
    summary: "share of what a program drew without a cap that a cap leaves it at least",
};

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "balancer",
    summary: "keeps programs that make little of the cache to few ways and caps who draws most from busy memory",
    source: "Navarro-Torres et al., BALANCER, The Journal of Supercomputing 2023, from published descriptions",
    parameters: &[INTERVAL_MS, WASTE, BUSY, CALM, LEAST_CAP],
    build: Build::Online(|options: &BuildOptions| {
        let rule = Rule {
            waste: options.value(&WASTE),
            busy: options.value(&BUSY),
            calm: options.value(&CALM),
            least_cap: options.value(&LEAST_CAP),
        };
        let counters = vec![
            CounterKind::Instructions,
            CounterKind::Cycles,
            CounterKind::LlcReferences,
            CounterKind::LlcMisses,
        ];
        let make = move || Box::new(Balancer::new(rule)) as Box<dyn Controller>;
        let interval_ms = options.value(&INTERVAL_MS);
        Box::new(SteeringPolicy::new("balancer", interval_ms, counters, true, Box::new(make)))
    }),
    live: LiveForm::AS_LIVE,
};

/// Each step of a cap, as a share of what the program drew without one.
const CAP_STEP: f64 = 0.1;

#[derive(Debug, Clone, Copy)]
struct Rule {
    waste: f64,
    busy: f64,
    calm: f64,
    least_cap: f64,
}

/// What is known of a program and what it has.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// None: all ways.
    ways: Option<u32>,
    /// What it drew without a cap, and the share of that which it may draw.
    cap: Option<(f64, f64)>,
}

struct Balancer {
    rule: Rule,
    states: BTreeMap<ProcessId, State>,
}

impl Balancer {
    fn new(rule: Rule) -> Self {
        Self { rule, states: BTreeMap::new() }
    }

    /// The first mechanism: ways by hits for the space held.
    fn share_ways(&mut self, programs: &[Program], cache: &Cache, hits: &[Option<f64>]) {
        let Some(median) = median(hits.iter().copied().flatten().collect()) else { return };
        for (program, hits) in programs.iter().zip(hits) {
            let Some(hits) = hits else { continue };
            let state = self.states.entry(program.process).or_default();
            if *hits < self.rule.waste * median {
                let ways = state.ways.unwrap_or(cache.ways);
                state.ways = Some((ways - 1).max(cache.least_ways));
            } else if let Some(ways) = state.ways {
                state.ways = Some(ways + 1).filter(|&ways| ways < cache.ways);
            }
        }
    }

    /// The second mechanism: caps while memory is busy.
    fn cap(&mut self, programs: &[Program], cache: &Cache) {
        let Some(peak) = cache.peak_bytes_per_s else { return };
        let draws = |program: &Program| program.sample.map_or(0.0, |sample| sample.bytes_per_s);
        let drawn: f64 = programs.iter().map(draws).sum();
        if drawn > self.rule.busy * peak {
            let can = |program: &&Program| {
                let cap = self.states.get(&program.process).and_then(|state| state.cap);
                draws(program) > 0.0 && cap.is_none_or(|(_, share)| share > self.rule.least_cap)
            };
            let most = programs.iter().filter(can).max_by(|one, other| {
                draws(one).total_cmp(&draws(other)).then(other.process.cmp(&one.process))
            });
            if let Some(most) = most {
                let state = self.states.entry(most.process).or_default();
                let (free, share) = state.cap.unwrap_or((draws(most), 1.0));
                state.cap = Some((free, (share - CAP_STEP).max(self.rule.least_cap)));
            }
        } else if drawn < self.rule.calm * peak {
            for state in self.states.values_mut() {
                let raised = state.cap.map(|(free, share)| (free, share + CAP_STEP));
                state.cap = raised.filter(|(_, share)| *share < 1.0);
            }
        }
    }

    fn setting(&self, program: &Program, cache: &Cache, hits: Option<f64>) -> Setting {
        let state = self.states.get(&program.process).copied().unwrap_or_default();
        let why = match hits {
            Some(hits) => format!("{hits:.2} hits per 1000 cycles and MiB held"),
            None => "not counted".to_owned(),
        };
        Setting {
            mask: mask(0, state.ways.unwrap_or(cache.ways)),
            cap_mb_per_s: state.cap.map(|(free, share)| free * share * 1e-6),
            why,
        }
    }
}

/// The mean of the two in the middle where there are an even number.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => Some((values.get(middle.checked_sub(1)?)? + values.get(middle)?) / 2.0),
        _ => values.get(middle).copied(),
    }
}

/// Hits of the LLC per 1000 cycles for each MiB that a program holds. Where what it holds is not counted, what it
/// may use counts instead.
fn hits_per_mib(sample: &Sample, held_bytes: f64) -> Option<f64> {
    let hits_pki = (sample.llc_apki? - sample.llc_mpki).max(0.0);
    let mib = held_bytes / (1024.0 * 1024.0);
    (mib > 0.0).then(|| hits_pki * sample.ipc / mib)
}

impl Controller for Balancer {
    fn step(&mut self, programs: &[Program], cache: &Cache) -> Vec<Setting> {
        self.states.retain(|process, _| programs.iter().any(|one| one.process == *process));
        let may_use = |program: &Program| {
            let ways = self.states.get(&program.process).and_then(|state| state.ways);
            f64::from(ways.unwrap_or(cache.ways)) * cache.way_bytes()
        };
        let hits: Vec<Option<f64>> = programs
            .iter()
            .map(|one| hits_per_mib(&one.sample?, one.held_bytes.unwrap_or_else(|| may_use(one))))
            .collect();
        self.share_ways(programs, cache, &hits);
        self.cap(programs, cache);
        programs.iter().zip(hits).map(|(one, hits)| self.setting(one, cache, hits)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1024.0 * 1024.0;
    const CACHE: Cache = Cache {
        ways: 4,
        least_ways: 1,
        bytes: 4.0 * MIB,
        private_bytes: 0.0,
        peak_bytes_per_s: Some(10e9),
    };
    const RULE: Rule = Rule { waste: 0.25, busy: 0.8, calm: 0.6, least_cap: 0.8 };

    fn program(process: u64, ipc: f64, hits_pki: f64, bytes_per_s: f64) -> Program {
        let sample = Sample {
            ipc,
            llc_mpki: 10.0,
            llc_apki: Some(10.0 + hits_pki),
            llc_mpkc: 10.0 * ipc,
            bytes_per_s,
            memory_stalls: None,
        };
        Program { process: ProcessId(process), sample: Some(sample), held_bytes: Some(2.0 * MIB) }
    }

    fn ways(settings: &[Setting]) -> Vec<u32> {
        settings.iter().map(|one| one.mask.count_ones()).collect()
    }

    /// 8 hits per 1000 instructions at an IPC of 1 from 2 MiB are 4, none are 0: the median is 2, and 0 is less than a
    /// quarter of it. A way goes each interval until one is left.
    #[test]
    fn who_makes_nothing_of_its_space_loses_it() {
        let mut policy = Balancer::new(RULE);
        let programs = [program(1, 1.0, 8.0, 1e9), program(2, 1.0, 0.0, 1e9)];
        let seen: Vec<Vec<u32>> = (0..4).map(|_| ways(&policy.step(&programs, &CACHE))).collect();
        assert_eq!(seen, [[4, 3], [4, 2], [4, 1], [4, 1]]);
        // It begins to hit: 4 hits are 2, more than a quarter of the median of 3.
        let programs = [program(1, 1.0, 8.0, 1e9), program(2, 1.0, 4.0, 1e9)];
        let seen: Vec<Vec<u32>> = (0..3).map(|_| ways(&policy.step(&programs, &CACHE))).collect();
        assert_eq!(seen, [[4, 2], [4, 3], [4, 4]]);
    }

    /// 9 of 10 GB/s: who draws 5 is capped at 90 %, then 80 % and no further, then who draws 4. At 5 GB/s caps rise.
    #[test]
    fn who_draws_most_from_busy_memory_is_capped() {
        let mut policy = Balancer::new(RULE);
        let at = |first, second| [program(1, 1.0, 8.0, first), program(2, 1.0, 8.0, second)];
        let mut caps = |programs: [Program; 2]| -> [Option<f64>; 2] {
            let settings = policy.step(&programs, &CACHE);
            [0, 1].map(|one| settings[one].cap_mb_per_s.map(f64::round))
        };
        assert_eq!(caps(at(5e9, 4e9)), [Some(4500.0), None]);
        assert_eq!(caps(at(4.5e9, 4e9)), [Some(4000.0), None]);
        assert_eq!(caps(at(4e9, 4.1e9)), [Some(4000.0), Some(3690.0)]);
        assert_eq!(caps(at(2e9, 3e9)), [Some(4500.0), None]);
        assert_eq!(caps(at(2e9, 3e9)), [None, None]);
        // Where the peak is not known nobody is capped.
        let blind = Cache { peak_bytes_per_s: None, ..CACHE };
        let settings = Balancer::new(RULE).step(&at(9e9, 9e9), &blind);
        assert!(settings.iter().all(|one| one.cap_mb_per_s.is_none()));
    }

    #[test]
    fn what_is_not_counted_changes_nothing() {
        let mut policy = Balancer::new(RULE);
        let programs = [program(1, 1.0, 8.0, 1e9), program(2, 1.0, 0.0, 1e9)];
        policy.step(&programs, &CACHE);
        let unknown = programs.map(|one| Program { sample: None, ..one });
        assert_eq!(ways(&policy.step(&unknown, &CACHE)), [4, 3]);
    }
}
