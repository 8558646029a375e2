//! Latency under load.

use corun_machine::LoadedLatency;

use super::isotonic::ascending;
use crate::estimate::FigureRange;

/// Two points nearer to each other than this, relative to the traffic, are one.
const LEAST_STEP: f64 = 0.02;

/// A loaded-latency curve from pairs of traffic in MB/s and latency in ns, in any order. The traffic
/// ascends and the latency does not fall. Of points with hardly different traffic the one with the
/// highest latency stays: that is what full load costs.
pub(crate) fn curve(points: &[(f64, FigureRange)]) -> Vec<LoadedLatency> {
    let mut sorted: Vec<(f64, FigureRange)> = points
        .iter()
        .copied()
        .filter(|(traffic, latency)| traffic.is_finite() && latency.value.is_finite())
        .collect();
    sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let smooth = |of: fn(&FigureRange) -> f64| {
        ascending(&sorted.iter().map(|(_, latency)| of(latency)).collect::<Vec<_>>())
    };
    let values = smooth(|latency| latency.value);
    let lows = smooth(|latency| latency.low);
    let highs = smooth(|latency| latency.high);
    let mut curve: Vec<LoadedLatency> = Vec::new();
    for (place, &(mb_per_s, _)) in sorted.iter().enumerate() {
        let latency_ns = values[place];
        let point = LoadedLatency {
            mb_per_s,
            latency_ns,
            low_ns: lows[place].min(latency_ns),
            high_ns: highs[place].max(latency_ns),
        };
        match curve.last_mut() {
            Some(last) if mb_per_s < last.mb_per_s * (1.0 + LEAST_STEP) => {
                *last = LoadedLatency { mb_per_s: last.mb_per_s, ..point };
            }
            _ => curve.push(point),
        }
    }
    curve
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn estimate(value: f64) -> FigureRange {
        FigureRange { value, low: value - 5.0, high: value + 10.0 }
    }

    #[test]
    fn noise_is_smoothed_and_equal_traffic_joined() {
        let points =
            [(4000.0, 110.0), (500.0, 100.0), (2000.0, 99.0), (4010.0, 150.0), (1000.0, 100.0)];
        let found = curve(&points.map(|(traffic, latency)| (traffic, estimate(latency))));
        let pairs: Vec<(f64, f64)> =
            found.iter().map(|point| (point.mb_per_s, point.latency_ns)).collect();
        // 100, 100, 99 become 100, 100, 100 at the least distance.
        assert_eq!(pairs, [(500.0, 100.0), (1000.0, 100.0), (2000.0, 100.0), (4000.0, 150.0)]);
        assert_eq!((found[3].low_ns, found[3].high_ns), (145.0, 160.0));
        assert!(curve(&[(f64::NAN, estimate(1.0))]).is_empty());
    }

    proptest! {
        #[test]
        fn any_samples_give_an_ascending_curve(
            points in prop::collection::vec((1.0..1e5f64, 20.0..1e3f64), 0..30),
        ) {
            let points: Vec<_> = points.iter().map(|(x, y)| (*x, estimate(*y))).collect();
            let found = curve(&points);
            prop_assert_eq!(found.is_empty(), points.is_empty());
            for pair in found.windows(2) {
                prop_assert!(pair[0].mb_per_s < pair[1].mb_per_s);
                prop_assert!(pair[0].latency_ns <= pair[1].latency_ns);
            }
            for point in found {
                prop_assert!(point.low_ns <= point.latency_ns && point.latency_ns <= point.high_ns);
            }
        }
    }
}
