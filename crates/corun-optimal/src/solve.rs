//! The whole search: table, bounds, a start, fewer groups, branch and bound.

use crate::climb::{climb, dealt};
use crate::completion::Completion;
use crate::contention::{Contention, Coupling};
use crate::groups::{self, Extremes, Group};
use crate::objective::{Criterion, Goal, Objective, Sides, key, least_key};
use crate::search::{Candidate, Ended, Filter, Search, Stop};
use crate::stage::Stage;

/// Rounds of sharpening the bounds by the groups that are left.
const ROUNDS: usize = 6;

/// How far above the least unfairness a placement of higher STP may be, relative.
pub(crate) const UNFAIRNESS_ROOM: f64 = 1e-6;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) best: Candidate,
    /// The least score that any placement can have, as far as is known.
    pub(crate) bound: Option<f64>,
    pub(crate) is_proven: bool,
    pub(crate) nodes: u64,
    pub(crate) pruned: u64,
}

/// The placement of the least score by `objective` and `goal`.
pub(crate) fn solve<C: Contention>(
    stage: &Stage<C>,
    objective: Objective,
    goal: Goal,
    stop: &Stop<'_>,
) -> Found {
    let criterion = Criterion::new(objective, goal, stage.programs);
    let (start, looked) = climb(stage, &criterion, dealt(stage), stop);
    let Some(mut groups) = groups::all(stage) else {
        return Found { best: start, bound: None, is_proven: false, nodes: looked, pruned: 0 };
    };
    let rest = Stop { nodes: stop.nodes.saturating_sub(looked), ..*stop };
    let mut found = least(stage, criterion, &mut groups, start, &rest);
    if objective == Objective::Unfairness && goal == Goal::Best && found.is_proven {
        let rest = Stop { nodes: rest.nodes.saturating_sub(found.nodes), ..*stop };
        found = among_fairest(stage, found, &rest);
    }
    found.nodes += looked;
    found
}

fn least<C: Contention>(
    stage: &Stage<C>,
    criterion: Criterion,
    groups: &mut Vec<Group<C::Share>>,
    start: Candidate,
    stop: &Stop<'_>,
) -> Found {
    let best = start;
    let mut bound = f64::NEG_INFINITY;
    for round in 0.. {
        let Some(extremes) = Extremes::of(stage, groups) else { break };
        groups::bound(stage, groups, &extremes, criterion.sides());
        let completion = Completion::new(stage, criterion, groups);
        let Some(root) = completion.score(criterion.empty(), completion.full, stage.everybody())
        else {
            break;
        };
        bound = bound.max(root);
        let before = groups.len();
        let stays = |index: usize, group: &Group<C::Share>| {
            let layer = completion.full - completion.strides[group.orbit];
            completion
                .score(completion.parts[index], layer, stage.everybody() & !group.set)
                .is_some_and(|score| least_key(score) <= key(best.score))
        };
        let kept: Vec<bool> =
            groups.iter().enumerate().map(|(index, group)| stays(index, group)).collect();
        let left = kept.iter().filter(|&&kept| kept).count();
        // Only shares of others sharpen the spans.
        let helps = stage.contention.coupling() == Coupling::Common && left * 20 <= before * 19;
        if round == ROUNDS || !helps {
            let search = Search::new(stage, groups, &extremes, &completion, None);
            let ended = search.run(Some(best.clone()), stop);
            return found(ended, best, bound);
        }
        let mut kept = kept.into_iter();
        groups.retain(|_| kept.next().unwrap_or(true));
    }
    // No group is left that may beat the start.
    Found { bound: Some(best.score), best, is_proven: true, nodes: 0, pruned: 0 }
}

fn found(ended: Ended, start: Candidate, root: f64) -> Found {
    let best = ended.best.unwrap_or(start);
    let bound = ended.open.map_or(best.score, |open| open.max(root).min(best.score));
    Found {
        bound: Some(bound),
        is_proven: ended.open.is_none(),
        best,
        nodes: ended.nodes,
        pruned: ended.pruned,
    }
}

/// Among the placements that are as fair as the fairest, that of the highest STP.
fn among_fairest<C: Contention>(stage: &Stage<C>, fairest: Found, stop: &Stop<'_>) -> Found {
    let unfairness = Criterion::new(Objective::Unfairness, Goal::Best, stage.programs);
    let stp = Criterion::new(Objective::Stp, Goal::Best, stage.programs);
    let mut scratch = C::Scratch::default();
    let Some(mut groups) = groups::all(stage) else { return fairest };
    let Some(extremes) = Extremes::of(stage, &groups) else { return fairest };
    groups::bound(stage, &mut groups, &extremes, Sides::BOTH);
    let filter = Filter {
        completion: Completion::new(stage, unfairness, &groups),
        most: fairest.best.score * (1.0 + UNFAIRNESS_ROOM),
    };
    let completion = Completion::new(stage, stp, &groups);
    let slowdowns = stage.slowdowns(&fairest.best.placement.cpu, &mut scratch);
    let start =
        Candidate { score: stp.score_of(&slowdowns), placement: fairest.best.placement.clone() };
    let search = Search::new(stage, &groups, &extremes, &completion, Some(&filter));
    let ended = search.run(Some(start), stop);
    let Some(best) = ended.best else { return fairest };
    let slowdowns = stage.slowdowns(&best.placement.cpu, &mut scratch);
    Found {
        best: Candidate { score: unfairness.score_of(&slowdowns), placement: best.placement },
        is_proven: ended.open.is_none(),
        nodes: fairest.nodes + ended.nodes,
        pruned: fairest.pruned + ended.pruned,
        ..fairest
    }
}
