//! How many further rounds a group gets.
//!
//! The first rounds choose: they tell for which groups more rounds would show that a slowdown is no chance, and how
//! many. The further rounds alone count for those groups. So the number of rounds behind a slowdown is settled before
//! the first of them is run, and its interval holds the median with the chance that it states, whatever the choice
//! went by. If the first rounds counted as well, a slowdown that came out large by chance would be chosen for that, and
//! stay too large. (A first sample that gives the size of the second: Stein, Annals of Mathematical Statistics 16(3),
//! 1945. There the first sample tells the spread alone and may count, too.)

use corun_metrics::{median, standard_error};

use crate::Estimate;
use crate::estimate::CLEAR;

/// Half the width of an interval that holds a median with a chance of 0.9, in standard errors of the mean of as many values, where
/// these are normal and many: 1.645 standard errors of the median, each of which is the root of pi / 2 of the mean's.
const HALF_WIDTH: f64 = 1.645 * 1.253;

/// The spread of a few rounds is off by half and more, and the rounds needed go with its square: a group that seems
/// to need up to so many times the rounds that it can get is given the most.
const DOUBT: f64 = 2.0;

/// Half of all intervals come out wider than they are expected to, those of few rounds more: so many times the rounds that
/// are expected to do.
const MARGIN: f64 = 1.5;

/// The further rounds of a group whose members had these slowdowns in the first rounds, `most` at most.
pub(crate) fn further_rounds(first: &[Vec<f64>], most: usize) -> usize {
    first.iter().map(|slowdowns| needed(slowdowns, most)).max().unwrap_or(0)
}

/// Rounds after which a slowdown is likely to be clear; at least twice as many as the first, for a surer figure than
/// the one that chose it. None where `most` would not do, and where nobody knows the spread.
fn needed(first: &[f64], most: usize) -> usize {
    let (Some(median), Some(error)) = (median(first), standard_error(first)) else { return 0 };
    let apart = (median - 1.0).abs();
    let too_wide = CLEAR * HALF_WIDTH * error / apart;
    let rounds = MARGIN * first.len() as f64 * too_wide * too_wide;
    if apart == 0.0 || first.len() > most || rounds > DOUBT * most as f64 {
        return 0;
    }
    (rounds.ceil() as usize).max(2 * first.len()).min(most)
}

