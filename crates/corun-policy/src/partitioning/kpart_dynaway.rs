//! `kpart-dynaway`: KPart on curves that it measures by full sweeps (El-Sayed et al., KPart, HPCA 2018;
//! García García, thesis, UCM 2021, sections 6.3.2 and 6.4.2).

use super::kpart::{self, KPart};
use crate::partitioning::online::sweep::{Direction, curve};
use crate::partitioning::online::window::Sample;
use crate::partitioning::online::{
    Cache, OnlinePolicy, SAMPLING, Scheme, Seen, WindowPace, partition_by,
};
use crate::partitioning::{Partition, PartitionError, Partitioner};
use crate::{
    Build, BuildOptions, LiveForm, Nanoseconds, Parameter, ParameterKind, Policy, PolicyEntry,
    WaysCurve,
};

const PERIOD_S: Parameter = Parameter {
    name: "period-s",
    kind: ParameterKind::Number,
    default: 20.0,
    min: 0.1,
    max: 1e6,
    summary: "time after which a program is sampled again, in s",
};

/// How often a policy sweeps its programs.
pub(super) const OWN: &[Parameter] = &[PERIOD_S];

const LISTS: &[&[Parameter]] = &[OWN, SAMPLING, kpart::PARAMETERS];

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "kpart-dynaway",
    summary: "as kpart, on curves that it measures with every number of ways while programs run",
    source: "El-Sayed et al., KPart, HPCA 2018; García García, thesis, UCM 2021, section 6.3.2",
    parameters: &Parameter::joined::<{ Parameter::count(LISTS) }>(LISTS),
    build: Build::Online(|options: &BuildOptions| {
        Dynaway::policy("kpart-dynaway", Box::new(KPart::new(options)), options)
    }),
    live: LiveForm::Untested {
        why: "in simulation as live, with noise and counters that take turns, it cost up to 4 %",
    },
};

/// Decides by a policy for known curves, on curves that it sweeps.
pub(super) struct Dynaway {
    name: &'static str,
    inner: Box<dyn Partitioner>,
    period: Nanoseconds,
}

impl Dynaway {
    /// The policy of this name, which decides by `inner`.
    pub(super) fn policy(
        name: &'static str,
        inner: Box<dyn Partitioner>,
        options: &BuildOptions,
    ) -> Box<dyn Policy> {
        let period = Nanoseconds::from_secs_f64(options.value(&PERIOD_S));
        Box::new(OnlinePolicy::new(Self { name, inner, period }, WindowPace::new(options)))
    }
}

/// What is known of a program: its curve, and when that was measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    measured: Option<(WaysCurve, Nanoseconds)>,
}

impl Scheme for Dynaway {
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
        Direction::Shrinking.next(samples, cache)
    }

    fn sampled(
        &mut self,
        known: &mut Known,
        samples: &[(u32, Sample)],
        cache: &Cache,
        now: Nanoseconds,
    ) {
        known.measured = curve(samples, cache.ways).map(|curve| (curve, now));
    }

    fn watch(&mut self, known: &mut Known, seen: &Seen, _cache: &Cache) -> bool {
        let since = known.measured.as_ref().map(|(_, at)| seen.now.0.saturating_sub(at.0));
        since.is_some_and(|since| since >= self.period.0)
    }

    fn partition(
        &mut self,
        programs: &[&Known],
        cache: &Cache,
        out: &mut Partition,
    ) -> Result<Vec<String>, PartitionError> {
        let measured = programs.iter().map(|one| one.measured.as_ref());
        let curves: Vec<Option<&WaysCurve>> =
            measured.map(|measured| measured.map(|(curve, _)| curve)).collect();
        partition_by(&mut *self.inner, &curves, cache, "not sampled yet", out)
    }
}

#[cfg(test)]
mod tests;
