//! Few micro-traces that stand for many: alike ones become one stratum, of which one is kept.
//!
//! A stratum is known by what its traces may cost, by cause. The two strata whose union widens the
//! spread the least (Ward, "Hierarchical grouping to optimize an objective function", JASA 58, 1963)
//! become one when there are too many, so that the mean over strata stays near that over all traces.
//! Which of two traces is kept is drawn by weight, the same way in every run: so each trace of a
//! stratum has its chance, and the mean is not that of the typical ones alone.

use std::sync::Arc;

use corun_profile::{MicroOp, MicroTrace, pack_quickly, unpack_quickly};

use super::capture::{Costs, costs};
use super::sketch::mix;

/// Causes that costs are told apart by.
const COSTS: usize = super::capture::COSTS;

/// Strata of a phase at most while recording.
const MOST_STRATA: usize = 96;

/// Alike micro-traces, of which one is kept as a `T`.
#[derive(Debug, Clone, PartialEq)]
pub struct Stratum<T> {
    /// Instructions that they stand for.
    pub weight: f64,
    /// The mean of what they may cost, in cycles an instruction by cause.
    costs: Costs,
    /// What the one that is kept may cost.
    own: Costs,
    /// The one that is kept.
    pub kept: T,
}

impl<T> Stratum<T> {
    /// One trace, kept as `kept`, that stands for so many instructions.
    pub fn new(trace: &[MicroOp], weight: f64, kept: T) -> Self {
        let costs = costs(trace);
        Self { weight, costs, own: costs, kept }
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
            (self.kept, self.own) = (gone.kept, gone.own);
        }
        self.weight = weight;
    }
}

/// Unites strata of the same group until there are at most so many in all groups, or one in each.
pub fn reduce<T>(groups: &mut [Vec<Stratum<T>>], most: usize) {
    let mut count: usize = groups.iter().map(Vec::len).sum();
    if count <= most {
        return;
    }
    let mut nearest: Vec<Vec<Neighbour>> = groups.iter().map(|group| neighbours(group)).collect();
    while count > most {
        let all = nearest.iter().enumerate().flat_map(|(group, nearest)| {
            nearest.iter().enumerate().map(move |(one, neighbour)| (group, one, *neighbour))
        });
        let Some((group, one, neighbour)) = all.min_by(|a, b| a.2.loss.total_cmp(&b.2.loss)) else {
            return;
        };
        if neighbour.loss.is_infinite() {
            return;
        }
        unite_two(&mut groups[group], &mut nearest[group], one, neighbour.at);
        count -= 1;
    }
}

/// The later stratum with which one of a group unites at the least loss, which is infinite behind the last.
#[derive(Debug, Clone, Copy)]
struct Neighbour {
    loss: f64,
    at: usize,
}

fn neighbours<T>(group: &[Stratum<T>]) -> Vec<Neighbour> {
    (0..group.len()).map(|one| neighbour(group, one)).collect()
}

fn neighbour<T>(group: &[Stratum<T>], one: usize) -> Neighbour {
    let later =
        (one + 1..group.len()).map(|at| Neighbour { loss: group[one].loss(&group[at]), at });
    let none = Neighbour { loss: f64::INFINITY, at: one };
    later.min_by(|a, b| a.loss.total_cmp(&b.loss)).unwrap_or(none)
}

/// Unites a later stratum with one before it, and finds the neighbours anew of those that had either.
fn unite_two<T>(
    group: &mut Vec<Stratum<T>>,
    nearest: &mut Vec<Neighbour>,
    one: usize,
    later: usize,
) {
    let gone = group.remove(later);
    nearest.remove(later);
    group[one].unite(gone);
    for at in 0..group.len() {
        let known = nearest[at].at;
        if at == one || known == one || known == later {
            nearest[at] = neighbour(group, at);
            continue;
        }
        if known > later {
            nearest[at].at -= 1;
        }
        if at < one {
            let loss = group[at].loss(&group[one]);
            if loss < nearest[at].loss {
                nearest[at] = Neighbour { loss, at: one };
            }
        }
    }
}

/// By how much a weight may change so that the means come out right.
const MOST_CHANGE: f64 = 3.0;
/// Rounds of correction.
const ROUNDS: usize = 4;

/// Changes the weights of a group as little as need be, so that the means of what the kept traces may
/// cost are those of all traces (generalised regression estimation: Deville and Särndal, "Calibration
/// estimators in survey sampling", JASA 87, 1992). Where too few traces are kept for that, it comes
/// as near as it can.
pub fn balance<T>(group: &mut [Stratum<T>]) {
    let all: f64 = group.iter().map(|one| one.weight).sum();
    if group.len() < 3 || all <= 0.0 {
        return;
    }
    let given: Vec<f64> = group.iter().map(|one| one.weight / all).collect();
    let mean = |weights: &[f64], of: fn(&Stratum<T>) -> &Costs| -> [f64; COSTS] {
        let mut mean = [0.0; COSTS];
        for (one, weight) in group.iter().zip(weights) {
            for (sum, cost) in mean.iter_mut().zip(of(one)) {
                *sum += weight * f64::from(*cost);
            }
        }
        mean
    };
    let wanted = mean(&given, |one| &one.costs);
    let mut weights = given.clone();
    for _ in 0..ROUNDS {
        let found = mean(&weights, |one| &one.own);
        let offset = |one: &Stratum<T>| -> [f64; COSTS] {
            std::array::from_fn(|at| f64::from(one.own[at]) - found[at])
        };
        let mut spread = [[0.0; COSTS]; COSTS];
        for (one, weight) in group.iter().zip(&weights) {
            let offset = offset(one);
            for (row, a) in spread.iter_mut().zip(offset) {
                for (sum, b) in row.iter_mut().zip(offset) {
                    *sum += weight * a * b;
                }
            }
        }
        let missing = std::array::from_fn(|at| wanted[at] - found[at]);
        let pull = solve(spread, missing);
        for ((weight, given), one) in weights.iter_mut().zip(&given).zip(group.iter()) {
            let change: f64 = offset(one).iter().zip(pull).map(|(a, b)| a * b).sum();
            *weight = (*weight * (1.0 + change)).clamp(given / MOST_CHANGE, given * MOST_CHANGE);
        }
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
    }
    for (one, weight) in group.iter_mut().zip(weights) {
        one.weight = weight * all;
    }
}

