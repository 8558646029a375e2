//! Measures by turns: every point of every experiment once a round, in an order that changes, so that
//! a neighbour that comes and goes meets all alike.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use serde::Serialize;

use crate::CalibrateError;
use crate::bench::Sample;
use crate::estimate::{FigureRange, Samples, Values};
use crate::figure::Figure;
use crate::nearness::{Looks, References, Sharers};
use crate::surroundings::{Fit, TimedCores};
use crate::turns::{Crowding, Sharing, Turns};

/// Something that is measured at one or more points, and what follows from it.
pub(crate) trait Experiment {
    /// What is measured, for people who wait for it.
    fn name(&self) -> &'static str;

    /// How many points are measured.
    fn points(&self) -> usize;

    /// Measures a point once.
    ///
    /// # Errors
    /// When the operating system refuses something; not for a sample that was disturbed.
    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError>;

    /// What follows from the samples. Figures that are not finite are left out.
    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64>;

    /// The curves behind the figures.
    fn curves(&self, _: &Values<'_>) -> Vec<CurveShape> {
        Vec::new()
    }
}

/// A curve out of some of the rounds.
#[derive(Debug, Clone)]
pub(crate) struct CurveShape {
    /// Which curve it is.
    pub(crate) kind: CurveKind,
    /// The core type that it was measured on, as an index.
    pub(crate) core_type: usize,
    /// Places on both axes.
    pub(crate) points: Vec<(f64, f64)>,
}

/// The curves that are kept with the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CurveKind {
    /// Latency in cycles by bytes visited in random order.
    Ladder,
    /// Latency in cycles that a line a page adds, by pages.
    Tlb,
    /// Loads in flight by independent chases, over the LLC.
    LlcParallelism,
    /// The same over memory.
    MemoryParallelism,
    /// Time of two misses by instructions between them, in cycles.
    ReorderBuffer,
}

/// A curve as it was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// What it shows.
    pub kind: CurveKind,
    /// The core type that it was measured on, as an index of the machine's.
    pub core_type: usize,
    /// Its points, by their place on the horizontal axis.
    pub points: Vec<MeasuredPoint>,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredPoint {
    /// The place on the horizontal axis.
    pub x: f64,
    /// The value there.
    pub y: FigureRange,
}

/// An experiment, and what it needs around it.
pub(crate) struct Planned {
    /// The experiment.
    pub(crate) experiment: Box<dyn Experiment>,
    /// The CPUs that have to share a cache meanwhile. None where none have to, or where nobody knows which CPUs share one.
    pub(crate) sharers: Option<Sharers>,
    /// The cores that have to be free meanwhile. None where others on them do not matter.
    pub(crate) cores: Option<TimedCores>,
}

/// An experiment with its samples.
pub(crate) struct Measured {
    pub(crate) experiment: Box<dyn Experiment>,
    pub(crate) sharers: Option<Sharers>,
    pub(crate) cores: Option<TimedCores>,
    pub(crate) samples: Samples,
}

impl Measured {
    pub(crate) fn new(planned: Planned) -> Self {
        let Planned { experiment, sharers, cores } = planned;
        let samples = Samples::new(experiment.points());
        Self { experiment, sharers, cores, samples }
    }

    /// Was a point never measured while the CPUs shared their cache?
    pub(crate) fn is_apart(&self) -> bool {
        self.best_fits().any(|fit| !fit.is_near)
    }

    /// How the CPUs were in the samples that count, by point.
    pub(crate) fn best_fits(&self) -> impl Iterator<Item = Fit> {
        (0..self.samples.points()).filter_map(|point| self.samples.best_fit(point))
    }

    /// Is a figure about the sharing of a cache that the CPUs did not share?
    fn means_nothing(&self, figure: &Figure) -> bool {
        let cache = self.sharers.as_ref().map(|sharers| sharers.cache);
        figure.shared_cache().is_some_and(|shared| Some(shared) == cache) && self.is_apart()
    }

    /// The figures that would mean nothing.
    pub(crate) fn left_out(&self) -> Vec<Figure> {
        let figures = self.experiment.figures(&self.samples.all());
        figures.into_keys().filter(|figure| self.means_nothing(figure)).collect()
    }

    /// The figures of all samples that count, with what each quarter of the samples gives.
    pub(crate) fn figures(&self) -> BTreeMap<Figure, FigureRange> {
        let all = self.experiment.figures(&self.samples.all());
        let parts: Vec<BTreeMap<Figure, f64>> =
            self.samples.quarters().iter().map(|part| self.experiment.figures(part)).collect();
        let estimate = |(figure, value): (Figure, f64)| {
            let seen = parts.iter().filter_map(|part| part.get(&figure).copied());
            (figure, FigureRange::new(value, seen))
        };
        let counts =
            |(figure, value): &(Figure, f64)| value.is_finite() && !self.means_nothing(figure);
        all.into_iter().filter(counts).map(estimate).collect()
    }

    /// The curves behind the figures.
    pub(crate) fn curves(&self) -> Vec<Curve> {
        let parts: Vec<Vec<CurveShape>> =
            self.samples.quarters().iter().map(|part| self.experiment.curves(part)).collect();
        let curve = |(place, shape): (usize, CurveShape)| {
            let point = |(at, &(x, y)): (usize, &(f64, f64))| {
                let seen = parts.iter().filter_map(|part| Some(part[place].points.get(at)?.1));
                MeasuredPoint { x, y: FigureRange::new(y, seen) }
            };
            let points = shape.points.iter().enumerate().map(point);
            let points = points.filter(|point| point.y.value.is_finite()).collect();
            Curve { kind: shape.kind, core_type: shape.core_type, points }
        };
        self.experiment.curves(&self.samples.all()).into_iter().enumerate().map(curve).collect()
    }
}

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// No further round is begun that would probably end later.
    pub(crate) time: Duration,
    /// The fewest rounds, however long they take.
    pub(crate) least_rounds: u32,
    /// Looks after the last round at CPUs that did not share a cache, or a core. A wait of 20 ms follows each that finds them so again.
    pub(crate) late_looks: u32,
}

