//! Classification schemes: what two programs that share a cache do to each other, estimated from
//! each one's solo figures alone (Blagodurov, Zhuravlev and Fedorova, ACM TOCS 28(4), 2010, section
//! 2.2). They rank pairs for a scheduler that cannot run them all; they know nothing of time,
//! bandwidth or latency, which is what sets them apart from the model itself.

mod animal;

pub use animal::{AnimalClass, AnimalClasses, AnimalFileError};

use crate::WaysFigures;

/// Misses per 1000 instructions below which SDC counts a program's own misses as these: relative
/// to none at all every extra miss would be infinitely many.
const LEAST_SOLO_MPKI: f64 = 1e-3;

/// A program's stack-distance profile at an LLC: where in the LRU stack its references hit.
#[derive(Debug, Clone, PartialEq)]
pub struct StackDistances {
    /// By LRU position from the most recently used: hits per 1000 instructions. One a way.
    pub hits_pki: Vec<f64>,
    /// References that miss with all ways, per 1000 instructions.
    pub misses_pki: f64,
}

impl StackDistances {
    /// From a program's figures with 1, 2, 3 .. ways ([`crate::Model::by_ways`]): what one more way
    /// saves are the hits at its position. A curve that rises somewhere has no hits there.
    pub fn from_ways(figures: &[WaysFigures]) -> Self {
        let references = figures.iter().map(|one| one.llc_apki).fold(0.0, f64::max);
        let mut least = references;
        let hits_pki = figures.iter().map(|one| {
            let hits = (least - one.llc_mpki).max(0.0);
            least -= hits;
            hits
        });
        Self { hits_pki: hits_pki.collect(), misses_pki: least }
    }

    /// References per 1000 instructions.
    pub fn references_pki(&self) -> f64 {
        self.misses_pki + self.hits_pki.iter().sum::<f64>()
    }

    /// Misses per 1000 instructions with so many ways.
    pub fn misses_with(&self, ways: usize) -> f64 {
        self.misses_pki + self.hits_pki.iter().skip(ways).sum::<f64>()
    }

    /// Misses per 1000 instructions with a number of ways that need not be whole, on a straight
    /// line between the neighbours.
    fn misses_at(&self, ways: f64) -> f64 {
        let below = ways.floor();
        let (less, more) = (self.misses_with(below as usize), self.misses_with(below as usize + 1));
        less + (ways - below) * (more - less)
    }

    /// Sensitivity (eq. 1): hits weighed by the probability i / (n + 1) that position i of n is
    /// lost to a neighbour, per 1000 instructions.
    pub fn sensitivity(&self) -> f64 {
        let positions = self.hits_pki.len() as f64;
        let weighed = self.hits_pki.iter().zip(1u32..).map(|(hits, place)| f64::from(place) * hits);
        weighed.sum::<f64>() / (1.0 + positions)
    }

    /// Intensity: references per million instructions.
    pub fn intensity(&self) -> f64 {
        1000.0 * self.references_pki()
    }
}

/// A way to estimate degradations.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheme {
    /// Stack-distance competition (Chandra et al., HPCA 2005; section 2.2.1): extra misses relative to the solo misses,
    /// which is how the section ends.
    Sdc,
    /// The same with the sum of the extra misses, which is how the section begins.
    SdcOfExtraMisses,
    /// Animal classes with a table of symbiosis (Xie and Loh, 2008; section 2.2.2).
    Animal(AnimalClasses),
    /// The product of miss rates (section 2.2.3). Their sum would make every matching equal.
    MissRate,
    /// Sensitivity times intensity (section 2.2.4, eq. 1-3).
    Pain,
    /// Pain with misses for references as the intensity: corun's own, to tell what references that
    /// hit do to the estimate.
    PainOfMisses,
}

impl Scheme {
    /// What each of two programs suffers beside the other, in a unit of the scheme's own: only the order of
    /// sums means anything. The first is the one with the lower index, which wins where both have equal claims.
    pub fn degradations(&self, first: &StackDistances, second: &StackDistances) -> (f64, f64) {
        let both = |of: &dyn Fn(&StackDistances, &StackDistances) -> f64| {
            (of(first, second), of(second, first))
        };
        match self {
            Self::Sdc => sdc(first, second, |program, misses| {
                let solo = program.misses_pki.max(LEAST_SOLO_MPKI);
                (misses.max(solo) - solo) / solo
            }),
            Self::SdcOfExtraMisses => {
                sdc(first, second, |program, misses| misses - program.misses_pki)
            }
            Self::Animal(classes) => both(&|program, neighbour| {
                f64::from(classes.symbiosis(classes.of(program), classes.of(neighbour))) / 2.0
            }),
            Self::MissRate => {
                both(&|program, neighbour| program.misses_pki * neighbour.misses_pki / 2.0)
            }
            Self::Pain => both(&|program, neighbour| program.sensitivity() * neighbour.intensity()),
            Self::PainOfMisses => {
                both(&|program, neighbour| program.sensitivity() * 1000.0 * neighbour.misses_pki)
            }
        }
    }
}

