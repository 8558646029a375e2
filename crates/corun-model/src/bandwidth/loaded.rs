//! Memory that answers later the busier it is.

use corun_machine::{BandwidthDomain, LoadedLatency};

use crate::bandwidth::LimitBandwidth;
use crate::outcome::Demand;

/// Every access to a domain that is busy for a share T of its peak takes
/// λ(T) = 1 + q T / (1 - T) times as long as one to an idle domain: the waiting time of a queue of one
/// server with random arrivals (M/M/1), in units of the idle latency, q being the service time. A
/// program's own traffic is in its figures alone, where λ is λ(B); beside others its memory part is
/// stretched by λ(T) / λ(B), for light and heavy programs alike. B' = B λ(B) / λ(T), and sum of B' = T.
///
/// With the load L = sum of B λ(B), T λ(T) = L is a quadratic equation:
/// T = (1 + L - sqrt((1 + L)^2 - 4 (1 - q) L)) / (2 (1 - q)).
pub(crate) struct Loaded;

impl LimitBandwidth for Loaded {
    fn through(&self, solo: &[f64], queueing: f64, out: &mut [f64]) {
        let load: f64 = solo.iter().map(|&one| one * latency_ratio(one, queueing)).sum();
        let busy = busy_share(load, queueing);
        let together = latency_ratio(busy, queueing);
        for (out, &one) in out.iter_mut().zip(solo) {
            // Rounding must not give more than the flow would draw alone.
            *out = (one * latency_ratio(one, queueing) / together).min(one);
        }
    }

    fn part(&self, solo: f64, queueing: f64, idle: f64) -> Option<f64> {
        // λ(T) is infinite in a domain that is never idle.
        let together = 1.0 + queueing * (1.0 - idle) / idle;
        Some((solo * latency_ratio(solo, queueing) / together).min(solo))
    }

    fn cpi(&self, demand: &Demand, latency_ratio: f64, ratio: f64) -> f64 {
        demand.cpi + demand.memory_cpi * (latency_ratio * ratio - 1.0)
    }
}

/// q where the machine has no measured curve. Fitted by least squares of relative errors to one published
/// table, latency under load of a Xeon Silver 4110 with 12 modules of DDR4-2400 against its data sheet's peak
/// (Intel Memory Latency Checker 3.5, Intel Community, thread 1126268): 0.41, rounded.
pub(crate) const USUAL_QUEUEING: f64 = 0.4;
/// Bounds of q: less than this is no queue that can be told from none, and at 1 and more the equation
/// for T has another root.
const QUEUEING_RANGE: (f64, f64) = (1e-3, 0.95);
/// Traffic near a measured peak is taken for this share of it: the peak may be the cores'.
const MOST_BUSY: f64 = 0.95;

/// λ(T) of a domain that is busy for a share T below 1.
pub(crate) fn latency_ratio(busy: f64, queueing: f64) -> f64 {
    1.0 + queueing * busy / (1.0 - busy)
}

/// T with T λ(T) = load; below 1 for every load, and rising with it.
fn busy_share(load: f64, queueing: f64) -> f64 {
    // Without the cancellation of near terms.
    let sum = 1.0 + load;
    2.0 * load / (sum + (sum * sum - 4.0 * (1.0 - queueing) * load).sqrt())
}

/// q of a domain: of its measured curve, by least squares of the relative errors, else the usual.
pub(crate) fn queueing_of(domain: &BandwidthDomain, peak_mb_per_s: f64) -> f64 {
    fit(&domain.loaded_latency, peak_mb_per_s).unwrap_or(USUAL_QUEUEING)
}

