//! Distances from bursts: what share of the accesses lies at least so deep.
//!
//! In a burst every access is seen, but none before it. An access to a line that the burst has
//! seen has an exact distance; of one to another line only is known that it lies at least as deep
//! as the burst has seen lines. That is a censored observation, and the estimator of Kaplan and
//! Meier (JASA 53, 1958) uses all there is of it: of the accesses known to lie at least d deep, and
//! whose burst had seen more lines than that, the share that lay exactly there. How far a burst has
//! come does not depend on how deep its accesses lie, as it begins anywhere.

/// Accesses by place: first the positions of the front, then the buckets behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Accesses of a known distance, by the place they lay at.
    pub(super) found: (&'a [u64], &'a [u64]),
    /// Accesses of which only is known that they lay at this place or deeper.
    pub(super) left: (&'a [u64], &'a [u64]),
    /// First accesses of all.
    pub(super) lasting: u64,
}

/// Of a cache that holds all places before one and it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Survival {
    /// The share of all accesses that miss.
    pub(super) share: f64,
    /// The share of those that was seen to.
    pub(super) observed: f64,
}

impl Seen<'_> {
    pub(super) fn accesses(&self) -> u64 {
        let sum = |(front, deep): (&[u64], &[u64])| front.iter().chain(deep).sum::<u64>();
        sum(self.found) + sum(self.left) + self.lasting
    }

    /// Behind each place in turn.
    pub(super) fn survivals(&self) -> impl Iterator<Item = Survival> + '_ {
        let all = self.accesses() as f64;
        let mut at_risk = self.accesses();
        let mut share = 1.0;
        let places = |(front, deep): (&'_ [u64], &'_ [u64])| {
            front.iter().chain(deep).copied().collect::<Vec<u64>>()
        };
        let found = places(self.found);
        let left = places(self.left);
        found.into_iter().zip(left).map(move |(found, left)| {
            at_risk -= left;
            if at_risk > 0 {
                share *= (at_risk - found) as f64 / at_risk as f64;
            }
            at_risk -= found;
            let surviving = share * all;
            let observed = if surviving > 0.0 { at_risk as f64 / surviving } else { 1.0 };
            Survival { share, observed: observed.min(1.0) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_early_is_taken_to_do_as_the_rest() {
        // 10 accesses: 4 at place 0; 2 of which only is known that they lay behind it; of the 4
        // others one at place 1, one at place 2, and two beyond.
        let seen = Seen { found: (&[4, 1], &[1]), left: (&[0, 2], &[0]), lasting: 2 };
        let survivals: Vec<Survival> = seen.survivals().collect();
        assert_eq!(seen.accesses(), 10);
        assert_eq!(survivals[0], Survival { share: 0.6, observed: 1.0 });
        assert!((survivals[1].share - 0.6 * 0.75).abs() < 1e-12);
        assert!((survivals[1].observed - 3.0 / 4.5).abs() < 1e-12);
        assert!((survivals[2].share - 0.3).abs() < 1e-12);
    }

    #[test]
    fn without_gaps_it_counts() {
        let seen = Seen { found: (&[5, 0, 3], &[1]), left: (&[0; 3], &[0]), lasting: 1 };
        let shares: Vec<f64> = seen.survivals().map(|one| one.share).collect();
        for (share, expected) in shares.iter().zip([0.5, 0.5, 0.2, 0.1]) {
            assert!((share - expected).abs() < 1e-12);
        }
    }
}
