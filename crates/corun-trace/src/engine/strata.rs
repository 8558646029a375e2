//! Few micro-traces that stand for many: alike ones become one stratum, of which one is kept.
//!
//! A stratum is known by what its traces may cost, by cause. The two strata whose union widens the
//! spread the least (Ward, "Hierarchical grouping to optimize an objective function", JASA 58, 1963)
//! become one when there are too many, so that the mean over strata stays near that over all traces.
//! Which of two traces is kept is drawn by weight, the same way in every run: so each trace of a
//! stratum has its chance, and the mean is not that of the typical ones alone.

use std::sync::Arc;

use corun_profile::{MicroOp, MicroTrace, pack_quickly, unpack_quickly};

use super::capture::costs;
use super::sketch::mix;

/// Strata of a phase at most while recording.
const MOST_STRATA: usize = 40;

/// Alike micro-traces, of which one is kept as a `T`.
#[derive(Debug, Clone, PartialEq)]
pub struct Stratum<T> {
    /// Instructions that they stand for.
    pub weight: f64,
    /// The mean of what they may cost, in cycles an instruction by cause.
    costs: [f32; 6],
    /// The one that is kept.
    pub kept: T,
}

impl<T> Stratum<T> {
    /// One trace, kept as `kept`, that stands for so many instructions.
    pub fn new(trace: &[MicroOp], weight: f64, kept: T) -> Self {
        Self { weight, costs: costs(trace), kept }
    }

    /// What the spread within strata grows by if these two become one.
    fn loss(&self, other: &Self) -> f64 {
        let squares = self.costs.iter().zip(other.costs).map(|(a, b)| f64::from(a - b).powi(2));
        self.weight * other.weight / (self.weight + other.weight) * squares.sum::<f64>()
    }

    fn unite(&mut self, gone: Self) {
        let weight = self.weight + gone.weight;
        let share = gone.weight / weight;
        let bits = self.costs.iter().chain(&gone.costs).map(|cost| u64::from(cost.to_bits()));
        let chance = bits.fold(weight.to_bits(), |hash, bits| mix(hash ^ bits));
        for (cost, other) in self.costs.iter_mut().zip(gone.costs) {
            *cost += (other - *cost) * share as f32;
        }
        if (chance as f64 / u64::MAX as f64) < share {
            self.kept = gone.kept;
        }
        self.weight = weight;
    }
}

/// Unites strata of the same group until there are at most so many in all groups, or one in each.
pub fn reduce<T>(groups: &mut [Vec<Stratum<T>>], most: usize) {
    let mut count: usize = groups.iter().map(Vec::len).sum();
    while count > most {
        let pairs = groups.iter().enumerate().flat_map(|(group, strata)| {
            let pairs = (0..strata.len())
                .flat_map(move |one| (one + 1..strata.len()).map(move |other| (one, other)));
            pairs.map(move |(one, other)| (strata[one].loss(&strata[other]), group, one, other))
        });
        let nearest = pairs.min_by(|one, other| one.0.total_cmp(&other.0));
        let Some((_, group, one, other)) = nearest else { return };
        let gone = groups[group].remove(other);
        groups[group][one].unite(gone);
        count -= 1;
    }
}

/// The strata of a phase while it is recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Strata {
    strata: Vec<Stratum<Arc<[u8]>>>,
}

// Weights and costs are never NaN.
impl Eq for Strata {}

impl Strata {
    /// Takes in a trace that stands for so many instructions.
    pub(crate) fn add(&mut self, trace: &MicroTrace, weight: u64) {
        let packed = pack_quickly(trace).into();
        self.strata.push(Stratum::new(trace, weight.max(1) as f64, packed));
        self.reduce();
    }

    /// Takes in another phase's.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.strata.extend(other.strata.iter().cloned());
        self.reduce();
    }

    fn reduce(&mut self) {
        reduce(std::slice::from_mut(&mut self.strata), MOST_STRATA);
    }

    /// The traces and the instructions that each stands for.
    pub fn traces(&self) -> impl Iterator<Item = (MicroTrace, f64)> + '_ {
        self.strata
            .iter()
            .filter_map(|one| unpack_quickly(&one.kept).ok().map(|trace| (trace, one.weight)))
    }
}

#[cfg(test)]
mod tests {
    use corun_profile::Marks;

    use super::*;

    /// A trace in which one instruction in so many is mispredicted.
    fn trace(one_in: usize) -> MicroTrace {
        let op = |at: usize| MicroOp {
            marks: if at % one_in == 0 { Marks::MISPREDICTED_LARGE } else { Marks::default() },
            ..MicroOp::default()
        };
        (0..1000).map(op).collect()
    }

    #[test]
    fn alike_traces_become_one_and_others_stay() {
        let strata = |ones: &[usize]| {
            ones.iter().map(|&one| Stratum::new(&trace(one), 10.0, one)).collect::<Vec<_>>()
        };
        let mut groups = [strata(&[10, 500, 11, 400]), strata(&[20])];
        reduce(&mut groups, 3);
        let kept: Vec<usize> = groups[0].iter().map(|one| one.kept).collect();
        assert!(kept.len() == 2 && kept[0] < 12 && kept[1] > 300, "{kept:?}");
        assert_eq!(groups[0].iter().map(|one| one.weight).sum::<f64>(), 40.0);
        assert_eq!(groups[1].len(), 1);
    }

    #[test]
    fn the_one_kept_is_drawn_by_weight() {
        // Of two, the heavier of 3 to 1 is kept in three cases of four.
        let heavy = (0..400).filter(|&at| {
            let one = Stratum::new(&trace(10), 3.0 + f64::from(at) * 3e-3, true);
            let other = Stratum::new(&trace(11), 1.0 + f64::from(at) * 1e-3, false);
            let mut groups = [vec![one, other]];
            reduce(&mut groups, 1);
            groups[0][0].kept
        });
        let heavy = heavy.count();
        assert!((260..340).contains(&heavy), "{heavy}");
    }

    #[test]
    fn packed_traces_come_back() {
        let mut strata = Strata::default();
        strata.add(&trace(7), 100);
        strata.add(&trace(70), 300);
        let traces: Vec<(MicroTrace, f64)> = strata.traces().collect();
        assert_eq!(traces, [(trace(7), 100.0), (trace(70), 300.0)]);
    }
}
