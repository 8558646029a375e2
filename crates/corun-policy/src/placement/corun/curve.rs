//! A program's misses by cache size, estimated from what was counted at the sizes that it happened to hold.
//!
//! Behind the private cache a program misses as often as it refers to the LLC; every size that it holds more takes some
//! misses away. The logarithm of the misses is taken to fall by steps at random as the size grows, those on intervals
//! that do not overlap being independent and never negative (a gamma process; each step is a working set that begins
//! to fit). How fast it falls on average is known of recorded programs ([`fall`]).
//!
//! Between two sizes whose misses are known, the part of the fall that lies below a size in between has a beta
//! distribution (Ferguson, "A Bayesian Analysis of Some Nonparametric Problems", Annals of Statistics 1(2), 1973). Its
//! mean is in proportion to [`fall`], which makes the misses a power of the size (Chow, "On Optimization of Storage
//! Hierarchies", IBM Journal of Research and Development 18(3), 1974). Beyond the largest size the misses go on to
//! fall as they did until there, as far as that was seen, else as those of other programs do. The estimate is sharp at
//! sizes that were held, exact at the private cache, and wide elsewhere, but no wider than the fall between its
//! neighbours.

/// By how much the logarithm of the misses falls, on average over programs, where a size grows by a factor of e: below
/// the knee as its inverse, where most working sets of inner loops end, above as its square root. Means over the
/// recorded programs on which thresholds are chosen: 1.07 from 32 to 256 KiB, 0.49 from there to 32 MiB.
const FALL_BELOW: f64 = 1.0;
const FALL_ABOVE: f64 = 0.5;
const KNEE_BYTES: f64 = 256.0 * 1024.0;
/// A size below which nothing is asked about.
const LEAST_BYTES: f64 = 1024.0;
/// Steps in which the logarithm falls by 1 on average: few and large ones. With so many the errors at other sizes of
/// the programs on which thresholds are chosen are as large as the estimate says.
const STEPS: f64 = 2.0;
/// What other programs say of how steep a curve is weighs as much as a fall of 1 that was seen.
const PRIOR_FALL: f64 = 1.0;
/// By how much, as a share, counted misses may be off beside phases: noise.
const TOLERANCE: f64 = 0.1;
/// Misses per 1000 instructions below which nothing is told apart.
pub(super) const LEAST_MPKI: f64 = 0.05;

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

/// The cache in front of the LLC, behind which references to the LLC are counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PrivateCache {
    pub(super) bytes: f64,
    /// Is what it holds in the LLC, too?
    pub(super) is_in_llc: bool,
}

impl PrivateCache {
    /// How far ([`fall`]) misses have fallen on average with so many bytes of the LLC.
    fn fall_with(self, llc_bytes: f64) -> f64 {
        let both = if self.is_in_llc { self.bytes.max(llc_bytes) } else { self.bytes + llc_bytes };
        fall(both)
    }
}

/// By how much the logarithm of misses has fallen at a size, on average over programs, counted from 1 KiB.
fn fall(bytes: f64) -> f64 {
    let bytes = bytes.max(LEAST_BYTES);
    let below = (bytes.min(KNEE_BYTES) / LEAST_BYTES).ln();
    FALL_BELOW * below + FALL_ABOVE * (bytes.max(KNEE_BYTES) / KNEE_BYTES).ln()
}

/// The logarithm of misses at a size, the mean and the variance.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Level {
    /// The size, as the fall of the average program until there.
    fall: f64,
    mean: f64,
    variance: f64,
}

/// The levels that are known, by size; the first is that of the private cache.
struct Levels(Vec<Level>);

impl Levels {
    /// How many are at most of this size: one at least.
    fn until(&self, fall: f64) -> usize {
        self.0.partition_point(|one| one.fall <= fall).max(1)
    }

    /// What the known levels say of another size.
    fn at(&self, fall: f64) -> Level {
        let until = self.until(fall);
        let (first, below) = (self.0[0], self.0[until - 1]);
        let more = (fall - below.fall).max(0.0);
        let Some(above) = self.0.get(until) else {
            // The steepness is known as well as the fall that it was seen over is long.
            let seen = below.fall - first.fall + PRIOR_FALL;
            let steepness = (first.mean - below.mean + PRIOR_FALL) / seen;
            let unsure = more / STEPS + more.powi(2) / (STEPS * seen);
            let mean = below.mean - steepness * more;
            return Level { fall, mean, variance: steepness.powi(2) * unsure + below.variance };
        };
        let (length, falls) = (above.fall - below.fall, below.mean - above.mean);
        let part = more / length;
        let of_beta = part * (1.0 - part) / (STEPS * length + 1.0);
        let of_ends = (1.0 - part).powi(2) * below.variance + part.powi(2) * above.variance;
        let mean = below.mean - part * falls;
        Level { fall, mean, variance: falls.powi(2) * of_beta + of_ends }
    }

