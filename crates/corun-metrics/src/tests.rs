use proptest::prelude::*;

use crate::*;

fn close(got: Option<f64>, want: f64) -> bool {
    got.is_some_and(|got| (got - want).abs() <= 1e-9 * want.abs().max(1e-300))
}

#[test]
fn figures_worked_by_hand() {
    let slowdowns = [1.0, 2.0, 4.0];
    assert_eq!(slowdown(30.0, 20.0), Some(1.5));
    assert_eq!(degradation(1.25), Some(0.25));
    assert_eq!(stp(&slowdowns), Some(1.75));
    assert!(close(mean_slowdown(&slowdowns), 7.0 / 3.0));
    assert_eq!(antt(&slowdowns), mean_slowdown(&slowdowns));
    assert_eq!(unfairness(&slowdowns), Some(4.0));
    assert_eq!(worst_slowdown(&slowdowns), Some(4.0));
    // (1 + 2 + 4)^2 / (3 (1 + 4 + 16))
    assert!(close(jain_of_slowdowns(&slowdowns), 49.0 / 63.0));
    // 10 / 5 - 1 and 10 / 20 - 1
    assert_eq!(asp(&[10.0, 10.0], &[5.0, 20.0]), Some(0.5));
    assert!(close(geometric_mean(&[1.0, 10.0, 100.0]), 10.0));
    assert!(close(above_optimal_percent(1.53, 1.5), 2.0));
}

#[test]
fn a_joule_of_four_gigainstructions_in_two_seconds() {
    assert_eq!(edp_joule_seconds_per_instruction(1.0, 2.0, 4e9), Some(0.5e-9));
    assert_eq!(edp_joule_seconds_per_instruction(0.0, 2.0, 4e9), Some(0.0));
    assert_eq!(edp_joule_seconds_per_instruction(-1.0, 2.0, 4e9), None);
    assert_eq!(edp_joule_seconds_per_instruction(1.0, -2.0, 4e9), None);
    assert_eq!(edp_joule_seconds_per_instruction(1.0, 2.0, 0.0), None);
    assert_eq!(edp_joule_seconds_per_instruction(1.0, 2.0, f64::INFINITY), None);
}

#[test]
fn energy_for_a_unit_of_work() {
    // A second of 60 W does 1 + 1/2 of what a second alone does, each unit of it in 2 / 1.5 times the time.
    assert_eq!(energy_per_work_j(60.0, &[1.0, 2.0]), Some(40.0));
    assert!(close(energy_delay_per_work_j(60.0, &[1.0, 2.0]), 40.0 * 2.0 / 1.5));
    assert_eq!(energy_per_work_j(0.0, &[1.0]), Some(0.0));
    for (power, slowdowns) in [(-1.0, &[1.0][..]), (f64::NAN, &[1.0]), (1.0, &[]), (1.0, &[0.0])] {
        assert_eq!(energy_per_work_j(power, slowdowns), None);
        assert_eq!(energy_delay_per_work_j(power, slowdowns), None);
    }
}

#[test]
fn spread_of_a_sample() {
    // Mean 4, squares 4 + 0 + 4, variance 8 / 2.
    let times = [2.0, 4.0, 6.0];
    assert_eq!(spread(&times), Some(0.5));
    assert_eq!(worst_over_best(&times), Some(3.0));
    assert!(close(standard_error(&times), 2.0 / 3f64.sqrt()));
    assert_eq!(spread(&[2.0]), None);
    assert_eq!(standard_error(&[2.0]), None);
    assert_eq!(worst_over_best(&[2.0]), Some(1.0));
}

/// Of one degree of freedom the distribution is Cauchy's: the quantile is tan(0.475 pi). Of two it is
/// 0.95 sqrt(2 / (1 - 0.95^2)).
#[test]
fn quantiles_of_students_t_fall_with_the_degrees_of_freedom() {
    let (one, two) = (student_t_95(1), student_t_95(2));
    assert!((one - (0.475 * std::f64::consts::PI).tan()).abs() < 5e-4, "{one}");
    assert!((two - 0.95 * (2.0 / (1.0 - 0.95f64.powi(2))).sqrt()).abs() < 5e-4, "{two}");
    assert_eq!((student_t_95(9), student_t_95(10)), (2.262, 2.262));
    assert!((1..200).all(|degrees| student_t_95(degrees) >= student_t_95(degrees + 1)));
    // The normal distribution's, to which it falls, is less.
    assert!(student_t_95(10_000) > 1.96);
}

#[test]
fn quantiles_lie_between_order_statistics() {
    let values = [4.0, 1.0, f64::NAN, 3.0, 2.0];
    assert_eq!(quantile(&values, 0.0), Some(1.0));
    assert_eq!(quantile(&values, 1.0), Some(4.0));
    assert_eq!(median(&values), Some(2.5));
    assert_eq!(quantile(&values, 0.25), Some(1.75));
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[f64::NAN]), None);
}

