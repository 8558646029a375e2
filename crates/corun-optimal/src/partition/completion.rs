//! The best way to cover what is left, of additive values: dynamic programming over sets and ways.

use rayon::prelude::*;

use crate::partition::cluster_set::{ClusterSet, Kind, Set};
use crate::partition::table::ClusterWays;
use crate::search::StopRule;

/// States that one task fills.
const TASK: usize = 64;

/// A value that no partition may have.
pub(crate) const NEVER: f64 = f64::NEG_INFINITY;

/// No row.
const NOWHERE: u32 = u32::MAX;

/// A value for every cluster and number of ways; [`NEVER`] where it may not be.
#[derive(Debug, Clone)]
pub(crate) struct ClusterValues {
    pub(crate) cluster_set: ClusterSet,
    /// By place of the set, then ways from 1.
    of: Vec<f64>,
    /// Place of the set by its row; [`NOWHERE`] where the set has no value.
    places: Vec<u32>,
}

impl ClusterValues {
    /// Values of these sets, filled row by row, in parallel: `fill` sees the set and its values by
    /// ways from 1, which are 0 at first.
    pub(crate) fn fill(
        cluster_set: ClusterSet,
        sets: &[Set],
        fill: impl Fn(Set, &mut [f64]) + Sync,
    ) -> Self {
        let mut of = vec![0.0; sets.len() * cluster_set.ways];
        let rows = of.par_chunks_mut(cluster_set.ways).zip(sets);
        rows.with_min_len(256).for_each(|(values, &set)| {
            fill(set, values);
            values[..cluster_set.min_ways - 1].fill(NEVER);
        });
        let mut places = vec![NOWHERE; cluster_set.rows()];
        for (place, (values, &set)) in of.chunks(cluster_set.ways).zip(sets).enumerate() {
            if values.iter().any(|&value| value > NEVER) {
                places[cluster_set.row(set)] = place as u32;
            }
        }
        Self { cluster_set, of, places }
    }

    /// The set's values by ways from 1; none where it has none.
    #[inline]
    pub(crate) fn row(&self, set: Set) -> Option<&[f64]> {
        let place = self.places[self.cluster_set.row(set)];
        let first = place as usize * self.cluster_set.ways;
        (place != NOWHERE).then(|| &self.of[first..first + self.cluster_set.ways])
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
pub(crate) struct BestCover {
    cluster_set: ClusterSet,
    /// By state: ways - 1 times [`NEVER`], so that a row can be read shifted, then ways from 0.
    of: Vec<f64>,
    full: f64,
}

impl BestCover {
    /// None when it must stop before it is done.
    pub(crate) fn of(values: &ClusterValues, stop: &StopRule<'_>) -> Option<Self> {
        let cluster_set = values.cluster_set;
        let stride = 2 * cluster_set.ways;
        let mut of = vec![NEVER; cluster_set.states() * stride];
        of[cluster_set.ways - 1] = 0.0;
        let is_stopped = std::sync::atomic::AtomicBool::new(false);
        for layer in 0..cluster_set.programs - 1 {
            // States whose highest bit this is: they follow those that they lead to.
            let (first, end) = match cluster_set.kind {
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
                    let left = match cluster_set.kind {
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
        cover(values, &of, cluster_set.full(), &mut full);
        Some(Self { cluster_set, of, full: full[stride - 1] })
    }

    /// The highest sum of a whole partition.
    pub(crate) fn best(&self) -> f64 {
        self.full
    }

    /// The best of what is left, by ways from 0. Not for everybody.
    #[inline]
    pub(crate) fn row(&self, left: Set) -> &[f64] {
        let ways = self.cluster_set.ways;
        let end = (self.cluster_set.state(left) + 1) * 2 * ways;
        &self.of[end - ways - 1..end]
    }

    /// A partition of the highest sum: of equal ones the first by cluster, the one with the
    /// smallest set, then the fewest ways. None when there is none.
    pub(crate) fn partition(&self, values: &ClusterValues) -> Option<ClusterWays> {
        if self.full == NEVER {
            return None;
        }
        let mut clusters = Vec::new();
        let (mut left, mut ways, mut rest_best) =
            (self.cluster_set.full(), self.cluster_set.ways, self.full);
        while left != 0 {
            let mut best: (f64, Set, usize) = (NEVER, 0, 0);
            for (set, rest) in self.cluster_set.next(left) {
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
        Some(ClusterWays { clusters })
    }
}

/// Best sums by ways for what is left, from the rows of the states that lead from it.
///
/// Most of a search's time is spent here: with vectors of four sums, where the processor has them, half of it. The sums
/// are the same.
#[allow(unsafe_code)]
fn cover(values: &ClusterValues, before: &[f64], left: Set, out: &mut [f64]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { cover_with_avx2(values, before, left, out) };
    }
    cover_with_any(values, before, left, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn cover_with_avx2(values: &ClusterValues, before: &[f64], left: Set, out: &mut [f64]) {
    cover_with_any(values, before, left, out);
}

#[inline(always)]
fn cover_with_any(values: &ClusterValues, before: &[f64], left: Set, out: &mut [f64]) {
    // Sizes known when compiled let the compiler keep all sums in registers.
    macro_rules! sized {
        ($($ways:literal)*) => {
            match values.cluster_set.ways {
                $($ways => cover_sized::<$ways>(values, before, left, out),)*
                _ => cover_any(values, before, left, out),
            }
        };
    }
    sized!(4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20);
}

#[inline(always)]
fn cover_any(values: &ClusterValues, before: &[f64], left: Set, out: &mut [f64]) {
    let (cluster_set, ways) = (values.cluster_set, values.cluster_set.ways);
    let (pad, stride) = (ways - 1, 2 * ways);
    for (set, rest) in cluster_set.next(left) {
        let Some(of_set) = values.row(set) else { continue };
        let of_rest = &before[cluster_set.state(rest) * stride + pad..][..ways];
        for (k, &value) in of_set.iter().enumerate() {
            for (sum, rest) in out[pad + 1 + k..].iter_mut().zip(of_rest) {
                *sum = sum.max(value + rest);
            }
        }
    }
}

#[inline(always)]
fn cover_sized<const WAYS: usize>(
    values: &ClusterValues,
    before: &[f64],
    left: Set,
    out: &mut [f64],
) {
    let cluster_set = values.cluster_set;
    let mut sums = [NEVER; WAYS];
    for (set, rest) in cluster_set.next(left) {
        let place = values.places[cluster_set.row(set)];
        if place == NOWHERE {
            continue;
        }
        let of_set = &values.of[place as usize * WAYS..][..WAYS];
        let of_rest = &before[cluster_set.state(rest) * 2 * WAYS..][..2 * WAYS - 1];
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
