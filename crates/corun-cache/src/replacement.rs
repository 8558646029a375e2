//! What each kind of replacement remembers of a set, and which way it gives up.

use crate::geometry::Replacement;

/// SRRIP's prediction of a line that will not come back soon.
const DISTANT: u8 = 3;

/// The state of all sets.
#[derive(Debug, Clone)]
pub(crate) enum ReplacementOrder {
    /// When each way was used last.
    Lru { used: Vec<u64>, now: u64 },
    /// A bit a node, the root being bit 1 and the children of n being 2 n and 2 n + 1: 0 points to
    /// the lower ways.
    Tree { trees: Vec<u64>, turns: Vec<TreePath> },
    /// Predicted re-reference of each way.
    Srrip(Vec<u8>),
    /// The state of the draw (xorshift64*, Marsaglia 2003, Vigna 2016).
    Random(u64),
}

/// What a use of a way does to a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreePath {
    /// The arrows on the way to it.
    arrows: u64,
    /// Those of them that point to the upper ways then.
    up: u64,
}

impl ReplacementOrder {
    pub(crate) fn new(replacement: Replacement, sets: usize, ways: usize) -> Self {
        match replacement {
            Replacement::Lru => Self::Lru { used: vec![0; sets * ways], now: 0 },
            Replacement::TreePlru => Self::Tree {
                trees: vec![0; sets],
                turns: (0..ways).map(|way| TreePath::away_from(way, ways)).collect(),
            },
            Replacement::Srrip => Self::Srrip(vec![DISTANT; sets * ways]),
            Replacement::Random => Self::Random(0x9e37_79b9_7f4a_7c15),
        }
    }

    /// The way of a set that was used last is used again: it hits.
    #[inline]
    pub(crate) fn touch_again(&mut self, place: usize) {
        // By LRU it stays the newest, and a tree's arrows point away from it already.
        if let Self::Srrip(predicted) = self {
            predicted[place] = 0;
        }
    }

    /// A way is used: it hit, or was filled.
    #[inline]
    pub(crate) fn touch(&mut self, set: usize, way: usize, ways: usize, hit: bool) {
        match self {
            Self::Lru { used, now } => {
                *now += 1;
                used[set * ways + way] = *now;
            }
            Self::Tree { trees, turns } => {
                let TreePath { arrows, up } = turns[way];
                trees[set] = trees[set] & !arrows | up;
            }
            Self::Srrip(predicted) => {
                predicted[set * ways + way] = if hit { 0 } else { DISTANT - 1 };
            }
            Self::Random(_) => {}
        }
    }

    /// The way of the mask that is given up; all of them hold lines.
    pub(crate) fn victim(&mut self, set: usize, ways: usize, mask: u64) -> usize {
        let allowed = |way: &usize| mask >> way & 1 != 0;
        let first = set * ways;
        match self {
            Self::Lru { used, .. } => {
                (0..ways).filter(allowed).min_by_key(|way| used[first + way]).unwrap_or(0)
            }
            Self::Tree { trees, .. } => pointed_at(trees[set], ways, mask),
            Self::Srrip(predicted) => {
                let predicted = &mut predicted[first..first + ways];
                // The lowest way of those predicted furthest; all age until that is distant.
                let oldest = (0..ways)
                    .filter(allowed)
                    .max_by_key(|&way| (predicted[way], ways - way))
                    .unwrap_or(0);
                let years = DISTANT - predicted[oldest];
                (0..ways).filter(allowed).for_each(|way| predicted[way] += years);
                oldest
            }
            Self::Random(state) => {
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                let drawn = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
                let nth = (drawn * u64::from(mask.count_ones())) >> 32;
                (0..ways).filter(allowed).nth(nth as usize).unwrap_or(0)
            }
        }
    }
}

impl TreePath {
    /// All arrows on the way from the root to this way point elsewhere.
    fn away_from(way: usize, ways: usize) -> Self {
        let mut turn = Self { arrows: 0, up: 0 };
        let mut node = 1;
        let mut half = ways / 2;
        while half > 0 {
            let upper = way & half != 0;
            turn.arrows |= 1 << node;
            turn.up |= u64::from(!upper) << node;
            node = 2 * node + usize::from(upper);
            half /= 2;
        }
        turn
    }
}

/// Follows the arrows; where the way they point has nothing of the mask, the other.
fn pointed_at(tree: u64, ways: usize, mask: u64) -> usize {
    let mut node = 1;
    let mut first = 0;
    let mut half = ways / 2;
    while half > 0 {
        let any = |from: usize| mask >> from & (u64::MAX >> (64 - half)) != 0;
        let upper = if tree >> node & 1 != 0 { any(first + half) } else { !any(first) };
        first += if upper { half } else { 0 };
        node = 2 * node + usize::from(upper);
        half /= 2;
    }
    first
}