/// The four-program example of Blagodurov et al. 2010 (Table I): in percent, mcf and milc beside
/// each other lose 65.63 and 24.75, gamess and namd -1.21 and -1.19.
#[test]
fn mean_of_the_worst_schedule_of_the_four_program_example() {
    let slowdowns = [1.6563, 1.2475, 1.0 - 0.0121, 1.0 - 0.0119];
    let mean = mean_slowdown(&slowdowns).unwrap();
    assert!((degradation(mean).unwrap() * 100.0 - (90.38 - 2.40) / 4.0).abs() < 1e-9);
}

#[test]
fn nothing_measured_is_no_figure() {
    let over_slices =
        [stp, mean_slowdown, antt, unfairness, worst_slowdown, jain_of_slowdowns, geometric_mean];
    for metric in over_slices.into_iter().chain([spread, worst_over_best]) {
        for bad in [&[][..], &[1.0, 0.0], &[1.0, -2.0], &[1.0, f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(metric(bad), None, "{bad:?}");
        }
    }
    assert_eq!(mean(&[]), None);
    assert_eq!(mean(&[f64::NAN]), None);
    assert_eq!(standard_error(&[1.0, f64::NAN]), None);
    assert_eq!(asp(&[], &[]), None);
    assert_eq!(asp(&[1.0], &[1.0, 2.0]), None);
    assert_eq!(asp(&[1.0], &[0.0]), None);
    assert_eq!(slowdown(1.0, 0.0), None);
    assert_eq!(slowdown(f64::MAX, f64::MIN_POSITIVE), None);
    assert_eq!(degradation(-1.0), None);
    assert_eq!(above_optimal_percent(1.0, 0.0), None);
}

fn slowdowns() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.5f64..20.0, 1..40)
}

proptest! {
    #[test]
    fn bounds_hold(values in slowdowns()) {
        let n = values.len() as f64;
        let (worst, unfair) = (worst_slowdown(&values).unwrap(), unfairness(&values).unwrap());
        let mean = mean_slowdown(&values).unwrap();
        let near = 1.0 + 1e-12;
        prop_assert!(unfair >= 1.0);
        prop_assert!(mean <= worst * near && mean * near >= worst / unfair);
        prop_assert!(geometric_mean(&values).unwrap() <= mean * near);
        // The harmonic mean is at most the arithmetic one.
        prop_assert!(n / stp(&values).unwrap() <= mean * near);
        let jain = jain_of_slowdowns(&values).unwrap();
        prop_assert!(jain <= near && jain * near >= 1.0 / n);
    }

    #[test]
    fn slowing_all_alike_changes_no_ratio(values in slowdowns(), factor in 0.1f64..10.0) {
        let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
        prop_assert!(close(unfairness(&scaled), unfairness(&values).unwrap()));
        prop_assert!(close(jain_of_slowdowns(&scaled), jain_of_slowdowns(&values).unwrap()));
        prop_assert!(close(worst_over_best(&scaled), worst_over_best(&values).unwrap()));
        prop_assert!(close(stp(&scaled), stp(&values).unwrap() / factor));
        prop_assert!(close(geometric_mean(&scaled), geometric_mean(&values).unwrap() * factor));
        if let Some(spread_before) = spread(&values) {
            prop_assert!((spread(&scaled).unwrap() - spread_before).abs() < 1e-9);
            let error = standard_error(&values).unwrap() * factor;
            prop_assert!((standard_error(&scaled).unwrap() - error).abs() < 1e-9);
        }
    }

    #[test]
    fn order_of_programs_does_not_matter(values in slowdowns()) {
        let mut reversed = values.clone();
        reversed.reverse();
        prop_assert!(close(stp(&reversed), stp(&values).unwrap()));
        prop_assert!(close(jain_of_slowdowns(&reversed), jain_of_slowdowns(&values).unwrap()));
        prop_assert_eq!(unfairness(&reversed), unfairness(&values));
    }

    #[test]
    fn no_figure_is_ever_nan(values in prop::collection::vec(any::<f64>(), 0..6)) {
        let metrics = [stp, mean_slowdown, unfairness, worst_slowdown, jain_of_slowdowns,
            geometric_mean, mean, median, spread, worst_over_best, standard_error];
        for metric in metrics {
            prop_assert!(metric(&values).is_none_or(f64::is_finite));
        }
    }
}

/// Through (0, 1), (1, 3), (2, 3), (3, 5): slope 1.2, value at the mean (1.5, 3). Residuals -0.2, 0.6, -0.6, 0.2: a variance of
/// 0.8 / 2; at 4 the error is sqrt(0.4 (1/4 + 2.5^2 / 5)) = sqrt(0.6), times 4.303.
#[test]
fn a_line_is_uncertain_away_from_its_points() {
    let (x, y) = ([0.0, 1.0, 2.0, 3.0], [1.0, 3.0, 3.0, 5.0]);
    let found = line_at(&x, &y, 4.0).unwrap();
    assert!((found.value - 6.0).abs() < 1e-12, "{found:?}");
    assert!((found.half_width_95 - 4.303 * 0.6f64.sqrt()).abs() < 1e-9, "{found:?}");
    assert_eq!(line_at(&x[..2], &y[..2], 4.0), None, "two points are on a line always");
    assert_eq!(line_at(&[1.0; 4], &y, 4.0), None);
}
