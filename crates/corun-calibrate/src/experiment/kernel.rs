//! What the operating system's kernel takes: page faults and system calls.

use std::collections::BTreeMap;

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::bench::{Sample, pin, timed};
use crate::chains::memory_error;
use crate::estimate::{Estimator, Values};
use crate::figure::{Figure, KernelFigure};
use crate::kernel::{Pages, first_touch};
use crate::rounds::Experiment;

const SMALL_PAGES: usize = 512;
const HUGE_PAGES: usize = 4;
const CALLS: u32 = 2000;

/// Times of the kernel, on one CPU.
pub(crate) struct KernelCalls {
    cpu: CpuId,
    points: Vec<KernelFigure>,
}

impl KernelCalls {
    /// `huge_pages`: whether the kernel gives them.
    pub(crate) fn new(cpu: CpuId, huge_pages: bool) -> Self {
        let mut points = vec![KernelFigure::SystemCall, KernelFigure::PageFault];
        points.extend(huge_pages.then_some(KernelFigure::HugePageFault));
        Self { cpu, points }
    }
}

fn fault(pages: Pages, count: usize) -> Result<Sample, CalibrateError> {
    let reading = first_touch(pages, count, |touch| timed(touch))
        .map_err(|source| memory_error(count << 21, source))?;
    Ok(reading.sample(reading.ns / count as f64))
}

impl Experiment for KernelCalls {
    fn name(&self) -> &'static str {
        "page faults and system calls"
    }

    fn points(&self) -> usize {
        self.points.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        match self.points[point] {
            KernelFigure::PageFault => fault(Pages::Small, SMALL_PAGES),
            KernelFigure::HugePageFault => fault(Pages::Huge, HUGE_PAGES),
            KernelFigure::SystemCall => {
                let reading = timed(|| {
                    for _ in 0..CALLS {
                        std::hint::black_box(rustix::process::getppid());
                    }
                });
                Ok(reading.sample(reading.ns / f64::from(CALLS)))
            }
        }
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let figure = |(point, &what): (usize, &KernelFigure)| {
            (Figure::Kernel(what), values.at(point, Estimator::Typical))
        };
        self.points.iter().enumerate().map(figure).collect()
    }
}
