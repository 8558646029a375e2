//! Placement and clustering together: who shares an LLC with whom, and who shares which of its
//! ways.
//!
//! Where programs on different LLCs do not meet in any bandwidth domain, the best clustering of a
//! group depends on the group alone. Each group that fits an LLC is clustered by
//! [`PartitionProblem`], and the programs are divided into groups by a dynamic program over their
//! subsets, so that the answer is as exact as the clusterings are.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use corun_machine::Machine;
use corun_model::{LoadedProgram, Member, Model};
use rayon::prelude::*;

use crate::contention::{Contention as _, Coupling};
use crate::cpu_slots::CpuSlots;
use crate::error::PlacementError;
use crate::modelled::PlacementProblem;
use crate::objective::{Goal, Objective};
use crate::partition::{Kind, PartitionObjective, PartitionProblem, PartitionSearchError};
use crate::placement::SearchLimits;
use crate::symmetry::Symmetry;

/// Programs that are placed and clustered at most.
pub(crate) const MOST_JOINT: usize = 16;

/// Why programs cannot be placed and clustered together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum JointError {
    /// Programs on different LLCs slow one another down.
    #[error(
        "programs on different LLCs share memory bandwidth: placement and clustering are searched \
         for together where each LLC has memory of its own, or without a model of bandwidth"
    )]
    Coupled,
    /// One group's value does not tell how good it is beside others.
    #[error("the objective unfairness: expected antt, stp or max-slowdown, which add up over LLCs")]
    Objective,
    /// Too many subsets.
    #[error("{programs} programs: at most {MOST_JOINT} are placed and clustered together")]
    TooManyPrograms {
        /// How many there are.
        programs: usize,
    },
    /// Each program has a core of its own.
    #[error("programs: found {programs}, expected at most {cores}: each has a core of its own")]
    TooFewCores {
        /// Programs to place.
        programs: usize,
        /// Cores under LLCs.
        cores: usize,
    },
    /// It would matter which of an LLC's cores a program is on.
    #[error("LLC {llc} has cores of several types: its CPUs must be alike")]
    UnlikeCores {
        /// Index of the LLC.
        llc: usize,
    },
    /// Nothing to hand out.
    #[error("LLC {llc} has no known number of ways")]
    NoWays {
        /// Index of the LLC.
        llc: usize,
    },
    /// The search was asked to stop.
    #[error("stopped before there was an answer")]
    Stopped,
    /// The programs cannot be placed.
    #[error(transparent)]
    CpuPlacement(#[from] PlacementError),
    /// A group cannot be clustered.
    #[error(transparent)]
    Partition(#[from] PartitionSearchError),
}

/// Programs that share ways of an LLC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JointCluster {
    /// LLC index.
    pub llc: usize,
    /// The programs, ascending.
    pub programs: Vec<usize>,
    /// Ways that they share.
    pub ways: u32,
}

/// A placement with a clustering on each LLC.
#[derive(Debug, Clone, PartialEq)]
pub struct JointResult {
    /// CPU index of each program.
    pub cpu: Vec<usize>,
    /// By LLC, then by their lowest program.
    pub clusters: Vec<JointCluster>,
    /// Is every clustering that was compared proven to be its group's best?
    pub proven: bool,
    /// Groups that were clustered.
    pub groups: usize,
    /// Time the search took.
    pub seconds: f64,
}

/// Programs to be placed and clustered, each on a core of its own.
#[derive(Debug)]
pub struct JointProblem<'p> {
    model: &'p Model,
    programs: &'p [Arc<LoadedProgram>],
    /// Of each LLC the CPUs that are used, one a core.
    slots: Vec<Vec<usize>>,
}

/// What a group has at best on an LLC.
struct Clustered {
    /// Less is better; sums over LLCs, or their largest.
    cost: f64,
    clusters: Vec<(Vec<usize>, u32)>,
    proven: bool,
}

/// By set of programs, what they have at best on an LLC; none where they do not fit.
type Table = Vec<Option<Clustered>>;

