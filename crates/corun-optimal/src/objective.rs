//! What a placement is judged by, and what a part of a placement can still reach.

use corun_metrics as metrics;
use serde::{Deserialize, Serialize};

/// What a placement is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Objective {
    /// Mean slowdown (ANTT); the best is the least.
    #[default]
    MeanSlowdown,
    /// System throughput, the sum of 1 / slowdown; the best is the highest.
    Stp,
    /// The slowdown of the program that suffers most; the best is the least.
    MaxSlowdown,
    /// Max slowdown / min slowdown; the best is the least, and among placements within 1e-6 of it
    /// that of the highest STP.
    Unfairness,
}

/// The best placement or the worst one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Goal {
    /// As good as can be.
    #[default]
    Best,
    /// As bad as can be.
    Worst,
}

/// Values closer than this count as equal; of equal placements the lowest is given.
pub const TIE: f64 = 1e-10;

/// Room for rounding when a bound is compared with a value.
const ROUNDING: f64 = 1e-12;

impl Objective {
    /// All of them, with the names by which they are asked for.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("antt", Self::MeanSlowdown),
        ("stp", Self::Stp),
        ("max-slowdown", Self::MaxSlowdown),
        ("unfairness", Self::Unfairness),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MeanSlowdown => "antt",
            Self::Stp => "stp",
            Self::MaxSlowdown => "max-slowdown",
            Self::Unfairness => "unfairness",
        }
    }

    /// The objective's value of some slowdowns; `None` unless there is one and all are finite and
    /// above 0.
    pub fn value(self, slowdowns: &[f64]) -> Option<f64> {
        match self {
            Self::MeanSlowdown => metrics::mean_slowdown(slowdowns),
            Self::Stp => metrics::stp(slowdowns),
            Self::MaxSlowdown => metrics::worst_slowdown(slowdowns),
            Self::Unfairness => metrics::unfairness(slowdowns),
        }
    }
}

/// What is known of a slowdown before all programs are placed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    pub(crate) floor: f64,
    pub(crate) ceiling: f64,
}

/// The ends of a span that somebody asks for; the others may be left wide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SpanEnds {
    pub(crate) floor: bool,
    pub(crate) ceiling: bool,
}

impl SpanEnds {
    pub(crate) const BOTH: Self = Self { floor: true, ceiling: true };
}

/// How figures of parts join.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Join {
    Sum,
    Max,
    Min,
    Unused,
}

impl Join {
    fn empty(self) -> f64 {
        match self {
            Self::Sum | Self::Unused => 0.0,
            Self::Max => f64::NEG_INFINITY,
            Self::Min => f64::INFINITY,
        }
    }

    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum => a + b,
            Self::Max => a.max(b),
            Self::Min => a.min(b),
            Self::Unused => 0.0,
        }
    }
}

/// What a set of placed programs contributes at best, in one or two figures. Lower is better in
/// each, so that the least of each figure over alternatives bounds them all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PartialScore {
    first: f64,
    second: f64,
}

impl PartialScore {
    pub(crate) const IMPOSSIBLE: Self = Self { first: f64::NAN, second: f64::NAN };

    pub(crate) fn is_possible(self) -> bool {
        !self.first.is_nan()
    }

    /// The least of each figure; of an impossible part and another, the other.
    pub(crate) fn or(self, other: Self) -> Self {
        // f64::min gives the other when one is NaN.
        Self { first: self.first.min(other.first), second: self.second.min(other.second) }
    }
}

/// An objective with its direction, turned into a score that is always minimised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Criterion {
    pub(crate) objective: Objective,
    pub(crate) goal: Goal,
    programs: usize,
}

impl Criterion {
    pub(crate) fn new(objective: Objective, goal: Goal, programs: usize) -> Self {
        Self { objective, goal, programs }
    }

    fn joins(&self) -> (Join, Join) {
        match (self.objective, self.goal) {
            (Objective::MeanSlowdown | Objective::Stp, _) => (Join::Sum, Join::Unused),
            (Objective::MaxSlowdown, Goal::Best) => (Join::Max, Join::Unused),
            (Objective::MaxSlowdown, Goal::Worst) => (Join::Min, Join::Unused),
            (Objective::Unfairness, Goal::Best) => (Join::Max, Join::Max),
            (Objective::Unfairness, Goal::Worst) => (Join::Min, Join::Min),
        }
    }

