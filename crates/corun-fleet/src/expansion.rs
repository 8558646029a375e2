//! The model around a typical node, to second order: which places are worth a prediction.
//!
//! A node in ordinary use is filled with the fleet's mix. What one more thread of a program costs there,
//! and what two more cost beyond the sum of both, are predicted once for every pair of programs, on one LLC
//! and on two. A place's score is the sum of these over those who run there. Scores order places; what
//! decides among the first is the model's own prediction of the node.

use rayon::prelude::*;

use crate::kind::{NodeKind, Prediction};
use crate::objective::Objective;

/// Contexts that an expansion is the mean of.
const CONTEXTS: usize = 4;

/// The expansion of a kind of node.
#[derive(Debug, Clone)]
pub(crate) struct Expansion {
    programs: usize,
    /// Cost of one more thread, by program.
    first: Vec<f64>,
    /// Cost of two more beyond the sum of both, on one LLC: `one * programs + other`.
    same_llc: Vec<f64>,
    /// The same on two LLCs of the node.
    other_llc: Vec<f64>,
}

impl Expansion {
    /// Around a node of this kind filled to `utilisation` (0 to 1) with programs by `shares` of its threads.
    pub(crate) fn new(
        kind: &NodeKind,
        shares: &[f64],
        utilisation: f64,
        objective: Objective,
    ) -> Self {
        let programs = shares.len();
        let mut all = Self {
            programs,
            first: vec![0.0; programs],
            same_llc: vec![0.0; programs * programs],
            other_llc: vec![0.0; programs * programs],
        };
        for context in 0..CONTEXTS {
            let one = Self::around(kind, shares, utilisation, objective, context);
            let add = |sum: &mut Vec<f64>, more: Vec<f64>| {
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more / CONTEXTS as f64);
            };
            add(&mut all.first, one.first);
            add(&mut all.same_llc, one.same_llc);
            add(&mut all.other_llc, one.other_llc);
        }
        all
    }

    fn around(
        kind: &NodeKind,
        shares: &[f64],
        utilisation: f64,
        objective: Objective,
        context: usize,
    ) -> Self {
        let programs = shares.len();
        let background = background(kind, shares, utilisation, context);
        // Two free seats of the first LLC, and one of the second where there is one.
        let seats = kind.seats();
        let last = seats[0].len() - 1;
        let here = [seats[0][last], seats[0][last.saturating_sub(1)]];
        let there = seats.get(1).map(|llc| llc[llc.len() - 1]);
        let cost = |more: &[(usize, u32)], prediction: &mut Prediction| {
            let threads = background.iter().chain(more).copied();
            kind.slowdowns(threads, prediction).map(|one| objective.scored_cost(one)).sum::<f64>()
        };
        let mut prediction = Prediction::default();
        let nobody = cost(&[], &mut prediction);
        let one: Vec<f64> =
            (0..programs).map(|p| cost(&[(p, here[0])], &mut prediction) - nobody).collect();
        let elsewhere: Vec<f64> = match there {
            Some(there) => {
                (0..programs).map(|p| cost(&[(p, there)], &mut prediction) - nobody).collect()
            }
            None => Vec::new(),
        };
        let rows: Vec<Vec<(f64, f64)>> = (0..programs)
            .into_par_iter()
            .map_init(Prediction::default, |prediction, p| {
                let pair = |q: usize| {
                    let both = match last {
                        0 => one[p] + one[q],
                        _ => cost(&[(p, here[0]), (q, here[1])], prediction) - nobody,
                    };
                    let apart = there.map_or(0.0, |there| {
                        cost(&[(p, here[0]), (q, there)], prediction)
                            - nobody
                            - one[p]
                            - elsewhere[q]
                    });
                    (both - one[p] - one[q], apart)
                };
                (0..programs).map(pair).collect()
            })
            .collect();
        let same_llc = rows.iter().flatten().map(|pair| pair.0).collect();
        let other_llc = rows.iter().flatten().map(|pair| pair.1).collect();
        Self { programs, first: one, same_llc, other_llc }
    }

    /// Cost of one more thread of a program.
    pub(crate) fn first(&self, program: usize) -> f64 {
        self.first[program]
    }

    /// What a thread of `other` adds to the cost of one of each program, on the same LLC.
    pub(crate) fn same_llc(&self, other: usize) -> &[f64] {
        &self.same_llc[other * self.programs..][..self.programs]
    }

    /// The same on another LLC of the node.
    pub(crate) fn other_llc(&self, other: usize) -> &[f64] {
        &self.other_llc[other * self.programs..][..self.programs]
    }
}

/// Threads that fill every LLC to the utilisation but for two seats, drawn evenly from the mix; another
/// start in each context.
fn background(
    kind: &NodeKind,
    shares: &[f64],
    utilisation: f64,
    context: usize,
) -> Vec<(usize, u32)> {
    let mut threads = Vec::new();
    let all: f64 = shares.iter().sum();
    // The golden ratio's multiples fill the unit interval evenly, wherever they start.
    let mut at = context as f64 / CONTEXTS as f64;
    for llc in kind.seats() {
        let filled = ((llc.len() as f64 * utilisation).round() as usize).min(llc.len().max(2) - 2);
        for &cpu in &llc[..filled] {
            at = (at + 0.618_033_988_749_894_9).fract();
            let mut left = at * all;
            let drawn = shares.iter().position(|&share| {
                left -= share;
                left < 0.0
            });
            threads.push((drawn.unwrap_or(0), cpu));
        }
    }
    threads
}
