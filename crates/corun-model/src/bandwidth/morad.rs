//! Morad's probabilistic model.

use crate::bandwidth::loaded::Latency;
use crate::bandwidth::{LimitBandwidth, OwnWait, Part, at_latency};
use crate::outcome::Demand;

/// Morad et al. (JPDC 2016) as the thesis has it (eq. 5.8 and 5.9, corrected): with B and B' as
/// shares of the peak and v = 1 - T the idle share, B' = (-v + sqrt(v^2 + 4 v B / (1 - B))) / 2
/// and sum of B' = T. The slowdown is B / B'.
pub(crate) struct Morad;

impl LimitBandwidth for Morad {
    fn through(&self, solo: &[f64], _own: &[OwnWait], _latency: &Latency, out: &mut [f64]) {
        through(solo, out);
    }

    fn part(&self, solo: f64, _own: OwnWait, _latency: &Latency, idle: f64) -> Option<Part> {
        Some(part(solo, idle))
    }

    fn cpi(&self, demand: &Demand, latency_ratio: f64, ratio: f64) -> f64 {
        at_latency(demand, latency_ratio) * ratio
    }
}

/// Solves sum B' = T. Searched is u = sqrt(v): B' is nearly linear in it, and
/// F(u) = sum B' - 1 + u^2 rises from -1 at u = 0 to above 0 at u = 1, so that there is one root.
/// Halley's method, kept inside a bracket.
pub(crate) fn through(solo: &[f64], out: &mut [f64]) {
    if let [alone] = solo {
        // Alone: B' = B = T.
        out[0] = *alone;
        return;
    }
    for (odds, solo) in out.iter_mut().zip(solo) {
        *odds = 4.0 * solo / (1.0 - solo);
    }
    let idle = 1.0 - solo.iter().sum::<f64>();
    let roots: f64 = out.iter().map(|odds| 0.5 * odds.sqrt()).sum();
    // Nearly idle: T is near the sum of B; overloaded: B' is near u sqrt(odds) / 2.
    let mut u = idle.max(1.0 / (1.0 + roots).powi(2)).sqrt().min(1.0);
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let (excess, slope, bend) = excess(out, u);
        if excess > 0.0 {
            high = u
        } else {
            low = u
        }
        // In one division; where the curve would more than double Newton's step, it is doubled.
        let square = slope * slope;
        let next = u - excess * slope / (square - 0.5 * excess * bend).max(0.5 * square);
        // Halley's error is cubed by each step: after one this short nothing is left of it.
        let done = (next - u).abs() <= 1e-5 * u;
        u = if next > low && next < high || done { next } else { 0.5 * (low + high) };
        if done {
            break;
        }
    }
    let v = u * u;
    for (odds, solo) in out.iter_mut().zip(solo) {
        // Rounding must not give more than the flow would draw alone.
        *odds = share(*odds, u, v).min(*solo);
    }
}

/// B' of a flow that alone would draw B, by the idle share: for as much of the time it keeps the domain busy.
pub(crate) fn part(solo: f64, idle: f64) -> Part {
    let through = share(4.0 * solo / (1.0 - solo), idle.sqrt(), idle).min(solo);
    Part { busy: through, through }
}

fn share(odds: f64, u: f64, v: f64) -> f64 {
    // (-v + u sqrt(v + odds)) / 2 without the cancellation of near terms.
    let root = (v + odds).sqrt();
    if odds > 0.0 { 0.5 * u * odds / (root + u) } else { 0.0 }
}