fn fit(curve: &[LoadedLatency], peak_mb_per_s: f64) -> Option<f64> {
    let (idle, loaded) = curve.split_first()?;
    let (mut above, mut below) = (0.0, 0.0);
    for point in loaded {
        let ratio = point.latency_ns / idle.latency_ns;
        let busy = (point.mb_per_s / peak_mb_per_s).min(MOST_BUSY);
        let waiting = busy / (1.0 - busy) / ratio;
        above += waiting * (ratio - 1.0) / ratio;
        below += waiting * waiting;
    }
    let (least, most) = QUEUEING_RANGE;
    (below > 0.0).then(|| (above / below).clamp(least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solve(solo: &[f64], queueing: f64) -> Vec<f64> {
        let mut out = vec![0.0; solo.len()];
        Loaded.through(solo, queueing, &mut out);
        out
    }

    #[test]
    fn alone_a_flow_keeps_its_bandwidth() {
        for one in [1e-6, 0.37, 0.95] {
            let out = solve(&[one], 0.4);
            assert!((out[0] - one).abs() < 1e-12, "{out:?}");
        }
        // Beside one that draws nothing too.
        assert!((solve(&[0.37, 0.0], 0.4)[0] - 0.37).abs() < 1e-12);
    }

    /// q = 1/2, two flows of 1/2: λ(1/2) = 3/2, so L = 3/2, and T^2 / 2 - 5/2 T + 3/2 = 0 gives
    /// T = (5/2 - sqrt(25/4 - 3)) / 1 = 0.697224, of which each gets half.
    #[test]
    fn two_equal_flows_worked_by_hand() {
        let busy = 2.5 - 3.25_f64.sqrt();
        for out in solve(&[0.5, 0.5], 0.5) {
            assert!((out - 0.5 * busy).abs() < 1e-12, "{out}");
        }
    }

    /// Beside a stream at 0.9 of the peak (q = 0.4, λ(0.9) = 4.6) a flow of 0.01 waits 4.6 times as
    /// long and a little more; the stream hardly notices.
    #[test]
    fn a_light_flow_waits_beside_a_heavy_one() {
        let out = solve(&[0.9, 0.01], 0.4);
        let stretched = |index: usize, solo: f64| solo / out[index];
        assert!(stretched(1, 0.01) > 4.5, "{out:?}");
        assert!(stretched(0, 0.9) < 1.01, "{out:?}");
    }

    #[test]
    fn the_fit_finds_the_curve_again() {
        let point = |busy: f64| LoadedLatency {
            mb_per_s: 1000.0 * busy,
            latency_ns: 80.0 * latency_ratio(busy, 0.3),
            low_ns: 0.0,
            high_ns: 0.0,
        };
        let curve: Vec<LoadedLatency> = [0.0, 0.2, 0.5, 0.8].map(point).to_vec();
        assert!((fit(&curve, 1000.0).unwrap() - 0.3).abs() < 1e-12);
        // Nothing but an idle point, or no curve at all, says nothing.
        assert_eq!(fit(&curve[..1], 1000.0), None);
        assert_eq!(fit(&[], 1000.0), None);
        // A flat curve is a queue that is hardly one.
        let flat = [0.0, 0.5].map(|busy| LoadedLatency { latency_ns: 80.0, ..point(busy) });
        assert_eq!(fit(&flat, 1000.0), Some(QUEUEING_RANGE.0));
    }

    /// The table that the usual q is of: traffic in MB/s and latency in ns.
    #[test]
    fn the_usual_queueing_is_that_of_its_table() {
        let table = [
            (1237.6, 81.96),
            (1785.2, 83.00),
            (2583.5, 84.20),
            (3354.4, 84.99),
            (4383.3, 85.56),
            (6068.3, 86.54),
            (7680.3, 87.24),
            (9723.8, 87.81),
            (13463.5, 88.79),
            (18355.0, 90.16),
            (22580.9, 90.85),
            (29473.3, 92.29),
            (42695.4, 94.56),
            (68357.8, 98.94),
            (131282.0, 123.71),
            (135655.9, 130.31),
        ];
        let curve: Vec<LoadedLatency> = table
            .iter()
            .map(|&(mb_per_s, latency_ns)| LoadedLatency {
                mb_per_s,
                latency_ns,
                low_ns: latency_ns,
                high_ns: latency_ns,
            })
            .collect();
        // Two packages of six channels of 8 bytes at 2400 million transfers a second.
        let found = fit(&curve, 2.0 * 6.0 * 8.0 * 2400.0).unwrap();
        assert!((found - USUAL_QUEUEING).abs() < 0.05, "{found}");
    }

    proptest::proptest! {
        #[test]
        fn every_root_solves_the_equations(
            solo in proptest::collection::vec(1e-6..0.97f64, 1..20),
            queueing in 1e-3..0.95f64,
        ) {
            let shared = solve(&solo, queueing);
            let busy: f64 = shared.iter().sum();
            proptest::prop_assert!(busy > 0.0 && busy < 1.0);
            for (&solo, &shared) in solo.iter().zip(&shared) {
                let expected =
                    solo * latency_ratio(solo, queueing) / latency_ratio(busy, queueing);
                proptest::prop_assert!((expected - shared).abs() <= 1e-9);
            }
        }

        /// Whoever comes, nobody else gets more.
        #[test]
        fn another_flow_helps_nobody(
            solo in proptest::collection::vec(1e-6..0.95f64, 1..12),
            more in 1e-6..0.95f64,
            queueing in 1e-3..0.95f64,
        ) {
            let before = solve(&solo, queueing);
            let mut with = solo.clone();
            with.push(more);
            let after = solve(&with, queueing);
            for (before, after) in before.iter().zip(&after) {
                proptest::prop_assert!(*after <= before * (1.0 + 1e-12));
            }
        }
    }
}
