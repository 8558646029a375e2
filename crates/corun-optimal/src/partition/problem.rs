//! The question and its answer.

use std::sync::OnceLock;
use std::time::Instant;

use corun_model::{Member, Model, Outcome};

use crate::objective::Goal;
use crate::partition::cluster_set::{ClusterSet, Kind};
use crate::partition::error::PartitionSearchError;
use crate::partition::modelled::ModelledLlc;
use crate::partition::objective::PartitionObjective;
use crate::partition::solve::{Judge, PartitionFound};
use crate::partition::table::{ClusterWays, Table};
use crate::placement::SearchLimits;
use crate::search::StopRule;

/// Programs for which clusters are searched at most: their table has an entry for every set.
pub(crate) const MOST_CLUSTERED: usize = 20;

/// Programs for which strict partitions are searched at most.
pub(crate) const MOST_PARTITIONED: usize = 31;

/// Programs on the CPUs of one LLC, whose ways are to be handed out: each way to one cluster, all
/// of them, and to each cluster at least so many.
#[derive(Debug)]
pub struct PartitionProblem<'p> {
    modelled: ModelledLlc<'p>,
    cluster_set: ClusterSet,
    table: OnceLock<Table>,
}

/// A partition and how good it is.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionResult {
    /// The programs of each cluster, ascending; clusters by their lowest program.
    pub clusters: Vec<Vec<usize>>,
    /// The ways of each cluster.
    pub ways: Vec<u32>,
    /// The model's figures of each program.
    pub outcomes: Vec<Outcome>,
    /// Slowdown of each program.
    pub slowdowns: Vec<f64>,
    /// The objective's value.
    pub value: f64,
    /// No partition has a better value (looking for the worst: a worse one). None when the search
    /// ended before it had a bound.
    pub bound: Option<f64>,
    /// |value - bound| / |bound|; 0 when proven.
    pub gap: Option<f64>,
    /// Is this partition proven to be the best (the worst), to 1e-10 of the value?
    pub proven: bool,
    /// States and boxes of the search that were visited.
    pub nodes: u64,
    /// Clusters that a bound cut.
    pub pruned: u64,
    /// Time the search took, the table of clusters included where it was not there yet.
    pub solver_seconds: f64,
}

