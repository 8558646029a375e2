//! The reorder buffer: two misses overlap as long as the instructions between them fit into it
//! (Wong, "Measuring Reorder Buffer Capacity", 2013).

use std::collections::BTreeMap;

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::analysis::step::step;
use crate::bench::{Sample, pin, timed};
use crate::estimate::{Estimator, Values};
use crate::figure::{CoreFigure, Figure};
use crate::kernel::{Chain, MAX_FILLERS, NOT_FILLERS};
use crate::rounds::{CurveKind, CurveShape, Experiment};

/// Pairs of misses of a sample.
const PAIRS: u64 = 400;

/// The reorder buffer of a core type.
pub(crate) struct Window {
    core_type: usize,
    cpu: CpuId,
    chains: [Chain; 2],
    fillers: Vec<u64>,
}

impl Window {
    /// `chains` are two places far apart on a chain over memory; `filler_step` is the step from one
    /// distance between misses to the next.
    pub(crate) fn new(core_type: usize, cpu: CpuId, chains: [Chain; 2], filler_step: u64) -> Self {
        let fillers = (0..=MAX_FILLERS / filler_step).map(|step| step * filler_step).collect();
        Self { core_type, cpu, chains, fillers }
    }

    /// Cycles of a pair of misses, by the instructions from one to the next.
    fn times(&self, values: &Values<'_>) -> Vec<(f64, f64)> {
        let fillers = self.fillers.iter().enumerate();
        fillers
            .map(|(point, &count)| {
                ((count + NOT_FILLERS) as f64, values.at(point, Estimator::Floor))
            })
            .collect()
    }
}

impl Experiment for Window {
    fn name(&self) -> &'static str {
        "reorder buffer"
    }

    fn points(&self) -> usize {
        self.fillers.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let fillers = self.fillers[point];
        let [one, other] = &mut self.chains;
        let reading = timed(|| Chain::two_misses_apart(one, other, fillers, PAIRS));
        Ok(reading.sample(reading.cycles() / PAIRS as f64))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let found = step(&self.times(values));
        let figure = Figure::Core(self.core_type, CoreFigure::ReorderBuffer);
        found.map(|entries| (figure, entries)).into_iter().collect()
    }

    fn curves(&self, values: &Values<'_>) -> Vec<CurveShape> {
        let points = self.times(values);
        vec![CurveShape { kind: CurveKind::ReorderBuffer, core_type: self.core_type, points }]
    }
}
