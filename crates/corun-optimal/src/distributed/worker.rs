//! One worker's part.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::contention::Contention;
use crate::distributed::incumbent::Incumbent;
use crate::distributed::message::{Batch, BatchReport, Pass, Subproblem};
use crate::distributed::size;
use crate::groups;
use crate::placement::Placer;
use crate::search::{Search, SearchNode, StopRule, Traversal};
use crate::search_space::SearchSpace;
use crate::solve::{SearchTables, search_tables, search_tables_of_fair};

/// The tables that a worker needs for one pass, made once.
pub struct Prepared<S> {
    pass: Pass,
    /// None where nothing can beat the start.
    search_tables: Option<SearchTables<S>>,
}

impl<S> std::fmt::Debug for Prepared<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("pass", &self.pass).finish_non_exhaustive()
    }
}

pub(crate) fn prepare<C: Contention>(
    space: &SearchSpace<'_, C>,
    pass: &Pass,
) -> Prepared<C::Share> {
    let search_tables = match pass.most_unfairness {
        Some(most) => search_tables_of_fair(space, most),
        None => groups::all(space).and_then(|groups| {
            let criterion = space.criterion(pass.objective, pass.goal);
            search_tables(space, criterion, groups, &pass.start).0
        }),
    };
    Prepared { pass: pass.clone(), search_tables }
}

impl<S: Copy + Send + Sync> Prepared<S> {
    pub(crate) fn search<'a, C: Contention<Share = S>>(
        &'a self,
        space: &'a SearchSpace<'a, C>,
    ) -> Option<Search<'a, C>> {
        self.search_tables.as_ref().map(|search_tables| search_tables.search(space))
    }
}

pub(crate) fn subproblem<C: Contention>(
    space: &SearchSpace<'_, C>,
    node: &SearchNode<C::Share>,
) -> Subproblem {
    let mut cpu = vec![None; space.programs];
    for slot in &node.slots {
        cpu[slot.program] = Some(slot.cpu);
    }
    let size = size::ways(space, node.used, node.left.count_ones() as usize);
    Subproblem { cpu, bound: node.bound, size }
}

impl<C: Contention> Placer<'_, C> {
    /// The tables for a pass. They take the time and the memory of the start of a search, and
    /// serve all its batches.
    pub fn prepare(&self, pass: &Pass) -> Prepared<C::Share> {
        prepare(&self.space(), pass)
    }

    /// Looks into a batch until its slice of time is over, or `cancel` is set. Better placements go
    /// to `incumbent` as they are found, and are taken from it.
    pub fn work(
        &self,
        prepared: &Prepared<C::Share>,
        batch: &Batch,
        incumbent: &Incumbent,
        cancel: Option<&AtomicBool>,
    ) -> BatchReport {
        incumbent.tighten(&batch.incumbent);
        let space = self.space();
        let mut report = BatchReport {
            id: batch.id,
            best: incumbent.best(),
            left: Vec::new(),
            nodes: 0,
            pruned: 0,
        };
        let Some(search) = prepared.search(&space) else { return report };
        let deadline = Duration::try_from_secs_f64(batch.seconds).ok();
        let deadline = deadline.and_then(|slice| Instant::now().checked_add(slice));
        let stop = StopRule { nodes: batch.nodes, deadline, cancel };
        let mut traversal = Traversal::among_others(incumbent, &stop);
        for part in &batch.subproblems {
            if traversal.is_stopped() {
                report.left.push(part.clone());
                continue;
            }
            match search.node_of(&part.cpu, &mut traversal) {
                Some(node) => search.descend(&node, &mut traversal),
                None => traversal.pruned += 1,
            }
        }
        report.best = incumbent.best();
        (report.nodes, report.pruned) = (traversal.nodes, traversal.pruned);
        let left = traversal.into_left();
        report.left.extend(left.iter().map(|node| subproblem(&space, node)));
        report
    }
}
