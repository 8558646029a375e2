//! More programs than CPUs: which of them share a CPU. The best grouping that a search finds, and what no grouping
//! can beat.
//!
//! A grouping holds each program on a CPU, where those of one CPU take turns ([`corun_model::slowdowns_in_turns`]). Of k
//! programs on a CPU each has the CPU for a k-th of the time, which gives the bound.

use std::sync::atomic::AtomicBool;

use corun_model::{LoadedProgram, Running, Scratch, moments, slowdowns_in_turns};

use super::setup::ComparisonSetup;
use crate::{Result, check};

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

    fn mean_slowdown(&mut self, cpus: &[usize]) -> f64 {
        let running = cpus
            .iter()
            .zip(&self.setup.apps)
            .map(|(&cpu, app)| Running::local(&app.program, LoadedProgram::WHOLE, cpu));
        let running: Vec<Running<'_>> = running.collect();
        let on = |cpu: usize| cpus.iter().filter(|&&one| one == cpu).count();
        self.solved += moments((0..self.cpus).map(on).max().unwrap_or(1));
        let slowdowns = slowdowns_in_turns(&self.setup.model, &running, &mut self.scratch);
        slowdowns.iter().sum::<f64>() / cpus.len() as f64
    }
}

#[cfg(test)]
mod tests {
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
