//! More programs than CPUs: which of them share a CPU. The best grouping that a search finds, and what no grouping
//! can beat.
//!
//! A grouping holds each program on a CPU, where those of one CPU take turns. Of k programs on a CPU each has the CPU
//! for a k-th of the time, so that its slowdown is k times what it suffers from those that run on other CPUs at the
//! same moment. The second factor is at least 1, which gives the bound.

use std::sync::atomic::AtomicBool;

use corun_model::{LoadedProgram, Member, Running, Scratch};

use super::setup::ComparisonSetup;
use crate::{Result, check};

/// Moments that stand for all, at most: at each, every CPU runs one of its programs.
const MOST_MOMENTS: usize = 16;

/// Moments that the model is asked about in a search, at most: the same answer on every machine.
const MOST_SOLVED: usize = 20_000;

/// The mean slowdown that no grouping is below: of n programs on c CPUs as evenly as can be, (sum of k^2) / n. By
/// convexity uneven counts are worse, and by the inequality of arithmetic and harmonic mean so are uneven shares of
/// a CPU.
pub(super) fn bound(programs: usize, cpus: usize) -> f64 {
    let (least, more) = (programs / cpus, programs % cpus);
    let squares = more * (least + 1).pow(2) + (cpus - more) * least.pow(2);
    squares as f64 / programs as f64
}

/// A CPU (index) for each program: the best of a search that swaps programs while that helps.
///
/// # Errors
/// [`crate::Error::Interrupted`] when the caller wants to stop.
pub(super) fn best(setup: &ComparisonSetup, stop: &AtomicBool) -> Result<Vec<usize>> {
    swapped(&mut Search::new(setup), stop)
}

fn swapped(search: &mut Search<'_>, stop: &AtomicBool) -> Result<Vec<usize>> {
    let count = search.setup.apps.len();
    let mut cpus: Vec<usize> = (0..count).map(|place| place % search.cpus).collect();
    let mut value = search.mean_slowdown(&cpus);
    loop {
        let mut is_better = false;
        for one in 0..count {
            for other in one + 1..count {
                check(stop)?;
                if search.is_over() {
                    return Ok(cpus);
                }
                if cpus[one] == cpus[other] {
                    continue;
                }
                cpus.swap(one, other);
                let swapped = search.mean_slowdown(&cpus);
                if swapped < value * (1.0 - 1e-9) {
                    (value, is_better) = (swapped, true);
                } else {
                    cpus.swap(one, other);
                }
            }
        }
        if !is_better {
            return Ok(cpus);
        }
    }
}

struct Search<'a> {
    setup: &'a ComparisonSetup,
    cpus: usize,
    solved: usize,
    scratch: Scratch,
}

impl<'a> Search<'a> {
    fn new(setup: &'a ComparisonSetup) -> Self {
        let cpus = setup.model.machine().cpus().len();
        Self { setup, cpus, solved: 0, scratch: Scratch::default() }
    }

    fn is_over(&self) -> bool {
        self.solved >= MOST_SOLVED
    }

    /// The mean over programs of (programs on its CPU) x (mean slowdown over the moments at which it runs).
    fn mean_slowdown(&mut self, cpus: &[usize]) -> f64 {
        let mut of_cpu: Vec<Vec<usize>> = vec![Vec::new(); self.cpus];
        for (place, &cpu) in cpus.iter().enumerate() {
            of_cpu[cpu].push(place);
        }
        let most = of_cpu.iter().map(Vec::len).max().unwrap_or(1);
        let mut sums = vec![(0.0, 0.0); cpus.len()];
        for moment in 0..(most * most).min(MOST_MOMENTS) {
            let running = running_at(moment, most, &of_cpu);
            let members = running.iter().map(|&(place, cpu)| Running {
                member: Member {
                    program: &self.setup.apps[place].program,
                    phase: LoadedProgram::WHOLE,
                    cpu,
                },
                home: &[],
                group: None,
            });
            let members: Vec<Running<'_>> = members.collect();
            let mut outcomes = Vec::new();
            self.setup.model.solve(&members, &mut self.scratch, &mut outcomes);
            self.solved += 1;
            for (&(place, _), outcome) in running.iter().zip(&outcomes) {
                sums[place].0 += outcome.slowdown;
                sums[place].1 += 1.0;
            }
        }
        let slowdown = |place: usize| {
            let (sum, count) = sums[place];
            of_cpu[cpus[place]].len() as f64 * sum / f64::max(count, 1.0)
        };
        (0..cpus.len()).map(slowdown).sum::<f64>() / cpus.len() as f64
    }
}