    /// Takes in a size that was counted: its misses weigh as they are sure, against what surer sizes say of it.
    fn take(&mut self, counted: Level) {
        let known = self.at(counted.fall);
        let all = known.variance + counted.variance;
        let weight = if all > 0.0 { known.variance / all } else { 0.0 };
        let until = self.until(counted.fall);
        // More cache never makes more misses.
        let most = self.0[until - 1].mean;
        let least = self.0.get(until).map_or(f64::NEG_INFINITY, |above| above.mean);
        let mean = known.mean + weight * (counted.mean - known.mean);
        let mean = mean.min(most).max(least);
        let level = Level { fall: counted.fall, mean, variance: weight * counted.variance };
        if self.0[until - 1].fall < counted.fall {
            self.0.insert(until, level);
        } else if until > 1 {
            self.0[until - 1] = level;
        }
    }

    /// Misses at a size: the mean and the standard deviation of a log-normal distribution. Neither is more than the
    /// misses at the next smaller size that is known.
    fn estimate(&self, fall: f64) -> MissEstimate {
        let Level { mean, variance, .. } = self.at(fall);
        let most = self.0[self.until(fall) - 1].mean.exp();
        let misses = (mean + 0.5 * variance).exp().min(most);
        let deviation = (misses * (variance.exp() - 1.0).sqrt()).min(most);
        MissEstimate { mpki: (misses - LEAST_MPKI).max(0.0), deviation }
    }
}