/// Are further rounds enough to count in place of the first? A core that was not free can leave too few.
pub(crate) fn is_enough(further: &[Estimate], first: &[Estimate]) -> bool {
    further.len() == first.len()
        && further.iter().zip(first).all(|(further, first)| further.rounds >= first.rounds)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg64;

    use corun_calibrate::{FreeCore, Nearness};

    use crate::measure::{GroupRun, MeasuredGroup, Runner, SoloRun, measure_on};
    use crate::{RoundPlan, RunError};

    use super::*;

    #[test]
    fn rounds_go_with_the_square_of_what_the_interval_is_too_wide() {
        // A standard deviation of 0.1: half widths of 0.2061 / root n. 0.2 from 1 wants 0.0667: n = 9.56, and half
        // as many again 14.3; 0.18 wants 0.06: 17.7.
        let around = |median: f64| {
            let step = 0.1 / 2.5f64.sqrt();
            (-2..=2).map(|at| median + step * f64::from(at)).collect::<Vec<f64>>()
        };
        assert_eq!(needed(&around(1.2), 20), 15);
        assert_eq!(needed(&around(1.18), 20), 18);
        assert_eq!(needed(&around(0.82), 20), 18, "company that helps is as telling");
        // One that is clear has to be so again, by twice the rounds.
        assert_eq!(needed(&around(2.0), 20), 10);
        // 0.12 from 1 wants 39.8 rounds, within twice the most; 0.11 wants 47.4.
        assert_eq!(needed(&around(1.12), 20), 20);
        assert_eq!(needed(&around(1.11), 20), 0);
        assert_eq!(further_rounds(&[around(1.0), around(1.18)], 20), 18);
    }

    #[test]
    fn nobody_gets_any_where_nothing_is_known_or_wanted() {
        assert_eq!(needed(&[1.3, 1.31, 1.32], 0), 0);
        assert_eq!(needed(&[1.3, 1.31, 1.32], 2), 0, "less than the first rounds told");
        assert_eq!(needed(&[1.3, 1.31, 1.32], 3), 3);
        assert_eq!(needed(&[1.3], 20), 0, "of one round nobody knows the spread");
        assert_eq!(needed(&[1.0, 1.0, 1.0], 20), 0);
    }

    #[test]
    fn fewer_rounds_than_the_first_are_not_enough() {
        let first = Estimate { median: 1.5, low: 1.4, high: 1.6, confidence: 0.9375, rounds: 5 };
        let few = Estimate { rounds: 4, ..first };
        assert!(is_enough(&[first, first], &[first, first]));
        assert!(!is_enough(&[first, few], &[first, first]));
        assert!(!is_enough(&[], &[first]), "none were run");
    }

    /// Runs take what is true times a random factor, whose logarithm is normal with this standard deviation.
    struct Noisy {
        slowdowns: Vec<f64>,
        random: RefCell<Pcg64>,
    }

    const DEVIATION: f64 = 0.08;

    impl Noisy {
        /// By Box and Muller.
        fn factor(&self) -> f64 {
            let mut random = self.random.borrow_mut();
            let (radius, angle): (f64, f64) = (random.random(), random.random());
            let normal =
                (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
            (DEVIATION * normal).exp()
        }
    }

    impl Runner for Noisy {
        fn alone(&self, _: usize, _: &(dyn Fn() -> bool + Sync)) -> Result<SoloRun, RunError> {
            Ok(SoloRun { cpu_s: self.factor(), additions_per_cycle: 4.0, clock_mhz: 4e3 })
        }

        fn together(
            &self,
            members: &[usize],
            _: &(dyn Fn() -> bool + Sync),
        ) -> Result<GroupRun, (usize, RunError)> {
            let cpu_s = members.iter().map(|&at| self.slowdowns[at] * self.factor()).collect();
            let additions_per_cycle = vec![Some(4.0); members.len()];
            Ok(GroupRun { cpu_s, additions_per_cycle, line_transfer_ns: 40.0 })
        }
    }

    /// Groups of two of this true slowdown, measured with and without further rounds.
    fn groups_of(slowdown: f64, most_further: usize) -> Vec<MeasuredGroup> {
        const GROUPS: usize = 1000;
        let plan = RoundPlan {
            rounds: 5,
            most_further,
            groups: (0..GROUPS).map(|at| vec![2 * at, 2 * at + 1]).collect(),
            seed: 1,
        };
        let random = RefCell::new(Pcg64::seed_from_u64(3));
        let noisy = Noisy { slowdowns: vec![slowdown; 2 * GROUPS], random };
        let found = measure_on(
            &noisy,
            &["one"; 2 * GROUPS],
            &plan,
            (Nearness::new(None), FreeCore::new(None)),
            &|_, _| true,
        )
        .unwrap();
        found.groups.into_iter().map(Option::unwrap).collect()
    }

    fn share<T>(all: &[T], is: impl Fn(&T) -> bool) -> f64 {
        all.iter().filter(|one| is(one)).count() as f64 / all.len() as f64
    }

    /// How far the median of some slowdowns is from the true one.
    fn off(slowdowns: &[Estimate], truth: f64) -> f64 {
        let medians: Vec<f64> = slowdowns.iter().map(|one| one.median).collect();
        corun_metrics::mean(&medians).unwrap() / truth - 1.0
    }

    /// Of 2000 slowdowns a share of 0.9 has a standard error of 0.007.
    #[test]
    fn intervals_hold_the_true_slowdown_as_often_as_they_state() {
        for truth in [0.9, 1.0, 1.03, 1.1, 1.3, 1.6] {
            let groups = groups_of(truth, 20);
            let all: Vec<Estimate> = groups.iter().flat_map(|one| one.slowdowns.clone()).collect();
            let holds = |one: &Estimate| one.low <= truth && truth <= one.high;
            assert!(share(&all, holds) > 0.9 - 3.0 * 0.007, "{truth}: {}", share(&all, holds));
            let chosen = groups.iter().filter(|one| one.further_rounds > 0);
            let chosen: Vec<Estimate> = chosen.flat_map(|one| one.slowdowns.clone()).collect();
            assert!(chosen.len() > 200, "{truth}: {}", chosen.len());
            assert!(share(&chosen, holds) > 0.88, "{truth}: {}", share(&chosen, holds));
        }
    }

    /// The first rounds of the chosen groups are off, since they were chosen by them. What counts is not.
    #[test]
    fn to_be_chosen_makes_no_slowdown_larger() {
        let truth = 1.06;
        let (first, all) = (groups_of(truth, 0), groups_of(truth, 20));
        assert!(first.iter().all(|one| one.further_rounds == 0));
        // One of two members at least made the choice: that with the larger slowdown.
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (first, all) in first.iter().zip(&all).filter(|(_, all)| all.further_rounds > 0) {
            let at = usize::from(first.slowdowns[1].median > first.slowdowns[0].median);
            before.push(first.slowdowns[at]);
            after.push(all.slowdowns[at]);
        }
        assert!(before.len() > 200, "{}", before.len());
        assert!(off(&before, truth) > 0.03, "{}", off(&before, truth));
        assert!(off(&after, truth).abs() < 0.01, "{}", off(&after, truth));
    }

    #[test]
    fn further_rounds_make_slowdowns_clear_that_five_do_not() {
        let clear = |most| {
            let groups = groups_of(1.4, most);
            let all: Vec<Estimate> = groups.iter().flat_map(|one| one.slowdowns.clone()).collect();
            share(&all, Estimate::is_clear)
        };
        let (without, with) = (clear(0), clear(20));
        assert!(with > 0.5 && with > 2.0 * without, "{without}, {with}");
        // Where nobody suffers next to nothing is clear.
        let nobody = groups_of(1.0, 20);
        let clear = |one: &MeasuredGroup| one.slowdowns.iter().any(Estimate::is_clear);
        assert!(share(&nobody, clear) < 0.02, "{}", share(&nobody, clear));
    }
}
