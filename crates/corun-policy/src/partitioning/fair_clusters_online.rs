//! `fair-clusters-online`: `fair-clusters` on curves that are told from a few numbers of ways each.
//!
//! What a program does with the space that it happens to hold is counted anyway, and LLC references say how often it
//! would miss without any. Misses in between fall as a power of the size (Chow, "On Optimization of Storage
//! Hierarchies", IBM Journal of Research and Development 18(3), 1974). A program is sampled only where who shares which
//! ways could be better by what that leaves open, and with the number of ways that leaves most open.
//!
//! Partitions hardly change how often a program refers to the LLC, and how fast it runs but for memory: by these its
//! phases are told apart, and each phase has its own curve.

mod known;
mod phase_curve;

use self::known::Known;
use self::phase_curve::{End, Sizes};
use super::fair_clusters::FairClusters;
use crate::partitioning::online::window::Sample;
use crate::partitioning::online::{
    Cache, OnlinePolicy, SAMPLING, Scheme, Seen, WindowPace, partition_by,
};
use crate::partitioning::{Partition, PartitionError, Partitioner};
use crate::{
    Build, BuildOptions, CounterKind, LiveForm, Nanoseconds, Parameter, ParameterKind, PolicyEntry,
    WaysCurve,
};

const TOLERANCE: Parameter = Parameter {
    name: "tolerance",
    kind: ParameterKind::Number,
    default: 0.01,
    min: 0.0,
    max: 10.0,
    summary: "share by which the slowest program may be slower than it need be for what is not known: more is sampled",
};

const DOUBT: Parameter = Parameter {
    name: "doubt",
    kind: ParameterKind::Number,
    default: 0.5,
    min: 0.0,
    max: 1.0,
    summary: "how far a curve may be from the likely one, as a share of what its points leave open",
};

const OTHER_PHASE: Parameter = Parameter {
    name: "other-phase",
    kind: ParameterKind::Number,
    default: 0.3,
    min: 0.01,
    max: 10.0,
    summary: "change of LLC references for an instruction, or of speed beside memory, that is another phase: a logarithm",
};

const REMEMBERS: Parameter = Parameter {
    name: "remember",
    kind: ParameterKind::SWITCH,
    default: 1.0,
    min: 0.0,
    max: 1.0,
    summary: "1: what is known of a program is kept for the next one of its name; 0: it is not",
};

const LISTS: &[&[Parameter]] = &[SAMPLING, &[TOLERANCE, DOUBT, OTHER_PHASE, REMEMBERS]];

/// Windows that may be left out while a program fills the ways that it got.
const MOST_FILLING: u32 = 8;

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fair-clusters-online",
    summary: "as fair-clusters, by curves of which it samples what could change its decision",
    source: "corun",
    parameters: &Parameter::joined::<{ Parameter::count(LISTS) }>(LISTS),
    build: Build::Online(|options: &BuildOptions| {
        Box::new(OnlinePolicy::new(FairClustersOnline::new(options), WindowPace::new(options)))
    }),
    live: LiveForm::AS_LIVE,
};

struct FairClustersOnline {
    inner: FairClusters,
    tolerance: f64,
    doubt: f64,
    other_phase: f64,
    remembers: bool,
    decided: Partition,
    other: Partition,
}

impl FairClustersOnline {
    fn new(options: &BuildOptions) -> Self {
        Self {
            inner: FairClusters::default(),
            tolerance: options.value(&TOLERANCE),
            doubt: options.value(&DOUBT),
            other_phase: options.value(&OTHER_PHASE),
            remembers: options.is_on(&REMEMBERS),
            decided: Partition::default(),
            other: Partition::default(),
        }
    }

    /// By how much the slowest program is slower than it need be where a program's curve is at one of its ends, as a
    /// share: the partition is that of the likely curves.
    fn regret(
        &mut self,
        curves: &[WaysCurve],
        place: usize,
        truth: &WaysCurve,
        cache: &Cache,
    ) -> Result<f64, PartitionError> {
        let likely: Vec<&WaysCurve> = curves.iter().collect();
        self.inner.partition(&cache.input(&likely), &mut self.decided)?;
        let mut real = likely;
        real[place] = truth;
        let input = cache.input(&real);
        let worst = self.inner.worst_in(&input, &self.decided);
        self.inner.partition(&input, &mut self.other)?;
        Ok(worst / self.inner.worst() - 1.0)
    }
}

impl Scheme for FairClustersOnline {
    type Known = Known;

    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn counters(&self) -> Vec<CounterKind> {
        vec![
            CounterKind::Instructions,
            CounterKind::Cycles,
            CounterKind::LlcMisses,
            CounterKind::LlcReferences,
        ]
    }

    fn remembers(&self) -> bool {
        self.remembers
    }

    fn most_filling_windows(&self) -> u32 {
        MOST_FILLING
    }

    fn next_ways(
        &mut self,
        programs: &[&Known],
        place: usize,
        samples: &[(u32, Sample)],
        cache: &Cache,
    ) -> Option<u32> {
        let sizes = Sizes::of(cache);
        let own = programs[place].with_samples(samples, self.other_phase, &sizes)?;
        let ways = own.most_open(&sizes)?;
        let Some(likely) = own.curve(End::Likely, &sizes) else { return Some(ways) };
        let flat = cache.flat().ok()?;
        let mut curves: Vec<WaysCurve> = programs
            .iter()
            .map(|one| one.curve(End::Likely, &sizes).unwrap_or_else(|| flat.clone()))
            .collect();
        curves[place] = likely;
        let could_be_better = [End::Needy(self.doubt), End::Modest(self.doubt)].map(|end| {
            let truth = own.curve(end, &sizes)?;
            self.regret(&curves, place, &truth, cache).ok()
        });
        let most = could_be_better.into_iter().flatten().fold(0.0, f64::max);
        (most > self.tolerance).then_some(ways)
    }

    fn sampled(
        &mut self,
        known: &mut Known,
        samples: &[(u32, Sample)],
        cache: &Cache,
        _now: Nanoseconds,
    ) {
        known.take_samples(samples, self.other_phase, &Sizes::of(cache));
    }

    fn warmed_up(&mut self, known: &mut Known, seen: &Seen, cache: &Cache) -> bool {
        known.arrive(seen, self.other_phase, &Sizes::of(cache));
        true
    }

    fn watch(&mut self, known: &mut Known, seen: &Seen, cache: &Cache) -> bool {
        known.take(seen, self.other_phase, &Sizes::of(cache))
    }

    fn partition(
        &mut self,
        programs: &[&Known],
        cache: &Cache,
        out: &mut Partition,
    ) -> Result<Vec<String>, PartitionError> {
        let sizes = Sizes::of(cache);
        let curves: Vec<Option<WaysCurve>> =
            programs.iter().map(|one| one.curve(End::Likely, &sizes)).collect();
        let curves: Vec<Option<&WaysCurve>> = curves.iter().map(Option::as_ref).collect();
        partition_by(&mut self.inner, &curves, cache, "not counted yet", out)
    }
}

#[cfg(test)]
mod tests;
