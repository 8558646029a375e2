//! Threads that are one program.
//!
//! What a decision is for are programs, each of which counts once. A program whose threads share its work has ended when the slowest
//! of them has. The mean of their slowdowns' eighth powers stands in for the largest slowdown: a thread that is nearly the slowest
//! counts too, and threads that take work from one queue are no worse off than by the largest.

use std::borrow::Cow;
use std::collections::BTreeMap;

use corun_model::Pace;

use crate::ProcessId;

/// The power of slowdowns whose mean stands in for the largest.
pub(super) const STEEP: i32 = 8;

/// To which program each thread belongs.
#[derive(Debug, Clone, Default)]
pub(super) struct Programs {
    /// By thread.
    places: Vec<usize>,
    /// By program, how many threads it has.
    sizes: Vec<f64>,
}

impl Programs {
    /// Of threads of these processes.
    pub(super) fn of(processes: impl Iterator<Item = ProcessId>) -> Self {
        let mut known = BTreeMap::new();
        let mut programs = Self::default();
        for process in processes {
            let place = *known.entry(process).or_insert(programs.sizes.len());
            if place == programs.sizes.len() {
                programs.sizes.push(0.0);
            }
            programs.sizes[place] += 1.0;
            programs.places.push(place);
        }
        programs
    }

    /// Of so many programs of one thread.
    #[cfg(test)]
    pub(super) fn of_one_thread(count: usize) -> Self {
        Self::of((0..count as u64).map(ProcessId))
    }

    /// The program of a thread, and how many threads that has.
    pub(super) fn of_thread(&self, thread: usize) -> (usize, f64) {
        let place = self.places[thread];
        (place, self.sizes[place])
    }

    /// Programs' slowdowns, from their threads'.
    pub(super) fn slowdowns(&self, threads: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut sums = vec![0.0; self.sizes.len()];
        for (&place, slowdown) in self.places.iter().zip(threads) {
            sums[place] += slowdown.powi(STEEP);
        }
        let mean = |(sum, count): (f64, &f64)| (sum / count).powf(1.0 / f64::from(STEEP));
        sums.into_iter().zip(&self.sizes).map(mean).collect()
    }

    /// Programs' paces, from their threads'.
    pub(super) fn paces<'a>(&self, threads: &'a [Pace]) -> Cow<'a, [Pace]> {
        if self.sizes.len() == self.places.len() {
            return Cow::Borrowed(threads);
        }
        let slowdowns = self.slowdowns(threads.iter().map(|pace| pace.slowdown));
        let of = |slowdown| Pace { slowdown, bytes_per_s: 0.0 };
        let mut paces: Vec<Pace> = slowdowns.into_iter().map(of).collect();
        for (&place, pace) in self.places.iter().zip(threads) {
            paces[place].bytes_per_s += pace.bytes_per_s;
        }
        Cow::Owned(paces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads 0 and 2 are one program: of slowdowns 2 and 4 the mean eighth power is (256 + 65536) / 2.
    #[test]
    fn a_program_is_nearly_as_slow_as_its_slowest_thread() {
        let programs = Programs::of([7, 9, 7].into_iter().map(ProcessId));
        let pace = |slowdown| Pace { slowdown, bytes_per_s: 10.0 };
        let threads = [pace(2.0), pace(3.0), pace(4.0)];
        let paces = programs.paces(&threads);
        assert!((paces[0].slowdown - 32896_f64.powf(0.125)).abs() < 1e-12, "{paces:?}");
        assert!((paces[1].slowdown - 3.0).abs() < 1e-12, "{paces:?}");
        assert_eq!((paces[0].bytes_per_s, paces[1].bytes_per_s), (20.0, 10.0));
        let apart = Programs::of([7, 9, 8].into_iter().map(ProcessId));
        assert_eq!(apart.paces(&threads), &threads[..]);
    }
}