impl<'p> JointProblem<'p> {
    /// Each program as a whole, with its pages where it runs.
    ///
    /// # Errors
    /// [`JointError`] when there are too many programs, when LLCs affect one another, and when an
    /// LLC's ways are unknown or its cores differ.
    pub fn new(model: &'p Model, programs: &'p [Arc<LoadedProgram>]) -> Result<Self, JointError> {
        let count = programs.len();
        if count > MOST_JOINT {
            return Err(JointError::TooManyPrograms { programs: count });
        }
        if PlacementProblem::new(model, programs)?.coupling() != Coupling::Apart {
            return Err(JointError::Coupled);
        }
        let machine = model.machine();
        let slots: Vec<Vec<usize>> =
            (0..machine.llcs().len()).map(|llc| slots(machine, llc)).collect::<Result<_, _>>()?;
        let cores = slots.iter().map(Vec::len).sum();
        if count > cores {
            return Err(JointError::TooFewCores { programs: count, cores });
        }
        Ok(Self { model, programs, slots })
    }

    /// The best placement and clustering by [`Objective::MeanSlowdown`], [`Objective::Stp`] or
    /// [`Objective::MaxSlowdown`]. The limit of nodes is each group's, that of time the whole
    /// search's: groups for which none is left divide the ways evenly.
    ///
    /// # Errors
    /// [`JointError::Objective`], [`JointError::Stopped`].
    pub fn solve(
        &self,
        objective: Objective,
        limits: &SearchLimits<'_>,
    ) -> Result<JointResult, JointError> {
        let started = Instant::now();
        let (judge, worst_counts) = match objective {
            Objective::MeanSlowdown => (PartitionObjective::MeanSlowdown, false),
            Objective::Stp => (PartitionObjective::Stp, false),
            Objective::MaxSlowdown => (PartitionObjective::MaxSlowdown, true),
            Objective::Unfairness | Objective::Energy | Objective::EnergyDelay => {
                return Err(JointError::Objective);
            }
        };
        // LLCs that are mirror images of one another have one table.
        let machine = self.model.machine();
        let llcs: Vec<CpuSlots> =
            (0..self.slots.len()).map(|llc| CpuSlots::of_llc(machine, llc)).collect();
        let image = Symmetry::of(machine, &llcs, &[]).orbits();
        let mut own = BTreeMap::new();
        for &llc in &image {
            if let Entry::Vacant(place) = own.entry(llc) {
                let left = limits.time.map(|time| time.saturating_sub(started.elapsed()));
                place.insert(self.table(llc, judge, &SearchLimits { time: left, ..*limits })?);
            }
        }
        let tables: Vec<&Table> = image.iter().map(|llc| &own[llc]).collect();
        let chosen = divide(&tables, self.programs.len(), worst_counts);
        let mut result = JointResult {
            cpu: vec![0; self.programs.len()],
            clusters: Vec::new(),
            proven: own.values().flatten().flatten().all(|one| one.proven),
            groups: own.values().flatten().flatten().count(),
            seconds: 0.0,
        };
        for (llc, &set) in chosen.iter().enumerate() {
            let group = members(set);
            for (&program, &cpu) in group.iter().zip(&self.slots[llc]) {
                result.cpu[program] = cpu;
            }
            let Some(best) = &tables[llc][set] else { continue };
            for (cluster, ways) in &best.clusters {
                let programs = cluster.iter().map(|&place| group[place]).collect();
                result.clusters.push(JointCluster { llc, programs, ways: *ways });
            }
        }
        result.seconds = started.elapsed().as_secs_f64();
        Ok(result)
    }

