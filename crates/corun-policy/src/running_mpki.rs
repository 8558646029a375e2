//! Miss rates measured while threads run, as a running average.

use crate::{Parameter, ThreadId, ThreadView, View};

/// Intervals after which a measurement counts half: DIO says no figure.
pub(crate) const HALF_LIFE: Parameter = Parameter {
    name: "half-life-intervals",
    default: 4.0,
    min: 0.01,
    max: 1e6,
    summary: "intervals after which a measurement counts half in the running average",
};

/// Exponential averages of LLC misses per 1000 instructions.
pub(crate) struct RunningMpki {
    /// Weight of the past, an interval on.
    decay: f64,
    /// Of each thread that was measured, by ascending id.
    mpki: Vec<(ThreadId, f64)>,
}

impl RunningMpki {
    pub(crate) fn new(half_life_intervals: f64) -> Self {
        Self { decay: 0.5f64.powf(1.0 / half_life_intervals), mpki: Vec::new() }
    }

    /// Takes in an interval's counts. A thread that retired nothing keeps its average; one that is
    /// gone is forgotten.
    pub(crate) fn measure(&mut self, view: &View<'_>) {
        let averages = self.averages(view);
        self.mpki.clear();
        for (thread, average) in view.threads.iter().zip(averages) {
            let measured = thread.counters.llc_mpki().filter(|mpki| mpki.is_finite());
            let average = match measured {
                Some(mpki) => {
                    let average = average.unwrap_or(mpki);
                    Some(self.decay * average + (1.0 - self.decay) * mpki)
                }
                None => average,
            };
            self.mpki.extend(average.map(|mpki| (thread.id, mpki)));
        }
    }

    /// Was no thread measured yet?
    pub(crate) fn is_empty(&self) -> bool {
        self.mpki.is_empty()
    }

    /// In the order of the view's threads, which is that of the ids too.
    pub(crate) fn averages(&self, view: &View<'_>) -> Vec<Option<f64>> {
        let mut known = self.mpki.iter().peekable();
        let average = |thread: &ThreadView| {
            while known.next_if(|(id, _)| *id < thread.id).is_some() {}
            known.next_if(|(id, _)| *id == thread.id).map(|&(_, mpki)| mpki)
        };
        view.threads.iter().map(average).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scope, ScopedRate, fixture};

    fn count(thread: &mut ThreadView, mpki: f64) {
        thread.counters.instructions_per_s = Some(1e9);
        let rate = ScopedRate { per_s: mpki * 1e6, scope: Scope::DemandAndPrefetch };
        thread.counters.llc_misses = Some(rate);
    }

    #[test]
    fn a_measurement_counts_half_after_its_half_life() {
        let machine = fixture::x5365();
        let mut threads = fixture::threads(&machine, &[None]);
        let mut running = RunningMpki::new(HALF_LIFE.default);
        assert_eq!(running.averages(&fixture::view(&machine, &threads)), [None]);
        count(&mut threads[0], 10.0);
        running.measure(&fixture::view(&machine, &threads));
        let now = |running: &RunningMpki, threads: &[ThreadView]| {
            running.averages(&fixture::view(&machine, threads))[0].unwrap()
        };
        assert!((now(&running, &threads) - 10.0).abs() < 1e-12);
        count(&mut threads[0], 0.0);
        for _ in 0..4 {
            running.measure(&fixture::view(&machine, &threads));
        }
        assert!((now(&running, &threads) - 5.0).abs() < 1e-12);
        // Asleep for an interval: nothing was retired, nothing was learnt.
        threads[0].counters.instructions_per_s = Some(0.0);
        running.measure(&fixture::view(&machine, &threads));
        assert!((now(&running, &threads) - 5.0).abs() < 1e-12);
        running.measure(&fixture::view(&machine, &[]));
        assert!(running.is_empty());
    }
}
