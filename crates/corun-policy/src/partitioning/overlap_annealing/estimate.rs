//! Who holds how much of a cache whose masks may overlap.

use super::Run;
use crate::partitioning::Input;
use crate::partitioning::whirlpool::Ways;

/// Rounds of the damped search for shares.
const ROUNDS: usize = 16;
/// Below this no slowdown goes where a curve is read below one way.
const LEAST_SLOWDOWN: f64 = 1e-3;

/// Every way is divided among those who may use it in proportion to their misses per cycle, each spread evenly
/// over its own ways: the law of random replacement, which `corun partition` judges overlapping masks by, too.
#[derive(Debug, Default)]
pub(super) struct Estimate {
    /// By program, with 1, 2, 3 .. ways.
    misses: Vec<Vec<f64>>,
    slowdowns: Vec<Vec<f64>>,
    ways: u32,
    /// Working memory, by program.
    held: Vec<f64>,
    pull: Vec<f64>,
    found: Vec<f64>,
    /// Working memory, by way.
    sums: Vec<f64>,
    users: Vec<f64>,
}

impl Estimate {
    /// Takes over the programs.
    pub(super) fn prepare(&mut self, input: &Input<'_>) {
        let column = |of: fn(&crate::WaysPoint) -> f64| -> Vec<Vec<f64>> {
            input.curves.iter().map(|curve| curve.points().iter().map(of).collect()).collect()
        };
        self.misses = column(|one| one.llc_mpkc);
        self.slowdowns = column(|one| one.slowdown);
        self.ways = input.ways;
    }

    /// The slowdown of each program with these masks.
    pub(super) fn slowdowns(&mut self, runs: &[Run]) -> &[f64] {
        self.settle(runs);
        self.found.clear();
        let read = |(curve, &held): (&Vec<f64>, &f64)| Ways::new(held).of(curve, LEAST_SLOWDOWN);
        self.found.extend(self.slowdowns.iter().zip(&self.held).map(read));
        &self.found
    }

    fn settle(&mut self, runs: &[Run]) {
        let Self { misses, ways, held, pull, sums, users, .. } = self;
        users.clear();
        users.resize(*ways as usize, 0.0);
        for run in runs {
            run.of(users).iter_mut().for_each(|users| *users += 1.0);
        }
        held.clear();
        for run in runs {
            held.push(run.of(users).iter().map(|users| 1.0 / *users).sum());
        }
        for _ in 0..ROUNDS {
            pull.clear();
            sums.clear();
            sums.resize(*ways as usize, 0.0);
            for ((run, curve), &held) in runs.iter().zip(&*misses).zip(&*held) {
                let pulled = Ways::new(held).of(curve, 0.0).max(0.0) / f64::from(run.ways);
                run.of(sums).iter_mut().for_each(|sum| *sum += pulled);
                pull.push(pulled);
            }
            for ((run, &pulled), held) in runs.iter().zip(&*pull).zip(&mut *held) {
                let range = run.first as usize..(run.first + run.ways) as usize;
                let part = |way: usize| {
                    if sums[way] > 0.0 { pulled / sums[way] } else { 1.0 / users[way] }
                };
                let target: f64 = range.map(part).sum();
                *held += 0.5 * (target - *held);
            }
        }
    }
}

impl Run {
    /// The values of its ways.
    fn of(self, by_way: &mut [f64]) -> &mut [f64] {
        &mut by_way[self.first as usize..(self.first + self.ways) as usize]
    }
}