    /// Of an LLC, within the limits' time.
    fn table(
        &self,
        llc: usize,
        judge: PartitionObjective,
        limits: &SearchLimits<'_>,
    ) -> Result<Table, JointError> {
        let started = Instant::now();
        let fits = |set: &usize| set.count_ones() as usize <= self.slots[llc].len();
        (0..1_usize << self.programs.len())
            .into_par_iter()
            .map(|set| {
                let found = (set > 0 && fits(&set)).then(|| {
                    let left = limits.time.map(|time| time.saturating_sub(started.elapsed()));
                    self.clustered(llc, set, judge, &SearchLimits { time: left, ..*limits })
                });
                found.transpose()
            })
            .collect()
    }

    fn clustered(
        &self,
        llc: usize,
        set: usize,
        judge: PartitionObjective,
        limits: &SearchLimits<'_>,
    ) -> Result<Clustered, JointError> {
        if limits.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(JointError::Stopped);
        }
        let assigned = members(set).into_iter().zip(&self.slots[llc]);
        let group: Vec<Member<'_>> = assigned
            .map(|(program, &cpu)| Member {
                program: &self.programs[program],
                phase: LoadedProgram::WHOLE,
                cpu,
            })
            .collect();
        let ways = self.model.llc_ways(group[0].cpu);
        let cache = self.model.machine().llcs()[llc].cache;
        let least = cache.map_or(1, |cache| cache.min_partition_ways);
        let problem = PartitionProblem::new(self.model, &group, ways, least, Kind::Cluster)?;
        let best = problem.solve(judge, Goal::Best, limits)?;
        let cost = match judge {
            PartitionObjective::Stp => -best.value,
            PartitionObjective::MaxSlowdown => best.value,
            _ => best.value * group.len() as f64,
        };
        let clusters = best.clusters.into_iter().zip(best.ways).collect();
        Ok(Clustered { cost, clusters, proven: best.proven })
    }
}

/// The CPUs of an LLC that programs use: the first of each core.
fn slots(machine: &Machine, llc: usize) -> Result<Vec<usize>, JointError> {
    let of = &machine.llcs()[llc];
    if of.cache.is_none_or(|cache| cache.ways.is_none()) {
        return Err(JointError::NoWays { llc });
    }
    let mut cores = BTreeSet::new();
    let slots: Vec<usize> = of
        .cpus
        .iter()
        .filter_map(|cpu| machine.cpu_index(cpu))
        .filter(|&cpu| cores.insert(machine.cpus()[cpu].core))
        .collect();
    let kind = |cpu: usize| machine.cpus()[cpu].core_type;
    if slots.iter().any(|&cpu| kind(cpu) != kind(slots[0])) {
        return Err(JointError::UnlikeCores { llc });
    }
    Ok(slots)
}

fn members(set: usize) -> Vec<usize> {
    (0..usize::BITS as usize).filter(|place| set >> place & 1 == 1).collect()
}

/// The set of programs of each LLC for which the costs' sum, or their largest, is least. Of equal
/// divisions the one whose last LLCs have the lowest sets.
fn divide(tables: &[&Table], programs: usize, worst_counts: bool) -> Vec<usize> {
    let all = (1_usize << programs) - 1;
    let mut least = vec![f64::INFINITY; all + 1];
    least[0] = 0.0;
    let mut choices: Vec<Vec<usize>> = Vec::with_capacity(tables.len());
    for table in tables {
        let best = |set: usize| {
            let mut found = (least[set], 0);
            let mut part = set;
            while part > 0 {
                if let Some(own) = &table[part] {
                    let rest = least[set ^ part];
                    let cost = if worst_counts { rest.max(own.cost) } else { rest + own.cost };
                    if cost < found.0 {
                        found = (cost, part);
                    }
                }
                part = (part - 1) & set;
            }
            found
        };
        let (costs, parts): (Vec<f64>, Vec<usize>) = (0..=all).into_par_iter().map(best).unzip();
        least = costs;
        choices.push(parts);
    }
    let mut left = all;
    let mut chosen: Vec<usize> = choices
        .iter()
        .rev()
        .map(|parts| {
            let part = parts[left];
            left ^= part;
            part
        })
        .collect();
    chosen.reverse();
    chosen
}