/// F(u), u above 0, and its first and second derivative: with r = sqrt(u^2 + odds) a flow's
/// share is u (r - u) / 2, with the derivatives (r + u^2 / r) / 2 - u and
/// (3 u / r - u^3 / r^3) / 2 - 1.
fn excess(odds: &[f64], u: f64) -> (f64, f64, f64) {
    let v = u * u;
    let (mut value, mut slope, mut bend) = (v - 1.0, 2.0 * u, 2.0);
    for &odds in odds {
        let square = v + odds;
        // The division need not wait for the root.
        let root = square.sqrt();
        let share = u * root * (1.0 / square);
        value += 0.5 * u * (root - u);
        slope += 0.5 * (root + u * share) - u;
        bend += 0.5 * share * (3.0 - share * share) - 1.0;
    }
    (value, slope, bend)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solve(solo: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; solo.len()];
        through(solo, &mut out);
        out
    }

    /// The thesis's eq. 5.8 as corrected: B'^2 (1 - 1/B) + B' (1 - T) (1 - 1/B) + 1 - T = 0.
    fn residual(solo: f64, shared: f64, total: f64) -> f64 {
        let c = 1.0 - 1.0 / solo;
        shared * shared * c + shared * (1.0 - total) * c + 1.0 - total
    }

    #[test]
    fn alone_a_flow_keeps_its_bandwidth() {
        assert_eq!(solve(&[0.37]), [0.37]);
        // And the equation agrees: B' = B = T is its root.
        assert!(residual(0.37, 0.37, 0.37).abs() < 1e-12);
        // Beside one that draws nothing too.
        let shared = solve(&[0.37, 0.0]);
        assert!((shared[0] - 0.37).abs() < 1e-12 && shared[1] == 0.0);
    }

    #[test]
    fn two_equal_flows_worked_by_hand() {
        // B = 1/2: B / (1 - B) = 1, B' = T/2, v = 1 - T. (2 B' + v)^2 = v^2 + 4 v, and 2 B' + v = 1,
        // so v^2 + 4 v - 1 = 0: v = sqrt(5) - 2, B' = (3 - sqrt(5)) / 2 = 0.381966.
        let expected = (3.0 - 5.0_f64.sqrt()) / 2.0;
        for shared in solve(&[0.5, 0.5]) {
            assert!((shared - expected).abs() < 1e-12, "{shared}");
        }
    }

    #[test]
    fn overload_has_a_root_below_the_peak() {
        let solo = [0.9, 0.8, 0.7, 0.95, 0.2];
        let shared = solve(&solo);
        let total: f64 = shared.iter().sum();
        assert!(total < 1.0);
        for (solo, shared) in solo.iter().zip(&shared) {
            assert!(residual(*solo, *shared, total).abs() < 1e-9);
            assert!(shared < solo);
        }
    }

    proptest::proptest! {
        #[test]
        fn every_root_solves_the_equations(
            solo in proptest::collection::vec(1e-6..0.97f64, 2..20),
        ) {
            let shared = solve(&solo);
            let total: f64 = shared.iter().sum();
            proptest::prop_assert!(total > 0.0 && total < 1.0);
            let v = 1.0 - total;
            for (&solo, &shared) in solo.iter().zip(&shared) {
                let closed = 0.5 * (-v + (v * v + 4.0 * v * solo / (1.0 - solo)).sqrt());
                proptest::prop_assert!((closed - shared).abs() <= 1e-9);
                proptest::prop_assert!(shared <= solo);
            }
        }

        #[test]
        fn the_root_is_exact_to_rounding(
            solo in proptest::collection::vec(1e-6..0.97f64, 2..20),
        ) {
            let total: f64 = solve(&solo).iter().sum();
            let u = (1.0 - total).sqrt();
            let odds: Vec<f64> = solo.iter().map(|solo| 4.0 * solo / (1.0 - solo)).collect();
            let (excess, slope, _) = excess(&odds, u);
            // Reading u back off the sum costs a few roundings of 1, over 2 u.
            proptest::prop_assert!((excess / slope).abs() <= 1e-13 / u);
        }

        #[test]
        fn derivatives_are_those_of_the_excess(
            solo in proptest::collection::vec(1e-3..0.97f64, 2..10),
            u in 0.05..0.95f64,
        ) {
            let odds: Vec<f64> = solo.iter().map(|solo| 4.0 * solo / (1.0 - solo)).collect();
            let step = 1e-5;
            let (before, at, after) =
                (excess(&odds, u - step), excess(&odds, u), excess(&odds, u + step));
            let slope = (after.0 - before.0) / (2.0 * step);
            let bend = (after.1 - before.1) / (2.0 * step);
            proptest::prop_assert!((slope - at.1).abs() <= 1e-6 * (1.0 + at.1.abs()));
            proptest::prop_assert!((bend - at.2).abs() <= 1e-5 * (1.0 + at.2.abs()));
        }

        #[test]
        fn the_excess_has_one_root(
            solo in proptest::collection::vec(1e-3..0.97f64, 2..10),
        ) {
            // F rises throughout (0, 1): one change of sign at most.
            let odds: Vec<f64> = solo.iter().map(|solo| 4.0 * solo / (1.0 - solo)).collect();
            let values: Vec<f64> = (1..200).map(|i| excess(&odds, f64::from(i) / 200.0).0).collect();
            proptest::prop_assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
