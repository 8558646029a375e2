//! How fast a core fetches instructions: taken branches in more and more code, short runs on one cache line and on
//! two, and lines of code from beyond the level-1 instruction cache.

use std::collections::BTreeMap;

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::bench::{Sample, pin, timed};
use crate::estimate::{Estimator, Values};
use crate::figure::{CodeSource, CoreFigure, Figure};
use crate::kernel::{Code, CodeKind};
use crate::rounds::Experiment;

/// Branches or lines that a sample passes at least: some 20 us.
const LEAST_STEPS: u64 = 30_000;
/// The most code in which taken branches are measured; in more than the first level holds, what counts is how
/// its lines come.
const MOST_BRANCHES_KIB: u32 = 128;
/// Code of short runs: few branches, so that the core foresees all.
const RUNS_BYTES: usize = 4096;

/// Code of one kind and size.
struct Work {
    what: CoreFigure,
    code: Code,
}

/// The front end of a core type.
pub(crate) struct Fetching {
    core_type: usize,
    cpu: CpuId,
    work: Vec<Work>,
    /// Short runs within lines of code, and across them.
    runs: Option<[Code; 2]>,
}

impl Fetching {
    /// `l1_bytes`: what the level-1 instruction cache holds; `sets`: bytes of code that lies in the private cache
    /// and in the LLC, where there is such a cache. Nothing is measured where the system lets no program make code.
    pub(crate) fn new(
        core_type: usize,
        cpu: CpuId,
        l1_bytes: f64,
        sets: &[(CodeSource, usize)],
    ) -> Self {
        let sizes = (0..).map(|power| 1u32 << power);
        let most = ((l1_bytes / 1024.0) as u32).min(MOST_BRANCHES_KIB);
        let branches = sizes.take_while(|&kib| kib <= most).map(|kib| {
            (CoreFigure::TakenBranchCycles(kib), CodeKind::TakenBranches, kib as usize * 1024)
        });
        let lines = sets
            .iter()
            .map(|&(from, bytes)| (CoreFigure::CodeLineCycles(from), CodeKind::Straight, bytes));
        let work = branches.chain(lines).filter_map(|(what, kind, bytes)| {
            Some(Work { what, code: Code::new(kind, bytes).ok()? })
        });
        let runs = |kind| Code::new(kind, RUNS_BYTES).ok();
        let [within, across] = [CodeKind::RunsWithinLines, CodeKind::RunsAcrossLines].map(runs);
        let runs = within.zip(across).map(<[Code; 2]>::from);
        Self { core_type, cpu, work: work.collect(), runs }
    }

    fn codes(&self) -> impl Iterator<Item = &Code> {
        self.work.iter().map(|work| &work.code).chain(self.runs.iter().flatten())
    }
}

impl Experiment for Fetching {
    fn name(&self) -> &'static str {
        "fetching"
    }

    fn points(&self) -> usize {
        self.codes().count()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let code = self.codes().nth(point).expect("a point");
        // Once for the caches, and until branches are known.
        code.run(LEAST_STEPS);
        let mut steps = 0;
        let reading = timed(|| steps = code.run(LEAST_STEPS));
        Ok(reading.sample(reading.cycles() / steps as f64))
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let cycles = |point| values.at(point, Estimator::Floor);
        let figure = |what, value| (Figure::Core(self.core_type, what), value);
        let first = self.work.len();
        let crossing = self
            .runs
            .iter()
            .map(|_| figure(CoreFigure::LineCrossingCycles, cycles(first + 1) - cycles(first)));
        let work = self.work.iter().enumerate();
        work.map(|(point, work)| figure(work.what, cycles(point))).chain(crossing).collect()
    }
}
