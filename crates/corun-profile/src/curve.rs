//! Miss-rate curves.

use serde::{Deserialize, Serialize};

use crate::figures::MOST_PKI;

/// By so large a share the step of a loop that touches all of a footprint may lie beyond it in a recorded curve: two
/// standard errors of the counted footprint (1.6 % each) and a step of the curve's sizes, of which there are 64 a
/// doubling.
const BEYOND_FOOTPRINT: f64 = 2.0 * 0.016 + 1.0 / 64.0;

/// A miss-rate curve: misses per 1000 instructions (MPKI) against cache size in bytes, linear
/// between its points.
///
/// Outside the measured range it is extended, and what is read there is marked. Above the largest
/// size the last value holds (a working set that was not reached is not guessed at). Below the
/// smallest size the curve follows the power law through its first two points, `mpki ~ size^-a`
/// with `a` in 0..=1 (the square-root rule is a = 0.5: Hartstein et al., JILP 2008, "On the nature
/// of cache miss behavior"), so that half the cache at most doubles the misses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<CurvePoint>", into = "Vec<CurvePoint>")]
pub struct MissRateCurve {
    points: Vec<CurvePoint>,
}

/// A point of a miss-rate curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurvePoint {
    /// Cache size in bytes.
    pub bytes: u64,
    /// Misses per 1000 instructions.
    pub mpki: f64,
}

/// A figure read off a curve or table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The value.
    pub value: f64,
    /// Was it read outside the measured range?
    pub extrapolated: bool,
}

/// Why points are no curve.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CurveError {
    /// There is no point.
    #[error("a miss-rate curve needs at least one point")]
    Empty,
    /// Sizes do not rise.
    #[error("curve sizes must rise: {after} bytes stands after {before}")]
    Order {
        /// Index of the point.
        index: usize,
        /// The size before.
        before: u64,
        /// The size after it.
        after: u64,
    },
    /// A rate is negative or not a number.
    #[error("the miss rate at {bytes} bytes is {mpki:?}: expected a number from 0 to 1e9")]
    Rate {
        /// Index of the point.
        index: usize,
        /// The size.
        bytes: u64,
        /// What was found.
        mpki: f64,
    },
    /// A size of zero.
    #[error("a curve point at 0 bytes: expected sizes above 0")]
    ZeroSize {
        /// Index of the point.
        index: usize,
    },
}

impl MissRateCurve {
    /// Checks the points and makes a curve of them.
    ///
    /// # Errors
    /// [`CurveError`] when there is no point, a size is zero or does not rise, or a rate is
    /// negative or not finite.
    pub fn new(points: Vec<CurvePoint>) -> Result<Self, CurveError> {
        if points.is_empty() {
            return Err(CurveError::Empty);
        }
        let mut before = 0;
        for (index, &CurvePoint { bytes, mpki }) in points.iter().enumerate() {
            if bytes == 0 {
                return Err(CurveError::ZeroSize { index });
            }
            if bytes <= before {
                return Err(CurveError::Order { index, before, after: bytes });
            }
            if !(0.0..=MOST_PKI).contains(&mpki) {
                return Err(CurveError::Rate { index, bytes, mpki });
            }
            before = bytes;
        }
        Ok(Self { points })
    }

    /// A curve of points that the caller has checked: at least one, sizes above 0 and rising,
    /// rates from 0 to [`MOST_PKI`].
    pub(crate) fn from_checked(points: Vec<CurvePoint>) -> Self {
        debug_assert!(Self::new(points.clone()).is_ok());
        Self { points }
    }

    /// The measured points by rising size.
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// The miss rate at a cache size. Below one line of 64 bytes, and for NaN, that of one line.
    pub fn mpki(&self, bytes: f64) -> Reading {
        let first = self.points[0];
        let last = self.points[self.points.len() - 1];
        if bytes < first.bytes as f64 || bytes.is_nan() {
            return Reading { value: self.below(bytes), extrapolated: true };
        }
        if bytes >= last.bytes as f64 {
            return Reading { value: last.mpki, extrapolated: bytes > last.bytes as f64 };
        }
        let above = self.points.partition_point(|point| point.bytes as f64 <= bytes);
        let (low, high) = (self.points[above - 1], self.points[above]);
        let part = (bytes - low.bytes as f64) / (high.bytes - low.bytes) as f64;
        Reading { value: low.mpki + part * (high.mpki - low.mpki), extrapolated: false }
    }

    /// The sum of both at the sizes of either.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let points = self.points.iter().chain(&other.points);
        let mut sizes: Vec<u64> = points.map(|point| point.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let sum = |bytes: u64| {
            let [one, more] = [self, other].map(|curve| curve.mpki(bytes as f64).value);
            CurvePoint { bytes, mpki: (one + more).min(MOST_PKI) }
        };
        Self::from_checked(sizes.into_iter().map(sum).collect())
    }

    /// The curve of what touches so many distinct bytes: at that size it has the rate of a little more. The cache holds
    /// all there, and a loop through all of it misses no more, but curve and footprint are both recorded with an error.
    #[must_use]
    pub fn with_footprint(&self, bytes: u64) -> Self {
        let [first, second, .., last] = &self.points[..] else { return self.clone() };
        // The first two points tell what lies below them, and that stays as it is: between them another one keeps their rate.
        let is_between = bytes <= second.bytes;
        let keeps = !is_between || (bytes > first.bytes + 1 && first.mpki == second.mpki);
        if !keeps || bytes >= last.bytes {
            return self.clone();
        }
        let flat_to = is_between.then(|| CurvePoint { bytes: bytes - 1, mpki: first.mpki });
        let beyond = bytes as f64 * (1.0 + BEYOND_FOOTPRINT);
        let at = CurvePoint { bytes, mpki: self.mpki(beyond).value };
        let below = self.points.iter().filter(|point| point.bytes < bytes);
        let above = self.points.iter().filter(|point| point.bytes as f64 > beyond);
        Self::from_checked(below.chain(&flat_to).chain([&at]).chain(above).copied().collect())
    }

    fn below(&self, bytes: f64) -> f64 {
        let first = self.points[0];
        let Some(&second) = self.points.get(1) else { return first.mpki };
        if first.mpki <= 0.0 || second.mpki <= 0.0 {
            return first.mpki;
        }
        let slope =
            (first.mpki / second.mpki).ln() / (second.bytes as f64 / first.bytes as f64).ln();
        first.mpki * (first.bytes as f64 / bytes.max(64.0)).powf(slope.clamp(0.0, 1.0))
    }
}

impl TryFrom<Vec<CurvePoint>> for MissRateCurve {
    type Error = CurveError;

    fn try_from(points: Vec<CurvePoint>) -> Result<Self, CurveError> {
        Self::new(points)
    }
}

impl From<MissRateCurve> for Vec<CurvePoint> {
    fn from(curve: MissRateCurve) -> Self {
        curve.points
    }
}

#[cfg(test)]
#[path = "curve_tests.rs"]
mod tests;