    /// Which ends of a span count.
    pub(crate) fn span_ends(&self) -> SpanEnds {
        let both = self.objective == Objective::Unfairness;
        SpanEnds {
            floor: both || self.goal == Goal::Best,
            ceiling: both || self.goal == Goal::Worst,
        }
    }

    pub(crate) fn empty(&self) -> PartialScore {
        let (first, second) = self.joins();
        PartialScore { first: first.empty(), second: second.empty() }
    }

    pub(crate) fn join(&self, a: PartialScore, b: PartialScore) -> PartialScore {
        let (first, second) = self.joins();
        PartialScore { first: first.of(a.first, b.first), second: second.of(a.second, b.second) }
    }

    /// One program's contribution at best.
    pub(crate) fn of(&self, span: Span) -> PartialScore {
        let (first, second) = match (self.objective, self.goal) {
            (Objective::MeanSlowdown, Goal::Best) => (span.floor, 0.0),
            (Objective::MeanSlowdown, Goal::Worst) => (-span.ceiling, 0.0),
            (Objective::Stp, Goal::Best) => (-1.0 / span.floor, 0.0),
            (Objective::Stp, Goal::Worst) => (1.0 / span.ceiling, 0.0),
            (Objective::MaxSlowdown, Goal::Best) => (span.floor, 0.0),
            (Objective::MaxSlowdown, Goal::Worst) => (-span.ceiling, 0.0),
            (Objective::Unfairness, Goal::Best) => (span.floor, -span.ceiling),
            (Objective::Unfairness, Goal::Worst) => (-span.ceiling, span.floor),
        };
        PartialScore { first, second }
    }

    pub(crate) fn of_all(&self, spans: impl IntoIterator<Item = Span>) -> PartialScore {
        spans.into_iter().fold(self.empty(), |part, span| self.join(part, self.of(span)))
    }

    /// The score of a whole placement, or the least that a bound allows.
    pub(crate) fn score(&self, part: PartialScore) -> f64 {
        match self.objective {
            Objective::MeanSlowdown => part.first / self.programs as f64,
            Objective::Stp | Objective::MaxSlowdown => part.first,
            Objective::Unfairness => match self.goal {
                Goal::Best => part.first / -part.second,
                Goal::Worst => part.first / part.second,
            },
        }
    }

    pub(crate) fn score_of(&self, slowdowns: &[f64]) -> f64 {
        let exact = |&slowdown: &f64| Span { floor: slowdown, ceiling: slowdown };
        self.score(self.of_all(slowdowns.iter().map(exact)))
    }

    /// A score as the objective's value.
    pub(crate) fn value(&self, score: f64) -> f64 {
        if self.is_negated() { -score } else { score }
    }

    pub(crate) fn is_negated(&self) -> bool {
        (self.objective == Objective::Stp) != (self.goal == Goal::Worst)
    }
}

/// A score on the grid of ties.
pub(crate) fn key(score: f64) -> i64 {
    (score / TIE).round() as i64
}

/// The least key that a score of at least `bound` can have.
pub(crate) fn least_key(bound: f64) -> i64 {
    if bound.is_finite() { key(bound - ROUNDING * bound.abs()) } else { key(bound) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Objective; 4] =
        [Objective::MeanSlowdown, Objective::Stp, Objective::MaxSlowdown, Objective::Unfairness];

    #[test]
    fn scores_are_the_metrics_with_a_sign() {
        let slowdowns = [1.0, 1.25, 2.0, 1.5];
        for objective in ALL {
            for goal in [Goal::Best, Goal::Worst] {
                let criterion = Criterion::new(objective, goal, 4);
                let value = criterion.value(criterion.score_of(&slowdowns));
                assert!(
                    (value - objective.value(&slowdowns).unwrap()).abs() < 1e-12,
                    "{objective:?}"
                );
            }
        }
    }

    #[test]
    fn wide_spans_bound_from_the_right_side() {
        let exact = [1.2, 1.9];
        let wide = [Span { floor: 1.1, ceiling: 1.4 }, Span { floor: 1.0, ceiling: f64::INFINITY }];
        for objective in ALL {
            for goal in [Goal::Best, Goal::Worst] {
                let criterion = Criterion::new(objective, goal, 2);
                let bound = criterion.score(criterion.of_all(wide));
                assert!(bound <= criterion.score_of(&exact), "{objective:?} {goal:?}");
                assert!(!bound.is_nan());
            }
        }
    }

    #[test]
    fn infinite_bounds_prune_nothing() {
        assert!(least_key(f64::NEG_INFINITY) < key(-1e6));
    }
}
