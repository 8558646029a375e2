//! What the counters say of a plan once it is made.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use corun_policy::{Nanoseconds, ThreadId};

use super::{Expectation, Foreseen};
use crate::{Change, Threads};

/// Ticks before a plan, and as many after, whose median rates are compared.
const TICKS: usize = 5;
/// Ticks before a plan by which a thread's rate is known at all.
const LEAST_TICKS: usize = 3;
/// Ticks that the plan's own cost lasts: cold caches.
const SETTLING: usize = 1;

/// A plan on trial, and what is needed to put the next one on trial.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// Instructions a second of each thread in the last ticks.
    recent: BTreeMap<ThreadId, VecDeque<f64>>,
    plan: Option<Plan>,
}

#[derive(Debug)]
struct Plan {
    since: Nanoseconds,
    foreseen: Foreseen,
    changes: Vec<Change>,
    before: BTreeMap<ThreadId, Before>,
    after: BTreeMap<ThreadId, Vec<f64>>,
    /// Ticks since it was made.
    ticks: usize,
}

#[derive(Debug, Clone, Copy)]
struct Before {
    median: f64,
    /// Half the range of the rates, as a share of the median.
    spread: f64,
}

/// What became of a plan on trial.
#[derive(Debug)]
pub(super) enum Judgement {
    /// The counters do not tell.
    Unknown { expected: Expectation },
    /// No harm beyond the noise to those who stay where they are or move to a place of the same kind.
    Fine { gain: f64 },
    /// All took turns: nobody stayed to judge the plan by.
    OfNobody,
    /// Instructions a second fell by more than the noise.
    Harm {
        since: Nanoseconds,
        /// Below 0.
        loss: f64,
        /// All together, or one program.
        whose: Arc<str>,
        expected: Expectation,
        changes: Vec<Change>,
    },
}

impl Trial {
    /// When the plan on trial was made; none where there is none.
    pub(super) fn since(&self) -> Option<Nanoseconds> {
        self.plan.as_ref().map(|plan| plan.since)
    }

    /// A plan was made by these changes.
    pub(super) fn begin(&mut self, now: Nanoseconds, foreseen: Foreseen, changes: Vec<Change>) {
        let known = self.recent.iter().filter_map(|(&id, rates)| Some((id, before(rates)?)));
        let before = known.collect();
        self.recent.clear();
        let (after, ticks) = (BTreeMap::new(), 0);
        self.plan = Some(Plan { since: now, foreseen, changes, before, after, ticks });
    }

    /// A tick was counted. Says what became of the plan on trial, once it is over.
    pub(super) fn counted(
        &mut self,
        table: &Threads,
        noise: f64,
        most_loss: f64,
    ) -> Option<Judgement> {
        let rates = table
            .iter()
            .filter_map(|(view, thread)| Some((view.id, thread.rates(view).instructions_per_s?)));
        let rates: BTreeMap<ThreadId, f64> = rates.collect();
        self.recent.retain(|id, _| table.index_of(*id).is_some());
        for (&id, &rate) in &rates {
            let recent = self.recent.entry(id).or_default();
            recent.push_back(rate);
            if recent.len() > TICKS {
                recent.pop_front();
            }
        }
        let plan = self.plan.as_mut()?;
        plan.ticks += 1;
        if plan.ticks > SETTLING {
            for (id, rate) in rates {
                plan.after.entry(id).or_default().push(rate);
            }
        }
        let over = plan.ticks >= SETTLING + TICKS || plan.before.is_empty();
        let plan = self.plan.take_if(|_| over)?;
        Some(plan.judged(table, noise, most_loss))
    }
}

impl Plan {
    fn judged(self, table: &Threads, noise: f64, most_loss: f64) -> Judgement {
        // By program: the logarithms of its threads' ratios, and the spread of their rates before.
        let mut programs: BTreeMap<Arc<str>, Vec<(f64, f64)>> = BTreeMap::new();
        let turns = &self.foreseen.turns;
        for (id, rates) in self.after.iter().filter(|(id, _)| !turns.contains(id)) {
            let index = table.index_of(*id);
            let (Some(index), Some(before)) = (index, self.before.get(id)) else { continue };
            let now = median(&mut rates.clone());
            // A thread that waits for others' work does not tell.
            if before.median > 0.0 && now > 0.0 {
                let program: Arc<str> = table.at(index).0.program.as_str().into();
                let ratio = (now / before.median).ln();
                programs.entry(program).or_default().push((ratio, before.spread));
            }
        }
        let mean = |of: &[(f64, f64)]| {
            let count = of.len() as f64;
            let sums = of.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            (sums.0 / count, sums.1 / count)
        };
        let each: Vec<(Arc<str>, (f64, f64))> =
            programs.into_iter().map(|(name, threads)| (name, mean(&threads))).collect();
        if each.is_empty() && !turns.is_empty() {
            return Judgement::OfNobody;
        }
        if each.is_empty() {
            return Judgement::Unknown { expected: self.foreseen.expected };
        }
        let all = mean(&each.iter().map(|(_, one)| *one).collect::<Vec<_>>());
        let change = |ratio: f64| ratio.exp() - 1.0;
        let harmed = each.iter().min_by(|one, other| one.1.0.total_cmp(&other.1.0));
        let (whose, loss) = match harmed {
            _ if change(all.0) < -(noise + all.1) => ("all programs".into(), change(all.0)),
            Some((name, (ratio, spread))) if change(*ratio) < -(most_loss + noise + spread) => {
                (name.clone(), change(*ratio))
            }
            _ => return Judgement::Fine { gain: change(all.0) },
        };
        let Self { since, foreseen, changes, .. } = self;
        Judgement::Harm { since, loss, whose, expected: foreseen.expected, changes }
    }
}

fn before(rates: &VecDeque<f64>) -> Option<Before> {
    if rates.len() < LEAST_TICKS {
        return None;
    }
    let mut sorted: Vec<f64> = rates.iter().copied().collect();
    let median = median(&mut sorted);
    let range = sorted[sorted.len() - 1] - sorted[0];
    let spread = if median > 0.0 { range / 2.0 / median } else { 0.0 };
    Some(Before { median, spread })
}

/// The middle value; sorts them. NaN comes last.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
