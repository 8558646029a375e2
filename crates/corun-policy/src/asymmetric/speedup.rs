//! Speedup factors: known from profiles, or estimated from counters by the machine file's fit.

use corun_machine::SpeedupFit;

use super::{Cores, Side};
use crate::asymmetric::by_thread::ByThread;
use crate::linear::{Equation, least_squares};
use crate::{CounterKind, Parameter, ParameterKind, ThreadView, View};

/// Counters that the estimate stands on.
pub(crate) const COUNTERS: [CounterKind; 4] = [
    CounterKind::Instructions,
    CounterKind::Cycles,
    CounterKind::LlcReferences,
    CounterKind::LlcMisses,
];

/// Known or estimated factors.
pub(crate) const IDEAL: Parameter = Parameter {
    name: "ideal-speedup",
    kind: ParameterKind::SWITCH,
    default: 0.0,
    min: 0.0,
    max: 1.0,
    summary: "0: speedup factors estimated from counters; 1: those of stored profiles",
};

/// Weight of the past, an interval on: a half-life of four intervals, as a running average that
/// follows phases and not single samples.
const DECAY: f64 = 0.840_896_415_253_714_6;

/// A factor for each thread.
#[derive(Debug)]
pub(crate) struct Speedups {
    ideal: bool,
    estimates: ByThread<Option<f64>>,
    /// In the order of the view's threads.
    pub(crate) factors: Vec<f64>,
}

impl Speedups {
    pub(crate) fn new(ideal: f64) -> Self {
        Self { ideal: ideal >= 0.5, estimates: ByThread::default(), factors: Vec::new() }
    }

    /// Does it need stored profiles?
    pub(crate) fn is_ideal(&self) -> bool {
        self.ideal
    }

    pub(crate) fn align(&mut self, view: &View<'_>, cores: &Cores) {
        self.estimates.align(view.threads, |_| None);
        self.publish(view, cores);
    }

    /// Takes in an interval's counts.
    pub(crate) fn measure(&mut self, view: &View<'_>, cores: &Cores) {
        for (thread, estimate) in view.threads.iter().zip(self.estimates.values_mut()) {
            if let Some(now) = estimated(thread, view, cores) {
                let before = estimate.unwrap_or(now);
                *estimate = Some(DECAY * before + (1.0 - DECAY) * now);
            }
        }
        self.publish(view, cores);
    }

    fn publish(&mut self, view: &View<'_>, cores: &Cores) {
        self.factors.clear();
        let of = |(thread, estimate): (&ThreadView, &Option<f64>)| {
            let known = thread.solo.and_then(|solo| solo.speedup_factor).filter(|_| self.ideal);
            known.or(*estimate).unwrap_or(cores.capacity_ratio)
        };
        self.factors.extend(view.threads.iter().zip(self.estimates.values()).map(of));
    }
}

/// By what was counted in the last interval; none where nothing was, or the machine has no fit.
fn estimated(thread: &ThreadView, view: &View<'_>, cores: &Cores) -> Option<f64> {
    let counters = &thread.rates;
    let calibration = view.machine.calibration();
    let fit = match side_of(thread, cores)? {
        Side::Big => calibration.speedup_on_big?,
        Side::Small => calibration.speedup_on_small?,
    };
    let factor = fit.at(counters.ipc()?, counters.llc_mpki()?, counters.llc_apki()?);
    factor.is_finite().then_some(factor)
}

/// The side that a thread ran on last.
pub(crate) fn side_of(thread: &ThreadView, cores: &Cores) -> Option<Side> {
    let cpu = thread.cpu?;
    if cores.big.contains(cpu) {
        Some(Side::Big)
    } else {
        cores.small.contains(cpu).then_some(Side::Small)
    }
}

/// What is counted of a program on one core type, and its speedup factor: a point for [`fit_speedup`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedupPoint {
    /// Instructions per cycle.
    pub ipc: f64,
    /// LLC misses per 1000 instructions.
    pub mpki: f64,
    /// LLC accesses per 1000 instructions.
    pub apki: f64,
    /// Instructions a second on a big core / on a small one.
    pub factor: f64,
    /// How much the point counts.
    pub weight: f64,
}

/// The line through these points with the least weighted squares of errors; none for too few points.
pub fn fit_speedup(points: &[SpeedupPoint]) -> Option<SpeedupFit> {
    let equation = |point: &SpeedupPoint| Equation {
        coefficients: vec![1.0, point.ipc, point.mpki, point.apki],
        right: point.factor,
        weight: point.weight,
    };
    let equations: Vec<Equation> = points.iter().map(equation).collect();
    let found = least_squares(&equations, &[0.0; 4], 0.0)?;
    let [intercept, per_ipc, per_mpki, per_apki] = found[..] else { return None };
    Some(SpeedupFit { intercept, per_ipc, per_mpki, per_apki })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let truth = SpeedupFit { intercept: 1.5, per_ipc: 0.8, per_mpki: -0.02, per_apki: 0.01 };
        let point = |ipc: f64, mpki: f64, apki: f64| SpeedupPoint {
            ipc,
            mpki,
            apki,
            factor: truth.at(ipc, mpki, apki),
            weight: 0.5,
        };
        let points =
            [(0.5, 1.0, 3.0), (1.0, 0.0, 9.0), (2.0, 5.0, 5.0), (1.5, 2.0, 30.0), (0.7, 9.0, 12.0)]
                .map(|(ipc, mpki, apki)| point(ipc, mpki, apki));
        let found = fit_speedup(&points).unwrap();
        for (found, truth) in [
            (found.intercept, truth.intercept),
            (found.per_ipc, truth.per_ipc),
            (found.per_mpki, truth.per_mpki),
            (found.per_apki, truth.per_apki),
        ] {
            assert!((found - truth).abs() < 1e-9, "{found} {truth}");
        }
        assert_eq!(fit_speedup(&points[..3]), None);
    }
}
