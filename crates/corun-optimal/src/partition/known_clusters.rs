//! What the members of clusters do, kept for problems of the same programs in other phases.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use corun_model::Member;

use crate::partition::bandwidth_coupling::SlowdownLine;
use crate::partition::cluster_set::ClusterSet;

/// Clusters that are kept at most: some 100 MB with ten programs a cluster and eleven ways.
const MOST_KEPT: usize = 40_000;

/// Clusters of the same programs in several phases.
///
/// What the members of a cluster do with some ways depends on their own phases, and not on those of programs in other
/// clusters. Problems that differ in phases alone have most clusters in common; see [`super::PartitionProblem::knowing`].
#[derive(Debug, Default)]
pub struct KnownClusters {
    /// Whose clusters they are.
    programs: OnceLock<Programs>,
    /// By the members and their phases: their lines with each number of ways.
    lines: RwLock<HashMap<Cluster, Arc<[SlowdownLine]>>>,
}

/// The programs and their CPUs, and what clusters there can be.
type Programs = (Vec<(String, usize)>, ClusterSet);

/// Members and their phases.
pub(crate) type Cluster = Vec<(usize, usize)>;

impl KnownClusters {
    /// Are they clusters of these programs? The first that ask decide.
    pub(crate) fn are_of(&self, members: &[Member<'_>], cluster_set: ClusterSet) -> bool {
        let name = |member: &Member<'_>| (member.program.name.clone(), member.cpu);
        let asked: Programs = (members.iter().map(name).collect(), cluster_set);
        *self.programs.get_or_init(|| asked.clone()) == asked
    }

    /// The lines of a cluster, into `out`. `compute` puts those there that are not known yet.
    pub(crate) fn lines(
        &self,
        cluster: Cluster,
        out: &mut Vec<SlowdownLine>,
        compute: impl FnOnce(&mut Vec<SlowdownLine>),
    ) {
        let known =
            self.lines.read().unwrap_or_else(PoisonError::into_inner).get(&cluster).cloned();
        if let Some(lines) = known {
            return out.extend_from_slice(&lines);
        }
        let first = out.len();
        compute(out);
        let mut all = self.lines.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST_KEPT {
            all.insert(cluster, Arc::from(&out[first..]));
        }
    }
}
