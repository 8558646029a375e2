//! KPart's rule.

use crate::bandwidth::loaded::Latency;
use crate::bandwidth::{LimitBandwidth, OwnWait, at_latency};
use crate::outcome::Demand;

/// KPart (El-Sayed et al., HPCA 2018): while the flows fit the peak nothing happens; beyond it
/// b' = b (1 - (b / b_max) (1 - x)) with x so that they sum to the peak. b_max drops out:
/// b' = b (1 - k b) with k = (sum b - 1) / sum b^2, as shares of the peak.
///
/// Under heavy overload the rule would give a heavy flow less than a lighter one, and even less
/// than nothing. Where b passes 1 / (2 k), the top of the parabola, corun holds b' at that top,
/// 1 / (4 k), and raises k until the sum is the peak again.
pub(crate) struct Simple;

impl LimitBandwidth for Simple {
    fn through(&self, solo: &[f64], _own: &[OwnWait], _latency: &Latency, out: &mut [f64]) {
        through(solo, out);
    }

    fn queues(&self) -> bool {
        false
    }

    fn cpi(&self, demand: &Demand, latency_ratio: f64, ratio: f64) -> f64 {
        at_latency(demand, latency_ratio) * ratio
    }
}

pub(crate) fn through(solo: &[f64], out: &mut [f64]) {
    let sum: f64 = solo.iter().sum();
    if sum <= 1.0 {
        out.copy_from_slice(solo);
        return;
    }
    let squares: f64 = solo.iter().map(|b| b * b).sum();
    let heaviest = solo.iter().fold(0.0_f64, |most, &b| most.max(b));
    let mut k = (sum - 1.0) / squares;
    if 2.0 * k * heaviest > 1.0 {
        // The sum falls with k from `sum` at 0; at n / 4 no flow has more than 1 / n.
        let (mut low, mut high) = (0.0, 0.25 * solo.len() as f64);
        while high - low > 1e-15 * high {
            k = 0.5 * (low + high);
            if k <= low || k >= high {
                break;
            }
            let total: f64 = solo.iter().map(|&b| cut(b, k)).sum();
            if total > 1.0 { low = k } else { high = k }
        }
    }
    for (shared, &b) in out.iter_mut().zip(solo) {
        *shared = cut(b, k);
    }
}

fn cut(b: f64, k: f64) -> f64 {
    if 2.0 * k * b > 1.0 { 0.25 / k } else { b * (1.0 - k * b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solve(solo: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; solo.len()];
        through(solo, &mut out);
        out
    }

    #[test]
    fn kparts_rule_by_hand() {
        assert_eq!(solve(&[0.5, 0.4]), [0.5, 0.4]);
        // 0.8 and 0.4: k = 0.2 / 0.8 = 1/4; 0.8 (1 - 0.2) = 0.64, 0.4 (1 - 0.1) = 0.36.
        let shared = solve(&[0.8, 0.4]);
        assert!((shared[0] - 0.64).abs() < 1e-12 && (shared[1] - 0.36).abs() < 1e-12);
    }

    #[test]
    fn equal_flows_have_equal_parts() {
        // Three of 0.9: each has a third, whether by the rule or by its top.
        for shared in solve(&[0.9, 0.9, 0.9]) {
            assert!((shared - 1.0 / 3.0).abs() < 1e-12, "{shared}");
        }
    }

    proptest::proptest! {
        #[test]
        fn parts_sum_to_the_peak_and_keep_their_order(
            mut solo in proptest::collection::vec(0.01..0.97f64, 3..30),
        ) {
            solo.sort_by(f64::total_cmp);
            let shared = solve(&solo);
            let sum: f64 = solo.iter().sum();
            proptest::prop_assert!((shared.iter().sum::<f64>() - sum.min(1.0)).abs() < 1e-9);
            proptest::prop_assert!(shared.windows(2).all(|pair| pair[0] <= pair[1] + 1e-12));
            proptest::prop_assert!(shared.iter().zip(&solo).all(|(b, solo)| *b > 0.0 && b <= solo));
        }
    }
}
