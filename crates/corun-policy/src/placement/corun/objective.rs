//! What a decision makes small.

use corun_model::Outcome;

/// What each share by which a program exceeds the target slowdown counts as, in the objective's unit: more than
/// any of the other terms can gain.
const EXCESS: f64 = 10.0;

/// What is made small, and the slowdown that nobody shall exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Objective {
    kind: Kind,
    /// 0: none.
    target: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    MeanSlowdown,
    WorstSlowdown,
    Unfairness,
}

impl Objective {
    /// By the policy's parameters.
    pub(super) fn of(kind: f64, target: f64) -> Self {
        let kind = match kind as u32 {
            0 => Kind::MeanSlowdown,
            1 => Kind::WorstSlowdown,
            _ => Kind::Unfairness,
        };
        Self { kind, target }
    }

    /// Its value for programs that are so much slower than alone. Of several that are equally unfair or slow
    /// at worst the one with the lower mean is better by a thousandth of it. What exceeds the target comes first.
    pub(super) fn value(self, outcomes: &[Outcome]) -> f64 {
        let slowdowns = || outcomes.iter().map(|outcome| outcome.slowdown);
        let mean = slowdowns().sum::<f64>() / outcomes.len().max(1) as f64;
        let most = slowdowns().fold(0.0, f64::max);
        let value = match self.kind {
            Kind::MeanSlowdown => mean,
            Kind::WorstSlowdown => most + 1e-3 * mean,
            Kind::Unfairness => most / slowdowns().fold(f64::INFINITY, f64::min) + 1e-3 * mean,
        };
        if self.target <= 0.0 {
            return value;
        }
        let excess: f64 = slowdowns().map(|one| (one / self.target - 1.0).max(0.0)).sum();
        value + EXCESS * excess
    }

    /// The slowdown that nobody shall exceed; none: no such was asked for.
    pub(super) fn target(self) -> Option<f64> {
        (self.target > 0.0).then_some(self.target)
    }

    /// Who is slower than the target, by place.
    pub(super) fn slower(self, outcomes: &[Outcome]) -> Vec<usize> {
        let Some(target) = self.target() else { return Vec::new() };
        (0..outcomes.len()).filter(|&place| outcomes[place].slowdown > target).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(slowdowns: &[f64]) -> Vec<Outcome> {
        slowdowns.iter().map(|&slowdown| Outcome { slowdown, ..Outcome::default() }).collect()
    }

    #[test]
    fn each_objective_is_the_one_worked_by_hand() {
        let three = outcomes(&[1.0, 1.5, 2.0]);
        assert_eq!(Objective::of(0.0, 0.0).value(&three), 1.5);
        assert!((Objective::of(1.0, 0.0).value(&three) - 2.0015).abs() < 1e-12);
        assert!((Objective::of(2.0, 0.0).value(&three) - 2.0015).abs() < 1e-12);
    }

    /// Beyond 1.25: 1.5 by 20 % and 2.0 by 60 %. A placement in which fewer are beyond the target is better,
    /// whatever the mean.
    #[test]
    fn what_exceeds_the_target_comes_first() {
        let objective = Objective::of(0.0, 1.25);
        let three = outcomes(&[1.0, 1.5, 2.0]);
        assert!((objective.value(&three) - (1.5 + 10.0 * 0.8)).abs() < 1e-12);
        assert_eq!(objective.slower(&three), [1, 2]);
        let level = outcomes(&[1.25, 1.25, 1.25]);
        assert_eq!(objective.value(&level), 1.25);
        assert!(objective.slower(&level).is_empty());
        assert!(objective.value(&level) < objective.value(&outcomes(&[1.0, 1.0, 1.3])));
        assert!(Objective::of(0.0, 0.0).slower(&three).is_empty());
    }
}
