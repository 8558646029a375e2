//! What a placement is judged by, and what a part of a placement can still reach.

use corun_machine::Machine;
use corun_metrics as metrics;
use serde::{Deserialize, Serialize};

use crate::error::PlacementError;

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
    /// Energy above idle for a unit of work ([`metrics::energy_per_work_j`]); the best is the least. It is known where the
    /// machine has power figures.
    Energy,
    /// Energy x delay for a unit of work ([`metrics::energy_delay_per_work_j`]); the best is the least. Where
    /// [`Objective::Energy`] is known.
    EnergyDelay,
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
    pub const NAMED: [(&'static str, Self); 6] = [
        ("antt", Self::MeanSlowdown),
        ("stp", Self::Stp),
        ("max-slowdown", Self::MaxSlowdown),
        ("unfairness", Self::Unfairness),
        ("energy", Self::Energy),
        ("energy-delay", Self::EnergyDelay),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let named = Self::NAMED.into_iter().find(|(_, one)| *one == self);
        named.map_or("", |(name, _)| name)
    }

    /// Does it ask what the machine draws?
    pub fn is_of_power(self) -> bool {
        matches!(self, Self::Energy | Self::EnergyDelay)
    }

    /// Is more of it better?
    pub fn is_largest_best(self) -> bool {
        self == Self::Stp
    }

    /// Can placements on this machine be judged by it?
    ///
    /// # Errors
    /// [`PlacementError::NoPower`] where it asks for power figures that the machine does not have.
    pub fn check(self, machine: &Machine) -> Result<(), PlacementError> {
        if self.is_of_power() && machine.power().is_none() {
            return Err(PlacementError::NoPower { machine: machine.name().to_owned() });
        }
        Ok(())
    }

    /// The objective's value of some slowdowns where the machine draws so many watts above idle; `None` unless there is
    /// a slowdown and all are finite and above 0, and where it asks for a power that is not known.
    pub fn value(self, slowdowns: &[f64], above_idle_w: Option<f64>) -> Option<f64> {
        match self {
            Self::MeanSlowdown => metrics::mean_slowdown(slowdowns),
            Self::Stp => metrics::stp(slowdowns),
            Self::MaxSlowdown => metrics::worst_slowdown(slowdowns),
            Self::Unfairness => metrics::unfairness(slowdowns),
            Self::Energy => metrics::energy_per_work_j(above_idle_w?, slowdowns),
            Self::EnergyDelay => metrics::energy_delay_per_work_j(above_idle_w?, slowdowns),
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
    /// The ends that either asks for.
    pub(crate) fn or(self, other: Self) -> Self {
        Self { floor: self.floor || other.floor, ceiling: self.ceiling || other.ceiling }
    }
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
    /// What packages draw in any placement: the least they can looking for the best, the most looking for the worst.
    packages_w: f64,
}

impl Criterion {
    pub(crate) fn new(objective: Objective, goal: Goal, programs: usize, packages_w: f64) -> Self {
        Self { objective, goal, programs, packages_w }
    }

    pub(crate) fn packages_w(&self) -> f64 {
        self.packages_w
    }

    fn joins(&self) -> (Join, Join) {
        match (self.objective, self.goal) {
            (Objective::MeanSlowdown | Objective::Stp, _) => (Join::Sum, Join::Unused),
            (Objective::MaxSlowdown, Goal::Best) => (Join::Max, Join::Unused),
            (Objective::MaxSlowdown, Goal::Worst) => (Join::Min, Join::Unused),
            (Objective::Unfairness, Goal::Best) => (Join::Max, Join::Max),
            (Objective::Unfairness, Goal::Worst) => (Join::Min, Join::Min),
            // Watts but for those of packages, and throughput.
            (Objective::Energy | Objective::EnergyDelay, _) => (Join::Sum, Join::Sum),
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
            (Objective::Energy | Objective::EnergyDelay, Goal::Best) => (0.0, -1.0 / span.floor),
            (Objective::Energy | Objective::EnergyDelay, Goal::Worst) => (0.0, 1.0 / span.ceiling),
        };
        PartialScore { first, second }
    }

    /// What programs draw, in watts, as a part; for objectives that ask for it.
    pub(crate) fn drawing(&self, watts: f64) -> PartialScore {
        let first = if self.goal == Goal::Best { watts } else { -watts };
        PartialScore { first, second: 0.0 }
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
            Objective::Energy | Objective::EnergyDelay => match self.goal {
                Goal::Best => self.per_work(self.packages_w + part.first, -part.second),
                Goal::Worst => self.per_work(part.first - self.packages_w, part.second),
            },
        }
    }

    /// Watts and throughput as energy, or energy x delay, for a unit of work.
    fn per_work(&self, watts: f64, stp: f64) -> f64 {
        let energy = watts / stp;
        match self.objective {
            Objective::EnergyDelay => energy * self.programs as f64 / stp,
            _ => energy,
        }
    }

    /// The score of these slowdowns where the machine draws so many watts above idle; not a number where the objective
    /// asks for a power that is not known.
    pub(crate) fn score_of(&self, slowdowns: &[f64], above_idle_w: Option<f64>) -> f64 {
        if self.objective.is_of_power() {
            let stp: f64 = slowdowns.iter().map(|slowdown| 1.0 / slowdown).sum();
            let value = self.per_work(above_idle_w.unwrap_or(f64::NAN), stp);
            return if self.is_negated() { -value } else { value };
        }
        let exact = |&slowdown: &f64| Span { floor: slowdown, ceiling: slowdown };
        self.score(self.of_all(slowdowns.iter().map(exact)))
    }

    /// A score as the objective's value.
    pub(crate) fn value(&self, score: f64) -> f64 {
        if self.is_negated() { -score } else { score }
    }

    pub(crate) fn is_negated(&self) -> bool {
        self.objective.is_largest_best() != (self.goal == Goal::Worst)
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

    const GOALS: [Goal; 2] = [Goal::Best, Goal::Worst];

    #[test]
    fn scores_are_the_metrics_with_a_sign() {
        let slowdowns = [1.0, 1.25, 2.0, 1.5];
        for (name, objective) in Objective::NAMED {
            for goal in GOALS {
                let criterion = Criterion::new(objective, goal, 4, 20.0);
                let value = criterion.value(criterion.score_of(&slowdowns, Some(50.0)));
                let expected = objective.value(&slowdowns, Some(50.0)).unwrap();
                assert!((value - expected).abs() < 1e-12, "{name}");
            }
        }
    }

    #[test]
    fn wide_spans_bound_from_the_right_side() {
        let exact = [1.2, 1.9];
        let wide = [Span { floor: 1.1, ceiling: 1.4 }, Span { floor: 1.0, ceiling: f64::INFINITY }];
        for (name, objective) in Objective::NAMED {
            for goal in GOALS {
                // One package at least and two at most; 60 W with what the programs draw.
                let packages_w = if goal == Goal::Best { 20.0 } else { 40.0 };
                let criterion = Criterion::new(objective, goal, 2, packages_w);
                let mut part = criterion.of_all(wide);
                if objective.is_of_power() {
                    part = criterion.join(part, criterion.drawing(20.0));
                }
                let bound = criterion.score(part);
                assert!(bound <= criterion.score_of(&exact, Some(60.0)), "{name} {goal:?}");
                assert!(!bound.is_nan());
            }
        }
    }

    /// 50 W; in a second two programs do 1 and 0.5 of what they do alone: 50 / 1.5 J, and 2 / 1.5 times as long.
    #[test]
    fn energy_is_the_one_worked_by_hand() {
        let value = |objective: Objective| objective.value(&[1.0, 2.0], Some(50.0)).unwrap();
        assert!((value(Objective::Energy) - 100.0 / 3.0).abs() < 1e-12);
        assert!((value(Objective::EnergyDelay) - 400.0 / 9.0).abs() < 1e-12);
        assert_eq!(Objective::Energy.value(&[1.0, 2.0], None), None);
        assert_eq!(Objective::Stp.value(&[1.0, 2.0], None), Some(1.5));
        let machine = corun_machine::preset("opteron-2350").unwrap();
        let error = Objective::EnergyDelay.check(&machine).unwrap_err().to_string();
        assert!(error.starts_with("opteron-2350 has no power figures"), "{error}");
        assert_eq!(Objective::Energy.check(&corun_machine::preset("xeon-x5365").unwrap()), Ok(()));
        assert_eq!(Objective::MeanSlowdown.check(&machine), Ok(()));
    }

    #[test]
    fn infinite_bounds_prune_nothing() {
        assert!(least_key(f64::NEG_INFINITY) < key(-1e6));
    }
}
