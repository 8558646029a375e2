//! Values of clusters at the corners of a box of pressures, such that their sum bounds every
//! partition whose pressure lies in the box.
//!
//! Each value is a weighted sum of functions of the pressure x, each convex or concave throughout.
//! A convex term is taken as it is; a concave one by its tangent in the middle of the box, which
//! lies above it. Their sum over a partition is convex in x and at least the value, so that the
//! value anywhere in the box is at most the higher of the two at the ends.

use crate::partition::bandwidth_coupling::{BandwidthCoupling, SlowdownLine};
use crate::partition::cluster_set::Set;
use crate::partition::completion::ClusterValues;
use crate::partition::table::{SlowdownLines, Table};

/// A value of each program, as weights of functions of the pressure.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Weights {
    /// Of 1 / slowdown.
    pub(crate) inverse: f64,
    pub(crate) slowdown: f64,
    /// Of the slowdown squared.
    pub(crate) square: f64,
    /// Of what it draws of the peak, by program; empty: none.
    pub(crate) bandwidth: Vec<f64>,
    /// Of its side of the balance.
    pub(crate) draw: f64,
}

/// Where values are taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Corner {
    /// The end of the box.
    pub(crate) x: f64,
    /// Its middle, where tangents touch.
    pub(crate) middle: f64,
}

/// A function of the pressure that a value is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Inverse,
    Slowdown,
    Square,
    Bandwidth,
    Draw,
}

impl Term {
    /// Is it convex in the pressure (else concave)? With y concave (Morad): 1 / (a + c y) convex,
    /// a + c y concave, its square a^2 + 2 a c y + c^2 (1 + o x) concave, (y - 1) / 2 concave,
    /// (y - 1) / (2 x) = o / (2 (1 + y)) convex. KPart's rule: y convex, 1 / y linear, then convex. Latency that
    /// rises with traffic: y = x, L / x convex, L (x - b) / x concave.
    fn is_convex(self, law: BandwidthCoupling) -> bool {
        match law {
            BandwidthCoupling::Free | BandwidthCoupling::Simple => true,
            BandwidthCoupling::Morad => matches!(self, Self::Inverse | Self::Bandwidth),
            BandwidthCoupling::Loaded { .. } => !matches!(self, Self::Draw),
        }
    }

    #[inline]
    fn at(self, law: BandwidthCoupling, line: SlowdownLine, x: f64) -> f64 {
        let y = law.y(line.load, x);
        let slowdown = line.a + line.c * y;
        match self {
            Self::Inverse => 1.0 / slowdown,
            Self::Slowdown => slowdown,
            Self::Square => slowdown * slowdown,
            Self::Bandwidth => law.bandwidth(line.load, y),
            Self::Draw => law.draw(line.load, x, y),
        }
    }

    #[inline]
    fn slope(self, law: BandwidthCoupling, line: SlowdownLine, x: f64) -> f64 {
        let y = law.y(line.load, x);
        let slowdown = line.a + line.c * y;
        let slope = line.c * law.y_slope(line.load, x, y);
        match self {
            Self::Inverse => -slope / (slowdown * slowdown),
            Self::Slowdown => slope,
            Self::Square => 2.0 * slowdown * slope,
            Self::Draw => law.draw_slope(line.load, x, y),
            Self::Bandwidth => match law {
                BandwidthCoupling::Free => 0.0,
                BandwidthCoupling::Morad => {
                    -0.5 * line.load * law.y_slope(line.load, x, y) / ((1.0 + y) * (1.0 + y))
                }
                BandwidthCoupling::Simple => law.draw_slope(line.load, x, y),
                BandwidthCoupling::Loaded { .. } => -line.load / (x * x),
            },
        }
    }
}

impl Weights {
    fn terms(&self, program: usize) -> impl Iterator<Item = (Term, f64)> {
        let bandwidth = self.bandwidth.get(program).copied().unwrap_or(0.0);
        [
            (Term::Inverse, self.inverse),
            (Term::Slowdown, self.slowdown),
            (Term::Square, self.square),
            (Term::Bandwidth, bandwidth),
            (Term::Draw, self.draw),
        ]
        .into_iter()
        .filter(|&(_, weight)| weight != 0.0)
    }

    /// The value of these programs, without bounds, and without the balance.
    pub(crate) fn value(&self, law: BandwidthCoupling, lines: &[SlowdownLine], x: f64) -> f64 {
        let of = |(program, &line): (usize, &SlowdownLine)| -> f64 {
            let terms = self.terms(program).filter(|&(term, _)| term != Term::Draw);
            terms.map(|(term, weight)| weight * term.at(law, line, x)).sum()
        };
        lines.iter().enumerate().map(of).sum()
    }

