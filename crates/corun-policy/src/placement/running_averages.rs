//! What is measured of threads while they run, as running averages.

use crate::{Parameter, ParameterKind, ThreadId, ThreadView, View};

/// Intervals after which a measurement counts half: DIO says no figure.
pub(crate) const HALF_LIFE: Parameter = Parameter {
    name: "half-life-intervals",
    kind: ParameterKind::Number,
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
    averages: Vec<(ThreadId, Average)>,
    /// The threads of the view by falling average when they were last told apart, if all were measured.
    order: Vec<usize>,
}

/// A running average and how sure it is.
#[derive(Debug, Clone, Copy)]
struct Average {
    value: f64,
    /// How far measurements lay from the average before them, squared: a running average, too.
    variance: f64,
    /// Measurements so far.
    count: f64,
}

/// Averages whose difference is within so many standard errors of it are equal: 95 in 100 threads that are
/// alike.
const STANDARD_ERRORS: f64 = 2.0;

impl RunningAverages {
    /// LLC misses per 1000 instructions. A thread that retired nothing tells nothing.
    pub(crate) fn of_mpki(half_life_intervals: f64) -> Self {
        let past = 0.5f64.powf(1.0 / half_life_intervals);
        Self {
            figure: |thread| thread.rates.llc_mpki(),
            past,
            averages: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Memory traffic in bytes a second of CPU time. A thread that was on no CPU tells nothing.
    pub(crate) fn of_traffic(past: f64) -> Self {
        let figure = |thread: &ThreadView| {
            let ran = thread.rates.cpu_share.filter(|&share| share > 0.0)?;
            Some(thread.rates.memory_bytes_per_s? / ran)
        };
        Self { figure, past, averages: Vec::new(), order: Vec::new() }
    }

    /// Takes in an interval's counts. A thread that tells nothing keeps its average; one that is
    /// gone is forgotten.
    pub(crate) fn measure(&mut self, view: &View<'_>) {
        let before = self.averages_of(view);
        self.averages.clear();
        for (thread, before) in view.threads.iter().zip(before) {
            let now = (self.figure)(thread).filter(|figure| figure.is_finite());
            let average = match (before, now) {
                (Some(before), Some(now)) => Some(before.updated(now, self.past)),
                (None, Some(value)) => Some(Average { value, variance: 0.0, count: 1.0 }),
                (before, None) => before,
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
        self.averages_of(view).into_iter().map(|one| Some(one?.value)).collect()
    }

    /// The same with one figure, their mean, for threads that cannot be told apart: those whose averages
    /// lie within each other's error. The error of a thread that was measured once is not known, and counts
    /// as none.
    pub(crate) fn told_apart(&mut self, view: &View<'_>) -> Vec<Option<f64>> {
        let averages = self.averages_of(view);
        let error =
            |one: &Average| one.variance / one.count.min((1.0 + self.past) / (1.0 - self.past));
        if self.order.len() != averages.len() {
            self.order.clear();
            self.order.extend(0..averages.len());
        }
        let mut order: Vec<(usize, &Average)> = Vec::with_capacity(averages.len());
        order.extend(
            self.order.iter().filter_map(|&place| Some((place, averages[place].as_ref()?))),
        );
        // Mostly sorted already. Ties are in the order of the view.
        order.sort_by(|one, other| other.1.value.total_cmp(&one.1.value).then(one.0.cmp(&other.0)));
        if order.len() == averages.len() {
            self.order.clear();
            self.order.extend(order.iter().map(|one| one.0));
        }
        let mut figures = vec![None; averages.len()];
        let alike = |one: &(usize, &Average), other: &(usize, &Average)| {
            let errors = STANDARD_ERRORS * (error(one.1) + error(other.1)).sqrt();
            one.1.value - other.1.value <= errors
        };
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            // As many as cannot be told from the first.
            let count = rest.iter().take_while(|one| alike(first, one)).count();
            let (class, others) = rest.split_at(count);
            let mean = class.iter().map(|one| one.1.value).sum::<f64>() / count as f64;
            class.iter().for_each(|one| figures[one.0] = Some(mean));
            rest = others;
        }
        figures
    }

    fn averages_of(&self, view: &View<'_>) -> Vec<Option<Average>> {
        let mut known = self.averages.iter().peekable();
        let average = |thread: &ThreadView| {
            while known.next_if(|(id, _)| *id < thread.id).is_some() {}
            known.next_if(|(id, _)| *id == thread.id).map(|&(_, average)| average)
        };
        view.threads.iter().map(average).collect()
    }
}

impl Average {
    fn updated(self, now: f64, past: f64) -> Self {
        let distance = now - self.value;
        let value = past * self.value + (1.0 - past) * now;
        // The first distance is all that is known.
        let weight = if self.count > 1.0 { past } else { 0.0 };
        let variance = weight * self.variance + (1.0 - weight) * distance * distance;
        Self { value, variance, count: self.count + 1.0 }
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

    /// Two threads that are measured at 10 +- 1 in turn, and one at 20: the first two are one class.
    #[test]
    fn threads_within_each_others_error_have_one_figure() {
        let machine = fixture::x5365();
        let mut threads = fixture::threads(&machine, &[None; 3]);
        let mut running = RunningAverages::of_mpki(HALF_LIFE.default);
        for interval in 0..20 {
            let up = if interval % 2 == 0 { 1.0 } else { -1.0 };
            for (thread, mpki) in threads.iter_mut().zip([10.0 + up, 10.0 - up, 20.0 + up]) {
                count(thread, mpki);
            }
            running.measure(&fixture::view(&machine, &threads));
            if interval == 0 {
                let once = running.told_apart(&fixture::view(&machine, &threads));
                assert_eq!(once, [Some(11.0), Some(9.0), Some(21.0)]);
            }
        }
        let told = running.told_apart(&fixture::view(&machine, &threads));
        assert!(told[0].is_some() && told[0] == told[1], "{told:?}");
        assert!(told[2].is_some_and(|mpki| mpki > 19.0), "{told:?}");
        // In whichever order they were before.
        running.order.reverse();
        assert_eq!(running.told_apart(&fixture::view(&machine, &threads)), told);
    }
}
