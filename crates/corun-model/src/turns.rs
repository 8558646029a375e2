//! Programs that take turns on CPUs, where more run than there are CPUs.
//!
//! Of k programs on a CPU each has the CPU for a k-th of the time, so that its slowdown is k times what it suffers
//! from those that run on other CPUs at the same moments. Some moments stand for all.

use crate::model::Model;
use crate::program::Running;
use crate::scratch::Scratch;

/// Moments that stand for all, at most: at each, every CPU runs one of its programs.
pub const MOST_MOMENTS: usize = 16;

/// Each program's slowdown where those on the same CPU take turns, in the order of `running`: the programs on its CPU
/// times its mean slowdown over the moments at which it runs.
pub fn slowdowns_in_turns(
    model: &Model,
    running: &[Running<'_>],
    scratch: &mut Scratch,
) -> Vec<f64> {
    let mut of_cpu: Vec<Vec<usize>> = vec![Vec::new(); model.machine().cpus().len()];
    for (place, one) in running.iter().enumerate() {
        of_cpu[one.member.cpu].push(place);
    }
    let most = of_cpu.iter().map(Vec::len).max().unwrap_or(1);
    let mut sums = vec![(0.0, 0.0); running.len()];
    let mut outcomes = Vec::new();
    for moment in 0..moments(most) {
        let places = running_at(moment, most, &of_cpu);
        let members: Vec<Running<'_>> = places.iter().map(|&place| running[place]).collect();
        model.solve(&members, scratch, &mut outcomes);
        for (&place, outcome) in places.iter().zip(&outcomes) {
            sums[place].0 += outcome.slowdown;
            sums[place].1 += 1.0;
        }
    }
    let slowdown = |(one, (sum, count)): (&Running<'_>, (f64, f64))| {
        of_cpu[one.member.cpu].len() as f64 * sum / f64::max(count, 1.0)
    };
    running.iter().zip(sums).map(slowdown).collect()
}

/// How many moments stand for all, where the fullest CPU has so many programs.
pub fn moments(most: usize) -> usize {
    (most * most).min(MOST_MOMENTS)
}

/// Who runs at a moment, by place. Each CPU goes round; after each round of the fullest CPU every CPU is a step
/// further against the one before it, so that programs of different CPUs meet in all pairs.
fn running_at(moment: usize, most: usize, of_cpu: &[Vec<usize>]) -> Vec<usize> {
    let turns = of_cpu.iter().enumerate().filter(|(_, programs)| !programs.is_empty());
    turns
        .map(|(cpu, programs)| {
            let turn = moment + cpu * (moment / most);
            programs[turn % programs.len()]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use corun_machine::preset;

    use super::*;
    use crate::{LoadedProgram, Member, ModelOptions, stream_profile};

    #[test]
    fn programs_of_two_cpus_meet_in_all_pairs() {
        for most in 1..=4 {
            let of_cpu: Vec<Vec<usize>> = vec![(0..most).collect(), (most..2 * most).collect()];
            let pairs: BTreeSet<Vec<usize>> =
                (0..most * most).map(|moment| running_at(moment, most, &of_cpu)).collect();
            assert_eq!(pairs.len(), most * most);
        }
        assert_eq!(running_at(5, 2, &[vec![], vec![3]]), [3]);
    }

    /// Two streams on one CPU never run at the same time: each is half as fast as alone. A third on another CPU slows
    /// both by what the model says of two that run together, and is itself slowed by it.
    #[test]
    fn those_who_take_turns_do_not_slow_each_other_otherwise() {
        let machine = preset("xeon-x5365-2llc").unwrap();
        let model = Model::new(Arc::new(machine), ModelOptions::default()).unwrap();
        let stream = model.load(&stream_profile()).unwrap();
        let on = |cpu| Running {
            member: Member { program: &stream, phase: LoadedProgram::WHOLE, cpu },
            home: &[],
            group: None,
        };
        let mut scratch = Scratch::default();
        let turns = slowdowns_in_turns(&model, &[on(0), on(0)], &mut scratch);
        assert!(turns.iter().all(|one| (one / 2.0 - 1.0).abs() < 1e-6), "{turns:?}");
        let mut together = Vec::new();
        model.solve(&[on(0), on(1)], &mut scratch, &mut together);
        let beside = together[0].slowdown;
        assert!(beside > 1.1, "{beside}");
        let three = slowdowns_in_turns(&model, &[on(0), on(0), on(1)], &mut scratch);
        for (found, expected) in three.iter().zip([2.0 * beside, 2.0 * beside, beside]) {
            assert!((found / expected - 1.0).abs() < 1e-9, "{three:?} {beside}");
        }
    }
}
