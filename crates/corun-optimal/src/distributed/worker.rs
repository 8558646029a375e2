//! One worker's part.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::contention::Contention;
use crate::distributed::incumbent::Incumbent;
use crate::distributed::message::{Batch, Pass, Report, Subproblem};
use crate::distributed::size;
use crate::groups;
use crate::objective::Criterion;
use crate::placement::Placer;
use crate::search::{Node, Search, Stop, Walk};
use crate::solve::{Ground, ground, ground_of_fair};
use crate::stage::Stage;

/// The tables that a worker needs for one pass, made once.
pub struct Prepared<S> {
    pass: Pass,
    /// None where nothing can beat the start.
    ground: Option<Ground<S>>,
}

impl<S> std::fmt::Debug for Prepared<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("pass", &self.pass).finish_non_exhaustive()
    }
}

impl<S> Prepared<S> {
    /// Is it for this pass?
    pub fn is_for(&self, pass: &Pass) -> bool {
        self.pass == *pass
    }
}

pub(crate) fn prepare<C: Contention>(stage: &Stage<'_, C>, pass: &Pass) -> Prepared<C::Share> {
    let ground = match pass.most_unfairness {
        Some(most) => ground_of_fair(stage, most),
        None => groups::all(stage).and_then(|groups| {
            let criterion = Criterion::new(pass.objective, pass.goal, stage.programs);
            ground(stage, criterion, groups, &pass.start).0
        }),
    };
    Prepared { pass: pass.clone(), ground }
}

impl<S: Copy + Send + Sync> Prepared<S> {
    pub(crate) fn search<'a, C: Contention<Share = S>>(
        &'a self,
        stage: &'a Stage<'a, C>,
    ) -> Option<Search<'a, C>> {
        self.ground.as_ref().map(|ground| ground.search(stage))
    }
}

pub(crate) fn subproblem<C: Contention>(stage: &Stage<'_, C>, node: &Node<C::Share>) -> Subproblem {
    let mut cpu = vec![None; stage.programs];
    for seat in &node.seats {
        cpu[seat.program] = Some(seat.cpu);
    }
    let size = size::ways(stage, node.used, node.left.count_ones() as usize);
    Subproblem { cpu, bound: node.bound, size }
}

impl<C: Contention> Placer<'_, C> {
    /// The tables for a pass. They take the time and the memory of the start of a search, and
    /// serve all its batches.
    pub fn prepare(&self, pass: &Pass) -> Prepared<C::Share> {
        prepare(&self.stage(), pass)
    }

    /// Looks into a batch until its slice of time is over, or `cancel` is set. Better placements go
    /// to `incumbent` as they are found, and are taken from it.
    pub fn work(
        &self,
        prepared: &Prepared<C::Share>,
        batch: &Batch,
        incumbent: &Incumbent,
        cancel: Option<&AtomicBool>,
    ) -> Report {
        incumbent.tighten(&batch.incumbent);
        let stage = self.stage();
        let mut report =
            Report { id: batch.id, best: incumbent.best(), left: Vec::new(), nodes: 0, pruned: 0 };
        let Some(search) = prepared.search(&stage) else { return report };
        let deadline = Duration::try_from_secs_f64(batch.seconds).ok();
        let deadline = deadline.and_then(|slice| Instant::now().checked_add(slice));
        let stop = Stop { nodes: batch.nodes, deadline, cancel };
        let mut walk = Walk::among_others(incumbent, &stop);
        for part in &batch.subproblems {
            if walk.is_stopped() {
                report.left.push(part.clone());
                continue;
            }
            match search.node_of(&part.cpu, &mut walk) {
                Some(node) => search.descend(&node, &mut walk),
                None => walk.pruned += 1,
            }
        }
        report.best = incumbent.best();
        (report.nodes, report.pruned) = (walk.nodes, walk.pruned);
        let left = walk.into_left();
        report.left.extend(left.iter().map(|node| subproblem(&stage, node)));
        report
    }
}
