//! The best way to cover what is left, of additive values: dynamic programming over sets and ways.

use rayon::prelude::*;

use crate::partition::family::{Family, Kind, Set};
use crate::partition::table::Partition;
use crate::search::Stop;

/// States that one task fills.
const TASK: usize = 64;

/// A value that no partition may have.
pub(crate) const NEVER: f64 = f64::NEG_INFINITY;

/// A value for every cluster and number of ways; [`NEVER`] where it may not be.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub(crate) family: Family,
    /// By row of the set, then ways from 1.
    pub(crate) of: Vec<f64>,
    /// Has the set a value at all? By row.
    pub(crate) any: Vec<bool>,
}

impl Values {
    /// Values filled row by row, in parallel: `fill` sees the set and its values by ways from 1,
    /// which are 0 at first.
    pub(crate) fn fill(family: Family, fill: impl Fn(Set, &mut [f64]) + Sync) -> Self {
        let mut of = vec![0.0; family.rows() * family.ways];
        let mut any = vec![false; family.rows()];
        let rows = of.par_chunks_mut(family.ways).zip(any.par_iter_mut()).enumerate();
        rows.with_min_len(256).for_each(|(row, (values, any))| {
            let set = family.set(row);
            if set == 0 {
                values.fill(NEVER);
                return;
            }
            fill(set, values);
            values[..family.min_ways - 1].fill(NEVER);
            *any = values.iter().any(|&value| value > NEVER);
        });
        Self { family, of, any }
    }

    #[inline]
    pub(crate) fn row(&self, set: Set) -> &[f64] {
        let first = self.family.row(set) * self.family.ways;
        &self.of[first..first + self.family.ways]
    }

    #[inline]
    pub(crate) fn at(&self, set: Set, ways: u32) -> f64 {
        self.row(set)[ways as usize - 1]
    }
}

/// The highest sum of values over all ways to cover a set with so many ways, all of them handed
/// out: F[m][w] = max of value(S, k) + F[m - S][w - k] over S in m that hold m's lowest program.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    family: Family,
    /// By state, then ways from 0.
    of: Vec<f64>,
    full: f64,
}

impl Completion {
    /// None when it must stop before it is done.
    pub(crate) fn of(values: &Values, stop: &Stop<'_>) -> Option<Self> {
        let family = values.family;
        let stride = family.ways + 1;
        let mut of = vec![NEVER; family.states() * stride];
        of[0] = 0.0;
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
        Some(Self { family, of, full: full[family.ways] })
    }

    /// The highest sum of a whole partition.
    pub(crate) fn best(&self) -> f64 {
        self.full
    }

    /// The best of what is left, by ways from 0. Not for everybody.
    #[inline]
    pub(crate) fn row(&self, left: Set) -> &[f64] {
        let stride = self.family.ways + 1;
        let first = self.family.state(left) * stride;
        &self.of[first..first + stride]
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
                let (of_set, of_rest) = (values.row(set), self.row(rest));
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

fn cover(values: &Values, before: &[f64], left: Set, out: &mut [f64]) {
    // Sizes known when compiled let the compiler keep all sums in registers.
    match out.len() {
        12 => cover_sized::<11>(values, before, left, out),
        21 => cover_sized::<20>(values, before, left, out),
        _ => cover_any(values, before, left, out),
    }
}

fn cover_any(values: &Values, before: &[f64], left: Set, out: &mut [f64]) {
    let (family, ways) = (values.family, values.family.ways);
    for (set, rest) in family.next(left) {
        if !values.any[family.row(set)] {
            continue;
        }
        let of_rest = &before[family.state(rest) * (ways + 1)..][..ways + 1];
        for (k, &value) in values.row(set).iter().enumerate() {
            for (sum, rest) in out[k + 1..].iter_mut().zip(of_rest) {
                *sum = sum.max(value + rest);
            }
        }
    }
}

fn cover_sized<const WAYS: usize>(values: &Values, before: &[f64], left: Set, out: &mut [f64]) {
    let family = values.family;
    let mut sums = [NEVER; WAYS];
    for (set, rest) in family.next(left) {
        if !values.any[family.row(set)] {
            continue;
        }
        let first = family.state(rest) * (WAYS + 1);
        let of_rest: &[f64; WAYS] = match before[first..first + WAYS].try_into() {
            Ok(row) => row,
            Err(_) => return,
        };
        let of_set: &[f64; WAYS] = match values.row(set).try_into() {
            Ok(row) => row,
            Err(_) => return,
        };
        for k in 0..WAYS {
            for w in k..WAYS {
                let sum = of_set[k] + of_rest[w - k];
                if sum > sums[w] {
                    sums[w] = sum;
                }
            }
        }
    }
    out[1..].copy_from_slice(&sums);
}