/// The estimate with so many bytes of the LLC each, for a program with so many LLC references per 1000 instructions
/// whose counted points are these.
pub(super) fn estimate(
    apki: f64,
    points: &[Counted],
    private: PrivateCache,
    sizes: &[f64],
) -> Vec<MissEstimate> {
    let level = |mpki: f64| (mpki.min(apki) + LEAST_MPKI).ln();
    let private_level = Level { fall: fall(private.bytes), mean: level(apki), variance: 0.0 };
    let mut levels = Levels(vec![private_level]);
    let mut points = points.to_vec();
    points.sort_by(|one, other| one.deviation.total_cmp(&other.deviation));
    for Counted { point, deviation } in points {
        levels.take(Level {
            fall: private.fall_with(point.bytes),
            mean: level(point.mpki),
            variance: TOLERANCE.powi(2) + deviation.powi(2),
        });
    }
    sizes.iter().map(|&size| levels.estimate(private.fall_with(size))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1048576.0;
    const HALF_MIB: PrivateCache = PrivateCache { bytes: 0.5 * MIB, is_in_llc: true };

    fn at(bytes: f64, mpki: f64) -> Counted {
        Counted { point: Point { bytes, mpki }, deviation: 0.0 }
    }

    /// 32 references behind 0.5 MiB and 2 misses with 8: a fall by ln 16 over ln 16, as the inverse. At 2 MiB half of
    /// it is expected, 8 misses; the other half has a beta distribution with 2 x 0.5 ln 16 = 2.77 steps, a variance of
    /// 0.25 / 3.77 of ln 16 squared, 0.51. Noise of a tenth at 8 MiB gives a quarter of 0.01.
    #[test]
    fn between_two_sizes_misses_are_a_power_of_the_size_as_worked_by_hand() {
        let points = [at(8.0 * MIB, 2.0)];
        let found = estimate(32.0, &points, HALF_MIB, &[0.5 * MIB, 2.0 * MIB, 8.0 * MIB]);
        assert!((found[0].mpki - 32.0).abs() < 1e-9 && found[0].deviation == 0.0, "{found:?}");
        let variance = 16_f64.ln().powi(2) * 0.25 / (16_f64.ln() + 1.0) + 0.0025;
        assert!((found[1].mpki - 8.0 * (variance / 2.0).exp()).abs() < 0.25, "{found:?}");
        assert!((found[1].deviation / found[1].mpki - (variance.exp() - 1.0).sqrt()).abs() < 0.02);
        assert!((found[2].mpki - 2.0).abs() < 0.05 && found[2].deviation < 0.25, "{found:?}");
    }

    /// Half as many misses with 2 MiB as behind 0.5 MiB are a fall by ln 2 over ln 4 of size, as the square root: a
    /// program like others. Beyond, the misses go on to fall so: 1 / sqrt(4) at 8 MiB.
    #[test]
    fn beyond_the_largest_size_misses_fall_on_as_worked_by_hand() {
        let points = [at(2.0 * MIB, 16.0)];
        let [found] = estimate(32.0, &points, HALF_MIB, &[8.0 * MIB])[..] else { panic!("one") };
        let more = 2_f64.ln();
        let variance = more / 2.0 + more * more / (2.0 * (more + 1.0)) + 0.01;
        assert!((found.mpki - 8.0 * (variance / 2.0).exp()).abs() < 0.3, "{found:?} {variance}");
    }

    /// What the private cache holds beside the LLC is held with any size of the LLC.
    #[test]
    fn a_private_cache_outside_of_the_llc_is_more_cache() {
        let outside = PrivateCache { is_in_llc: false, ..HALF_MIB };
        let within = estimate(32.0, &[at(4.0 * MIB, 4.0)], HALF_MIB, &[0.5 * MIB, MIB]);
        let beside = estimate(32.0, &[at(3.5 * MIB, 4.0)], outside, &[0.0, 0.5 * MIB]);
        assert_eq!(within, beside);
    }

    /// A curve of two working sets, counted at three sizes, is found again at sizes in between, and less surely beyond.
    #[test]
    fn a_curve_is_found_again_from_three_points() {
        let truth = |bytes: f64| 2.0 + 18.0 / (1.0 + (bytes / (2.0 * MIB)).powf(1.5));
        let points = [1.0, 3.0, 6.0].map(|size| at(size * MIB, truth(size * MIB)));
        let sizes = [2.0, 5.0, 16.0].map(|size| size * MIB);
        let found = estimate(truth(0.5 * MIB), &points, HALF_MIB, &sizes);
        for (one, &size) in found.iter().zip(&sizes).take(2) {
            assert!((one.mpki / truth(size) - 1.0).abs() < 0.1, "{one:?} {}", truth(size));
        }
        let relative = |one: &MissEstimate| one.deviation / one.mpki;
        assert!(relative(&found[2]) > 2.0 * relative(&found[1]), "{found:?}");
    }

    /// A program that misses whenever it refers to the LLC does so at any smaller size.
    #[test]
    fn a_stream_is_flat() {
        let points = [at(4.0 * MIB, 30.0)];
        let found = estimate(30.0, &points, HALF_MIB, &[MIB, 4.0 * MIB, 5.0 * MIB]);
        assert!(found[0].mpki / found[2].mpki < 1.1 && found[0].deviation < 2.0, "{found:?}");
    }

    /// A size that was held in one phase says little where others say much, and all where they say nothing.
    #[test]
    fn a_size_weighs_as_it_is_sure() {
        let unsure = Counted { deviation: 1.0, ..at(2.0 * MIB, 10.0) };
        let alone = estimate(32.0, &[unsure], HALF_MIB, &[2.0 * MIB]);
        let sure = [at(1.9 * MIB, 5.0), unsure, at(2.1 * MIB, 4.8)];
        let beside = estimate(32.0, &sure, HALF_MIB, &[2.0 * MIB]);
        assert!(alone[0].mpki > 8.0 && beside[0].mpki < 5.1, "{alone:?} {beside:?}");
        assert!(alone[0].deviation > 5.0 * beside[0].deviation, "{alone:?} {beside:?}");
    }

    /// Counts that contradict each other, that exceed the references, and sizes that are none leave figures.
    #[test]
    fn points_that_no_curve_passes_leave_a_figure() {
        let points = [at(MIB, 0.0), at(4.0 * MIB, 500.0), at(4.0 * MIB, 1.0), at(0.0, 3.0)];
        let none = PrivateCache { bytes: 0.0, is_in_llc: false };
        for private in [HALF_MIB, none] {
            let found = estimate(1.0, &points, private, &[0.0, MIB, 8.0 * MIB]);
            for one in found {
                assert!((0.0..=1.1).contains(&one.mpki) && one.deviation.is_finite(), "{one:?}");
            }
        }
    }
}