/// What came of all rounds.
pub(crate) struct Rounds {
    /// The experiments in the order in which they were given.
    pub(crate) measured: Vec<Measured>,
    /// How many rounds there were.
    pub(crate) rounds: u32,
    /// Share of the samples that were disturbed at the last attempt.
    pub(crate) disturbed_share: f64,
    /// How often CPUs shared the caches that they were to share.
    pub(crate) sharing: Sharing,
    /// How often cores were free.
    pub(crate) crowding: Crowding,
}

/// Measures round after round. `tell` hears the share of the time that is over and what is measured
/// next; it says whether to go on.
///
/// # Errors
/// [`CalibrateError::Stopped`] when `tell` says so; else what an experiment says.
pub(crate) fn run(
    planned: Vec<Planned>,
    budget: Budget,
    (looks, references): (&mut dyn Looks, References),
    tell: &mut dyn FnMut(f64, &'static str) -> bool,
) -> Result<Rounds, CalibrateError> {
    let measured = planned.into_iter().map(Measured::new).collect();
    let mut turns = Turns::new(measured, looks, references);
    let mut order = turns.all();
    // The order of turns is no figure: any seed does.
    let mut random = Pcg64::seed_from_u64(1);
    let start = Instant::now();
    let mut rounds = 0;
    loop {
        order.shuffle(&mut random);
        turns.round(&order, &mut |done, name| {
            let by_time = start.elapsed().as_secs_f64() / budget.time.as_secs_f64();
            let by_rounds = (f64::from(rounds) + done) / f64::from(budget.least_rounds);
            tell(by_time.min(by_rounds).min(1.0), name)
        })?;
        rounds += 1;
        let elapsed = start.elapsed();
        let over = elapsed + elapsed / rounds > budget.time;
        if rounds >= budget.least_rounds && over {
            break;
        }
    }
    turns.catch_up(budget, &mut |name| tell(1.0, name))?;
    Ok(turns.finish(rounds))
}

#[cfg(test)]
mod tests {
    use corun_machine::{CpuId, LineTransfer};

    use super::*;
    use crate::estimate::Estimator;
    use crate::figure::KernelFigure;

    /// Counts its turns; the first attempt at each is disturbed where it is told so.
    struct Counting {
        turns: Vec<u32>,
        disturbed: bool,
    }

    const FIGURE: Figure = Figure::Kernel(KernelFigure::SystemCall);

    impl Experiment for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn points(&self) -> usize {
            self.turns.len()
        }

        fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
            self.turns[point] += 1;
            Ok(Sample::new(f64::from(self.turns[point]), self.disturbed))
        }

        fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
            [(FIGURE, values.at(0, Estimator::Typical))].into()
        }
    }

    fn counting(points: usize, disturbed: bool) -> Vec<Planned> {
        let experiment = Box::new(Counting { turns: vec![0; points], disturbed });
        vec![Planned { experiment, sharers: None, cores: None }]
    }

    /// Nobody shares anything.
    struct NoLooks;

    impl Looks for NoLooks {
        fn farthest_ns(&mut self, _: &[CpuId]) -> Result<f64, CalibrateError> {
            panic!("no CPUs have to share a cache");
        }

        fn additions_per_cycle(&mut self, _: &[CpuId]) -> Result<f64, CalibrateError> {
            panic!("no core has to be free");
        }

        fn wait(&mut self) {
            panic!("nobody is waited for");
        }
    }

    fn measured(
        planned: Vec<Planned>,
        least_rounds: u32,
        tell: &mut dyn FnMut(f64, &'static str) -> bool,
    ) -> Result<Rounds, CalibrateError> {
        let budget = Budget { time: Duration::ZERO, least_rounds, late_looks: 9 };
        let references = References::new(LineTransfer::default(), &[]);
        run(planned, budget, (&mut NoLooks, references), tell)
    }

    #[test]
    fn every_point_has_a_turn_in_every_round() {
        let mut told = 0;
        let mut tell = |share: f64, name: &'static str| {
            assert!((0.0..=1.0).contains(&share));
            assert_eq!(name, "counting");
            told += 1;
            true
        };
        let rounds = measured(counting(3, false), 4, &mut tell).unwrap();
        assert_eq!((rounds.rounds, rounds.disturbed_share, told), (4, 0.0, 12));
        // The samples of a point are 1, 2, 3, 4: the median is 2.5, a quarter is a round.
        let estimate = rounds.measured[0].figures()[&FIGURE];
        assert_eq!(estimate, FigureRange { value: 2.5, low: 1.0, high: 4.0 });
    }

    #[test]
    fn a_disturbed_sample_is_tried_again_and_counted_in_the_end() {
        let rounds = measured(counting(1, true), 2, &mut |_, _| true).unwrap();
        assert_eq!(rounds.disturbed_share, 1.0);
        // Three attempts each: the last counts.
        assert_eq!(rounds.measured[0].figures()[&FIGURE].high, 6.0);
    }

    #[test]
    fn it_stops_when_it_is_told_to() {
        let stopped = measured(counting(1, false), 2, &mut |_, _| false);
        assert!(matches!(stopped, Err(CalibrateError::Stopped)));
    }
}
