//! What recordings' predictors make of branches that do the same again and again: how good a core's own predictor is
//! shows beside it.

use super::predictor::Predictor;
use super::tage::Tage;
use crate::block::{Block, Exit};

/// Bytes from one branch to the next.
const APART: u64 = 32;

/// Shares of mispredicted branches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MispredictedShares {
    /// By the small predictor (gshare with 4096 counters).
    pub small: f64,
    /// By the large one (TAGE).
    pub large: f64,
}

/// So many conditional branches one behind the other, all of them in each turn, whose outcomes are those of `taken`, from
/// its beginning again after its end: the share that is mispredicted in the last `counted` rounds through `taken`, after
/// `before` rounds. The length of `taken` is a multiple of the branches.
///
/// # Panics
/// Without branches, outcomes or counted rounds.
#[must_use]
pub fn mispredicted_of_repeated(
    taken: &[bool],
    branches: u64,
    before: usize,
    counted: usize,
) -> MispredictedShares {
    assert!(branches > 0 && !taken.is_empty() && counted > 0, "nothing to count");
    let block = |branch| {
        let start = branch * APART;
        Block { exit: Exit::Conditional, ..Block::undecoded(start, start + 4, start + 6, 2) }
    };
    let blocks: Vec<Block> = (0..branches).map(block).collect();
    let (mut small, mut large) = (Predictor::new(), Tage::new());
    let mut wrong = [0u64; 2];
    for round in 0..before + counted {
        for (block, &taken) in blocks.iter().cycle().zip(taken) {
            let next = if taken { block.end + APART } else { block.end };
            let foreseen = [small.foresees(block, next), large.foresees(block, next)];
            if round >= before {
                wrong.iter_mut().zip(foreseen).for_each(|(wrong, yes)| *wrong += u64::from(!yes));
            }
        }
    }
    let [small, large] = wrong.map(|wrong| wrong as f64 / (counted * taken.len()) as f64);
    MispredictedShares { small, large }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outcomes by a generator whose high bits are as good as random.
    fn outcomes(count: usize) -> Vec<bool> {
        let mut state = 12345u64;
        let next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 63 == 1
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    /// scripts/simulator-accuracy.py has these figures, by the same outcomes.
    #[test]
    fn a_simulator_is_judged_by_these_shares() {
        for (period, small, large) in [
            (1 << 10, 0.0771, 0.0024),
            (1 << 11, 0.1416, 0.0),
            (1 << 12, 0.2190, 0.0034),
            (1 << 13, 0.3085, 0.0151),
            (1 << 14, 0.3870, 0.0883),
        ] {
            let found = mispredicted_of_repeated(&outcomes(period), 64, 8, 2);
            assert!((found.small - small).abs() < 1e-4, "{period}: {found:?}");
            assert!((found.large - large).abs() < 1e-4, "{period}: {found:?}");
        }
    }

    #[test]
    fn branches_that_always_do_the_same_are_foreseen() {
        let shares = mispredicted_of_repeated(&outcomes(64), 64, 8, 2);
        assert_eq!(shares, MispredictedShares { small: 0.0, large: 0.0 });
    }

    /// 4096 outcomes in no order: the small predictor has one counter for each and uses two of them for one here and there, the
    /// large one keeps each with more than enough history. Of 65,536 neither has room for many.
    #[test]
    fn the_large_one_keeps_more() {
        let medium = mispredicted_of_repeated(&outcomes(4096), 64, 8, 2);
        assert!(medium.large < 0.02 && (0.15..0.3).contains(&medium.small), "{medium:?}");
        let long = mispredicted_of_repeated(&outcomes(1 << 16), 64, 4, 1);
        assert!(long.large > 0.4 && long.small > 0.45, "{long:?}");
    }
}
