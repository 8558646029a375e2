//! From an objective to a search.

use crate::partition::additive::{Additive, Aim};
use crate::partition::bandwidth_coupling::BandwidthCoupling;
use crate::partition::brute::visit;
use crate::partition::enumeration::Effort;
use crate::partition::error::PartitionSearchError;
use crate::partition::fair::{Fair, FairGoal};
use crate::partition::minimax::Minimax;
use crate::partition::objective::PartitionObjective;
use crate::partition::pressure::{End, all};
use crate::partition::table::{ClusterWays, PartitionScores, Table};
use crate::search::StopRule;

/// Partitions that the search for the worst visits at most.
pub(crate) const MOST_PARTITIONS: u64 = 4_000_000;

/// How far above the least unfairness a partition of higher STP may be, relative.
pub(crate) const FAIRNESS_ROOM: f64 = 1e-6;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionFound {
    pub(crate) partition: ClusterWays,
    /// No partition has a better value; of bandwidth, as a share of the peak.
    pub(crate) bound: Option<f64>,
    pub(crate) is_proven: bool,
    pub(crate) effort: Effort,
}

impl PartitionFound {
    pub(crate) fn unproven(partition: ClusterWays) -> Self {
        Self { partition, bound: None, is_proven: false, effort: Effort::default() }
    }
}

/// An objective with what it needs to know of the machine.
pub(crate) struct Judge {
    pub(crate) objective: PartitionObjective,
    /// Speeds of the programs' hardware threads.
    pub(crate) speeds: Vec<f64>,
}

impl Judge {
    /// The best partition, from any to start with.
    pub(crate) fn best(
        &self,
        table: &Table,
        first: &ClusterWays,
        stop: &StopRule<'_>,
    ) -> PartitionFound {
        let aim = match self.objective {
            PartitionObjective::Stp => Aim::Stp,
            PartitionObjective::MeanSlowdown => Aim::MeanSlowdown,
            PartitionObjective::Jain => Aim::Jain,
            PartitionObjective::MaxSlowdown => return slowest(table, first, stop),
            PartitionObjective::Unfairness => return fairest(table, first, stop),
            PartitionObjective::Bandwidth => {
                let is_even = self.speeds.iter().all(|&speed| speed == self.speeds[0]);
                if is_even && table.law != BandwidthCoupling::Free {
                    return least_traffic(table, first, stop);
                }
                Aim::Bandwidth(self.speeds.clone())
            }
        };
        let mut search = Additive::new(table, aim, stop);
        if !search.start(first) {
            let Additive { best, effort, .. } = search;
            let partition = best.map_or_else(|| first.clone(), |best| best.partition);
            return PartitionFound { effort, ..PartitionFound::unproven(partition) };
        }
        let regions = search.regions();
        let open = search.run(regions);
        let aim = search.aim.clone();
        let effort = search.effort;
        let Some(best) = search.best else { return PartitionFound::unproven(first.clone()) };
        let bound = open.map(|bound| aim.value(bound, table.cluster_set.programs));
        PartitionFound { partition: best.partition, bound, is_proven: open.is_none(), effort }
    }

    /// The worst partition, by visiting all.
    pub(crate) fn worst(
        &self,
        table: &Table,
        stop: &StopRule<'_>,
    ) -> Result<PartitionFound, PartitionSearchError> {
        let mut worst: Option<(f64, ClusterWays)> = None;
        let mut effort = Effort::default();
        let mut is_stopped = false;
        let is_whole = visit(table, MOST_PARTITIONS, &mut |partition, judged| {
            effort.nodes += 1;
            is_stopped |= effort.nodes.is_multiple_of(1024) && stop.is_due();
            let badness = self.badness(&judged);
            let is_worse = worst.as_ref().is_none_or(|(worst, _)| badness > *worst);
            if is_worse && !is_stopped {
                worst = Some((badness, partition.clone()));
            }
        });
        let too_many = PartitionSearchError::TooManyPartitions { most: MOST_PARTITIONS };
        let (_, partition) = worst.filter(|_| is_whole).ok_or(too_many)?;
        Ok(PartitionFound { partition, bound: None, is_proven: !is_stopped, effort })
    }

    /// Higher is worse.
    fn badness(&self, judged: &PartitionScores) -> f64 {
        let bytes = self.speeds.iter().zip(&judged.bandwidths).map(|(speed, b)| speed * b).sum();
        let value = self.objective.value(&judged.slowdowns, bytes).unwrap_or(f64::NAN);
        if self.objective.highest_is_best() { -value } else { value }
    }
}

impl Aim {
    /// A score as the objective's value.
    fn value(&self, score: f64, programs: usize) -> f64 {
        match self {
            Self::Stp => score,
            Self::MeanSlowdown => -score / programs as f64,
            Self::Jain => score / programs as f64,
            Self::Bandwidth(_) => -score,
        }
    }
}

fn slowest(table: &Table, first: &ClusterWays, stop: &StopRule<'_>) -> PartitionFound {
    let mut start = Additive::new(table, Aim::MeanSlowdown, stop);
    start.start(first);
    let mut search = Minimax::new(table, first.clone(), stop);
    if let Some(best) = start.best {
        search.consider(&best.partition);
    }
    let is_proven = search.run().is_ok();
    PartitionFound {
        partition: search.best.1,
        bound: Some(search.bound).filter(|&bound| bound > 0.0),
        is_proven,
        effort: search.effort,
    }
}

/// All programs' traffic together rises with the pressure (Morad: 1 - 1 / x), or is the sum of what they ask
/// for.
fn least_traffic(table: &Table, first: &ClusterWays, stop: &StopRule<'_>) -> PartitionFound {
    let from = table.judge(first).x;
    match table.extreme(from, End::Least, &table.sets, all, stop) {
        Ok(Some(found)) => PartitionFound {
            is_proven: true,
            effort: Effort { nodes: 1, ..Effort::default() },
            ..PartitionFound::unproven(found.partition)
        },
        _ => PartitionFound::unproven(first.clone()),
    }
}

fn fairest(table: &Table, first: &ClusterWays, stop: &StopRule<'_>) -> PartitionFound {
    let mut search = Fair::new(table, FairGoal::Fairest, first.clone(), stop);
    for aim in [Aim::Jain, Aim::Stp] {
        let mut start = Additive::new(table, aim, stop);
        start.start(first);
        if let Some(best) = start.best {
            search.consider(&best.partition);
        }
    }
    let bound = search.run();
    let (least, partition) = search.fairest;
    if bound.is_some() {
        return PartitionFound { partition, bound, is_proven: false, effort: search.effort };
    }
    let most = FairGoal::Throughput(least * (1.0 + FAIRNESS_ROOM));
    let mut among = Fair::new(table, most, partition, stop);
    among.effort = search.effort;
    let is_proven = among.run().is_none();
    let partition = among.stp.best.map_or(among.fairest.1, |best| best.partition);
    PartitionFound { partition, bound: Some(least), is_proven, effort: among.effort }
}
