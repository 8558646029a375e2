//! What CPUs cost each other that share a core: hardware threads, and CPUs of a virtual machine that
//! are threads of one core of the host without saying so.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::rates::{Group, until};
use crate::CalibrateError;
use crate::bench::{Sample, together, wall_time};
use crate::estimate::{Estimator, Values};
use crate::figure::{CoreFigure, Figure};
use crate::kernel::{InstructionMix, independent_instructions};
use crate::rounds::Experiment;

/// How long all are at it.
const TOGETHER: Duration = Duration::from_millis(4);
/// Instructions before a CPU looks at the time.
const INSTRUCTIONS: u64 = 50_000;

/// What a point measures: arithmetic or random loads from memory, on one CPU or on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    memory: bool,
    all: bool,
}

const POINTS: [Point; 4] = [
    Point { memory: false, all: false },
    Point { memory: false, all: true },
    Point { memory: true, all: false },
    Point { memory: true, all: true },
];

/// CPUs that are measured one alone and all together.
pub(crate) struct Siblings {
    /// The core type whose hardware threads they are; none where they count as cores.
    core_type: Option<usize>,
    group: Group,
}

impl Siblings {
    /// The hardware threads of a core.
    pub(crate) fn of_core(core_type: usize, group: Group) -> Self {
        Self { core_type: Some(core_type), group }
    }

    /// CPUs that count as cores.
    pub(crate) fn apart(group: Group) -> Self {
        Self { core_type: None, group }
    }

    /// Units of work a ns on one CPU.
    fn rate(&self, place: usize, memory: bool) -> (f64, bool) {
        let start = Instant::now();
        let over = || start.elapsed() >= TOGETHER;
        let mut done = 0;
        let (ns, disturbed) = if memory {
            let mut zeros = self.group.regions[place].lock();
            wall_time(|| done = until(&mut zeros, None, 0, &over))
        } else {
            wall_time(|| {
                while !over() {
                    done += independent_instructions(InstructionMix::AddsAndLoads, INSTRUCTIONS);
                }
            })
        };
        (done as f64 / ns, disturbed)
    }
}

impl Experiment for Siblings {
    fn name(&self) -> &'static str {
        "CPUs that share a core"
    }

    fn points(&self) -> usize {
        // CPUs that count as cores share memory anyway.
        if self.core_type.is_some() { POINTS.len() } else { 2 }
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        let Point { memory, all } = POINTS[point];
        let cpus = if all { &self.group.cpus[..] } else { &self.group.cpus[..1] };
        let each = together(cpus, |place| self.rate(place, memory))?;
        let disturbed = each.iter().any(|(_, disturbed)| *disturbed);
        Ok(Sample::new(each.iter().map(|(rate, _)| rate).sum(), disturbed))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let threads = self.group.cpus.len() as f64;
        let gain = |alone: usize| {
            let at = |point| values.at(point, Estimator::Ceiling);
            (at(alone + 1) / at(alone)).clamp(1.0, threads)
        };
        let figure = match (self.core_type, &self.group.cpus[..]) {
            (Some(core_type), _) => {
                let mean = (gain(0) + gain(2)) / 2.0;
                (Figure::Core(core_type, CoreFigure::SmtYield), mean)
            }
            (None, [one, other, ..]) => (Figure::SpeedBeside(one.0, other.0), gain(0) / threads),
            (None, _) => return BTreeMap::new(),
        };
        [figure].into()
    }
}
