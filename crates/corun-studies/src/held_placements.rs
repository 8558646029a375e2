//! The best placement of a few threads that is held throughout: every placement that differs from the others is simulated.

use std::collections::BTreeMap;

use corun_app::Result;
use corun_machine::Machine;
use corun_sim::{Experiment, Hooks, RunResult, run_pinned};
use rayon::prelude::*;

use crate::harness::StudyInputs;

/// What runs on a core: its type, and the kinds of the threads on it.
type CoreLoad = (usize, Vec<usize>);
/// Who shares what: cores by LLC by package, each sorted.
type Sharing = Vec<Vec<Vec<CoreLoad>>>;

/// A CPU index for each thread, one thread to a CPU, for each way to share the machine. Threads of the same kind are
/// exchangeable. Packages, LLCs of a package and cores of an LLC are exchangeable too, where they have the same core
/// types: true of machines whose packages are alike and equally far from one another. None for more threads than CPUs.
pub(crate) fn placements(machine: &Machine, kinds: &[usize]) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in kinds {
        let mut longer: BTreeMap<Sharing, Vec<usize>> = BTreeMap::new();
        for placed in &found {
            for cpu in (0..machine.cpus().len()).filter(|cpu| !placed.contains(cpu)) {
                let mut placed = placed.clone();
                placed.push(cpu);
                longer.entry(sharing(machine, kinds, &placed)).or_insert(placed);
            }
        }
        found = longer.into_values().collect();
    }
    found
}

fn sharing(machine: &Machine, kinds: &[usize], placed: &[usize]) -> Sharing {
    let mut tree: BTreeMap<usize, BTreeMap<usize, BTreeMap<usize, CoreLoad>>> = BTreeMap::new();
    for (index, cpu) in machine.cpus().iter().enumerate() {
        let llcs = tree.entry(cpu.package).or_default();
        let cores = llcs.entry(cpu.llc).or_default();
        let (_, load) = cores.entry(cpu.core).or_insert((cpu.core_type, Vec::new()));
        load.extend(placed.iter().position(|&taken| taken == index).map(|thread| kinds[thread]));
    }
    let sorted = |cores: BTreeMap<usize, CoreLoad>| {
        let mut cores: Vec<CoreLoad> = cores.into_values().collect();
        cores.iter_mut().for_each(|(_, load)| load.sort_unstable());
        cores.sort_unstable();
        cores
    };
    let by_llc = |llcs: BTreeMap<usize, BTreeMap<usize, CoreLoad>>| {
        let mut llcs: Vec<Vec<CoreLoad>> = llcs.into_values().map(sorted).collect();
        llcs.sort_unstable();
        llcs
    };
    let mut packages: Sharing = tree.into_values().map(by_llc).collect();
    packages.sort_unstable();
    packages
}

/// A placement and the run in which it was held.
pub(crate) struct HeldRun {
    /// A CPU index for each thread.
    pub(crate) cpus: Vec<usize>,
    pub(crate) result: RunResult,
}

/// The experiment in every placement that differs. `kinds`: of each thread, program by program; threads of one kind are
/// alike.
pub(crate) fn all_held(
    inputs: &StudyInputs,
    experiment: &Experiment,
    kinds: &[usize],
) -> Result<Vec<HeldRun>> {
    let placements = placements(experiment.model.machine(), kinds);
    let run = |cpus: Vec<usize>| {
        let result = held(inputs, experiment, &cpus)?;
        Ok(HeldRun { cpus, result })
    };
    placements.into_par_iter().map(run).collect()
}

/// The experiment with each thread held on its CPU.
pub(crate) fn held(
    inputs: &StudyInputs,
    experiment: &Experiment,
    cpus: &[usize],
) -> Result<RunResult> {
    inputs.cancel.check()?;
    let hooks = Hooks { cancel: Some(inputs.cancel.flag()), progress: None };
    Ok(run_pinned(experiment, cpus, hooks)?)
}

/// Of these the one with the highest score; none where no score is a number.
pub(crate) fn best_of<T>(all: &[T], score: impl Fn(&T) -> f64) -> Option<&T> {
    let scored = all.iter().map(|one| (score(one), one)).filter(|(score, _)| !score.is_nan());
    scored.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use corun_machine::preset;

    use super::*;

    fn count(machine: &str, kinds: &[usize]) -> usize {
        placements(&preset(machine).unwrap(), kinds).len()
    }

    /// Who is on the two big cores, or on the four: 6 over 2 and 8 over 4.
    #[test]
    fn different_threads_choose_core_types() {
        assert_eq!(count("juno-2b4s", &[0, 1, 2, 3, 4, 5]), 15);
        assert_eq!(count("odroid-4b4s", &[0, 1, 2, 3, 4, 5, 6, 7]), 70);
        // Of a program of four threads 0 to 4 are on big cores, with so many of the four others: 1 + 4 + 6 + 4 + 1.
        assert_eq!(count("odroid-4b4s", &[0, 1, 2, 3, 4, 4, 4, 4]), 16);
        assert_eq!(count("odroid-4b4s", &[0, 0, 0, 0, 1, 1, 1, 1]), 5);
    }

    /// Two packages of two LLCs of two cores. Two threads: the same LLC, the same package, different packages. Four alike,
    /// by threads to an LLC: 2 2 | 0 0, 2 1 | 1 0, 2 1 | . ., and so on, written out below.
    #[test]
    fn alike_threads_choose_what_they_share() {
        assert_eq!(count("xeon-x5365", &[0, 1]), 3);
        assert_eq!(count("xeon-x5365", &[0, 0]), 3);
        // One package 22; 3 and 1: 21|10; 2 and 2: each package is 20 or 11, three pairs.
        assert_eq!(count("xeon-x5365", &[0; 4]), 1 + 1 + 3);
        assert_eq!(count("xeon-x5365", &[0; 8]), 1);
        assert_eq!(count("xeon-x5365", &[0; 9]), 0);
    }

    /// Held against all maps by a score that depends on who shares an LLC or a package.
    #[test]
    fn no_placement_that_differs_is_left_out() {
        let machine = preset("xeon-x5365").unwrap();
        let pairs = [(0, 1, 3), (0, 2, 1), (0, 3, 7), (1, 2, 5), (1, 3, 2), (2, 3, 4)];
        let score = |placed: &Vec<usize>| -> i64 {
            let of = |&(one, other, weight): &(usize, usize, i64)| {
                let [one, other] = [one, other].map(|thread| &machine.cpus()[placed[thread]]);
                let shared = 10 * i64::from(one.llc == other.llc);
                weight * (shared + i64::from(one.package == other.package))
            };
            pairs.iter().map(of).sum()
        };
        let mut kept: Vec<i64> = placements(&machine, &[0, 1, 2, 3]).iter().map(score).collect();
        let mut all = Vec::new();
        for code in 0..8usize.pow(4) {
            let placed: Vec<usize> = (0..4).map(|thread| code / 8usize.pow(thread) % 8).collect();
            if (0..4).all(|one| !placed[..one].contains(&placed[one])) {
                all.push(score(&placed));
            }
        }
        for scores in [&mut kept, &mut all] {
            scores.sort_unstable();
            scores.dedup();
        }
        assert_eq!(kept, all);
    }

    #[test]
    fn the_best_is_the_highest_that_is_a_number() {
        assert_eq!(best_of(&[1.0, f64::NAN, 3.0, 2.0], |&one| one), Some(&3.0));
        assert_eq!(best_of(&[f64::NAN], |&one| one), None);
    }
}
