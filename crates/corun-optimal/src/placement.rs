//! The question and its answer, for any source of slowdowns.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use corun_machine::Machine;

use crate::contention::Contention;
use crate::error::PlacementError;
use crate::expectation::{RandomExpectation, expect};
use crate::frontier::{FrontierPoint, frontier};
use crate::local_search::searched_from_dealt;
use crate::objective::{Criterion, Goal, Objective};
use crate::search::StopRule;
use crate::search_space::SearchSpace;
use crate::solve::{SearchResult, solve, solve_within};

/// When a search ends before its proof.
#[derive(Debug, Clone, Copy)]
pub struct SearchLimits<'l> {
    /// Nodes to visit at most: the same answer on every machine.
    pub nodes: u64,
    /// Time to take at most. The one limit that makes an unproven answer depend on the machine.
    pub time: Option<Duration>,
    /// Set it to end the search.
    pub cancel: Option<&'l AtomicBool>,
}

impl Default for SearchLimits<'_> {
    /// 20 million nodes, no limit of time.
    fn default() -> Self {
        Self { nodes: 20_000_000, time: None, cancel: None }
    }
}

impl<'l> SearchLimits<'l> {
    pub(crate) fn stop(&self, started: Instant) -> StopRule<'l> {
        let deadline = self.time.map(|time| started + time);
        StopRule { nodes: self.nodes, deadline, cancel: self.cancel }
    }
}

/// A placement and how good it is.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacementResult {
    /// CPU index of each program (a place in [`Machine::cpus`]).
    pub cpu: Vec<usize>,
    /// LLC of each program (index in [`Machine::llcs`]).
    pub llc: Vec<usize>,
    /// Slowdown of each program.
    pub slowdown: Vec<f64>,
    /// The objective's value.
    pub value: f64,
    /// No placement has a better value (looking for the worst: a worse one). None when the
    /// programs are too many for a bound.
    pub bound: Option<f64>,
    /// |value - bound| / |bound|; 0 when proven.
    pub gap: Option<f64>,
    /// Is this placement proven to be the best (the worst), to within [`crate::TIE`]?
    pub proven: bool,
    /// Nodes visited.
    pub nodes: u64,
    /// Nodes that a bound cut.
    pub pruned: u64,
    /// Time the search took.
    pub seconds: f64,
}

/// The answer to a search for the best placement in which nobody is slower than a target.
#[derive(Debug, Clone, PartialEq)]
pub enum WithinTarget {
    /// The best of those placements.
    Kept(PlacementResult),
    /// None was found: the placement in which the slowest program is the least slow, by which it is judged. Where that is
    /// proven there is none.
    Exceeded(PlacementResult),
}

/// Programs to be placed on a machine, one to a CPU.
#[derive(Debug)]
pub struct Placer<'p, C> {
    machine: &'p Machine,
    contention: &'p C,
    equals: Vec<usize>,
    fixed_nodes: Vec<usize>,
    starts: Vec<Vec<usize>>,
}

impl<'p, C: Contention> Placer<'p, C> {
    /// `programs` programs, all different, that live on no node by name.
    ///
    /// # Errors
    /// [`PlacementError::NoProgram`], [`PlacementError::TooManyThreads`],
    /// [`PlacementError::TooManyLlcs`].
    pub fn new(
        machine: &'p Machine,
        contention: &'p C,
        programs: usize,
    ) -> Result<Self, PlacementError> {
        let cpus = machine.cpus().len();
        if programs == 0 {
            return Err(PlacementError::NoProgram);
        }
        if programs > cpus {
            return Err(PlacementError::TooManyThreads { threads: programs, cpus });
        }
        if machine.llcs().len() > 64 {
            return Err(PlacementError::TooManyLlcs { llcs: machine.llcs().len() });
        }
        let equals = (0..programs).collect();
        Ok(Self { machine, contention, equals, fixed_nodes: Vec::new(), starts: Vec::new() })
    }

    /// Says which programs are equal: for each the lowest one that it cannot be told from
    /// (itself, when there is none).
    #[must_use]
    pub fn with_equals(mut self, equals: Vec<usize>) -> Self {
        let is_lowest = |(program, &lowest): (usize, &usize)| {
            lowest <= program && equals.get(lowest) == Some(&lowest)
        };
        if equals.len() == self.equals.len() && equals.iter().enumerate().all(is_lowest) {
            self.equals = equals;
        }
        self
    }

    /// Names the nodes (indices in [`Machine::nodes`]) that hold somebody's pages.
    #[must_use]
    pub(crate) fn with_fixed_nodes(mut self, nodes: Vec<usize>) -> Self {
        self.fixed_nodes = nodes;
        self
    }

