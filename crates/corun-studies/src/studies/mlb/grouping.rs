//! The best that can be had of twice as many programs as CPUs: who should run together.

use std::sync::Arc;

use corun_model::{LoadedProgram, Model, Running, Scratch};

/// Programs in two turns of equal length, as many in a turn as there are CPUs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Grouping {
    /// By program, how many of its copies run in the first turn; the others run in the second.
    pub(super) first: Vec<usize>,
    /// By program, how much slower it is while it runs than alone on a CPU: the mean over its copies.
    pub(super) slowdown: Vec<f64>,
    /// How many groupings there are.
    pub(super) tried: usize,
}

impl Grouping {
    /// Of all groupings the one of the least mean slowdown by the model. `copies`: of each program; CPUs are as many as
    /// half of all copies, and alike.
    pub(super) fn best(
        model: &Model,
        programs: &[Arc<LoadedProgram>],
        copies: usize,
    ) -> Option<Self> {
        let cpus = programs.len() * copies / 2;
        let mut firsts = Vec::new();
        counts(programs.len(), copies, cpus, &mut Vec::new(), &mut firsts);
        let tried = firsts.len();
        let judged = firsts.into_iter().map(|first| {
            let slowdown = slowdowns(model, programs, copies, &first);
            let sum: f64 = slowdown.iter().sum();
            (sum, Self { first, slowdown, tried })
        });
        judged.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, best)| best)
    }
}

/// All ways to take `left` of so many programs, of each at most its copies.
fn counts(
    programs: usize,
    copies: usize,
    left: usize,
    taken: &mut Vec<usize>,
    found: &mut Vec<Vec<usize>>,
) {
    if taken.len() == programs {
        if left == 0 {
            found.push(taken.clone());
        }
        return;
    }
    for count in 0..=copies.min(left) {
        taken.push(count);
        counts(programs, copies, left - count, taken, found);
        taken.pop();
    }
}

fn slowdowns(
    model: &Model,
    programs: &[Arc<LoadedProgram>],
    copies: usize,
    first: &[usize],
) -> Vec<f64> {
    let mut sums = vec![0.0; programs.len()];
    let second: Vec<usize> = first.iter().map(|count| copies - count).collect();
    for turn in [first, &second] {
        let who: Vec<usize> =
            turn.iter().enumerate().flat_map(|(one, &count)| std::iter::repeat_n(one, count)).collect();
        let running: Vec<Running<'_>> = who
            .iter()
            .enumerate()
            .map(|(cpu, &one)| Running::local(&programs[one], LoadedProgram::WHOLE, cpu))
            .collect();
        let mut out = Vec::new();
        model.solve(&running, &mut Scratch::new(), &mut out);
        for (&program, one) in who.iter().zip(&out) {
            sums[program] += one.slowdown;
        }
    }
    sums.iter().map(|sum| sum / copies as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::stream;
    use crate::studies::mlb::platform::Platform;

    #[test]
    fn groupings_are_counted() {
        let count = |programs, copies| {
            let mut found = Vec::new();
            counts(programs, copies, programs * copies / 2, &mut Vec::new(), &mut found);
            found.len()
        };
        // 4 of 8; 2 of a, a, b, b: none, one or two of a.
        assert_eq!((count(8, 1), count(2, 2)), (70, 3));
    }

    /// Four streams that fill the bus and four programs without misses: two and two in each turn.
    #[test]
    fn streams_are_shared_out_over_the_turns() {
        let platform = Platform::new("i7-2600").unwrap();
        let load = |mpki: f64| platform.load(&stream(mpki, 300.0)).unwrap();
        let (busy, idle) = (load(100.0), load(0.0));
        let programs: Vec<_> = [&busy, &busy, &idle, &busy, &idle, &idle, &busy, &idle].map(Arc::clone).into();
        let best = Grouping::best(&platform.model, &programs, 1).unwrap();
        let first = |of: [usize; 4]| of.iter().map(|&one| best.first[one]).sum::<usize>();
        assert_eq!((first([0, 1, 3, 6]), first([2, 4, 5, 7]), best.tried), (2, 2, 70));
        assert!(best.slowdown[0] > 1.0 && (best.slowdown[2] - 1.0).abs() < 1e-6, "{best:?}");
    }
}