    /// Its slope in x.
    pub(crate) fn value_slope(
        &self,
        law: BandwidthCoupling,
        lines: &[SlowdownLine],
        x: f64,
    ) -> f64 {
        let of = |(program, &line): (usize, &SlowdownLine)| -> f64 {
            let terms = self.terms(program).filter(|&(term, _)| term != Term::Draw);
            terms.map(|(term, weight)| weight * term.slope(law, line, x)).sum()
        };
        lines.iter().enumerate().map(of).sum()
    }

    /// The values of these sets at a corner, but for those that `may` refuses (by the number of
    /// ways).
    pub(crate) fn values(
        &self,
        table: &Table,
        corner: Corner,
        sets: &[Set],
        may: impl Fn(Set, &mut [f64]) + Sync,
    ) -> ClusterValues {
        ClusterValues::fill(table.cluster_set, sets, |set, values| {
            let programs = table.cluster_set.programs_of(set);
            for (program, lines) in programs.zip(table.row(set).members()) {
                for (term, weight) in self.terms(program) {
                    add(table.law, term, weight, lines, corner, values);
                }
            }
            may(set, values);
        })
    }
}

fn add(
    law: BandwidthCoupling,
    term: Term,
    weight: f64,
    lines: SlowdownLines<'_>,
    corner: Corner,
    values: &mut [f64],
) {
    let each = values.iter_mut().zip(lines.a).zip(lines.c).zip(lines.load);
    let each = each.map(|(((value, &a), &c), &load)| (value, SlowdownLine { a, c, load }));
    let x = corner.x;
    if (weight > 0.0) == term.is_convex(law) {
        match (law, term) {
            // The two that matter most, plain enough to be vectorised.
            (BandwidthCoupling::Morad, Term::Inverse) => each.for_each(|(value, line)| {
                *value += weight / (line.a + line.c * (1.0 + line.load * x).sqrt());
            }),
            (BandwidthCoupling::Morad, Term::Slowdown) => each.for_each(|(value, line)| {
                *value += weight * (line.a + line.c * (1.0 + line.load * x).sqrt());
            }),
            (BandwidthCoupling::Morad, Term::Draw) => each.for_each(|(value, line)| {
                *value += weight * 0.5 * ((1.0 + line.load * x).sqrt() - 1.0);
            }),
            _ => each.for_each(|(value, line)| *value += weight * term.at(law, line, x)),
        }
        return;
    }
    let (middle, step) = (corner.middle, corner.x - corner.middle);
    each.for_each(|(value, line)| {
        let tangent = term.at(law, line, middle) + step * term.slope(law, line, middle);
        *value += weight * tangent;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: [Term; 5] =
        [Term::Inverse, Term::Slowdown, Term::Square, Term::Bandwidth, Term::Draw];

    proptest::proptest! {
        /// Convex terms lie below their chords and above their tangents, concave ones the other
        /// way round.
        #[test]
        fn terms_bend_as_is_said(
            solo in 0.98..3.0f64,
            part in 0.0..1.0f64,
            share in 0.001..0.95f64,
            ends in (1.0..30.0f64, 1.0..30.0f64),
            at in 0.0..1.0f64,
            queueing in 1e-3..0.95f64,
        ) {
            let laws = [
                BandwidthCoupling::Morad,
                BandwidthCoupling::Simple,
                BandwidthCoupling::Loaded { queueing },
            ];
            for law in laws {
                // KPart's rule goes with B / B' itself.
                let per_ratio = if law == BandwidthCoupling::Simple { solo } else { solo * part };
                let line = law.line(solo, per_ratio, share, share);
                let scale = if law == BandwidthCoupling::Simple { 0.1 } else { 1.0 };
                let (low, high) = (ends.0.min(ends.1) * scale, ends.0.max(ends.1) * scale);
                let (x, middle) = (low + at * (high - low), 0.5 * (low + high));
                for term in TERMS {
                    let of = |x| term.at(law, line, x);
                    let chord = of(low) + at * (of(high) - of(low));
                    let tangent = of(middle) + (x - middle) * term.slope(law, line, middle);
                    let room = 1e-9 * (1.0 + of(x).abs());
                    let sign = if term.is_convex(law) { 1.0 } else { -1.0 };
                    proptest::prop_assert!(sign * (chord - of(x)) >= -room, "{law:?} {term:?}");
                    proptest::prop_assert!(sign * (of(x) - tangent) >= -room, "{law:?} {term:?}");
                }
            }
        }
    }
}
