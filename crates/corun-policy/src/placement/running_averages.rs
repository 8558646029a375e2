//! What is measured of threads while they run, as running averages.

use crate::{Parameter, ThreadId, ThreadView, View};

/// Intervals after which a measurement counts half: DIO says no figure.
pub(crate) const HALF_LIFE: Parameter = Parameter {
    name: "half-life-intervals",
    default: 4.0,
    min: 0.01,
    max: 1e6,
    summary: "intervals after which a measurement counts half in the running average",
};

/// Exponential averages of one figure, by thread.
pub(crate) struct RunningAverages {
    /// The figure of a thread's last interval; none when it tells nothing.
    figure: fn(&ThreadView) -> Option<f64>,
    /// Weight of the past, an interval on; 0 keeps the latest figure.
    past: f64,
    /// Of each thread that was measured, by ascending id.
    averages: Vec<(ThreadId, f64)>,
}

impl RunningAverages {
    /// LLC misses per 1000 instructions. A thread that retired nothing tells nothing.
    pub(crate) fn of_mpki(half_life_intervals: f64) -> Self {
        let past = 0.5f64.powf(1.0 / half_life_intervals);
        Self { figure: |thread| thread.rates.llc_mpki(), past, averages: Vec::new() }
    }

    /// Memory traffic in bytes a second of CPU time. A thread that was on no CPU tells nothing.
    pub(crate) fn of_traffic(past: f64) -> Self {
        let figure = |thread: &ThreadView| {
            let ran = thread.rates.cpu_share.filter(|&share| share > 0.0)?;
            Some(thread.rates.memory_bytes_per_s? / ran)
        };
        Self { figure, past, averages: Vec::new() }
    }

    /// Takes in an interval's counts. A thread that tells nothing keeps its average; one that is
    /// gone is forgotten.
    pub(crate) fn measure(&mut self, view: &View<'_>) {
        let before = self.by_thread(view);
        self.averages.clear();
        for (thread, before) in view.threads.iter().zip(before) {
            let now = (self.figure)(thread).filter(|figure| figure.is_finite());
            let average = match (before, now) {
                (Some(before), Some(now)) => Some(self.past * before + (1.0 - self.past) * now),
                (before, now) => now.or(before),
            };
            self.averages.extend(average.map(|average| (thread.id, average)));
        }
    }

    /// Was no thread measured yet?
    pub(crate) fn is_empty(&self) -> bool {
        self.averages.is_empty()
    }

    /// In the order of the view's threads, which is that of the ids too.
    pub(crate) fn by_thread(&self, view: &View<'_>) -> Vec<Option<f64>> {
        let mut known = self.averages.iter().peekable();
        let average = |thread: &ThreadView| {
            while known.next_if(|(id, _)| *id < thread.id).is_some() {}
            known.next_if(|(id, _)| *id == thread.id).map(|&(_, average)| average)
        };
        view.threads.iter().map(average).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scope, ScopedRate, fixture};

    fn count(thread: &mut ThreadView, mpki: f64) {
        thread.rates.instructions_per_s = Some(1e9);
        let rate = ScopedRate { per_s: mpki * 1e6, scope: Scope::DemandAndPrefetch };
        thread.rates.llc_misses = Some(rate);
    }

    #[test]
    fn a_measurement_counts_half_after_its_half_life() {
        let machine = fixture::x5365();
        let mut threads = fixture::threads(&machine, &[None]);
        let mut running = RunningAverages::of_mpki(HALF_LIFE.default);
        assert_eq!(running.by_thread(&fixture::view(&machine, &threads)), [None]);
        count(&mut threads[0], 10.0);
        running.measure(&fixture::view(&machine, &threads));
        let now = |running: &RunningAverages, threads: &[ThreadView]| {
            running.by_thread(&fixture::view(&machine, threads))[0].unwrap()
        };
        assert!((now(&running, &threads) - 10.0).abs() < 1e-12);
        count(&mut threads[0], 0.0);
        for _ in 0..4 {
            running.measure(&fixture::view(&machine, &threads));
        }
        assert!((now(&running, &threads) - 5.0).abs() < 1e-12);
        // Asleep for an interval: nothing was retired, nothing was learnt.
        threads[0].rates.instructions_per_s = Some(0.0);
        running.measure(&fixture::view(&machine, &threads));
        assert!((now(&running, &threads) - 5.0).abs() < 1e-12);
        running.measure(&fixture::view(&machine, &[]));
        assert!(running.is_empty());
    }
}