/// Solves a symmetric system by elimination; a cause in which nothing differs has no say.
fn solve(mut system: [[f64; COSTS]; COSTS], mut right: [f64; COSTS]) -> [f64; COSTS] {
    let trace: f64 = (0..COSTS).map(|at| system[at][at]).sum();
    for (at, row) in system.iter_mut().enumerate() {
        // A little more on the diagonal keeps causes that go together from pulling apart.
        row[at] += 1e-6 * trace + f64::MIN_POSITIVE;
    }
    for pivot in 0..COSTS {
        let (upper, below) = system.split_at_mut(pivot + 1);
        let by = upper[pivot];
        for (row, left) in (pivot + 1..).zip(below) {
            let factor = left[pivot] / by[pivot];
            left.iter_mut().zip(by).skip(pivot).for_each(|(left, by)| *left -= factor * by);
            right[row] -= factor * right[pivot];
        }
    }
    let mut solution = [0.0; COSTS];
    for row in (0..COSTS).rev() {
        let known: f64 = (row + 1..COSTS).map(|at| system[row][at] * solution[at]).sum();
        solution[row] = (right[row] - known) / system[row][row];
    }
    solution.map(|one: f64| if one.is_finite() { one } else { 0.0 })
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

    /// At most so many traces, at least one, and the instructions that each stands for.
    pub fn traces(&self, most: usize) -> Vec<(MicroTrace, f64)> {
        let mut strata = self.strata.clone();
        reduce(std::slice::from_mut(&mut strata), most);
        balance(&mut strata);
        let unpacked =
            |one: &Stratum<Arc<[u8]>>| Some((unpack_quickly(&one.kept).ok()?, one.weight));
        strata.iter().filter_map(unpacked).collect()
    }
}

#[cfg(test)]
mod tests {
    use corun_profile::Marks;
    use proptest::prelude::*;

    use super::*;

    /// A trace in which one instruction in so many is mispredicted.
    fn trace(one_in: usize) -> MicroTrace {
        let op = |at: usize| MicroOp {
            marks: if at.is_multiple_of(one_in) {
                Marks::MISPREDICTED_LARGE
            } else {
                Marks::default()
            },
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
        assert_eq!(strata.traces(2), [(trace(7), 100.0), (trace(70), 300.0)]);
    }

    #[test]
    fn fewer_are_told_than_kept() {
        let mut strata = Strata::default();
        (1..30).for_each(|one_in| strata.add(&trace(one_in), 10));
        let told = strata.traces(7);
        assert_eq!(told.len(), 7);
        assert!((told.iter().map(|one| one.1).sum::<f64>() - 290.0).abs() < 1e-6);
        assert_eq!(strata.traces(100).len(), 29);
    }

    /// What `reduce` does, with all pairs tried at each step.
    fn reduce_slowly<T>(groups: &mut [Vec<Stratum<T>>], most: usize) {
        while groups.iter().map(Vec::len).sum::<usize>() > most {
            let pairs = groups.iter().enumerate().flat_map(|(group, strata)| {
                (0..strata.len()).flat_map(move |one| {
                    (one + 1..strata.len())
                        .map(move |later| (strata[one].loss(&strata[later]), group, one, later))
                })
            });
            let Some((_, group, one, later)) = pairs.min_by(|a, b| a.0.total_cmp(&b.0)) else {
                return;
            };
            let gone = groups[group].remove(later);
            groups[group][one].unite(gone);
        }
    }

    proptest! {
        #[test]
        fn the_same_strata_as_by_trying_all_pairs(
            ones in prop::collection::vec((0usize..3, 2usize..60, 1u32..9), 0..40),
            most in 0usize..20,
        ) {
            let mut groups: [Vec<Stratum<usize>>; 3] = Default::default();
            for (kept, &(group, one_in, weight)) in ones.iter().enumerate() {
                groups[group].push(Stratum::new(&trace(one_in), f64::from(weight), kept));
            }
            let mut slowly = groups.clone();
            reduce(&mut groups, most);
            reduce_slowly(&mut slowly, most);
            prop_assert_eq!(groups, slowly);
        }
    }

    #[test]
    fn balanced_weights_have_the_means_of_all_traces() {
        let strata = (0..60).map(|at| Stratum::new(&trace(4 + at * at % 37), 10.0, ()));
        let mut groups = [strata.collect::<Vec<_>>()];
        let mean = |group: &[Stratum<()>], of: fn(&Stratum<()>) -> &Costs| {
            let all: f64 = group.iter().map(|one| one.weight).sum();
            group.iter().map(|one| one.weight * f64::from(of(one)[1])).sum::<f64>() / all
        };
        let wanted = mean(&groups[0], |one| &one.own);
        reduce(&mut groups, 12);
        let before = mean(&groups[0], |one| &one.own);
        balance(&mut groups[0]);
        let after = mean(&groups[0], |one| &one.own);
        assert!((after / wanted - 1.0).abs() < 1e-3, "{before} {after} {wanted}");
        assert!((after - wanted).abs() < (before - wanted).abs());
        assert!((groups[0].iter().map(|one| one.weight).sum::<f64>() - 600.0).abs() < 1e-6);
    }
}