impl<'p> PartitionProblem<'p> {
    /// The members' programs each in one phase, on CPUs of one LLC, of whose ways `ways` are
    /// handed out.
    ///
    /// # Errors
    /// [`PartitionSearchError`] when the members are not on one LLC or too many, when their traffic
    /// meets in several bandwidth domains, and when there are too few ways.
    pub fn new(
        model: &'p Model,
        members: &[Member<'p>],
        ways: u32,
        min_ways: u32,
        kind: Kind,
    ) -> Result<Self, PartitionSearchError> {
        let modelled = ModelledLlc::new(model, members)?;
        let llc_ways = model.llc_ways(members[0].cpu);
        if ways == 0 || ways > llc_ways {
            return Err(PartitionSearchError::Ways { ways, llc_ways });
        }
        if min_ways == 0 || min_ways > ways {
            return Err(PartitionSearchError::MinWays { min_ways, ways });
        }
        let programs = members.len();
        let room = (ways / min_ways) as usize;
        let most = match kind {
            Kind::Strict => MOST_PARTITIONED,
            Kind::Cluster => MOST_CLUSTERED,
        };
        if kind == Kind::Strict && programs > room {
            return Err(PartitionSearchError::TooFewWays { programs, ways, min_ways, room });
        }
        if programs > most {
            return Err(PartitionSearchError::TooManyPrograms { programs, most });
        }
        let cluster_set =
            ClusterSet { kind, programs, ways: ways as usize, min_ways: min_ways as usize };
        Ok(Self { modelled, cluster_set, table: OnceLock::new() })
    }

    /// The table of all clusters, made when it is first asked for; none when it must stop first.
    pub(crate) fn table(&self, stop: &StopRule<'_>) -> Option<&Table> {
        if self.table.get().is_none() {
            let table = Table::build(self.cluster_set, self.modelled.law, &self.modelled, stop)?;
            // Another thread's table is the same.
            let _ = self.table.set(table);
        }
        self.table.get()
    }

    /// The best partition. Of equal ones, to 1e-11 of the value, the first in the order of the
    /// search is given, which does not depend on the number of threads.
    ///
    /// # Errors
    /// [`PartitionSearchError::TooManyPartitions`] when the worst is asked for, which is found by
    /// visiting them all.
    pub fn solve(
        &self,
        objective: PartitionObjective,
        goal: Goal,
        limits: &SearchLimits<'_>,
    ) -> Result<PartitionResult, PartitionSearchError> {
        let started = Instant::now();
        let stop = limits.stop(started);
        let judge = Judge { objective, speeds: self.modelled.speeds() };
        let found = match (goal, self.table(&stop)) {
            (_, None) => PartitionFound::unproven(self.plain()),
            (Goal::Best, Some(table)) => judge.best(table, &self.plain(), &stop),
            (Goal::Worst, Some(table)) => judge.worst(table, &stop)?,
        };
        Ok(self.result(objective, found, started))
    }

    /// A partition that takes no search: ways dealt out as evenly as can be, programs too.
    fn plain(&self) -> ClusterWays {
        let ClusterSet { programs, ways, min_ways, .. } = self.cluster_set;
        let clusters = programs.min(ways / min_ways);
        let set = |cluster: usize| {
            let members = (cluster..programs).step_by(clusters);
            members.map(|program| self.cluster_set.bit(program)).sum()
        };
        let of = |cluster: usize| {
            (set(cluster), (ways / clusters + usize::from(cluster < ways % clusters)) as u32)
        };
        ClusterWays::sorted((0..clusters).map(of).collect())
    }

    pub(crate) fn clusters(&self, partition: &ClusterWays) -> Vec<(Vec<usize>, u32)> {
        let of = |&(set, ways): &(u32, u32)| (self.cluster_set.programs_of(set).collect(), ways);
        partition.clusters.iter().map(of).collect()
    }

    /// The other way round.
    pub(crate) fn partition(&self, clusters: &[Vec<usize>], ways: &[u32]) -> ClusterWays {
        let set = |cluster: &Vec<usize>| cluster.iter().map(|&one| self.cluster_set.bit(one)).sum();
        ClusterWays::sorted(clusters.iter().map(set).zip(ways.iter().copied()).collect())
    }

    pub(crate) fn outcomes(&self, clusters: &[(Vec<usize>, u32)]) -> Vec<Outcome> {
        self.modelled.outcomes(clusters)
    }

    pub(crate) fn result(
        &self,
        objective: PartitionObjective,
        found: PartitionFound,
        started: Instant,
    ) -> PartitionResult {
        let clusters = self.clusters(&found.partition);
        let outcomes = self.modelled.outcomes(&clusters);
        let (slowdowns, value) = judged(objective, &outcomes);
        let bound = match objective {
            PartitionObjective::Bandwidth => {
                found.bound.map(|bound| bound * self.modelled.peak_bytes_per_s)
            }
            _ => found.bound,
        };
        // The search adds up how busy a memory is, not bytes.
        let is_exact = self.modelled.is_exact
            && (objective != PartitionObjective::Bandwidth || self.modelled.counts_bytes());
        let proven = found.is_proven && is_exact;
        let bound = if proven { Some(value) } else { bound };
        let bound = bound.filter(|bound| bound.is_finite() && is_exact);
        let (clusters, ways) = clusters.into_iter().unzip();
        PartitionResult {
            clusters,
            ways,
            outcomes,
            slowdowns,
            value,
            bound,
            gap: bound.map(|bound| ((value - bound) / bound).abs()).filter(|gap| gap.is_finite()),
            proven,
            nodes: found.effort.nodes,
            pruned: found.effort.pruned,
            solver_seconds: started.elapsed().as_secs_f64(),
        }
    }

    /// The model's figures of a given partition: the programs and the ways of each cluster.
    ///
    /// # Errors
    /// [`PartitionSearchError::Given`] when it is none of this problem's.
    pub fn evaluate(
        &self,
        clusters: &[Vec<usize>],
        ways: &[u32],
    ) -> Result<Vec<Outcome>, PartitionSearchError> {
        self.check(clusters, ways).map_err(|why| PartitionSearchError::Given { why })?;
        let clusters: Vec<_> = clusters.iter().cloned().zip(ways.iter().copied()).collect();
        Ok(self.modelled.outcomes(&clusters))
    }

    fn check(&self, clusters: &[Vec<usize>], ways: &[u32]) -> Result<(), String> {
        let ClusterSet { programs, ways: all, min_ways, kind } = self.cluster_set;
        if clusters.len() != ways.len() {
            return Err(format!("{} clusters and {} numbers of ways", clusters.len(), ways.len()));
        }
        let sum: u64 = ways.iter().map(|&ways| u64::from(ways)).sum();
        if sum != all as u64 {
            return Err(format!("{sum} ways in all, expected {all}"));
        }
        let mut met = vec![false; programs];
        for (cluster, &ways) in clusters.iter().zip(ways) {
            if (ways as usize) < min_ways {
                return Err(format!("a cluster has {ways} ways, expected {min_ways} or more"));
            }
            if cluster.is_empty() || (kind == Kind::Strict && cluster.len() > 1) {
                return Err(format!("a cluster has {} programs", cluster.len()));
            }
            for &program in cluster {
                match met.get_mut(program) {
                    None => return Err(format!("there is no program {program} (from 0)")),
                    Some(true) => return Err(format!("program {program} (from 0) twice")),
                    Some(met) => *met = true,
                }
            }
        }
        match met.iter().position(|met| !met) {
            Some(program) => Err(format!("program {program} (from 0) is in no cluster")),
            None => Ok(()),
        }
    }
}

/// Slowdowns and the objective's value.
pub(crate) fn judged(objective: PartitionObjective, outcomes: &[Outcome]) -> (Vec<f64>, f64) {
    let slowdowns: Vec<f64> = outcomes.iter().map(|outcome| outcome.slowdown).collect();
    let bytes = outcomes.iter().map(|outcome| outcome.bytes_per_s).sum();
    let value = objective.value(&slowdowns, bytes).unwrap_or(f64::NAN);
    (slowdowns, value)
}
