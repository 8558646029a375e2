//! The clock: dependent additions take a cycle each, so that their rate is the clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::bench::{Sample, cycles_per_ns, pin, together, wall_time};
use crate::estimate::{Estimator, Values};
use crate::figure::{CoreFigure, Figure};
use crate::kernel::dependent_adds;
use crate::rounds::Experiment;

/// A pause after which the core may have saved up for a burst.
const PAUSE: Duration = Duration::from_millis(20);
/// Additions of a burst: some 0.1 ms.
const BURST_ADDS: u64 = 400_000;
/// How long a core is busy before its clock counts as settled.
const SETTLING: Duration = Duration::from_millis(10);

/// The clock of a core type: in a burst, alone, and with all CPUs busy.
pub(crate) struct Clock {
    core_type: usize,
    cpu: CpuId,
    /// All CPUs, the one that is measured first.
    all: Vec<CpuId>,
}

impl Clock {
    pub(crate) fn new(core_type: usize, cpu: CpuId, all: &[CpuId]) -> Self {
        let others = all.iter().copied().filter(|&other| other != cpu);
        Self { core_type, cpu, all: std::iter::once(cpu).chain(others).collect() }
    }
}

const POINTS: [CoreFigure; 3] =
    [CoreFigure::ClockBurstMhz, CoreFigure::ClockAloneMhz, CoreFigure::ClockMhz];

impl Experiment for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn points(&self) -> usize {
        POINTS.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        match POINTS[point] {
            CoreFigure::ClockBurstMhz => {
                std::thread::sleep(PAUSE);
                Ok(mhz_of(BURST_ADDS))
            }
            CoreFigure::ClockAloneMhz => Ok(settled_mhz()),
            _ => {
                let all = together(&self.all, |_| settled_mhz())?;
                let disturbed = all.iter().any(|sample| sample.disturbed);
                Ok(Sample { disturbed, ..all[0] })
            }
        }
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let figure = |(point, &what): (usize, &CoreFigure)| {
            (Figure::Core(self.core_type, what), values.at(point, Estimator::Typical))
        };
        POINTS.iter().enumerate().map(figure).collect()
    }
}

fn mhz_of(additions: u64) -> Sample {
    let mut cycles = 0;
    let (ns, disturbed) = wall_time(|| cycles = dependent_adds(additions));
    Sample::new(cycles as f64 / ns * 1e3, disturbed)
}

/// The clock after a while of work, while work goes on.
fn settled_mhz() -> Sample {
    let start = Instant::now();
    while start.elapsed() < SETTLING {
        cycles_per_ns();
    }
    let sample = mhz_of(8 * BURST_ADDS);
    // Others whose clock is measured at the same time are still busy.
    while start.elapsed() < 2 * SETTLING {
        cycles_per_ns();
    }
    sample
}
