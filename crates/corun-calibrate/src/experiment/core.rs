//! The core: latencies of operations, dispatch width, mispredicted branches.

use std::collections::BTreeMap;

use corun_machine::CpuId;

use crate::CalibrateError;
use crate::bench::{Sample, pin, timed};
use crate::estimate::{Estimator, Values};
use crate::figure::{CoreFigure, Figure};
use crate::kernel::{
    ExecutionChain, InstructionMix, Throughput, branches, independent_instructions,
};
use crate::rounds::Experiment;

/// Operations of a sample.
const OPERATIONS: u64 = 50_000;
const INSTRUCTIONS: u64 = 500_000;
const BRANCHES: u64 = 50_000;
/// From the condition's bits to a resolved branch: one test-and-branch.
const BRANCH_CYCLES: f64 = 1.0;

/// What a point is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Work {
    /// Cycles an operation.
    Chain(ExecutionChain),
    /// Operations a cycle.
    Throughput(Throughput),
    /// Instructions a cycle.
    Mix(InstructionMix),
    /// Cycles a branch that is taken at random, or never.
    Branches { random: bool },
}

/// The core of a type.
pub(crate) struct Core {
    core_type: usize,
    cpu: CpuId,
    work: Vec<Work>,
    /// Of the random sequence of branches.
    state: u64,
}

impl Core {
    pub(crate) fn new(core_type: usize, cpu: CpuId) -> Self {
        let chains = ExecutionChain::ALL.into_iter().filter(|chain| chain.is_known_here());
        let mut work: Vec<Work> = chains.map(Work::Chain).collect();
        work.extend(Throughput::ALL.map(Work::Throughput));
        work.extend(InstructionMix::ALL.map(Work::Mix));
        work.extend([false, true].map(|random| Work::Branches { random }));
        Self { core_type, cpu, work, state: 1 }
    }
}

impl Experiment for Core {
    fn name(&self) -> &'static str {
        "core"
    }

    fn points(&self) -> usize {
        self.work.len()
    }

    fn measure(&mut self, point: usize) -> Result<Sample, CalibrateError> {
        pin(self.cpu)?;
        let mut done = 0;
        Ok(match self.work[point] {
            Work::Chain(chain) => {
                let reading = timed(|| done = chain.run(OPERATIONS));
                reading.sample(reading.cycles() / done as f64 - chain.added_cycles())
            }
            Work::Throughput(operation) => {
                let reading = timed(|| done = operation.run(OPERATIONS));
                reading.sample(done as f64 / reading.cycles())
            }
            Work::Mix(mix) => {
                let reading = timed(|| done = independent_instructions(mix, INSTRUCTIONS));
                reading.sample(done as f64 / reading.cycles())
            }
            Work::Branches { random } => {
                let reading = timed(|| branches(BRANCHES, random, &mut self.state));
                reading.sample(reading.cycles() / BRANCHES as f64)
            }
        })
    }

    fn figures(&self, values: &Values<'_>) -> BTreeMap<Figure, f64> {
        let mut figures = BTreeMap::new();
        let mut width = 0.0f64;
        let mut branch = [f64::NAN; 2];
        let chain = |chain| {
            let at = self.work.iter().position(|work| *work == Work::Chain(chain))?;
            Some(values.at(at, Estimator::Floor))
        };
        for (point, work) in self.work.iter().enumerate() {
            match *work {
                Work::Chain(one) => {
                    let what = CoreFigure::Execution(one);
                    let mut cycles = values.at(point, Estimator::Floor);
                    if one == ExecutionChain::VectorLoad {
                        cycles -= chain(ExecutionChain::Transfer).unwrap_or_default();
                    }
                    figures.insert(Figure::Core(self.core_type, what), cycles);
                }
                Work::Throughput(operation) => {
                    let what = CoreFigure::Throughput(operation);
                    let operations = values.at(point, Estimator::Ceiling);
                    figures.insert(Figure::Core(self.core_type, what), operations);
                }
                Work::Mix(_) => width = width.max(values.at(point, Estimator::Ceiling)),
                Work::Branches { random } => {
                    branch[usize::from(random)] = values.at(point, Estimator::Floor);
                }
            }
        }
        let [predicted, random] = branch;
        // Half of the random ones are mispredicted. The chain of their conditions goes through all
        // branches, so that the predicted ones take as long as the chain, and a mispredicted one
        // adds its own execution and the penalty.
        let penalty = 2.0 * (random - predicted) - BRANCH_CYCLES;
        figures.insert(Figure::Core(self.core_type, CoreFigure::BranchPenaltyCycles), penalty);
        figures.insert(Figure::Core(self.core_type, CoreFigure::DispatchWidth), width);
        figures
    }
}
