//! An interval for the centre of pair differences that stays valid however often one looks.
//!
//! In each pair of blocks a coin decides whether the policy is on first. So a pair's log ratio is
//! D = effect + s X, where X is what the two stretches of time differ by anyway (noise, drift, a
//! neighbour) and s = +-1 is the coin, independent of X and of all that was before. Whatever X is,
//! the factors 1 + tanh(a (D - effect)) have mean 1 given the past, because tanh is odd: their
//! product is a fair game's capital, for every stake a (the cosh-martingale of symmetric variables;
//! de la Peña, Ann. Probab. 27, 1999). By Ville's inequality the chance that such a capital, or a mean of
//! several, ever reaches 1/error is at most `error`. The effects at which it did not are the interval:
//! a confidence sequence (Howard, Ramdas, McAuliffe, Sekhon, Ann. Statist. 49, 2021), exact for few pairs,
//! without any assumption on how noise is distributed, correlated in time, or drifts.

/// Stakes: inverse sizes of differences that can be told, from 300 % to 0.003 %, evenly in the
/// logarithm; the capital is the mean over them, so that no scale need be known beforehand.
const STAKES: [f64; 11] =
    [0.316, 1.0, 3.16, 10.0, 31.6, 100.0, 316.0, 1000.0, 3160.0, 10_000.0, 31_600.0];

/// Beyond this ratio (in logarithms) nothing is told apart: a program that stood still.
pub(super) const LARGEST_LOG: f64 = 14.0;

/// The logarithm of the capital of one who bets that the centre is above `centre`. Falls in
/// `centre`. With `times`, as if each difference had come so often.
fn log_capital(differences: &[f64], centre: f64, times: f64) -> f64 {
    let one = |stake: &f64| {
        let factor = |difference: &f64| ln_one_plus_tanh(stake * (difference - centre));
        times * differences.iter().map(factor).sum::<f64>()
    };
    let logs = STAKES.map(|stake| one(&stake));
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if largest == f64::NEG_INFINITY {
        return largest;
    }
    let sum: f64 = logs.iter().map(|log| (log - largest).exp()).sum();
    largest + (sum / STAKES.len() as f64).ln()
}

/// ln(1 + tanh x) = ln 2 - ln(1 + exp(-2 x)), without overflow or loss.
fn ln_one_plus_tanh(x: f64) -> f64 {
    let tail = if x < 0.0 { -2.0 * x + (2.0 * x).exp().ln_1p() } else { (-2.0 * x).exp().ln_1p() };
    std::f64::consts::LN_2 - tail
}

