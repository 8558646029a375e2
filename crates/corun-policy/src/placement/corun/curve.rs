//! A program's misses by cache size, estimated from what was counted at the sizes that it happened to hold.
//!
//! A family of curves stands for all programs, which have two working sets. The near one fits at any size that
//! is asked about: of `apki` references a share `far` goes beyond it. Of these a share `floor` misses at any size, and
//! of the others a share 1 / (1 + (c / w)^a) misses with c bytes. Each curve of the family has a weight: how
//! well it passes through the counted points. The estimate is the weighted mean, its error the weighted
//! standard deviation, so that the estimate is sharp at sizes that were held and wide elsewhere. Prior weights
//! are equal. That misses fall as a power of the size is Chow's assumption ("On Optimization of
//! Storage Hierarchies", IBM Journal of Research and Development 18(3), 1974); for large c the family does.
//!
//! Without the near working set, a program of few misses per reference is explained by steep curves alone: where the
//! LLC is the second level of cache, its references are most of the first level's misses, of which nearly all stay near.

/// Scales w as parts of the LLC, by powers of two.
const SCALES: std::ops::RangeInclusive<i32> = -8..=3;
/// Exponents a: from a slow fall to a working set that fits or does not.
const EXPONENTS: [f64; 3] = [0.7, 1.5, 4.0];
/// Shares of the references beyond the near working set that miss at any size.
const FLOORS: [f64; 6] = [0.0, 0.01, 0.03, 0.1, 0.3, 0.6];
/// Shares of references that go beyond the near working set: so many, each a half of a power of ten less.
const FARS: i32 = 9;
/// By how much, as a share, a curve may miss a point and still be likely: noise, and what the family
/// cannot say.
const TOLERANCE: f64 = 0.1;
/// Misses per 1000 instructions below which nothing is told apart.
pub(super) const LEAST_MPKI: f64 = 0.05;
/// Curves that are less likely than the likeliest by this factor are left out.
const LEAST_WEIGHT: f64 = 1e-9;

/// Misses per 1000 instructions that were counted with so many bytes of the LLC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) bytes: f64,
    pub(super) mpki: f64,
}

/// A point, and how far it may be off beside noise: the standard deviation of its logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counted {
    pub(super) point: Point,
    pub(super) deviation: f64,
}

/// Misses per 1000 instructions at a size: the mean and its standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MissEstimate {
    pub(super) mpki: f64,
    pub(super) deviation: f64,
}

/// A curve of the family.
#[derive(Debug, Clone, Copy)]
struct Curve {
    /// Which of the shapes its far working set has.
    shape: usize,
    far: f64,
    floor: f64,
    weight: f64,
}

impl Curve {
    /// Misses per reference where the shape has this share.
    fn misses(&self, share: f64) -> f64 {
        self.far * (self.floor + (1.0 - self.floor) * share)
    }
}