    /// Gives placements (the CPU index of each program) that are known already: [`Self::solve`] finds none that is
    /// worse than one of them, however early a limit ends the search.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn with_starts(mut self, starts: &[Vec<usize>]) -> Result<Self, PlacementError> {
        starts.iter().try_for_each(|cpus| self.check_given(cpus))?;
        self.starts = starts.to_vec();
        Ok(self)
    }

    pub(crate) fn programs(&self) -> usize {
        self.equals.len()
    }

    pub(crate) fn cpus(&self) -> usize {
        self.machine.cpus().len()
    }

    pub(crate) fn space(&self) -> SearchSpace<'p, C> {
        SearchSpace::new(self.machine, self.contention, self.equals.clone(), &self.fixed_nodes)
    }

    /// The best or the worst placement. [`Objective::check`] says whether the objective can judge any here: where it
    /// cannot, the value is not a number. Of placements whose values agree to [`crate::TIE`] the
    /// lowest is given, by the LLC of program 0, of program 1 and so on; so the answer does not
    /// depend on the number of threads.
    pub fn solve(
        &self,
        objective: Objective,
        goal: Goal,
        limits: &SearchLimits<'_>,
    ) -> PlacementResult {
        let started = Instant::now();
        let space = self.space();
        let found = solve(&space, objective, goal, &self.starts, &limits.stop(started));
        self.result(&space, &space.criterion(objective, goal), found, started)
    }

    /// The best placement in which nobody is slower than `most_slowdown`. As [`Self::solve`], but that of equally unfair
    /// placements any one is given.
    pub fn solve_within(
        &self,
        most_slowdown: f64,
        objective: Objective,
        limits: &SearchLimits<'_>,
    ) -> WithinTarget {
        let started = Instant::now();
        let space = self.space();
        let stop = limits.stop(started);
        let (found, is_kept) = solve_within(&space, most_slowdown, objective, &self.starts, &stop);
        let judged_by = if is_kept { objective } else { Objective::MaxSlowdown };
        let criterion = space.criterion(judged_by, Goal::Best);
        let result = self.result(&space, &criterion, found, started);
        if is_kept { WithinTarget::Kept(result) } else { WithinTarget::Exceeded(result) }
    }

    /// A good placement by exchanges alone, with no proof: for very many programs.
    pub fn local_search(
        &self,
        objective: Objective,
        goal: Goal,
        limits: &SearchLimits<'_>,
    ) -> PlacementResult {
        let started = Instant::now();
        let space = self.space();
        let criterion = space.criterion(objective, goal);
        let (best, nodes) = searched_from_dealt(&space, &criterion, &limits.stop(started));
        let found = SearchResult { best, bound: None, is_proven: false, nodes, pruned: 0 };
        self.result(&space, &criterion, found, started)
    }

    pub(crate) fn result(
        &self,
        space: &SearchSpace<'_, C>,
        criterion: &Criterion,
        found: SearchResult,
        started: Instant,
    ) -> PlacementResult {
        let placement = found.best.placement;
        let mut scratch = C::Scratch::default();
        let (slowdown, above_idle_w) =
            space.judged(criterion.objective, &placement.cpu, &mut scratch);
        let value = criterion.value(criterion.score_of(&slowdown, above_idle_w));
        let bound = match found.bound.map(|bound| criterion.value(bound)) {
            Some(_) if found.is_proven => Some(value),
            bound => bound.filter(|bound| bound.is_finite()),
        };
        let gap = bound.map(|bound| ((value - bound) / bound).abs()).filter(|gap| gap.is_finite());
        PlacementResult {
            cpu: placement.cpu,
            llc: placement.llc,
            slowdown,
            value,
            bound,
            gap,
            proven: found.is_proven,
            nodes: found.nodes,
            pruned: found.pruned,
            seconds: started.elapsed().as_secs_f64(),
        }
    }

    /// The slowdowns of a given placement: the CPU index of each program.
    ///
    /// # Errors
    /// [`PlacementError::Given`] when a CPU does not exist or is given twice, or the number of
    /// CPUs is not that of the programs.
    pub fn evaluate(&self, cpus: &[usize]) -> Result<Vec<f64>, PlacementError> {
        self.check_given(cpus)?;
        Ok(self.space().slowdowns(cpus, &mut C::Scratch::default()))
    }

    fn check_given(&self, cpus: &[usize]) -> Result<(), PlacementError> {
        let programs = self.equals.len();
        if cpus.len() != programs {
            let why = format!("{} CPUs for {programs} programs", cpus.len());
            return Err(PlacementError::Given { why });
        }
        for (program, &cpu) in cpus.iter().enumerate() {
            if cpu >= self.machine.cpus().len() {
                let why = format!("there is no CPU {cpu} (counted from 0)");
                return Err(PlacementError::Given { why });
            }
            if cpus[..program].contains(&cpu) {
                let why = format!("CPU {cpu} (counted from 0) is given twice");
                return Err(PlacementError::Given { why });
            }
        }
        Ok(())
    }

    /// The expectation over uniformly random placements: exact where at most
    /// [`crate::MOST_VISITED`] placements differ, else from `draws` placements (at least 2) drawn
    /// by `seed`, with its standard error. `None` when a slowdown is not finite and above 0.
    pub fn expectation(
        &self,
        objective: Objective,
        draws: u64,
        seed: u64,
        limits: &SearchLimits<'_>,
    ) -> Option<RandomExpectation> {
        expect(&self.space(), objective, draws, seed, &limits.stop(Instant::now()))
    }

    /// The placements of which no other has more throughput (STP) without more unfairness, by rising throughput; of those that
    /// are as good the first. `None` when more than [`crate::MOST_VISITED`] placements differ, when a slowdown is not finite
    /// and above 0, and when a limit ended the search.
    pub fn frontier(&self, limits: &SearchLimits<'_>) -> Option<Vec<FrontierPoint>> {
        frontier(&self.space(), &limits.stop(Instant::now()))
    }
}
