//! The best way to cover what is left, of additive values: dynamic programming over sets and ways.

use rayon::prelude::*;

use crate::partition::family::{Family, Kind, Set};
use crate::partition::table::Partition;
use crate::search::Stop;

/// States that one task fills.
const TASK: usize = 64;

/// A value that no partition may have.
pub(crate) const NEVER: f64 = f64::NEG_INFINITY;

/// No row.
const NOWHERE: u32 = u32::MAX;

/// A value for every cluster and number of ways; [`NEVER`] where it may not be.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub(crate) family: Family,
    /// By place of the set, then ways from 1.
    of: Vec<f64>,
    /// Place of the set by its row; [`NOWHERE`] where the set has no value.
    places: Vec<u32>,
}

impl Values {
    /// Values of these sets, filled row by row, in parallel: `fill` sees the set and its values by
    /// ways from 1, which are 0 at first.
    pub(crate) fn fill(
        family: Family,
        sets: &[Set],
        fill: impl Fn(Set, &mut [f64]) + Sync,
    ) -> Self {
        let mut of = vec![0.0; sets.len() * family.ways];
        let rows = of.par_chunks_mut(family.ways).zip(sets);
        rows.with_min_len(256).for_each(|(values, &set)| {
            fill(set, values);
            values[..family.min_ways - 1].fill(NEVER);
        });
        let mut places = vec![NOWHERE; family.rows()];
        for (place, (values, &set)) in of.chunks(family.ways).zip(sets).enumerate() {
            if values.iter().any(|&value| value > NEVER) {
                places[family.row(set)] = place as u32;
            }
        }
        Self { family, of, places }
    }

    /// The set's values by ways from 1; none where it has none.
    #[inline]
    pub(crate) fn row(&self, set: Set) -> Option<&[f64]> {
        let place = self.places[self.family.row(set)];
        let first = place as usize * self.family.ways;
        (place != NOWHERE).then(|| &self.of[first..first + self.family.ways])
    }

    #[inline]
    pub(crate) fn at(&self, set: Set, ways: usize) -> f64 {
        self.row(set).map_or(NEVER, |row| row[ways - 1])
    }

    /// Of these sets, those that have a value.
    pub(crate) fn valued(&self, sets: &[Set]) -> Vec<Set> {
        sets.iter().copied().filter(|&set| self.row(set).is_some()).collect()
    }
}

/// The highest sum of values over all ways to cover a set with so many ways, all of them handed
/// out: F[m][w] = max of value(S, k) + F[m - S][w - k] over S in m that hold m's lowest program.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    family: Family,
    /// By state: ways - 1 times [`NEVER`], so that a row can be read shifted, then ways from 0.
    of: Vec<f64>,
    full: f64,
}

impl Completion {
    /// None when it must stop before it is done.
    pub(crate) fn of(values: &Values, stop: &Stop<'_>) -> Option<Self> {
        let family = values.family;
        let stride = 2 * family.ways;
        let mut of = vec![NEVER; family.states() * stride];
        of[family.ways - 1] = 0.0;
        let is_stopped = std::sync::atomic::AtomicBool::new(false);
        for layer in 0..family.programs - 1 {
            // States whose highest bit this is: they follow those that they lead to.
            let (first, end) = match family.kind {
                Kind::Strict => (layer + 1, layer + 2),
                Kind::Cluster => (1 << layer, 2 << layer),
            };
            let (before, after) = of.split_at_mut(first * stride);
            let of_layer = &mut after[..(end - first) * stride];
            let fill = |(task, rows): (usize, &mut [f64])| {
                if stop.is_due() {
                    is_stopped.store(true, std::sync::atomic::Ordering::Relaxed);
                    return;
                }
                for (index, row) in rows.chunks_mut(stride).enumerate() {
                    let state = first + task * TASK + index;
                    let left = match family.kind {
                        Kind::Strict => ((1_u64 << state) - 1) as Set,
                        Kind::Cluster => state as Set,
                    };
                    cover(values, before, left, row);
                }
            };
            if end - first <= TASK {
                fill((0, of_layer));
            } else {
                of_layer.par_chunks_mut(TASK * stride).enumerate().for_each(fill);
            }
            if is_stopped.load(std::sync::atomic::Ordering::Relaxed) {
                return None;
            }
        }
        let mut full = vec![NEVER; stride];
        cover(values, &of, family.full(), &mut full);
        Some(Self { family, of, full: full[stride - 1] })
    }