/// The lowest centre that is not refuted with this chance of error, at any time; none where nothing
/// can be said yet. `times` as in [`log_capital`].
pub(super) fn lower(differences: &[f64], error: f64, times: f64) -> Option<f64> {
    let limit = -error.ln();
    let refuted = |centre: f64| log_capital(differences, centre, times) >= limit;
    let (mut low, mut high) = (-2.0 * LARGEST_LOG, 2.0 * LARGEST_LOG);
    if !refuted(low) {
        return None;
    }
    // The capital falls in the centre: halving finds where it crosses the limit.
    for _ in 0..44 {
        let middle = 0.5 * (low + high);
        if refuted(middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// Is this centre refuted, with this chance of error to either side?
#[cfg(test)]
pub(super) fn refutes(differences: &[f64], centre: f64, error: f64) -> bool {
    let mirrored: Vec<f64> = differences.iter().map(|one| -one).collect();
    log_capital(differences, centre, 1.0) >= -error.ln()
        || log_capital(&mirrored, -centre, 1.0) >= -error.ln()
}

/// The highest centre that is not refuted.
pub(super) fn upper(differences: &[f64], error: f64, times: f64) -> Option<f64> {
    let mirrored: Vec<f64> = differences.iter().map(|one| -one).collect();
    lower(&mirrored, error, times).map(|low| -low)
}

/// The centre that symmetric differences suggest: the median of the means of all pairs of them
/// (Hodges and Lehmann, Ann. Math. Statist. 34, 1963). One wild difference hardly moves it.
pub(super) fn centre(differences: &[f64]) -> Option<f64> {
    let mut means: Vec<f64> = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (index, one) in differences.iter().enumerate() {
        means.extend(differences[index..].iter().map(|other| 0.5 * (one + other)));
    }
    means.sort_unstable_by(f64::total_cmp);
    let count = means.len();
    let middle = || 0.5 * (means[(count - 1) / 2] + means[count / 2]);
    (count > 0).then(middle)
}

/// The centres that are not refuted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    low: Option<f64>,
    high: Option<f64>,
}

impl Interval {
    /// With this chance of error to either side; `times` as in [`log_capital`].
    pub(super) fn of(differences: &[f64], error: f64, times: f64) -> Self {
        Self { low: lower(differences, error, times), high: upper(differences, error, times) }
    }

    /// Is it no wider than so much to either side?
    pub(super) fn is_within(&self, half_width: f64) -> bool {
        matches!((self.low, self.high), (Some(low), Some(high)) if high - low <= 2.0 * half_width)
    }

    /// Is the centre surely above zero, or surely below?
    pub(super) fn leaves_out_zero(&self) -> bool {
        self.low.is_some_and(|low| low > 0.0) || self.high.is_some_and(|high| high < 0.0)
    }
}

/// How many differences like these it takes, in all, until their interval is enough; none beyond `most`. An interval of
/// more differences like these is enough where one of fewer is.
pub(super) fn needed(
    differences: &[f64],
    error: f64,
    most: usize,
    is_enough: &dyn Fn(&Interval) -> bool,
) -> Option<usize> {
    let count = differences.len() as f64;
    let suffices =
        |pairs: usize| is_enough(&Interval::of(differences, error, pairs as f64 / count));
    if differences.is_empty() || !suffices(most) {
        return None;
    }
    let (mut low, mut high) = (0, most);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if suffices(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// The pairs of blocks before which nothing is sure at this chance of error, to either side together, however large the
/// effect: each pair can double the capital at most.
pub fn least_pairs(error: f64) -> usize {
    (2.0 / error).log2().ceil().max(1.0) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_pairs_say_nothing_and_clear_ones_soon_do() {
        assert_eq!(lower(&[], 0.025, 1.0), None);
        assert_eq!(lower(&[0.1; 5], 0.025, 1.0), None);
        // Seven equal signs: 2^7 = 128 times the stake on most scales, above 1 / 0.025 = 40.
        let low = lower(&[0.1; 7], 0.025, 1.0).unwrap();
        assert!((0.0..0.1).contains(&low), "{low}");
        assert_eq!(upper(&[-0.1; 7], 0.025, 1.0), Some(-low));
    }

    #[test]
    fn no_effect_is_sure_before_the_least_pairs() {
        for (error, least) in [(0.2, 4), (0.1, 5), (0.05, 6), (0.01, 8), (0.001, 11)] {
            assert_eq!(least_pairs(error), least);
            let differences = vec![LARGEST_LOG; least];
            assert_eq!(lower(&differences[1..], error / 2.0, 1.0), None);
            assert!(lower(&differences, error / 2.0, 1.0).is_some_and(|low| low > 0.0), "{error}");
        }
    }

    #[test]
    fn the_capital_is_a_fair_game() {
        // Both outcomes of the coin, weighed evenly, leave the capital as it was.
        for noise in [0.0, 1e-4, 0.02, 0.7, 9.0] {
            let after = |sign: f64| log_capital(&[0.3, 0.1 + sign * noise], 0.1, 1.0).exp();
            let before = log_capital(&[0.3], 0.1, 1.0).exp();
            assert!((0.5 * (after(1.0) + after(-1.0)) - before).abs() < 1e-9 * before);
        }
    }

    #[test]
    fn the_centre_shrugs_off_one_wild_pair() {
        let centre = centre(&[0.1, 0.11, 0.09, 0.1, 14.0]).unwrap();
        assert!((0.09..0.12).contains(&centre), "{centre}");
        assert_eq!(super::centre(&[]), None);
    }

    #[test]
    fn what_is_needed_is_enough_and_not_too_much() {
        let differences: Vec<f64> = (0..12).map(|i| 0.05 + 0.01 * f64::from(i % 4)).collect();
        let within = |half_width: f64| move |interval: &Interval| interval.is_within(half_width);
        let pairs = needed(&differences, 0.025, 100_000, &within(0.002)).unwrap();
        let width = |pairs: usize| {
            let times = pairs as f64 / 12.0;
            upper(&differences, 0.025, times).unwrap() - lower(&differences, 0.025, times).unwrap()
        };
        assert!(width(pairs) <= 0.004 && width(pairs - 1) > 0.004);
        assert_eq!(needed(&differences, 0.025, 100_000, &within(1e-9)), None);
    }

    /// Equal signs are sure after as many pairs as any effect takes; of differences around zero no number is enough.
    #[test]
    fn a_sign_is_clear_as_soon_as_any_can_be_and_never_where_there_is_none() {
        let clear =
            |differences: &[f64]| needed(differences, 0.025, 100_000, &Interval::leaves_out_zero);
        assert_eq!(clear(&[10.0; 3]), Some(least_pairs(0.05)));
        assert_eq!(clear(&[-10.0; 3]), Some(least_pairs(0.05)));
        assert_eq!(clear(&[0.1, -0.1]), None);
        assert_eq!(clear(&[]), None);
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_centre_and_moves_with_the_data(
            differences in proptest::collection::vec(-0.5f64..0.5, 8..40), shift in -1.0f64..1.0,
        ) {
            let moved: Vec<f64> = differences.iter().map(|one| one + shift).collect();
            let centre = centre(&differences).unwrap();
            for (bound, sign) in [(lower as fn(&[f64], f64, f64) -> _, 1.0), (upper, -1.0)] {
                let here: Option<f64> = bound(&differences, 0.025, 1.0);
                let there: Option<f64> = bound(&moved, 0.025, 1.0);
                prop_assert_eq!(here.is_some(), there.is_some());
                if let (Some(here), Some(there)) = (here, there) {
                    prop_assert!(sign * (centre - here) >= 0.0, "{here} {centre}");
                    prop_assert!((here + shift - there).abs() < 1e-9);
                }
            }
        }
    }
}
