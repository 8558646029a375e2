//! A program's misses by cache size, estimated from what was counted at the sizes that it happened to hold.
//!
//! A family of curves stands for all programs: of `apki` references a share `floor` misses at any size, and
//! of the others a share 1 / (1 + (c / w)^a) misses with c bytes. Each curve of the family has a weight: how
//! well it passes through the counted points. The estimate is the weighted mean, its error the weighted
//! standard deviation, so that the estimate is sharp at sizes that were held and wide elsewhere. Prior weights
//! are equal. That misses fall as a power of the size is Chow's assumption ("On Optimization of
//! Storage Hierarchies", IBM Journal of Research and Development 18(3), 1974); for large c the family does.

/// Scales w as parts of the LLC, by powers of two.
const SCALES: std::ops::RangeInclusive<i32> = -8..=3;
/// Exponents a: from a slow fall to a working set that fits or does not.
const EXPONENTS: [f64; 3] = [0.7, 1.5, 4.0];
/// Shares of references that miss at any size.
const FLOORS: [f64; 4] = [0.0, 0.1, 0.3, 0.6];
/// By how much, as a share, a curve may miss a point and still be likely: noise, and what the family
/// cannot say.
const TOLERANCE: f64 = 0.1;
/// Misses per 1000 instructions below which nothing is told apart.
const LEAST_MPKI: f64 = 0.05;

/// Misses per 1000 instructions that were counted with so many bytes of the LLC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) bytes: f64,
    pub(super) mpki: f64,
}

/// Misses per 1000 instructions at a size: the mean and its standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MissEstimate {
    pub(super) mpki: f64,
    pub(super) deviation: f64,
}

/// The estimate at each of these sizes (bytes), for a program with so many LLC references per 1000
/// instructions whose counted points are these. `llc_bytes` scales the family.
pub(super) fn estimate(
    apki: f64,
    points: &[Point],
    llc_bytes: f64,
    sizes: &[f64],
) -> Vec<MissEstimate> {
    let mut logs = Vec::new();
    let mut curves: Vec<(f64, f64, f64)> = Vec::new();
    for scale in SCALES {
        let scale = llc_bytes * f64::from(scale).exp2();
        for exponent in EXPONENTS {
            for floor in FLOORS {
                let error = |point: &Point| {
                    let here = misses(apki, (scale, exponent, floor), point.bytes);
                    ((here + LEAST_MPKI) / (point.mpki + LEAST_MPKI)).ln() / TOLERANCE
                };
                logs.push(-0.5 * points.iter().map(|point| error(point).powi(2)).sum::<f64>());
                curves.push((scale, exponent, floor));
            }
        }
    }
    // The likeliest has weight 1, so that some weight is left however far all are off.
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    let at = |&size: &f64| {
        let values = || curves.iter().map(|&curve| misses(apki, curve, size)).zip(&weights);
        let mean = values().map(|(value, weight)| value * weight).sum::<f64>() / total;
        let variance = values().map(|(value, weight)| (value - mean).powi(2) * weight).sum::<f64>();
        MissEstimate { mpki: mean, deviation: (variance / total).sqrt() }
    };
    sizes.iter().map(at).collect()
}

fn misses(apki: f64, (scale, exponent, floor): (f64, f64, f64), bytes: f64) -> f64 {
    apki * (floor + (1.0 - floor) / (1.0 + (bytes.max(0.0) / scale).powf(exponent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;

    /// A curve of the family, counted at three sizes, is found again at sizes in between, and less surely
    /// beyond.
    #[test]
    fn a_curve_is_found_again_from_three_points() {
        let truth = |bytes| misses(20.0, (2.0 * MIB, 1.5, 0.1), bytes);
        let points =
            [1.0, 3.0, 6.0].map(|size| Point { bytes: size * MIB, mpki: truth(size * MIB) });
        let sizes = [0.25, 2.0, 5.0].map(|size| size * MIB);
        let found = estimate(20.0, &points, 8.0 * MIB, &sizes);
        for (one, &size) in found.iter().zip(&sizes).skip(1) {
            assert!((one.mpki / truth(size) - 1.0).abs() < 0.1, "{one:?} {}", truth(size));
        }
        assert!(found[0].deviation > found[2].deviation, "{found:?}");
    }

    /// A program that misses whenever it refers to the LLC does so at any size: no curve of the family that
    /// falls passes through the point.
    #[test]
    fn a_stream_is_flat() {
        let points = [Point { bytes: 4.0 * MIB, mpki: 30.0 }];
        let found = estimate(30.0, &points, 8.0 * MIB, &[MIB, 8.0 * MIB]);
        assert!(found[0].mpki / found[1].mpki < 1.4, "{found:?}");
    }

    /// One point in the middle: the estimate passes through it, and its error is least there.
    #[test]
    fn the_error_is_least_where_it_was_counted() {
        let points = [Point { bytes: 2.0 * MIB, mpki: 5.0 }];
        let found = estimate(20.0, &points, 8.0 * MIB, &[0.5 * MIB, 2.0 * MIB, 8.0 * MIB]);
        assert!((found[1].mpki - 5.0).abs() < 0.5, "{found:?}");
        assert!(found[1].deviation < found[0].deviation && found[1].deviation < found[2].deviation);
        assert!(found[0].mpki > found[1].mpki && found[1].mpki > found[2].mpki);
    }

    #[test]
    fn points_that_no_curve_passes_leave_a_figure() {
        let points = [Point { bytes: MIB, mpki: 500.0 }, Point { bytes: 4.0 * MIB, mpki: 0.0 }];
        let found = estimate(1.0, &points, 8.0 * MIB, &[MIB]);
        assert!(found[0].mpki.is_finite() && found[0].deviation.is_finite());
    }
}
