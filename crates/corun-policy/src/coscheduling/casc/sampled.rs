//! Estimates for hosts that do not say when threads are switched: each interval between two looks is
//! an equation, in which threads count by their share of the CPU time.

use std::collections::{BTreeMap, VecDeque};

use crate::coscheduling::casc::measure::{Mean, RIDGE};
use crate::linear::{Equation, least_squares};
use crate::{ThreadId, View};

/// Intervals that are looked back on.
const MOST: usize = 128;

/// One interval.
#[derive(Debug, Clone)]
struct Sample {
    /// Share of a CPU's time by thread.
    shares: Vec<(ThreadId, f64)>,
    /// L2 misses per 100 references of all together.
    miss_ratio: f64,
}

/// The recent intervals, and what each thread did by itself in them.
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    recent: VecDeque<Sample>,
    own: BTreeMap<ThreadId, Mean>,
}

impl Samples {
    /// Takes in the interval that just ended; gives its group miss ratio and shares.
    pub(super) fn add(&mut self, view: &View<'_>) -> Option<(f64, Vec<(ThreadId, f64)>)> {
        let (mut references, mut misses) = (0.0, 0.0);
        let mut shares = Vec::new();
        for thread in view.threads {
            let (Some(of), Some(missed)) = (thread.rates.llc_references, thread.rates.llc_misses)
            else {
                continue;
            };
            let Some(share) = thread.rates.cpu_share.filter(|&share| share > 0.0) else {
                continue;
            };
            references += of.per_s;
            misses += missed.per_s;
            shares.push((thread.id, share));
            if of.per_s > 0.0 {
                self.own.entry(thread.id).or_default().add(100.0 * missed.per_s / of.per_s, share);
            }
        }
        self.own.retain(|&id, _| view.thread(id).is_some());
        if references <= 0.0 {
            return None;
        }
        let miss_ratio = 100.0 * misses / references;
        if self.recent.len() == MOST {
            self.recent.pop_front();
        }
        self.recent.push_back(Sample { shares: shares.clone(), miss_ratio });
        Some((miss_ratio, shares))
    }

    pub(super) fn len(&self) -> usize {
        self.recent.len()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The PCMRs of the threads that ran: sum of share x PCMR = sum of shares x miss ratio, by least
    /// squares. What the intervals leave open, since all ran alike, each thread's own ratio decides.
    pub(super) fn solve(&self) -> BTreeMap<ThreadId, f64> {
        let known: Vec<(ThreadId, f64)> =
            self.own.iter().filter_map(|(&id, mean)| Some((id, mean.value()?))).collect();
        let equation = |sample: &Sample| {
            let mut coefficients = vec![0.0; known.len()];
            let mut shares = 0.0;
            for (id, share) in &sample.shares {
                let place = known.binary_search_by_key(id, |one| one.0).ok()?;
                coefficients[place] = *share;
                shares += share;
            }
            Some(Equation { coefficients, right: shares * sample.miss_ratio, weight: 1.0 })
        };
        let equations: Vec<Equation> = self.recent.iter().filter_map(equation).collect();
        let prior: Vec<f64> = known.iter().map(|one| one.1).collect();
        let ridge = (RIDGE * equations.len() as f64).max(f64::MIN_POSITIVE);
        let found = least_squares(&equations, &prior, ridge).unwrap_or(prior);
        known.iter().zip(found).map(|(one, pcmr)| (one.0, pcmr.clamp(0.0, 100.0))).collect()
    }
}