    /// The highest sum of a whole partition.
    pub(crate) fn best(&self) -> f64 {
        self.full
    }

    /// The best of what is left, by ways from 0. Not for everybody.
    #[inline]
    pub(crate) fn row(&self, left: Set) -> &[f64] {
        let ways = self.family.ways;
        let end = (self.family.state(left) + 1) * 2 * ways;
        &self.of[end - ways - 1..end]
    }

    /// A partition of the highest sum: of equal ones the first by cluster, the one with the
    /// smallest set, then the fewest ways. None when there is none.
    pub(crate) fn partition(&self, values: &Values) -> Option<Partition> {
        if self.full == NEVER {
            return None;
        }
        let mut clusters = Vec::new();
        let (mut left, mut ways, mut rest_best) = (self.family.full(), self.family.ways, self.full);
        while left != 0 {
            let mut best: (f64, Set, usize) = (NEVER, 0, 0);
            for (set, rest) in self.family.next(left) {
                let Some(of_set) = values.row(set) else { continue };
                let of_rest = self.row(rest);
                for k in 1..=ways {
                    let sum = of_set[k - 1] + of_rest[ways - k];
                    if sum > best.0 {
                        best = (sum, set, k);
                    }
                }
                if best.0 >= rest_best {
                    break;
                }
            }
            let (_, set, k) = best;
            clusters.push((set, k as u32));
            left ^= set;
            ways -= k;
            rest_best = if left == 0 { 0.0 } else { self.row(left)[ways] };
        }
        Some(Partition { clusters })
    }
}

/// Best sums by ways for what is left, from the rows of the states that lead from it.
fn cover(values: &Values, before: &[f64], left: Set, out: &mut [f64]) {
    // Sizes known when compiled let the compiler keep all sums in registers.
    macro_rules! sized {
        ($($ways:literal)*) => {
            match values.family.ways {
                $($ways => cover_sized::<$ways>(values, before, left, out),)*
                _ => cover_any(values, before, left, out),
            }
        };
    }
    sized!(4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20);
}

fn cover_any(values: &Values, before: &[f64], left: Set, out: &mut [f64]) {
    let (family, ways) = (values.family, values.family.ways);
    let (pad, stride) = (ways - 1, 2 * ways);
    for (set, rest) in family.next(left) {
        let Some(of_set) = values.row(set) else { continue };
        let of_rest = &before[family.state(rest) * stride + pad..][..ways];
        for (k, &value) in of_set.iter().enumerate() {
            for (sum, rest) in out[pad + 1 + k..].iter_mut().zip(of_rest) {
                *sum = sum.max(value + rest);
            }
        }
    }
}

fn cover_sized<const WAYS: usize>(values: &Values, before: &[f64], left: Set, out: &mut [f64]) {
    let family = values.family;
    let mut sums = [NEVER; WAYS];
    for (set, rest) in family.next(left) {
        let place = values.places[family.row(set)];
        if place == NOWHERE {
            continue;
        }
        let of_set = &values.of[place as usize * WAYS..][..WAYS];
        let of_rest = &before[family.state(rest) * 2 * WAYS..][..2 * WAYS - 1];
        for (k, &value) in of_set.iter().enumerate() {
            let shifted: &[f64; WAYS] = match of_rest[WAYS - 1 - k..][..WAYS].try_into() {
                Ok(shifted) => shifted,
                Err(_) => return,
            };
            // Fewer ways than these in all are none of this column's; half of them is skipped.
            if 2 * k < WAYS {
                raise(&mut sums, shifted, value, 0);
            } else {
                raise(&mut sums, shifted, value, WAYS / 2);
            }
        }
    }
    out[WAYS..].copy_from_slice(&sums);
}

#[inline(always)]
fn raise<const WAYS: usize>(sums: &mut [f64; WAYS], rests: &[f64; WAYS], value: f64, first: usize) {
    for (sum, rest) in sums[first..].iter_mut().zip(&rests[first..]) {
        let with = value + rest;
        *sum = if with > *sum { with } else { *sum };
    }
}
