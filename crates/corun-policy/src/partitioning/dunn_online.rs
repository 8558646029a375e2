//! `dunn-online`: Dunn on stalls as they are counted, every 500 ms (Selfa et al., PACT 2017; García
//! García, thesis, UCM 2021, section 6.4.2).

use super::dunn::{self, Dunn};
use crate::partitioning::online::{COUNTING, Cache, OnlinePolicy, Scheme, Seen, WindowPace};
use crate::partitioning::{Partition, PartitionError};
use crate::{Build, BuildOptions, CounterKind, LiveForm, Parameter, PolicyEntry};

const LISTS: &[&[Parameter]] = &[COUNTING, dunn::PARAMETERS];

/// Weight of the windows before the latest in a program's mean: with windows of 100 million
/// instructions and 500 ms from one decision to the next, about five to ten windows count.
const PAST: f64 = 0.8;

/// The line in the registry.
pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "dunn-online",
    summary: "as dunn, by the stalls that it counts while programs run",
    source: "Selfa et al., PACT 2017; García García, thesis, UCM 2021, section 6.4.2",
    parameters: &Parameter::joined::<{ Parameter::count(LISTS) }>(LISTS),
    build: Build::Online(|options: &BuildOptions| {
        Box::new(OnlinePolicy::new(
            DunnOnline { dunn: Dunn::new(options) },
            WindowPace::new(options),
        ))
    }),
    live: LiveForm::AS_LIVE,
};

struct DunnOnline {
    dunn: Dunn,
}

/// What is known of a program: its stalls, a running mean.
#[derive(Debug, Clone, Default)]
struct Known {
    memory_stalls: Option<f64>,
}

impl Scheme for DunnOnline {
    type Known = Known;

    fn name(&self) -> &'static str {
        ENTRY.name
    }

    /// It goes by stalls, which the others can do without.
    fn counters(&self) -> Vec<CounterKind> {
        vec![
            CounterKind::Instructions,
            CounterKind::Cycles,
            CounterKind::LlcMisses,
            CounterKind::MemoryStalls,
        ]
    }

    /// Nobody is sampled.
    fn warmed_up(&mut self, _known: &mut Known, _seen: &Seen, _cache: &Cache) -> bool {
        false
    }

    fn watch(&mut self, known: &mut Known, seen: &Seen, _cache: &Cache) -> bool {
        let now = seen.sample.memory_stalls;
        known.memory_stalls = match (known.memory_stalls, now) {
            (Some(before), Some(now)) => Some(PAST * before + (1.0 - PAST) * now),
            (before, now) => now.or(before),
        };
        false
    }

    /// A program that was not counted yet counts as the mean of the others.
    fn partition(
        &mut self,
        programs: &[&Known],
        cache: &Cache,
        out: &mut Partition,
    ) -> Result<Vec<String>, PartitionError> {
        let known: Vec<f64> = programs.iter().filter_map(|one| one.memory_stalls).collect();
        let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let stalls: Vec<f64> =
            programs.iter().map(|one| one.memory_stalls.unwrap_or(mean)).collect();
        self.dunn.cluster(&stalls, cache.ways, cache.least_ways, out);
        let why = |one: &&Known| match one.memory_stalls {
            Some(stalls) => format!("{:.0} % of cycles stalled on memory", 100.0 * stalls),
            None => "not counted yet".to_owned(),
        };
        Ok(programs.iter().map(why).collect())
    }
}

#[cfg(test)]
mod tests;
