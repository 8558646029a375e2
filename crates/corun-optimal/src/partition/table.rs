//! Every cluster's members with every number of ways, once.

use rayon::prelude::*;

use crate::partition::bandwidth_coupling::{BandwidthCoupling, SlowdownLine};
use crate::partition::cluster_set::{ClusterSet, Set};
use crate::search::StopRule;

/// Sets that one task tabulates.
const BLOCK: usize = 256;

/// Whoever knows what the members of a cluster do when they share some ways.
pub(crate) trait ClusterModel: Sync {
    /// Working memory, one a task.
    type Scratch: Default;

    /// The lines of `programs` (ascending) that share `ways` ways, in the same order, into `out`,
    /// empty when called.
    fn lines(
        &self,
        programs: &[usize],
        ways: u32,
        scratch: &mut Self::Scratch,
        out: &mut Vec<SlowdownLine>,
    );
}

/// Rows of one block: by member, then by ways, so that the ways of a member lie side by side.
#[derive(Debug, Default)]
struct LineBlock {
    starts: Vec<u32>,
    a: Vec<f64>,
    c: Vec<f64>,
    load: Vec<f64>,
}

/// Lines of all members of all clusters.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) cluster_set: ClusterSet,
    pub(crate) law: BandwidthCoupling,
    /// All sets of programs, but for nobody.
    pub(crate) sets: Vec<Set>,
    blocks: Vec<LineBlock>,
}

/// The lines of one set: member by member, each with 1, 2, 3 .. ways.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetLines<'t> {
    ways: usize,
    a: &'t [f64],
    c: &'t [f64],
    load: &'t [f64],
}

/// One member's lines by ways, from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlowdownLines<'t> {
    pub(crate) a: &'t [f64],
    pub(crate) c: &'t [f64],
    pub(crate) load: &'t [f64],
}

impl<'t> SetLines<'t> {
    /// Member by member, in the order of programs.
    pub(crate) fn members(&self) -> impl Iterator<Item = SlowdownLines<'t>> + use<'t> {
        let (a, c) = (self.a.chunks_exact(self.ways), self.c.chunks_exact(self.ways));
        let load = self.load.chunks_exact(self.ways);
        a.zip(c).zip(load).map(|((a, c), load)| SlowdownLines { a, c, load })
    }

    /// The lines of all members with so many ways.
    pub(crate) fn at(&self, ways: u32) -> impl Iterator<Item = SlowdownLine> + use<'t> {
        let k = ways as usize - 1;
        self.members().map(move |one| SlowdownLine { a: one.a[k], c: one.c[k], load: one.load[k] })
    }
}

impl Table {
    /// Tabulates all clusters; none when it must stop before it is done.
    pub(crate) fn build<C: ClusterModel>(
        cluster_set: ClusterSet,
        law: BandwidthCoupling,
        clusters: &C,
        stop: &StopRule<'_>,
    ) -> Option<Self> {
        let blocks = cluster_set.rows().div_ceil(BLOCK);
        let blocks: Option<Vec<LineBlock>> = (0..blocks)
            .into_par_iter()
            .map(|block| {
                let first = block * BLOCK;
                let rows = first..(first + BLOCK).min(cluster_set.rows());
                (!stop.is_due()).then(|| LineBlock::of(rows, &cluster_set, clusters))
            })
            .collect();
        let sets = (0..cluster_set.rows()).map(|row| cluster_set.set(row)).filter(|&set| set != 0);
        Some(Self { cluster_set, law, sets: sets.collect(), blocks: blocks? })
    }

    /// The lines of a set.
    pub(crate) fn row(&self, set: Set) -> SetLines<'_> {
        let row = self.cluster_set.row(set);
        let block = &self.blocks[row / BLOCK];
        let within = row % BLOCK;
        let range = block.starts[within] as usize..block.starts[within + 1] as usize;
        SetLines {
            ways: self.cluster_set.ways,
            a: &block.a[range.clone()],
            c: &block.c[range.clone()],
            load: &block.load[range],
        }
    }
}

impl LineBlock {
    fn of<C: ClusterModel>(
        rows: std::ops::Range<usize>,
        cluster_set: &ClusterSet,
        clusters: &C,
    ) -> Self {
        let mut block = Self::default();
        let mut scratch = C::Scratch::default();
        let (mut programs, mut lines) = (Vec::new(), Vec::new());
        for row in rows {
            block.starts.push(block.a.len() as u32);
            let set = cluster_set.set(row);
            programs.clear();
            programs.extend(cluster_set.programs_of(set));
            let first = block.a.len();
            let end = first + programs.len() * cluster_set.ways;
            for column in [&mut block.a, &mut block.c, &mut block.load] {
                column.resize(end, 0.0);
            }
            if programs.is_empty() {
                continue;
            }
            for ways in cluster_set.min_ways..=cluster_set.ways {
                lines.clear();
                clusters.lines(&programs, ways as u32, &mut scratch, &mut lines);
                for (member, line) in lines.iter().enumerate() {
                    let at = first + member * cluster_set.ways + ways - 1;
                    block.a[at] = line.a;
                    block.c[at] = line.c;
                    block.load[at] = line.load;
                }
            }
        }
        block.starts.push(block.a.len() as u32);
        block
    }
}

/// A partition: each cluster's programs and ways, by its lowest program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct ClusterWays {
    pub(crate) clusters: Vec<(Set, u32)>,
}

impl ClusterWays {
    /// In the order in which searches build it.
    pub(crate) fn sorted(mut clusters: Vec<(Set, u32)>) -> Self {
        clusters.sort_by_key(|&(set, _)| std::cmp::Reverse(set));
        Self { clusters }
    }
}

/// What a partition does to its programs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PartitionScores {
    /// The pressure that it makes.
    pub(crate) x: f64,
    /// By program.
    pub(crate) slowdowns: Vec<f64>,
    /// What each draws of the peak.
    pub(crate) bandwidths: Vec<f64>,
}

impl Table {
    /// The lines of a partition's programs, by program.
    pub(crate) fn lines(&self, partition: &ClusterWays) -> Vec<SlowdownLine> {
        let mut lines = vec![SlowdownLine { a: 0.0, c: 0.0, load: 0.0 }; self.cluster_set.programs];
        for &(set, ways) in &partition.clusters {
            for (program, line) in self.cluster_set.programs_of(set).zip(self.row(set).at(ways)) {
                lines[program] = line;
            }
        }
        lines
    }

    /// Solves a partition.
    pub(crate) fn judge(&self, partition: &ClusterWays) -> PartitionScores {
        self.judge_lines(&self.lines(partition))
    }

    /// Solves a partition by the lines of its programs.
    pub(crate) fn judge_lines(&self, lines: &[SlowdownLine]) -> PartitionScores {
        let loads: Vec<f64> = lines.iter().map(|line| line.load).collect();
        let x = self.law.pressure(&loads);
        let y: Vec<f64> = loads.iter().map(|&load| self.law.y(load, x)).collect();
        PartitionScores {
            x,
            slowdowns: lines.iter().zip(&y).map(|(line, y)| line.a + line.c * y).collect(),
            bandwidths: loads
                .iter()
                .zip(&y)
                .map(|(&load, &y)| self.law.bandwidth(load, y))
                .collect(),
        }
    }
}
