//! How fast a program runs, by how much of its core it has.
//!
//! Beside a busy hardware thread of its core, of another virtual machine for instance, a program runs at a lower speed, and the
//! core does fewer independent additions a cycle. A run that is so for a part of its time has the mean of the two speeds,
//! and looks during the run have the mean of the two numbers of additions. So the speed, 1 / the time of a run, is a straight
//! line over the additions, whatever the share of time; of runs beside more and less it tells how long a run on a core of
//! its own takes, where no run ever had one.

use corun_metrics::{LineAt, line_at, mean};

use crate::Estimate;
use crate::measure::SoloRun;

/// A line through fewer runs is chance.
const LEAST_RUNS: usize = 6;

/// Additions a cycle have to differ by this share of a free core's from run to run: otherwise a line through them is noise.
const LEAST_SPREAD: f64 = 0.1;

/// A line tells nothing where the half width of its interval is more than this share.
const MOST_UNCERTAIN: f64 = 0.2;

/// So far beyond what runs alone had of the core the line is followed for a run beside others.
const MARGIN: f64 = 0.05;

/// Of the interval of [`LineAt`].
const CONFIDENCE: f64 = 0.95;

/// Runs of a program alone, on a core that others use more and less.
#[derive(Debug)]
pub(crate) struct Pace {
    additions: Vec<f64>,
    speeds: Vec<f64>,
    least: f64,
    most: f64,
}

impl Pace {
    /// Of such runs. `free`: additions a cycle of a core of one's own.
    pub(crate) fn of<'a>(runs: impl Iterator<Item = &'a SoloRun>, free: f64) -> Option<Self> {
        let (additions, speeds): (Vec<f64>, Vec<f64>) = runs
            .filter(|run| run.additions_per_cycle > 0.0 && run.cpu_s > 0.0)
            .map(|run| ((run.additions_per_cycle / free).min(1.0), 1.0 / run.cpu_s))
            .unzip();
        let least = additions.iter().copied().fold(f64::INFINITY, f64::min);
        let most = additions.iter().copied().fold(0.0, f64::max);
        let is_told = additions.len() >= LEAST_RUNS && most - least >= LEAST_SPREAD;
        is_told.then_some(Self { additions, speeds, least, most })
    }

    /// CPU seconds of a run on a core of its own; none where the runs do not tell.
    pub(crate) fn on_a_free_core(&self) -> Option<Estimate> {
        let LineAt { value, half_width_95 } = line_at(&self.additions, &self.speeds, 1.0)?;
        // Nobody gets faster by somebody beside.
        let is_faster = value + half_width_95 >= mean(&self.speeds)?;
        let is_told = half_width_95 <= MOST_UNCERTAIN * value && is_faster;
        is_told.then(|| Estimate {
            median: 1.0 / value,
            low: 1.0 / (value + half_width_95),
            high: 1.0 / (value - half_width_95),
            confidence: CONFIDENCE,
            rounds: self.speeds.len(),
        })
    }

    /// How many times as fast a program runs where the core does `additions` a cycle as where it does `others`, both as shares of a free
    /// core's; none where no run was beside as much.
    pub(crate) fn ratio(&self, additions: f64, others: f64) -> Option<f64> {
        let is_known = |share: f64| share >= self.least - MARGIN && share <= self.most + MARGIN;
        let speed = |share: f64| {
            let found = line_at(&self.additions, &self.speeds, share.min(1.0))?.value;
            (found > 0.0 && is_known(share)).then_some(found)
        };
        Some(speed(additions)? / speed(others)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(runs: &[(f64, f64)]) -> Option<Pace> {
        let run = |&(share, cpu_s): &(f64, f64)| SoloRun {
            cpu_s,
            additions_per_cycle: 4.0 * share,
            clock_mhz: 3e3,
        };
        let runs: Vec<SoloRun> = runs.iter().map(run).collect();
        Pace::of(runs.iter(), 4.0)
    }

    /// Speeds of 0.6 and 0.8 where it has 0.5 and 0.75 of the core: 1 on all of it.
    #[test]
    fn the_line_goes_on_to_a_free_core() {
        let (half, more) = ((0.5, 1.0 / 0.6), (0.75, 1.0 / 0.8));
        let found = pace(&[half, half, half, more, more, more]).unwrap();
        let free = found.on_a_free_core().unwrap();
        assert!((free.median - 1.0).abs() < 1e-9 && free.half_width() < 1e-6, "{free:?}");
        assert!((found.ratio(0.75, 0.5).unwrap() - 0.8 / 0.6).abs() < 1e-9);
        assert!(found.ratio(0.79, 0.5).is_some() && found.ratio(0.81, 0.5).is_none());
        assert!(found.ratio(0.5, 0.44).is_none());
    }

    #[test]
    fn few_runs_and_runs_alike_tell_no_line() {
        let (half, more) = ((0.5, 1.0 / 0.6), (0.75, 1.0 / 0.8));
        assert!(pace(&[half, half, more, more, more]).is_none(), "five");
        assert!(pace(&[(0.5, 1.0); 6]).is_none());
        let hardly = (0.59, 1.0 / 0.672);
        assert!(pace(&[half, half, half, hardly, hardly, hardly]).is_none());
    }

    /// A line whose interval is half as wide as its value tells nothing, nor does one by which company makes a program faster.
    #[test]
    fn chance_tells_no_free_core() {
        let scattered = [(0.5, 1.0), (0.5, 2.0), (0.5, 1.1), (0.75, 2.0), (0.75, 0.9), (0.75, 1.0)];
        assert_eq!(pace(&scattered).unwrap().on_a_free_core(), None);
        let (half, slower) = ((0.5, 1.0), (0.75, 1.25));
        let faster_beside = [half, half, half, slower, slower, slower];
        assert_eq!(pace(&faster_beside).unwrap().on_a_free_core(), None);
    }
}
