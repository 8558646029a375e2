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

/// All that a search of the tree stands on.
pub(crate) struct Ground<S> {
    groups: Vec<Group<S>>,
    extremes: Extremes<S>,
    completion: Completion,
    filter: Option<Filter>,
}

impl<S: Copy + Send + Sync> Ground<S> {
    pub(crate) fn search<'a, C: Contention<Share = S>>(
        &'a self,
        stage: &'a Stage<'a, C>,
    ) -> Search<'a, C> {
        let filter = self.filter.as_ref();
        Search::new(stage, &self.groups, &self.extremes, &self.completion, filter)
    }
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
    let Some(groups) = groups::all(stage) else {
        return Found { best: start, bound: None, is_proven: false, nodes: looked, pruned: 0 };
    };
    let rest = Stop { nodes: stop.nodes.saturating_sub(looked), ..*stop };
    let mut found = least(stage, criterion, groups, start, &rest);
    if has_second_pass(objective, goal) && found.is_proven {
        let rest = Stop { nodes: rest.nodes.saturating_sub(found.nodes), ..*stop };
        found = among_fairest(stage, found, &rest);
    }
    found.nodes += looked;
    found
}

/// Is the best of STP looked for among the best?
pub(crate) fn has_second_pass(objective: Objective, goal: Goal) -> bool {
    objective == Objective::Unfairness && goal == Goal::Best
}

fn least<C: Contention>(
    stage: &Stage<C>,
    criterion: Criterion,
    groups: Vec<Group<C::Share>>,
    start: Candidate,
    stop: &Stop<'_>,
) -> Found {
    let (ground, bound) = ground(stage, criterion, groups, &start);
    match ground {
        Some(ground) => found(ground.search(stage).run(Some(start.clone()), stop), start, bound),
        // No group is left that may beat the start.
        None => {
            Found { bound: Some(start.score), best: start, is_proven: true, nodes: 0, pruned: 0 }
        }
    }
}

/// What a search for something better than `best` stands on, with the least score of all; none
/// when no group is left that may be in it.
pub(crate) fn ground<C: Contention>(
    stage: &Stage<C>,
    criterion: Criterion,
    mut groups: Vec<Group<C::Share>>,
    best: &Candidate,
) -> (Option<Ground<C::Share>>, f64) {
    let mut bound = f64::NEG_INFINITY;
    for round in 0.. {
        let Some(extremes) = Extremes::of(stage, &groups) else { break };
        groups::bound(stage, &mut groups, &extremes, criterion.sides());
        let completion = Completion::new(stage, criterion, &groups);
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
            return (Some(Ground { groups, extremes, completion, filter: None }), bound);
        }
        let mut kept = kept.into_iter();
        groups.retain(|_| kept.next().unwrap_or(true));
    }
    (None, bound)
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

/// What a search of the highest STP among placements of at most this unfairness stands on; none
/// where there are too many groups.
pub(crate) fn ground_of_fair<C: Contention>(
    stage: &Stage<C>,
    most_unfairness: f64,
) -> Option<Ground<C::Share>> {
    let unfairness = Criterion::new(Objective::Unfairness, Goal::Best, stage.programs);
    let stp = Criterion::new(Objective::Stp, Goal::Best, stage.programs);
    let mut groups = groups::all(stage)?;
    let extremes = Extremes::of(stage, &groups)?;
    groups::bound(stage, &mut groups, &extremes, Sides::BOTH);
    let filter =
        Filter { completion: Completion::new(stage, unfairness, &groups), most: most_unfairness };
    let completion = Completion::new(stage, stp, &groups);
    Some(Ground { groups, extremes, completion, filter: Some(filter) })
}

/// The same placement with its score by another criterion.
pub(crate) fn rescored<C: Contention>(
    stage: &Stage<C>,
    criterion: &Criterion,
    candidate: &Candidate,
) -> Candidate {
    let placement = candidate.placement.clone();
    let slowdowns = stage.slowdowns(&placement.cpu, &mut C::Scratch::default());
    Candidate { score: criterion.score_of(&slowdowns), placement }
}

/// Among the placements that are as fair as the fairest, that of the highest STP.
fn among_fairest<C: Contention>(stage: &Stage<C>, fairest: Found, stop: &Stop<'_>) -> Found {
    let unfairness = Criterion::new(Objective::Unfairness, Goal::Best, stage.programs);
    let stp = Criterion::new(Objective::Stp, Goal::Best, stage.programs);
    let most = fairest.best.score * (1.0 + UNFAIRNESS_ROOM);
    let Some(ground) = ground_of_fair(stage, most) else { return fairest };
    let ended = ground.search(stage).run(Some(rescored(stage, &stp, &fairest.best)), stop);
    let Some(best) = ended.best else { return fairest };
    Found {
        best: rescored(stage, &unfairness, &best),
        is_proven: ended.open.is_none(),
        nodes: fairest.nodes + ended.nodes,
        pruned: fairest.pruned + ended.pruned,
        ..fairest
    }
}