/// What the misses per 1000 instructions of each of two programs, with the ways of one merged profile, are worth.
fn sdc(
    first: &StackDistances,
    second: &StackDistances,
    worth: impl Fn(&StackDistances, f64) -> f64,
) -> (f64, f64) {
    let (of_first, of_second) = sdc_ways(first, second);
    (worth(first, first.misses_at(of_first)), worth(second, second.misses_at(of_second)))
}

/// The ways each of two programs holds by the merged profile: for every position the one with more
/// hits at its own pointer wins it and moves on. Of equals the first wins.
fn sdc_ways(first: &StackDistances, second: &StackDistances) -> (f64, f64) {
    let ways = first.hits_pki.len();
    let hits = |profile: &StackDistances, place: usize| profile.hits_pki.get(place).copied();
    let (mut of_first, mut of_second) = (0, 0);
    for _ in 0..ways {
        if hits(first, of_first) >= hits(second, of_second) {
            of_first += 1;
        } else {
            of_second += 1;
        }
    }
    (of_first as f64, of_second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(hits_pki: &[f64], misses_pki: f64) -> StackDistances {
        StackDistances { hits_pki: hits_pki.to_vec(), misses_pki }
    }

    #[test]
    fn hits_are_what_one_more_way_saves() {
        let at =
            |ways, llc_mpki| WaysFigures { ways, llc_mpki, llc_apki: 20.0, ..Default::default() };
        // The third way makes it worse by 1: no hits there, and the fourth starts from the best.
        let of = StackDistances::from_ways(&[at(1, 12.0), at(2, 5.0), at(3, 6.0), at(4, 4.0)]);
        assert_eq!(of, profile(&[8.0, 7.0, 0.0, 1.0], 4.0));
        assert_eq!((of.references_pki(), of.misses_with(0), of.misses_with(2)), (20.0, 20.0, 5.0));
        assert_eq!((of.misses_at(0.5), of.misses_at(4.0)), (16.0, 4.0));
    }

    #[test]
    fn pain_is_sensitivity_times_intensity() {
        // S = (1 * 8 + 2 * 4) / 3, Z = 1000 * (8 + 4 + 3): eq. 1 on two ways.
        let (one, other) = (profile(&[8.0, 4.0], 3.0), profile(&[1.0, 0.0], 9.0));
        assert!((one.sensitivity() - 16.0 / 3.0).abs() < 1e-12);
        assert_eq!((one.intensity(), other.intensity()), (15_000.0, 10_000.0));
        let (of_one, of_other) = Scheme::Pain.degradations(&one, &other);
        assert!((of_one - 160_000.0 / 3.0).abs() < 1e-6 && (of_other - 5000.0).abs() < 1e-9);
        let (of_one, _) = Scheme::PainOfMisses.degradations(&one, &other);
        assert!((of_one - 48_000.0).abs() < 1e-6);
    }

    #[test]
    fn the_merged_profile_gives_positions_to_whoever_hits_more() {
        // Four positions. First: 9, 6, 1, 1; second: 7, 5, 5, 0. The order of winners is
        // 9 (first), 7 (second), 6 (first), 5 (second): two ways each.
        let (first, second) =
            (profile(&[9.0, 6.0, 1.0, 1.0], 2.0), profile(&[7.0, 5.0, 5.0, 0.0], 4.0));
        assert_eq!(sdc_ways(&first, &second), (2.0, 2.0));
        // The first then misses 2 + 1 + 1 instead of 2, the second 4 + 5 instead of 4.
        assert_eq!(Scheme::Sdc.degradations(&first, &second), (1.0, 1.25));
        assert_eq!(Scheme::SdcOfExtraMisses.degradations(&first, &second), (2.0, 5.0));
    }

    /// Two equal programs on three ways: the first holds two, the second one. No way goes to both.
    #[test]
    fn of_equals_in_the_merged_profile_the_first_wins() {
        let program = profile(&[5.0, 4.0, 3.0], 1.0);
        assert_eq!(sdc_ways(&program, &program), (2.0, 1.0));
        assert_eq!(Scheme::SdcOfExtraMisses.degradations(&program, &program), (3.0, 7.0));
    }

    #[test]
    fn sdc_ignores_how_often_the_other_misses() {
        // What section 2.2.5 names as its weakness: a streaming neighbour takes no position.
        let (reuser, stream) = (profile(&[9.0, 6.0], 1.0), profile(&[0.5, 0.0], 90.0));
        assert_eq!(Scheme::Sdc.degradations(&reuser, &stream).0, 0.0);
        assert!(Scheme::Pain.degradations(&reuser, &stream).0 > 0.0);
    }

    #[test]
    fn a_program_without_misses_of_its_own_has_a_finite_degradation() {
        let (quiet, other) = (profile(&[1.0, 1.0], 0.0), profile(&[5.0, 5.0], 1.0));
        assert_eq!(Scheme::Sdc.degradations(&quiet, &other).0, (2.0 - 1e-3) / 1e-3);
    }

    #[test]
    fn miss_rates_multiply() {
        let (one, other) = (profile(&[1.0], 3.0), profile(&[0.0], 8.0));
        let (of_one, of_other) = Scheme::MissRate.degradations(&one, &other);
        assert_eq!(of_one + of_other, 24.0);
    }
}
