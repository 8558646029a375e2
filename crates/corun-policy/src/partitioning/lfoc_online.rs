//! `lfoc-online`: LFOC that samples programs as they run (García García, thesis, UCM 2021, section 6.3).
//!
//! A program is sampled in a partition that grows from the fewest ways up, until what it shows does
//! for its class. From then on its misses and stalls are watched for signs that its class has
//! changed.

mod watching;

use self::watching::{Limits, Watched};
use super::lfoc::{self, Lfoc};
use crate::partitioning::online::sweep::{Direction, curve};
use crate::partitioning::online::window::Sample;
use crate::partitioning::online::{Cache, OnlinePolicy, SAMPLING, Scheme, Seen, WindowPace};
use crate::partitioning::{CacheClass, Partition, PartitionError, classify};
use crate::{
    Build, BuildOptions, LiveForm, Nanoseconds, Parameter, ParameterKind, PolicyEntry, WaysCurve,
};

const LOW_SHARE: Parameter = Parameter {
    name: "low-threshold-share",
    kind: ParameterKind::Number,
    default: 0.3,
    min: 0.0,
    max: 1.0,
    summary: "a streaming program's misses per cycle below this share of streaming-mpkc: another class",
};

const STALLS: Parameter = Parameter {
    name: "memory-stalls",
    kind: ParameterKind::Number,
    default: 0.25,
    min: 0.0,
    max: 1.0,
    summary: "share of cycles stalled on memory above which a program is memory-intensive",
};

const PERIODS: Parameter = Parameter {
    name: "periods",
    kind: ParameterKind::WholeNumber,
    default: 5.0,
    min: 1.0,
    max: 1000.0,
    summary: "windows that a sign of another class is averaged over",
};

const BACK_OFF: Parameter = Parameter {
    name: "back-off",
    kind: ParameterKind::Number,
    default: 2.0,
    min: 1.0,
    max: 100.0,
    summary: "how many times as many windows a sign must last after one that was wrong; 1: no more",
};

const CRITICAL_SLOWDOWN: Parameter = Parameter {
    name: "critical-slowdown",
    kind: ParameterKind::Number,
    default: 1.05,
    min: 1.0,
    max: 100.0,
    summary: "slowdown below which a sensitive program has its critical size",
};

const FEW_MISSES: Parameter = Parameter {
    name: "few-misses-mpkc",
    kind: ParameterKind::Number,
    default: 1.0,
    min: 0.0,
    max: 1e6,
    summary: "LLC misses per 1000 cycles below which more ways would not help: sampling stops",
};

const FLAT_WAYS: Parameter = Parameter {
    name: "flat-ways",
    kind: ParameterKind::WholeNumber,
    default: 4.0,
    min: 2.0,
    max: 64.0,
    summary: "numbers of ways after which sampling stops where speed did not rise",
};

const FULL_SWEEPS: Parameter = Parameter {
    name: "full-sweeps",
    kind: ParameterKind::SWITCH,
    default: 0.0,
    min: 0.0,
    max: 1.0,
    summary: "1: sampling never stops early, to see what it saves; 0: it does",
};

const OWN: &[Parameter] =
    &[LOW_SHARE, STALLS, PERIODS, BACK_OFF, CRITICAL_SLOWDOWN, FEW_MISSES, FLAT_WAYS, FULL_SWEEPS];

const LISTS: &[&[Parameter]] = &[SAMPLING, OWN, lfoc::PARAMETERS];

/// What can be set.
pub(super) const PARAMETERS: &[Parameter] =
    &Parameter::joined::<{ Parameter::count(LISTS) }>(LISTS);

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lfoc-online",
    summary: "as lfoc, by classes that it finds while programs run, in a few ways each",
    source: "García García, thesis, UCM 2021, section 6.3.2",
    parameters: PARAMETERS,
    build: Build::Online(|options: &BuildOptions| Box::new(policy(options))),
    live: LiveForm::Untested {
        why: "in simulation as live, with noise and counters that take turns, it cost up to 5 %",
    },
};

/// The policy as it is run.
pub(super) fn policy(options: &BuildOptions) -> OnlinePolicy<LfocOnline> {
    let scheme = LfocOnline::new(ENTRY.name, Lfoc::new(options), options);
    OnlinePolicy::new(scheme, WindowPace::new(options))
}