/// Who runs at a moment: program and CPU. Each CPU goes round; after each round of the fullest CPU every CPU is a step
/// further against the one before it, so that programs of different CPUs meet in all pairs.
fn running_at(moment: usize, most: usize, of_cpu: &[Vec<usize>]) -> Vec<(usize, usize)> {
    let turns = of_cpu.iter().enumerate().filter(|(_, programs)| !programs.is_empty());
    turns
        .map(|(cpu, programs)| {
            let turn = moment + cpu * (moment / most);
            (programs[turn % programs.len()], cpu)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use corun_machine::preset;
    use corun_model::ModelOptions;
    use corun_profile::{Library, Mix};

    use super::*;

    /// 10 programs on 8 CPUs: 6 alone and 2 pairs, (6 x 1 + 2 x 4) / 10.
    #[test]
    fn the_bound_is_that_of_even_turns() {
        assert_eq!(bound(10, 8), 1.4);
        assert_eq!(bound(8, 8), 1.0);
        assert_eq!(bound(9, 2), (25.0 + 16.0) / 9.0);
    }

    #[test]
    fn programs_of_two_cpus_meet_in_all_pairs() {
        for most in 1..=4 {
            let of_cpu: Vec<Vec<usize>> = vec![(0..most).collect(), (most..2 * most).collect()];
            let pairs: BTreeSet<Vec<(usize, usize)>> =
                (0..most * most).map(|moment| running_at(moment, most, &of_cpu)).collect();
            assert_eq!(pairs.len(), most * most);
        }
        assert_eq!(running_at(5, 2, &[vec![], vec![3]]), [(3, 1)]);
    }

    /// All ways to put 6 programs on 2 CPUs by threes, one by one.
    #[test]
    fn the_search_finds_the_best_of_all_even_groupings() {
        let library = Library::shipped().unwrap();
        for names in [
            ["zstd", "kernel-triad", "flac", "glpsol", "kernel-stencil", "gzip"],
            ["sort", "sort", "xz", "xz", "numpy", "flac"],
        ] {
            let mix = Mix::of_apps(&names).unwrap();
            let machine = preset("xeon-x5365-2llc").unwrap();
            let options = ModelOptions::default();
            let setup =
                ComparisonSetup::of(&library, machine, options, &mix, None, 1, Vec::new()).unwrap();
            // On two of its CPUs, under one cache.
            let mut search = Search { cpus: 2, ..Search::new(&setup) };
            let all: Vec<f64> = (0..1u32 << 6)
                .filter(|mask| mask.count_ones() == 3)
                .map(|mask| {
                    let cpus: Vec<usize> =
                        (0..6).map(|place| (mask >> place & 1) as usize).collect();
                    search.mean_slowdown(&cpus)
                })
                .collect();
            let least = all.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(all.iter().any(|&value| value > least * 1.001), "{names:?}: {all:?}");
            let found = best_on(&setup, 2);
            let value = search.mean_slowdown(&found);
            assert!(value <= least * 1.02, "{names:?}: {value}, the least is {least}");
            assert!(value >= bound(6, 2) && least >= bound(6, 2));
        }
    }

    fn best_on(setup: &ComparisonSetup, cpus: usize) -> Vec<usize> {
        swapped(&mut Search { cpus, ..Search::new(setup) }, &AtomicBool::new(false)).unwrap()
    }
}