/// The estimate at each of these sizes (bytes), for a program with so many LLC references per 1000
/// instructions whose counted points are these. `llc_bytes` scales the family.
pub(super) fn estimate(
    apki: f64,
    points: &[Counted],
    llc_bytes: f64,
    sizes: &[f64],
) -> Vec<MissEstimate> {
    let shapes: Vec<(f64, f64)> = SCALES
        .flat_map(|scale| EXPONENTS.map(|exponent| (llc_bytes * f64::from(scale).exp2(), exponent)))
        .collect();
    let at_points: Vec<Vec<f64>> = points
        .iter()
        .map(|one| shapes.iter().map(|&shape| share(shape, one.point.bytes)).collect())
        .collect();
    let mut curves = Vec::new();
    for shape in 0..shapes.len() {
        for far in (0..FARS).map(|half| 10_f64.powf(-0.5 * f64::from(half))) {
            for floor in FLOORS {
                let mut curve = Curve { shape, far, floor, weight: 0.0 };
                let error = |(one, shares): (&Counted, &Vec<f64>)| {
                    let here = apki * curve.misses(shares[shape]);
                    ((here + LEAST_MPKI) / (one.point.mpki + LEAST_MPKI)).ln()
                        / TOLERANCE.hypot(one.deviation)
                };
                let errors = points.iter().zip(&at_points).map(error);
                curve.weight = -0.5 * errors.map(|error| error.powi(2)).sum::<f64>();
                curves.push(curve);
            }
        }
    }
    // The likeliest has weight 1, so that some weight is left however far all are off.
    let most = curves.iter().map(|one| one.weight).fold(f64::NEG_INFINITY, f64::max);
    curves.iter_mut().for_each(|one| one.weight = (one.weight - most).exp());
    curves.retain(|one| one.weight > LEAST_WEIGHT);
    let total: f64 = curves.iter().map(|one| one.weight).sum();
    let at = |&size: &f64| {
        let shares: Vec<f64> = shapes.iter().map(|&shape| share(shape, size)).collect();
        let values = || curves.iter().map(|one| (apki * one.misses(shares[one.shape]), one.weight));
        let mean = values().map(|(value, weight)| value * weight).sum::<f64>() / total;
        let variance = values().map(|(value, weight)| (value - mean).powi(2) * weight).sum::<f64>();
        MissEstimate { mpki: mean, deviation: (variance / total).sqrt() }
    };
    sizes.iter().map(at).collect()
}

/// The share of a working set's references that miss with so many bytes.
fn share((scale, exponent): (f64, f64), bytes: f64) -> f64 {
    1.0 / (1.0 + (bytes.max(0.0) / scale).powf(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;

    fn at(bytes: f64, mpki: f64) -> Counted {
        Counted { point: Point { bytes, mpki }, deviation: 0.0 }
    }

    /// A curve of the family, counted at three sizes, is found again at sizes in between, and less surely
    /// beyond.
    #[test]
    fn a_curve_is_found_again_from_three_points() {
        let truth = |bytes| 20.0 * (0.1 + 0.9 * share((2.0 * MIB, 1.5), bytes));
        let points = [1.0, 3.0, 6.0].map(|size| at(size * MIB, truth(size * MIB)));
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
        let points = [at(4.0 * MIB, 30.0)];
        let found = estimate(30.0, &points, 8.0 * MIB, &[MIB, 8.0 * MIB]);
        assert!(found[0].mpki / found[1].mpki < 1.4, "{found:?}");
    }

    /// One point in the middle: the estimate passes through it, and its error is least there.
    #[test]
    fn the_error_is_least_where_it_was_counted() {
        let points = [at(2.0 * MIB, 5.0)];
        let found = estimate(20.0, &points, 8.0 * MIB, &[0.5 * MIB, 2.0 * MIB, 8.0 * MIB]);
        assert!((found[1].mpki - 5.0).abs() < 0.5, "{found:?}");
        assert!(found[1].deviation < found[0].deviation && found[1].deviation < found[2].deviation);
        assert!(found[0].mpki > found[1].mpki && found[1].mpki > found[2].mpki);
    }

    /// 80 references of which nearly all stay in the first level's reach, and 1.4 misses with 2 MB. Both 1.4 and ten
    /// times as many with a quarter of that are within two deviations: one point says nothing of the fall.
    #[test]
    fn few_misses_may_stay_few() {
        let found = estimate(80.0, &[at(2.0 * MIB, 1.4)], 4.0 * MIB, &[0.5 * MIB]);
        let within = |mpki: f64| (mpki - found[0].mpki).abs() < 2.0 * found[0].deviation;
        assert!(within(1.4) && within(11.0), "{found:?}");
        assert!(found[0].mpki < 5.0, "{found:?}");
    }

    #[test]
    fn points_that_no_curve_passes_leave_a_figure() {
        let points = [at(MIB, 500.0), at(4.0 * MIB, 0.0)];
        let found = estimate(1.0, &points, 8.0 * MIB, &[MIB]);
        assert!(found[0].mpki.is_finite() && found[0].deviation.is_finite());
    }
}