/// LFOC's decisions on measured figures.
pub(super) struct LfocOnline {
    name: &'static str,
    lfoc: Lfoc,
    limits: Limits,
    few_misses_mpkc: f64,
    flat_ways: usize,
    full_sweeps: bool,
}

/// What is known of a program.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// None until it was sampled: its class is unknown.
    sampled: Option<(CacheClass, WaysCurve)>,
    watched: Watched,
}

impl LfocOnline {
    /// The policy of this name, which decides by `lfoc`.
    pub(super) fn new(name: &'static str, lfoc: Lfoc, options: &BuildOptions) -> Self {
        let high_mpkc = lfoc.limits().streaming_mpkc;
        let limits = Limits {
            high_mpkc,
            low_mpkc: options.value(&LOW_SHARE) * high_mpkc,
            memory_stalls: options.value(&STALLS),
            periods: options.value(&PERIODS) as usize,
            back_off: options.value(&BACK_OFF),
            critical_slowdown: options.value(&CRITICAL_SLOWDOWN),
        };
        Self {
            name,
            lfoc,
            limits,
            few_misses_mpkc: options.value(&FEW_MISSES),
            flat_ways: options.value(&FLAT_WAYS) as usize,
            full_sweeps: options.is_on(&FULL_SWEEPS),
        }
    }

    /// Few misses: more ways would not help. Or some ways more, and hardly faster: it streams, or
    /// needs no cache.
    fn is_enough(&self, samples: &[(u32, Sample)]) -> bool {
        let (Some((_, first)), Some((_, last))) = (samples.first(), samples.last()) else {
            return false;
        };
        let flat = self.lfoc.limits().streaming_slowdown;
        !self.full_sweeps
            && (last.llc_mpkc < self.few_misses_mpkc
                || samples.len() >= self.flat_ways && last.ipc < flat * first.ipc)
    }
}

impl Scheme for LfocOnline {
    type Known = Known;

    fn name(&self) -> &'static str {
        self.name
    }

    fn next_ways(
        &mut self,
        _programs: &[&Known],
        _place: usize,
        samples: &[(u32, Sample)],
        cache: &Cache,
    ) -> Option<u32> {
        if self.is_enough(samples) { None } else { Direction::Growing.next(samples, cache) }
    }

    fn sampled(
        &mut self,
        known: &mut Known,
        samples: &[(u32, Sample)],
        cache: &Cache,
        _now: Nanoseconds,
    ) {
        let Some(curve) = curve(samples, cache.ways) else { return };
        let class = classify(&curve, self.lfoc.limits());
        let before = known.sampled.as_ref().map(|(class, _)| *class);
        known.watched.sampled(before == Some(class), &curve, cache.way_bytes(), &self.limits);
        known.sampled = Some((class, curve));
    }

    fn watch(&mut self, known: &mut Known, seen: &Seen, _cache: &Cache) -> bool {
        match &known.sampled {
            Some((class, _)) => known.watched.has_changed(*class, seen, &self.limits),
            None => false,
        }
    }

    /// A program of unknown class counts as light sharing: it neither gets ways of its own nor is
    /// it locked in with the streaming ones while others are.
    fn partition(
        &mut self,
        programs: &[&Known],
        cache: &Cache,
        out: &mut Partition,
    ) -> Result<Vec<String>, PartitionError> {
        let flat = cache.flat()?;
        let curves: Vec<&WaysCurve> = programs
            .iter()
            .map(|one| one.sampled.as_ref().map_or(&flat, |(_, curve)| curve))
            .collect();
        let class = |one: &&Known| one.sampled.as_ref().map(|(class, _)| *class);
        let classes = programs.iter().map(|one| class(one).unwrap_or(CacheClass::LightSharing));
        self.lfoc.cluster(classes, &cache.input(&curves), out)?;
        let why = |(place, one): (usize, &&Known)| match &one.sampled {
            None => "class unknown".to_owned(),
            Some((CacheClass::Sensitive, curve)) => {
                let slowdown = curve.at(out.ways(place)).slowdown;
                format!("sensitive, {slowdown:.2} x slowdown when sampled there")
            }
            Some((class, curve)) => format!("{}, {:.1} MPKC", class.name(), curve.at(1).llc_mpkc),
        };
        Ok(programs.iter().enumerate().map(why).collect())
    }
}

#[cfg(test)]
mod tests;
